//! Ledgers whose pod is gone and that nobody took over. One for whose pod no other one comes, for
//! its controller was scaled down or is over, says so at once; each is removed when its attempts
//! would not count any more. A pod that comes after all goes on from it. Pure, as the controllers
//! are.

use std::collections::BTreeSet;
use std::sync::Arc;

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::vacancy::{self, PodVacancy};
use rekindle_controllers::{
    ClusterView, NamespacedName, ObjectChange, ResourceKind, ViewObject, WriteOperation, WritePlan,
    job, pods,
};
use rekindle_ladder::{
    LedgerIdentity, Lineage, identity, may_inherit, node_of, seen_at, with_outcomes, without_pod,
};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, RestartLedger};
use rekindle_types::{Tick, TickDuration};

use crate::ladder::open_requests;
use crate::restart_context::RestartContext;
use crate::{groups, ledgers, policies};

/// How long the ledger of a pod is kept that is gone, when its ladder is gone too.
const KEPT_WITHOUT_LADDER: TickDuration = TickDuration::from_secs(600);

/// What is to be done for a ledger whose pod may be gone.
pub(crate) fn plan(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    let view = context.view;
    let mut plan = WritePlan::default();
    let Some(ledger) = view.restart_ledger(name) else { return plan };
    let is_needed = ledgers::has_pod(view, ledger)
        || (ledger.is_of_group() && groups::has_pods(context, ledger))
        || restarts(view, &name.namespace).any(|restart| replaces_pod_of(restart, ledger));
    if is_needed {
        return plan;
    }
    if let Some(write) = dated_ahead(ledger, now) {
        plan.then(write); // which brings us here again
        return plan;
    }
    let policy = policies::policy_of_ledger(view, ledger);
    let kept = policy.as_ref().map_or(KEPT_WITHOUT_LADDER, LedgerIdentity::outlives_pod_by);
    let created = ledger.metadata.creation_timestamp.as_ref().map_or(now, Tick::from);
    let last = ledger.last_decided().unwrap_or(created);
    if now.since(last) >= kept {
        let object = ViewObject::RestartLedger(Arc::clone(ledger));
        plan.then(WriteOperation::delete(&object, DependentPolicy::Background));
        return plan;
    }
    if let Some(write) = noted(context, ledger, now) {
        plan.then(write);
    }
    plan.look_again(last + kept);
    plan
}

/// The ledgers without a pod of an object that controls pods. What they say may depend on it.
pub(crate) fn orphans_of_controller<'a>(
    view: &'a ClusterView,
    uid: &'a str,
) -> impl Iterator<Item = NamespacedName> + 'a {
    view.dependents_of(uid, ResourceKind::RestartLedger).filter_map(|object| match object {
        ViewObject::RestartLedger(ledger) if !ledgers::has_pod(view, ledger) => {
            Some(object.id().name)
        }
        _ => None,
    })
}

/// The controller whose pods are fewer, or others, after a change: it was scaled, or ended, or one
/// of its pods has taken a ledger over.
pub(crate) fn controller_of_news(change: &ObjectChange) -> Option<&str> {
    let after = change.after.as_ref()?;
    match (after, &change.before) {
        (ViewObject::RestartLedger(ledger), Some(ViewObject::RestartLedger(before))) => {
            let owner = ledger.metadata.owner_references.iter().flatten().next();
            owner.filter(|_| ledger.spec.pod_uid != before.spec.pod_uid).map(|o| o.uid.as_str())
        }
        (ViewObject::Job(job), _) if job::is_over(job) => Some(after.uid()),
        (
            ViewObject::ReplicaSet(_)
            | ViewObject::ReplicationController(_)
            | ViewObject::StatefulSet(_)
            | ViewObject::DaemonSet(_)
            | ViewObject::Job(_),
            Some(before),
        ) if before.meta().generation != after.meta().generation => Some(after.uid()),
        _ => None,
    }
}

/// Nothing was decided later than now: of a clock that was ahead the ledger would be kept until
/// that time has come, and no pod would take it over.
fn dated_ahead(ledger: &RestartLedger, now: Tick) -> Option<WriteOperation> {
    let before =
        ledger.status.as_ref().filter(|_| ledger.last_decided().is_some_and(|at| at > now));
    let status = Some(seen_at(before?, now));
    Some(WriteOperation::UpdateStatus(ViewObject::from(RestartLedger { status, ..ledger.clone() })))
}

/// How the restarts ended that it asked for, and that the pod is gone for good, unless the ledger
/// says so already.
fn noted(
    context: &RestartContext<'_>,
    ledger: &RestartLedger,
    now: Tick,
) -> Option<WriteOperation> {
    let view = context.view;
    // other pods of the workload may come: nothing is said before the ledger goes
    let before = ledger.status.as_ref().filter(|_| !ledger.is_of_group())?;
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let asked = open_requests(before).filter_map(|request| {
        view.pod_restart(&NamespacedName::new(namespace, request)).map(Arc::as_ref)
    });
    let mut status = with_outcomes(before, &asked.collect::<Vec<&PodRestart>>(), now);
    if !may_have_heir(context, ledger) && !is_owed(view, ledger) {
        status = without_pod(&status, now);
    }
    if *before == status {
        return None;
    }
    let noted = RestartLedger { status: Some(status), ..ledger.clone() };
    Some(WriteOperation::UpdateStatus(ViewObject::from(noted)))
}

/// Whether another pod comes for this one, or is there and takes the ledger over. A pod without a
/// controller is made by nobody, and a controller that was scaled down, or is over, makes none.
fn may_have_heir(context: &RestartContext<'_>, ledger: &RestartLedger) -> bool {
    let view = context.view;
    let Some(owner) = ledger.metadata.owner_references.iter().flatten().next() else {
        return false;
    };
    let Some(controller) = view.by_uid(&owner.uid) else { return true };
    let pod_name = ledger.spec.pod_name.as_str();
    let vacancy = PodVacancy { pod_name, node_name: node_of(owner, ledger) };
    vacancy::is_to_be_filled(view, controller, vacancy) || has_heir(context, &owner.uid, ledger)
}

/// Whether a pod of the controller that has no ledger may take this one over.
fn has_heir(context: &RestartContext<'_>, controller: &str, ledger: &RestartLedger) -> bool {
    let view = context.view;
    let taken: BTreeSet<&str> = view
        .dependents_of(controller, ResourceKind::RestartLedger)
        .filter_map(|object| match object {
            ViewObject::RestartLedger(ledger) => Some(ledger.spec.pod_uid.as_str()),
            _ => None,
        })
        .collect();
    let mut heirs = view.pods_of(controller).filter(|pod| {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        pods::is_active(pod)
            && !taken.contains(uid)
            && may_inherit(pod, ledger)
            && identity(pod).lineage == Lineage::Controller
    });
    heirs.any(|pod| policies::policy_of_pod(context, pod).is_ok_and(|policy| policy.is_some()))
}

/// True when a request that failed has still to create the pod again.
fn is_owed(view: &ClusterView, ledger: &RestartLedger) -> bool {
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

fn restarts<'a>(view: &'a ClusterView, namespace: &'a str) -> impl Iterator<Item = &'a PodRestart> {
    view.in_namespace(ResourceKind::PodRestart, namespace).filter_map(|object| match object {
        ViewObject::PodRestart(restart) => Some(restart.as_ref()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
