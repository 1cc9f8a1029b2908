//! What the peers of a pod that fails do: the other pods of its controller, and those of its node. Pure, as the controllers are.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::{Kind, NamespacedName, Object, View, owners, pods};
use rekindle_ladder::{NodeTrouble, Peers, Policy, symptom_of};
use rekindle_types::v1alpha1::{RestartLedger, Rung};
use rekindle_types::{Tick, TickDuration};

/// What they do; nothing when the pod itself does not fail.
pub(crate) fn of(view: &View, pod: &Pod, policy: &Policy, now: Tick) -> Peers {
    let window = policy.window;
    let Some((own, _)) = symptom_of(pod, now, window) else { return Peers::default() };
    let mut peers = Peers { node: node_trouble(view, pod, now, window), ..Peers::default() };
    let Some(controller) = owners::controller_of(&pod.metadata) else { return peers };
    peers.revision = format!("{} {}", controller.kind, controller.name);
    for peer in view.pods_of(&controller.uid).filter(|peer| pods::is_active(peer)) {
        peers.replicas += 1;
        let Some((_, at)) = symptom_of(peer, now, window).filter(|(theirs, _)| *theirs == own)
        else {
            continue;
        };
        peers.failing_alike += 1;
        let ledger = ledger_of(view, &controller.uid, peer);
        peers.tried =
            peers.tried.max(ledger.and_then(|ledger| tried_in_vain(ledger, at?, now, window)));
    }
    peers
}

fn ledger_of<'a>(view: &'a View, controller: &'a str, pod: &Pod) -> Option<&'a Arc<RestartLedger>> {
    view.dependents(controller).find_map(|object| match object {
        Object::RestartLedger(ledger)
            if Some(&ledger.spec.pod_uid) == pod.metadata.uid.as_ref() =>
        {
            Some(ledger)
        }
        _ => None,
    })
}

/// The highest rung above Container that was tried inside the window before the failure. Failures are told in whole seconds: one
/// in the very second of the attempt may have been what it was for.
fn tried_in_vain(
    ledger: &RestartLedger,
    failed_at: Tick,
    now: Tick,
    window: TickDuration,
) -> Option<Rung> {
    let attempts = ledger.status.iter().flat_map(|status| status.attempts.iter().flatten());
    let in_vain = attempts.filter(|attempts| {
        attempts.at.iter().map(Tick::from).any(|at| at < failed_at && now.since(at) < window)
    });
    in_vain.map(|attempts| attempts.rung).filter(|rung| *rung > Rung::Container).max()
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
