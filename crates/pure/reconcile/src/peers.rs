//! What the peers of a pod that fails do: the other pods of its controller, and those of its node.
//! Pure, as the controllers are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_controllers::{ClusterView, NamespacedName, ResourceKind, ViewObject, owners, pods};
use rekindle_ladder::{
    FailureLikeness, LadderPolicy, NodeOutage, NodeTrouble, PodRevision, RevisionPeers, TrialState,
    ended_unforeseen, fails_repeatedly, symptom_of, tried,
};
use rekindle_types::held::HeldPod;
use rekindle_types::owners::is_controlled_by;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger, RestartLedgerStatus, Rung};
use rekindle_types::{Tick, TickDuration, nodes};

/// What they do; nothing when the pod itself does not fail.
pub(crate) fn revision_peers(
    view: &ClusterView,
    pod: &HeldPod,
    ledger: Option<&RestartLedgerStatus>,
    policy: &LadderPolicy,
    now: Tick,
) -> RevisionPeers {
    let window = policy.window;
    let Some((own, _)) = symptom_of(pod, ledger, now, window) else {
        return RevisionPeers::default();
    };
    let node = match policy.step(Rung::Reschedule) {
        Some(_) => node_trouble(view, pod, now, window),
        None => None, // a ladder that cannot leave the node does not ask how it is
    };
    let node_says = pods::node(pod).and_then(|node| node_says(view, node));
    let mut peers = RevisionPeers { node, node_says, ..RevisionPeers::default() };
    let Some(controller) = owners::controller_of(&pod.metadata) else { return peers };
    let revision = PodRevision::from_pod(pod);
    let named = revision.name().map(|name| format!(" {name}")).unwrap_or_default();
    peers.revision = format!("{} {}{named}", controller.kind, controller.name);
    let ledgers = ledgers_by_pod(view, &controller.uid);
    let (mut alike_elsewhere, mut well_elsewhere) = (false, false);
    let is_peer =
        |peer: &&Arc<HeldPod>| pods::is_active(peer) && PodRevision::from_pod(peer) == revision;
    for peer in view.pods_of(&controller.uid).filter(is_peer) {
        let ledger = peer.metadata.uid.as_deref().and_then(|uid| ledgers.get(uid));
        let ledger = ledger.and_then(|ledger| ledger.status.as_ref());
        let symptom = symptom_of(peer, ledger, now, window);
        let tried = ledger.map_or(TrialState::Nothing, |ledger| {
            tried(peer, ledger, last_request(view, peer, ledger), now, window)
        });
        let likeness = match (&symptom, &tried) {
            (Some((theirs, _)), _) if *theirs == own => FailureLikeness::Alike,
            // it is being restarted, and nothing is seen of what it failed with
            (None, TrialState::Now(_)) if !pods::is_ready(peer) => FailureLikeness::Alike,
            (
                Some(_) | None,
                TrialState::Nothing
                | TrialState::Now(_)
                | TrialState::Helped(_)
                | TrialState::InVain(_),
            ) => FailureLikeness::Other,
        };
        peers.replicas += 1;
        let is_elsewhere = pods::node(peer).is_some() && pods::node(peer) != pods::node(pod);
        match likeness {
            FailureLikeness::Alike => {
                peers.failing_alike += 1;
                alike_elsewhere |= is_elsewhere;
            }
            FailureLikeness::Other => {
                well_elsewhere |= is_elsewhere && symptom.is_none() && pods::is_ready(peer);
            }
        }
        match tried {
            // what is tried on the pod itself is not waited for, nor taken for a proof
            TrialState::Now(_) | TrialState::Helped(_) if peer.metadata.uid == pod.metadata.uid => {
            }
            what @ (TrialState::Nothing
            | TrialState::Now(_)
            | TrialState::Helped(_)
            | TrialState::InVain(_)) => {
                peers.add(what, likeness);
            }
        }
    }
    if alike_elsewhere && !well_elsewhere {
        peers.node = None; // another node is no better for this revision
    }
    peers
}

/// The restart that a pod's ledger asked for last, if it is there.
fn last_request<'a>(
    view: &'a ClusterView,
    pod: &HeldPod,
    ledger: &RestartLedgerStatus,
) -> Option<&'a PodRestart> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = ledger.asked().next_back()?.pod_restart.as_deref()?;
    view.pod_restart(&NamespacedName::new(namespace, name)).map(Arc::as_ref)
}

