//! Rollback: the Deployment of the pod goes back to the revision before, once.
//!
//! From where and to where is written first; then the Deployment is changed, if it is still where
//! it was. Whoever comes after a crash finds it at the one or the other revision, or at a third one
//! that somebody else gave it, and that is left alone.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use rekindle_types::v1alpha1::{
    PodRestart, PodRestartPhase, RESTART_GIVEN_UP_AFTER, RollbackStatus,
};
use rekindle_types::{EventSeverity, Tick, TickDuration};

use super::{finish, pod_of};
use crate::deployment::rollback::{self, RollbackObstacle};
use crate::events::EventNote;
use crate::plan::{PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, NamespacedName, ViewObject, WritePlan, owners};

/// The event about a Deployment that goes back, as kubectl's users know it.
const ROLLED_BACK: &str = "DeploymentRollback";
/// The event when it could not be changed.
const NOT_ROLLED_BACK: &str = "DeploymentRollbackFailed";
/// `source.component` of its events.
const COMPONENT: &str = "podrestart-controller";

/// What is to be done for a request of rung Rollback that is not finished.
pub(super) fn reconcile(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let status = restart.status.as_ref().and_then(|status| status.rollback.as_ref());
    match status {
        None => take_up(view, restart, now, &mut plan),
        Some(status) => go_on(view, restart, status, now, &mut plan),
    }
    plan
}

fn take_up(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick, plan: &mut WritePlan) {
    let name = pod_of(restart);
    let pod = view.pod(&name);
    let owner = pod.and_then(|pod| owners::controller_of(&pod.metadata));
    let from = owner.and_then(|owner| match view.by_uid(&owner.uid) {
        Some(ViewObject::ReplicaSet(set)) => Some(set),
        _ => None,
    });
    let found = from.ok_or(RollbackObstacle::NoDeployment);
    let found = found.and_then(|from| Ok((from, rollback::target(view, from)?)));
    let (from, target) = match found {
        Ok(found) => found,
        Err(why) => {
            let message = format!("pod {name} cannot be rolled back: {why}");
            return plan.then(finish(restart, PodRestartPhase::Refused, message, now));
        }
    };
    let text = |name: &Option<String>| name.clone().unwrap_or_default();
    let mut restart = restart.as_ref().clone();
    let status = restart.status.get_or_insert_default();
    status.pod_uid = pod.and_then(|pod| pod.metadata.uid.clone());
    let message = format!(
        "rolling Deployment {} back to revision {}",
        text(&target.deployment.metadata.name),
        target.revision()
    );
    status.go_on(PodRestartPhase::Running, message, now.to_micro_time());
    status.started_at = Some(now.to_time());
    status.rollback = Some(RollbackStatus {
        deployment_name: text(&target.deployment.metadata.name),
        from_replica_set: text(&from.metadata.name),
        to_replica_set: text(&target.to.metadata.name),
        to_revision: target.revision(),
    });
    plan.then(WriteOperation::UpdateStatus(restart.into()));
}

fn go_on(
    view: &ClusterView,
    restart: &Arc<PodRestart>,
    status: &RollbackStatus,
    now: Tick,
    plan: &mut WritePlan,
) {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    let named = |name: &str| NamespacedName::new(namespace, name);
    let RollbackStatus { deployment_name, from_replica_set, to_replica_set, to_revision } = status;
    let deployment = view.deployment(&named(deployment_name));
    let (from, to) =
        (view.replica_set(&named(from_replica_set)), view.replica_set(&named(to_replica_set)));
    let is_at = |deployment: &Deployment, set: Option<&Arc<ReplicaSet>>| {
        set.is_some_and(|set| rollback::is_at(deployment, set))
    };
    match (deployment, to) {
        (Some(deployment), Some(to)) if rollback::is_at(deployment, to) => {
            let message =
                format!("Deployment {deployment_name} is at revision {to_revision} again");
            plan.then(finish(restart, PodRestartPhase::Succeeded, message, now));
        }
        (Some(_), Some(_)) if is_overdue(restart, now) => {
            let message = format!("Deployment {deployment_name} could not be changed in time");
            plan.then(finish(restart, PodRestartPhase::Failed, message, now));
        }
        (Some(deployment), Some(to)) if is_at(deployment, from) => {
            plan.then_all(vec![change(restart, deployment, to, *to_revision)]);
        }
        (_, _) => {
            let message = format!("Deployment {deployment_name} was changed or deleted meanwhile");
            plan.then(finish(restart, PodRestartPhase::Failed, message, now));
        }
    }
}

/// The Deployment is changed by one write; who has not got it through by then never will.
fn is_overdue(restart: &PodRestart, now: Tick) -> bool {
    let started = restart.status.as_ref().and_then(|status| status.started_at.as_ref());
    let limit = restart.spec.deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let limit = limit.map_or(RESTART_GIVEN_UP_AFTER, TickDuration::from_secs);
    started.is_some_and(|started| Tick::from(started) + limit <= now)
}

fn change(
    restart: &PodRestart,
    deployment: &Arc<Deployment>,
    to: &ReplicaSet,
    revision: i64,
) -> PlannedWrite {
    let about = ViewObject::Deployment(deployment.clone());
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let success =
        format!("Rolled back deployment \"{name}\" to revision {revision}{}", why(restart));
    let failure = format!("Rolling back deployment \"{name}\" to revision {revision}: ");
    let note =
        |severity, reason, message| EventNote::new(&about, severity, reason, message, COMPONENT);
    PlannedWrite {
        write: WriteOperation::Update(rollback::at(deployment, to).into()),
        report: Some(WriteNotes::new(
            note(EventSeverity::Normal, ROLLED_BACK, success),
            note(EventSeverity::Warning, NOT_ROLLED_BACK, failure),
        )),
    }
}

/// By which request, and why: the pods that it was for are gone soon, and so is the request.
fn why(restart: &PodRestart) -> String {
    let name = restart.metadata.name.as_deref().unwrap_or_default();
    let ladder = restart.spec.ladder_name.iter().map(|ladder| format!("ladder {ladder:?}"));
    let reason = restart.spec.reason.iter().filter(|reason| !reason.is_empty()).cloned();
    let why: Vec<String> = ladder.chain(reason).collect();
    match why.as_slice() {
        [] => format!(" (PodRestart {name})"),
        why => format!(" (PodRestart {name}): {}", why.join(": ")),
    }
}
