//! Those who keep the nodes: users who cordon and drain them, vouch that one is down, or delete it,
//! and come back to that later. What they ask for is asked again when it does not reach the API.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use k8s_openapi::api::core::v1::Node;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject, owners};
use rekindle_types::pods::AnyPod;
use rekindle_types::{Tick, TickDuration, taints};
use serde_json::{Value, json};

use super::{MERGE_PATCH, ScheduledEvent, World, id_of_pod, path};
use crate::faults::{NodeOperation, NodeReturn};

/// After this, a drain asks again for what was refused, as `kubectl drain` does; and what did not
/// reach the API is tried again.
const RETRY: TickDuration = TickDuration::from_secs(5);

/// What somebody comes back to.
#[derive(Clone, Debug)]
pub(super) enum KeeperErrand {
    /// Whether pods may come to the node.
    Cordon(String, CordonRequest),
    /// The pods that are still on a node that is drained.
    Drain(String),
    /// Whether somebody vouches that the node is down.
    Vouch(String, OutOfServiceTaint),
    /// The deletion of its Node.
    Delete(String, NodeReturn),
    /// Its agent finds that it has no Node.
    Register(String),
}

/// What `kubectl cordon` and `uncordon` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CordonRequest {
    On,
    Off,
}

/// What becomes of the taint `out-of-service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutOfServiceTaint {
    Given,
    TakenBack,
}

/// What they have under way.
#[derive(Debug, Default)]
pub(super) struct NodeKeepers {
    /// The nodes that are drained, and until when.
    drains: BTreeMap<String, Tick>,
    /// Nodes whose Node was deleted, until their agents register them.
    unregistered: BTreeSet<String>,
    /// Nodes of which somebody vouches that nothing runs there.
    vouched: BTreeSet<String>,
    /// Pods that were on such a node, or on one that had no Node, or were forced out of the API, by
    /// UID: others take their places though they may run.
    given_up: BTreeSet<String>,
    /// Nobody does anything any more.
    is_over: bool,
}

impl NodeKeepers {
    pub(super) fn is_registered(&self, node: &str) -> bool {
        !self.unregistered.contains(node)
    }

    pub(super) fn registered(&mut self, node: &str) {
        self.unregistered.remove(node);
    }

    /// Whether a pod may still run when others take its place: a user said that nothing of its node
    /// does, or did not wait for it.
    pub(super) fn gave_up(&self, uid: &str) -> bool {
        self.given_up.contains(uid)
    }

    /// A user does not wait for its end.
    pub(super) fn give_up(&mut self, uid: String) {
        self.given_up.insert(uid);
    }
}

impl World {
    /// What a user does to a node.
    pub(super) fn keep(&mut self, pick: u64, deed: NodeOperation) {
        let Some(node) = self.node(pick) else { return };
        match deed {
            NodeOperation::Cordon(lasts) => {
                self.run_errand(KeeperErrand::Cordon(node.clone(), CordonRequest::On));
                self.later(
                    lasts,
                    ScheduledEvent::Errand(KeeperErrand::Cordon(node, CordonRequest::Off)),
                );
            }
            NodeOperation::Drain(lasts) => {
                self.run_errand(KeeperErrand::Cordon(node.clone(), CordonRequest::On));
                self.keepers.drains.insert(node.clone(), self.now + lasts);
                self.run_errand(KeeperErrand::Drain(node.clone()));
                self.later(
                    lasts,
                    ScheduledEvent::Errand(KeeperErrand::Cordon(node, CordonRequest::Off)),
                );
            }
            NodeOperation::OutOfService(lasts) => {
                let node = self.lost_node(pick).unwrap_or(node);
                self.run_errand(KeeperErrand::Vouch(node.clone(), OutOfServiceTaint::Given));
                self.later(
                    lasts,
                    ScheduledEvent::Errand(KeeperErrand::Vouch(node, OutOfServiceTaint::TakenBack)),
                );
            }
            NodeOperation::Delete(comeback) => {
                self.run_errand(KeeperErrand::Delete(node, comeback))
            }
        }
    }

    /// One of the nodes without a network.
    fn lost_node(&self, pick: u64) -> Option<String> {
        let count = u64::try_from(self.cut_off.len()).ok().filter(|count| *count > 0)?;
        self.cut_off.keys().nth(usize::try_from(pick % count).unwrap_or(0)).cloned()
    }

    pub(super) fn run_errand(&mut self, errand: KeeperErrand) {
        if self.keepers.is_over {
            return;
        }
        let code = match &errand {
            KeeperErrand::Cordon(node, cordon) => self.cordon(node, *cordon),
            KeeperErrand::Drain(node) => return self.drain(node),
            KeeperErrand::Vouch(node, vouch) => self.vouch(node, *vouch),
            KeeperErrand::Delete(node, comeback) => self.delete_node(node, *comeback),
            KeeperErrand::Register(node) if !self.keepers.is_registered(node) => {
                return self.say_ready(node);
            }
            KeeperErrand::Register(_) => return,
        };
        if code >= 500 {
            self.later(RETRY, ScheduledEvent::Errand(errand));
        }
    }

