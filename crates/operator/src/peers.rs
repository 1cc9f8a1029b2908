//! What the peers of a pod that fails do: the other pods of its controller, and those of its node. Pure, as the controllers are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::{Kind, NamespacedName, Object, View, owners, pods};
use rekindle_ladder::{Likeness, NodeTrouble, Peers, Policy, Tried, symptom_of, tried};
use rekindle_types::v1alpha1::{RestartLedger, Rung};
use rekindle_types::{Tick, TickDuration};

/// What they do; nothing when the pod itself does not fail.
pub(crate) fn of(view: &View, pod: &Pod, policy: &Policy, now: Tick) -> Peers {
    let window = policy.window;
    let Some((own, _)) = symptom_of(pod, now, window) else { return Peers::default() };
    let node = match policy.step(Rung::Reschedule) {
        Some(_) => node_trouble(view, pod, now, window),
        None => None, // a ladder that cannot leave the node does not ask how it is
    };
    let node_says = pods::node(pod).and_then(|node| node_says(view, node));
    let mut peers = Peers { node, node_says, ..Peers::default() };
    let Some(controller) = owners::controller_of(&pod.metadata) else { return peers };
    peers.revision = format!("{} {}", controller.kind, controller.name);
    let ledgers = ledgers_by_pod(view, &controller.uid);
    for peer in view.pods_of(&controller.uid).filter(|peer| pods::is_active(peer)) {
        peers.replicas += 1;
        let likeness = match symptom_of(peer, now, window) {
            Some((theirs, _)) if theirs == own => Likeness::Alike,
            Some(_) | None => Likeness::Other,
        };
        match likeness {
            Likeness::Alike => peers.failing_alike += 1,
            Likeness::Other => {}
        }
        let uid = peer.metadata.uid.as_deref().unwrap_or_default();
        let Some(status) = ledgers.get(uid).and_then(|ledger| ledger.status.as_ref()) else {
            continue;
        };
        match tried(peer, status, now, window) {
            // what is tried on the pod itself is not waited for, nor taken for a proof
            Tried::Now(_) | Tried::Helped(_) if peer.metadata.uid == pod.metadata.uid => {}
            what @ (Tried::Nothing | Tried::Now(_) | Tried::Helped(_) | Tried::InVain(_)) => {
                peers.add(what, likeness);
            }
        }
    }
    peers
}

/// The ledgers of a controller's pods, by the UIDs of those.
fn ledgers_by_pod<'a>(view: &'a View, controller: &'a str) -> BTreeMap<&'a str, &'a RestartLedger> {
    let all =
        view.dependents_of(controller, Kind::RestartLedger).filter_map(|object| match object {
            Object::RestartLedger(ledger) => Some((ledger.spec.pod_uid.as_str(), ledger.as_ref())),
            _ => None,
        });
    all.collect()
}

/// Whether most pods of the pod's node fail, of at least two workloads, while another node does better.
fn node_trouble(view: &View, pod: &Pod, now: Tick, window: TickDuration) -> Option<NodeTrouble> {
    let name = pods::node(pod)?;
    let fails = |pod: &&Arc<Pod>| symptom_of(pod, now, window).is_some();
    let active = |node: &str| -> Vec<&Arc<Pod>> {
        view.pods_on(node).filter(|pod| pods::is_active(pod)).collect()
    };
    let own = active(name);
    let failing: Vec<&Arc<Pod>> = own.iter().copied().filter(fails).collect();
    let workloads: BTreeSet<String> =
        failing.iter().map(|pod| owners::root_uid(view, &Object::Pod(Arc::clone(pod)))).collect();
    if workloads.len() < 2 || failing.len() * 2 <= own.len() {
        return None;
    }
    let does_better = |node: &NamespacedName| {
        let pods = active(&node.name);
        pods.iter().filter(|pod| fails(pod)).count() * 2 <= pods.len()
    };
    let mut others = view.of_kind(Kind::Node).map(|(id, _)| &id.name).filter(|n| n.name != name);
    others.any(does_better).then(|| NodeTrouble {
        name: name.to_owned(),
        pods: own.len(),
        failing: failing.len(),
    })
}

/// What a node says that is wrong with it: the first of its conditions that is not as it should be.
fn node_says(view: &View, node: &str) -> Option<String> {
    let node = view.node(node)?;
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut wrong = conditions.filter_map(|condition| match condition.type_.as_str() {
        "Ready" => (condition.status != "True").then(|| "that it is not ready".to_owned()),
        "NetworkUnavailable" | "MemoryPressure" | "DiskPressure" | "PIDPressure" => {
            (condition.status == "True").then(|| condition.type_.clone())
        }
        _ => None,
    });
    wrong.next()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests;
