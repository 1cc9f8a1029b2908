//! Ledgers whose pod is gone and that nobody took over. One for whose pod no other one comes says so at once; each is removed when its attempts
//! would not count any more. Pure, as the controllers are.

use std::sync::Arc;

use rekindle_controllers::plan::Propagation;
use rekindle_controllers::{Kind, NamespacedName, Object, Plan, View, Write, job};
use rekindle_ladder::{Identity, without_pod};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, RestartLedger};
use rekindle_types::{Tick, TickDuration};

use crate::{ledgers, policies};

/// How long the ledger of a pod is kept that is gone, when its ladder is gone too.
const KEPT_WITHOUT_LADDER: TickDuration = TickDuration::from_secs(600);

/// What is to be done for a ledger whose pod may be gone.
pub(crate) fn plan(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(ledger) = view.restart_ledger(name) else { return plan };
    let is_needed = ledgers::has_pod(view, ledger)
        || restarts(view, &name.namespace).any(|restart| replaces_pod_of(restart, ledger));
    if is_needed {
        return plan;
    }
    let policy = policies::of_ledger(view, ledger);
    let kept = policy.as_ref().map_or(KEPT_WITHOUT_LADDER, Identity::outlives_pod_by);
    let created = ledger.metadata.creation_timestamp.as_ref().map_or(now, Tick::from);
    let last = ledger.last_decided().unwrap_or(created);
    if now.since(last) >= kept {
        let object = Object::RestartLedger(Arc::clone(ledger));
        plan.then(Write::delete(&object, Propagation::Background));
        return plan;
    }
    if let Some(write) = told(view, ledger, now) {
        plan.then(write);
    }
    plan.look_again(last + kept);
    plan
}

/// The ledgers of the pods that an object controls. Whether one is an orphan may depend on it.
pub(crate) fn of_controller<'a>(
    view: &'a View,
    uid: &'a str,
) -> impl Iterator<Item = NamespacedName> + 'a {
    view.dependents_of(uid, Kind::RestartLedger).map(|object| object.id().name)
}

/// That the pod is gone for good, unless the ledger says so already.
fn told(view: &View, ledger: &RestartLedger, now: Tick) -> Option<Write> {
    let before = ledger.status.as_ref()?;
    let status = without_pod(before, now);
    if *before == status || may_have_heir(view, ledger) || is_owed(view, ledger) {
        return None;
    }
    let told = RestartLedger { status: Some(status), ..ledger.clone() };
    Some(Write::UpdateStatus(Object::from(told)))
}

/// Whether a controller makes another pod for this one. A Job that is over makes none, and one without a controller is made by nobody.
fn may_have_heir(view: &View, ledger: &RestartLedger) -> bool {
    let Some(owner) = ledger.metadata.owner_references.iter().flatten().next() else {
        return false;
    };
    match view.by_uid(&owner.uid) {
        Some(Object::Job(job)) => !job::is_over(job),
        Some(_) | None => true,
    }
}

/// True when a request that failed has still to create the pod again.
fn is_owed(view: &View, ledger: &RestartLedger) -> bool {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    restarts(view, namespace).any(|restart| {
        let replacement = restart.status.as_ref().and_then(|status| status.replacement.as_ref());
        replacement.is_some_and(|r| r.pod_uid == ledger.spec.pod_uid && r.pod.is_some())
    })
}

/// True when the request is about to bring the ledger's pod back.
fn replaces_pod_of(restart: &PodRestart, ledger: &RestartLedger) -> bool {
    let status = restart.status.as_ref();
    let is_over = status.and_then(|s| s.phase).is_some_and(PodRestartPhase::is_final);
    let replacement = status.and_then(|status| status.replacement.as_ref());
    !is_over && replacement.is_some_and(|r| r.pod_uid == ledger.spec.pod_uid)
}

fn restarts<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = &'a PodRestart> {
    view.in_namespace(Kind::PodRestart, namespace).filter_map(|object| match object {
        Object::PodRestart(restart) => Some(restart.as_ref()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