    fn cordon(&mut self, node: &str, cordon: CordonRequest) -> u16 {
        let is_on = cordon == CordonRequest::On;
        if !is_on {
            self.keepers.drains.remove(node);
        }
        let patch = json!({"spec": {"unschedulable": is_on.then_some(true)}});
        let (code, _) = self.call(Method::PATCH, &path(&id_of(node), ""), MERGE_PATCH, &patch);
        self.trace.add(self.now, &format!("a user cordons {node}, {cordon:?}: {code}"));
        code
    }

    /// As `kubectl drain --ignore-daemonsets --force --delete-emptydir-data`.
    fn drain(&mut self, node: &str) {
        if self.keepers.drains.get(node).is_none_or(|end| *end <= self.now) {
            return;
        }
        let mut is_empty = true;
        for pod in self.server.pods() {
            let is_there = pod.node_name() == Some(node);
            let is_daemon =
                owners::controller_of(&pod.metadata).is_some_and(|of| of.kind == "DaemonSet");
            if is_there && !is_daemon {
                is_empty = false;
                if pod.metadata.deletion_timestamp.is_none() {
                    self.evict(&id_of_pod(&pod));
                }
            }
        }
        if !is_empty {
            self.later(RETRY, ScheduledEvent::Errand(KeeperErrand::Drain(node.to_owned())));
        }
    }

    fn vouch(&mut self, node: &str, vouch: OutOfServiceTaint) -> u16 {
        let Some(found) = self.node_found(node) else { return 404 };
        let mut now = taints::node_taints(&found).to_vec();
        now.retain(|taint| taint.key != taints::OUT_OF_SERVICE);
        let mut now = json!(now);
        if vouch == OutOfServiceTaint::Given
            && let Value::Array(now) = &mut now
        {
            now.push(json!({
                "key": taints::OUT_OF_SERVICE, "value": "nodeshutdown", "effect": taints::NO_EXECUTE,
            }));
        }
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version}, "spec": {"taints": now},
        });
        let (code, _) = self.call(Method::PATCH, &path(&id_of(node), ""), MERGE_PATCH, &patch);
        self.trace.add(self.now, &format!("a user vouches that {node} is down, {vouch:?}: {code}"));
        match (vouch, code) {
            // an API that dies meanwhile may have written it down
            (OutOfServiceTaint::Given, ..300 | 500..) => {
                self.keepers.vouched.insert(node.to_owned());
                self.give_up_pods_of(node);
            }
            (OutOfServiceTaint::TakenBack, ..300) => {
                self.keepers.vouched.remove(node);
            }
            (OutOfServiceTaint::Given | OutOfServiceTaint::TakenBack, _) => {}
        }
        code
    }

    fn delete_node(&mut self, node: &str, comeback: NodeReturn) -> u16 {
        let (code, _) =
            self.call(Method::DELETE, &path(&id_of(node), ""), "application/json", &json!({}));
        self.trace.add(self.now, &format!("a user deletes {node}: {code}, {comeback:?}"));
        // one that was asked for again is gone, as the first time was done and not said
        let is_done = code < 300 || (code == 404 && self.keepers.is_registered(node));
        if is_done {
            self.node_deleted(node, comeback);
        }
        code
    }

    /// The Node of a machine is gone.
    pub(super) fn node_deleted(&mut self, node: &str, comeback: NodeReturn) {
        self.give_up_pods_of(node);
        self.keepers.vouched.remove(node);
        self.keepers.drains.remove(node);
        match comeback {
            NodeReturn::Never if self.nodes.len() > 1 => self.lose_machine(node),
            // the last one comes back, or nothing could run any more
            NodeReturn::Never => self.register_after(node, RETRY),
            NodeReturn::After(after) => self.register_after(node, after),
        }
    }

    fn register_after(&mut self, node: &str, after: TickDuration) {
        self.keepers.unregistered.insert(node.to_owned());
        self.later(after, ScheduledEvent::Errand(KeeperErrand::Register(node.to_owned())));
    }

    fn node_found(&self, name: &str) -> Option<std::sync::Arc<Node>> {
        match self.server.get(&id_of(name))? {
            ViewObject::Node(node) => Some(node),
            _ => None,
        }
    }

    fn give_up_pods_of(&mut self, node: &str) {
        let there = self.pods.iter().filter(|(_, pod)| pod.node == node);
        self.keepers.given_up.extend(there.map(|(uid, _)| uid.clone()));
    }

    /// A node takes a pod up.
    pub(super) fn note_place(&mut self, uid: &str, node: &str) {
        if self.keepers.vouched.contains(node) || !self.keepers.is_registered(node) {
            self.keepers.given_up.insert(uid.to_owned());
        }
    }

    /// Users take back what they asked of nodes, and agents register theirs.
    pub(super) fn put_nodes_right(&mut self) {
        self.keepers.drains.clear();
        for node in self.nodes.clone() {
            if !self.keepers.is_registered(&node) {
                self.say_ready(&node);
            }
            self.cordon(&node, CordonRequest::Off);
            self.vouch(&node, OutOfServiceTaint::TakenBack);
        }
        self.keepers.is_over = true;
    }
}

fn id_of(node: &str) -> ObjectId {
    ObjectId::new(ResourceKind::Node, NamespacedName::new("", node))
}
