//! Pods that think the same of others: those of one namespace with the same affinity and
//! anti-affinity between pods. What one of them says of a pod that comes is asked once for all of
//! them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Affinity;
use rekindle_types::ObjectJson;
use rekindle_types::held::HeldPod;

use super::{NodeNumber, PodShift};
use crate::pods;

/// All opinions, by namespace and by their text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opinions(BTreeMap<(String, Box<[u8]>), Opinion>);

/// One opinion, and where the pods are that have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opinion {
    namespace: String,
    affinity: Affinity,
    places: BTreeMap<NodeNumber, i64>,
}

impl Opinions {
    pub(super) fn shift(&mut self, pod: &HeldPod, node: NodeNumber, shift: PodShift) {
        if !pods::has_affinity_to_pods(pod) {
            return;
        }
        let Some(affinity) = pods::affinity(pod) else { return };
        let affinity = Affinity { node_affinity: None, ..affinity.clone() };
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let key = (namespace.clone(), affinity.to_json().into_boxed_slice());
        let opinion = self.0.entry(key.clone()).or_insert_with(|| Opinion {
            namespace,
            affinity,
            places: BTreeMap::new(),
        });
        let count = opinion.places.entry(node).or_default();
        *count += shift.sign();
        if *count == 0 {
            opinion.places.remove(&node);
            if opinion.places.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Opinion> {
        self.0.values()
    }
}

impl Opinion {
    /// The namespace of those who have it.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The terms between pods.
    pub(crate) fn affinity(&self) -> &Affinity {
        &self.affinity
    }

    /// True when one of them is on the node.
    pub(crate) fn is_held_on(&self, node: NodeNumber) -> bool {
        self.places.contains_key(&node)
    }

    /// How many of them are on which node.
    pub(crate) fn places(&self) -> impl Iterator<Item = (NodeNumber, i64)> + Clone {
        self.places.iter().map(|(node, count)| (*node, *count))
    }
}
