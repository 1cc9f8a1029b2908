//! When each node was last heard of: its Lease in namespace `kube-node-lease` was seen to be
//! renewed.
//!
//! What counts is when the renewal was seen here, never the time that the Lease carries: clocks of
//! two machines differ. So an engine that starts gives every node its whole grace (upstream's probe
//! timestamps do the same). And a span in which nobody looked, because the engine or the machine
//! was asleep, counts for nothing: then nodes could not be heard.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use rekindle_types::{Tick, TickDuration};

use crate::ViewObject;

/// The namespace of the nodes' Leases.
const NAMESPACE: &str = "kube-node-lease";

/// When nodes were last heard of.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeHeartbeats {
    heard: BTreeMap<String, Tick>,
}

impl NodeHeartbeats {
    /// A Lease came, changed or went. The node of one that went is not waited for any more.
    pub(crate) fn follow(
        &mut self,
        before: Option<&ViewObject>,
        after: Option<&ViewObject>,
        now: Tick,
    ) {
        let lease = match (before, after) {
            (_, Some(ViewObject::Lease(lease))) => lease,
            (Some(ViewObject::Lease(gone)), None) => {
                if is_of_node(gone) {
                    self.heard.remove(gone.metadata.name.as_deref().unwrap_or_default());
                }
                return;
            }
            (_, Some(_) | None) => return,
        };
        if !is_of_node(lease) {
            return;
        }
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let was_same = matches!(before, Some(ViewObject::Lease(before))
            if before.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()) == renewed);
        if !was_same {
            let node = lease.metadata.name.clone().unwrap_or_default();
            self.heard.insert(node, now);
        }
    }

    /// Time went on from `before` to `now`. When nobody looked for longer than `asleep_after`, or
    /// the clock was put back, every node has its whole grace again.
    pub(crate) fn time_passed(&mut self, before: Tick, now: Tick, asleep_after: TickDuration) {
        if now < before || now.since(before) > asleep_after {
            self.heard.values_mut().for_each(|heard| *heard = now);
        }
    }

    /// When a node was last heard of; none for a node without a Lease, which is not waited for.
    pub(super) fn heard_at(&self, node: &str) -> Option<Tick> {
        self.heard.get(node).copied()
    }
}

fn is_of_node(lease: &Lease) -> bool {
    lease.metadata.namespace.as_deref() == Some(NAMESPACE)
}