/// The ledgers of a controller's pods, by the UIDs of those.
fn ledgers_by_pod<'a>(
    view: &'a ClusterView,
    controller: &'a str,
) -> BTreeMap<&'a str, &'a RestartLedger> {
    let all =
        view.dependents_of(controller, ResourceKind::RestartLedger).filter_map(
            |object| match object {
                ViewObject::RestartLedger(ledger) => {
                    Some((ledger.spec.pod_uid.as_str(), ledger.as_ref()))
                }
                _ => None,
            },
        );
    all.collect()
}

/// Whether most pods of the pod's node fail again and again, of at least two workloads, while
/// another node does better.
fn node_trouble(
    view: &ClusterView,
    pod: &HeldPod,
    now: Tick,
    window: TickDuration,
) -> Option<NodeTrouble> {
    let name = pods::node(pod)?;
    let own = active_on(view, name);
    let fails = |pod: &&Arc<HeldPod>| fails_repeatedly(pod, now, window);
    let failing: Vec<&Arc<HeldPod>> = own.iter().copied().filter(fails).collect();
    let workloads: BTreeSet<String> = failing
        .iter()
        .map(|pod| owners::root_uid(view, &ViewObject::Pod(Arc::clone(pod))))
        .collect();
    if workloads.len() < 2 || failing.len() * 2 <= own.len() {
        return None;
    }
    let mut others = view.of_kind(ResourceKind::Node).filter_map(|(id, object)| match object {
        ViewObject::Node(node) if id.name.name != name => Some(node.as_ref()),
        _ => None,
    });
    others.any(|node| does_better(view, node, now, window)).then(|| NodeTrouble {
        name: name.to_owned(),
        pods: own.len(),
        failing: failing.len(),
    })
}

/// So long a kubelet is given time for what ended together.
const OUTAGE_LASTS: TickDuration = TickDuration::from_secs(120);
/// Of fewer pods nothing follows.
const OUTAGE_PODS_MIN: usize = 3;

/// Whether most pods of the pod's node ended together, of at least two workloads, that had been
/// well: a runtime that is restarted may end all of them (containerd#7843).
///
/// The node's clock may be ahead of ours. An end that lies further in the future than an outage
/// lasts says nothing. One that lies less far ahead counts as now at each look, until it has come:
/// the wait is then up to 120 s and as much more as the clock is ahead. To leave such ends out
/// would be worse: the pods would be replaced during the outage.
pub(crate) fn node_outage(
    view: &ClusterView,
    pod: &HeldPod,
    now: Tick,
    window: TickDuration,
) -> Option<NodeOutage> {
    let name = pods::node(pod)?;
    let own = active_on(view, name);
    let ends = own.iter().filter_map(|pod| {
        let at = ended_unforeseen(pod, window)?;
        let at = Some(at).filter(|at| now.abs_diff(*at) < OUTAGE_LASTS)?.min(now);
        Some((owners::root_uid(view, &ViewObject::Pod(Arc::clone(pod))), at))
    });
    let ends: Vec<(String, Tick)> = ends.collect();
    let workloads: BTreeSet<&str> = ends.iter().map(|(workload, _)| workload.as_str()).collect();
    let latest = ends.iter().map(|(_, at)| *at).max()?;
    let is_outage =
        workloads.len() >= 2 && ends.len() >= OUTAGE_PODS_MIN && ends.len() * 2 > own.len();
    is_outage.then(|| NodeOutage {
        name: name.to_owned(),
        pods: own.len(),
        ended: ends.len(),
        over_at: latest + OUTAGE_LASTS,
    })
}

fn active_on<'a>(view: &'a ClusterView, node: &'a str) -> Vec<&'a Arc<HeldPod>> {
    view.pods_on(node).filter(|pod| pods::is_active(pod)).collect()
}

/// Whether a node proves that pods do well elsewhere: it takes pods, at most half of its own fail,
/// and one of them is well. An empty node proves nothing, and neither do the pods that every node
/// has.
fn does_better(view: &ClusterView, node: &Node, now: Tick, window: TickDuration) -> bool {
    if nodes::is_cordoned(node) || !nodes::is_ready(node) {
        return false;
    }
    let own = active_on(view, node.metadata.name.as_deref().unwrap_or_default());
    let fails = |pod: &HeldPod| symptom_of(pod, None, now, window).is_some();
    let is_proof = |pod: &&&Arc<HeldPod>| {
        let is_of_every_node = is_mirror(pod) || is_controlled_by(&pod.metadata, "DaemonSet");
        !is_of_every_node && pods::is_ready(pod) && !fails(pod)
    };
    own.iter().filter(|pod| fails(pod)).count() * 2 <= own.len() && own.iter().any(|p| is_proof(&p))
}

/// What a node says that is wrong with it: the first of its conditions that is not as it should be.
fn node_says(view: &ClusterView, node: &str) -> Option<String> {
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
