//! When an object is as it was asked for, and will stay so.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use rekindle_controllers::{ViewObject, owners};
use rekindle_types::held::{HeldContainer, HeldContainerStatus, HeldPod};
use rekindle_types::local_path;
use rekindle_types::pods::{is_finished, is_ready};

/// Nobody has looked at it yet.
const UNSEEN: &str = "has no status";

/// Why it is not.
pub(super) fn unsettled(object: &ViewObject) -> Option<String> {
    match object {
        ViewObject::Deployment(found) => deployment(found),
        ViewObject::ReplicaSet(found) => replica_set(found),
        ViewObject::StatefulSet(found) => stateful_set(found),
        ViewObject::DaemonSet(found) => daemon_set(found),
        ViewObject::Job(found) => job(found),
        ViewObject::Pod(pod) if pod.metadata.deletion_timestamp.is_some() => {
            Some("is still being deleted".to_owned())
        }
        ViewObject::Pod(pod) if !is_ready(pod) && !is_finished(pod) && !is_half_over(pod) => {
            Some("is not ready".to_owned())
        }
        ViewObject::PersistentVolumeClaim(claim) => {
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            (phase != Some("Bound")).then(|| format!("is not bound: {phase:?}"))
        }
        ViewObject::PersistentVolume(volume) => {
            let is_left =
                local_path::VolumeCleanup::from_volume(volume) != local_path::VolumeCleanup::NotYet;
            (is_left || volume.metadata.deletion_timestamp.is_some())
                .then(|| "is to go, and is there".to_owned())
        }
        ViewObject::PodRestart(restart) => {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            let is_final = phase.is_some_and(rekindle_types::v1alpha1::PodRestartPhase::is_final);
            (!is_final).then(|| format!("is not over: {phase:?}"))
        }
        _ => None,
    }
}

fn deployment(found: &Deployment) -> Option<String> {
    let wanted = found.spec.replicas.unwrap_or(1);
    let Some(status) = &found.status else { return Some(UNSEEN.to_owned()) };
    let count = |field: Option<i32>| field.unwrap_or(0);
    let (ready, updated) = (count(status.ready_replicas), count(status.updated_replicas));
    let (all, available) = (count(status.replicas), count(status.available_replicas));
    let is_well = [ready, updated, all, available] == [wanted; 4];
    (!is_well).then(|| {
        format!("wants {wanted} pods, and has {all}, of which {ready} are ready, {available} available and {updated} of the newest revision")
    })
}

/// One that has no Deployment: that of a Deployment is its Deployment's concern.
fn replica_set(found: &ReplicaSet) -> Option<String> {
    let (wanted, owner) =
        (found.spec.replicas.unwrap_or(1), owners::controller_of(&found.metadata));
    let ready = found.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    (owner.is_none() && ready != wanted)
        .then(|| format!("wants {wanted} pods, and {ready} are ready"))
}

fn stateful_set(found: &StatefulSet) -> Option<String> {
    let wanted = found.spec.replicas.unwrap_or(1);
    let Some(status) = &found.status else { return Some(UNSEEN.to_owned()) };
    let ready = status.ready_replicas.unwrap_or(0);
    if ready != wanted || status.replicas != wanted {
        let all = status.replicas;
        return Some(format!("wants {wanted} pods, and has {all}, of which {ready} are ready"));
    }
    let (current, update) = (&status.current_revision, &status.update_revision);
    (current != update).then(|| format!("is of {current:?}, and should be of {update:?}"))
}

fn daemon_set(found: &DaemonSet) -> Option<String> {
    let Some(status) = &found.status else { return Some(UNSEEN.to_owned()) };
    let wanted = status.desired_number_scheduled;
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let (ready, too_many) = (status.number_ready, status.number_misscheduled);
    let is_well = (ready, updated, too_many) == (wanted, wanted, 0);
    (!is_well).then(|| {
        format!("wants {wanted} pods, and {ready} are ready, {updated} of the newest revision, and {too_many} where they should not be")
    })
}

fn job(found: &Job) -> Option<String> {
    let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_over = conditions.into_iter().any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    });
    (!is_over).then(|| "is neither complete nor failed".to_owned())
}

/// Whether some of its containers have ended for good, and all others run and are ready: it will
/// never be ready again, and never over.
fn is_half_over(pod: &HeldPod) -> bool {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return false };
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    spec.containers.iter().all(|container| {
        let mut statuses = status.container_statuses.iter().flatten();
        let status = statuses.find(|status| status.name == container.name);
        status.is_some_and(|status| status.ready || stays_ended(status, container, policy))
    })
}

/// Whether a container that has ended is not started again. KEP-5307: its rules come first, then
/// its own policy, then the pod's.
fn stays_ended(status: &HeldContainerStatus, container: &HeldContainer, of_pod: &str) -> bool {
    let Some(code) = status.state.terminated().map(|ended| ended.exit_code) else { return false };
    let by_rule = container.restart_policy_rules.iter().any(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let is_named = codes.values.iter().flatten().any(|value| *value == code);
            is_named == (codes.operator == "In")
        })
    });
    let policy = container.restart_policy.as_deref().unwrap_or(of_pod);
    !by_rule && (policy == "Never" || (policy == "OnFailure" && code == 0))
}
