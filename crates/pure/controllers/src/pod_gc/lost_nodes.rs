//! Nodes that pods are bound to and that do not exist.

use std::collections::BTreeMap;

use rekindle_types::Tick;

use crate::cluster::ClusterIndex;
use crate::{ViewObject, pods};

/// When each of them was first noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostNodes {
    since: BTreeMap<String, Tick>,
}

impl LostNodes {
    /// A node or a pod came, changed or went. `cluster` has the nodes as they are now, and
    /// `has_pods` answers whether pods are bound to one.
    pub(crate) fn follow(
        &mut self,
        (before, after): (Option<&ViewObject>, Option<&ViewObject>),
        cluster: &ClusterIndex,
        has_pods: impl Fn(&str) -> bool,
        now: Tick,
    ) {
        match (before, after) {
            (_, Some(ViewObject::Node(node))) => {
                self.since.remove(node.metadata.name.as_deref().unwrap_or_default());
            }
            (Some(ViewObject::Node(node)), None) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                if has_pods(&name) {
                    self.since.insert(name, now);
                }
            }
            (_, Some(ViewObject::Pod(pod))) => {
                if let Some(node) = pods::node(pod)
                    && cluster.node(node).is_none()
                {
                    self.since.entry(node.to_owned()).or_insert(now);
                }
            }
            (Some(ViewObject::Pod(pod)), None) => {
                if let Some(node) = pods::node(pod)
                    && !has_pods(node)
                {
                    self.since.remove(node);
                }
            }
            _ => {}
        }
    }

    /// Since when a node that pods are bound to is known not to exist.
    pub(super) fn since(&self, node: &str) -> Option<Tick> {
        self.since.get(node).copied()
    }
}
