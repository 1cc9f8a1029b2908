//! PodRestart: a request to restart a pod, in place or as a new object, or a group of pods as one,
//! and how it went. Idempotent by its name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Tick, TickDuration};

use super::{
    CarriedOutBy, EmptyDirPolicy, GroupRestart, PodRestartStep, RestartWorkload, Rung,
    RuntimeRestart, api_object, fast_restart, schema_rules,
};

/// PodRestart asks for one restart of one pod, or of the pods that a selector matches as one. A
/// user creates it (or `rekindle restart` does), and so does the ladder. It is carried out once:
/// Container, Containers and Pod by the node that runs the pod, Recreate, Reschedule and Rollback
/// by the operator. Status tells how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestart", extend("required" = ["spec"]))]
pub struct PodRestart {
    /// APIVersion is rekindle.dev/v1alpha1.
    #[serde(default)]
    pub api_version: String,
    /// Kind is PodRestart.
    #[serde(default)]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request. It cannot be changed once made.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "a request cannot be changed once made; create another"}
    ]))]
    pub spec: PodRestartSpec,
    /// How it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodRestartStatus>,
}
api_object!(PodRestart, "PodRestart", "PodRestartList", "podrestarts");

impl PodRestart {
    /// The UID of the pod that it is for: the one that it was taken up for, else the one that it
    /// names. None while any pod of its name may be meant.
    pub fn pod_uid(&self) -> Option<&str> {
        let status = self.status.as_ref();
        let taken_up = status.and_then(|status| status.pod_uid.as_deref());
        // an earlier version says it of replacements alone
        let replaced = status.and_then(|status| status.replacement.as_ref());
        taken_up
            .or(replaced.map(|replacement| replacement.pod_uid.as_str()))
            .or(self.spec.pod_uid.as_deref())
    }

    /// Whether the pod of its name that has this UID is meant, or may be.
    pub fn is_for(&self, pod_uid: &str) -> bool {
        self.pod_uid().is_none_or(|uid| uid == pod_uid)
    }

    /// How long after its creation a restart in place has to be done, for a pod with this grace
    /// period.
    pub fn in_place_limit(&self, pod_grace: TickDuration) -> TickDuration {
        let grace = self.spec.grace_seconds().map_or(pod_grace, TickDuration::of_field);
        let limit = self.spec.deadline_seconds.map(TickDuration::of_field);
        limit.unwrap_or(RESTART_GIVEN_UP_AFTER + grace)
    }

    /// True when it is over, and the pod was not touched.
    pub fn did_nothing(&self) -> bool {
        match self.status.as_ref().and_then(|status| status.phase) {
            Some(PodRestartPhase::Refused | PodRestartPhase::Withdrawn) => true,
            Some(
                PodRestartPhase::Running | PodRestartPhase::Succeeded | PodRestartPhase::Failed,
            )
            | None => false,
        }
    }

    /// Whether it ended an attempt of this container of its pod: a restart in place that was
    /// carried out when the attempt finished, and had begun after its start. Times are whole
    /// seconds, so an attempt that started within the second in which the restart began does not
    /// count as ended by it: a failure told too much rather than one lost. All of them are the
    /// node's: the clock of whoever asks may be another one.
    pub fn has_ended(&self, container: &str, started: Tick, finished: Tick) -> bool {
        let Some(status) = &self.status else { return false };
        let Some(began) = status.started_at.as_ref().map(Tick::from) else { return false };
        let was_carried_out = match (&status.finished_at, status.phase) {
            (Some(over), _) => finished <= Tick::from(over),
            (None, Some(PodRestartPhase::Running)) => true,
            (None, _) => false,
        };
        self.carried_out_by() == CarriedOutBy::Node
            && self.spec.concerns(container)
            && !self.did_nothing()
            && started < began
            && began <= finished
            && was_carried_out
    }
}

/// Which pod, what of it, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartSpec", extend("x-kubernetes-validations" = [
    {"rule": schema_rules::TARGET_RULE, "message": schema_rules::TARGET_MESSAGE,
      "fieldPath": ".podName", "reason": "FieldValueInvalid"},
    {"rule": schema_rules::GROUP_UID_RULE, "message": schema_rules::GROUP_UID_MESSAGE,
      "fieldPath": ".podUID", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::GROUP_RUNG_RULE, "message": schema_rules::GROUP_RUNG_MESSAGE,
      "fieldPath": ".rung", "reason": "FieldValueInvalid"},
    {"rule": schema_rules::MEMBER_RULE, "message": schema_rules::MEMBER_MESSAGE,
      "fieldPath": ".memberOf", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::WORKLOAD_RULE, "message": schema_rules::WORKLOAD_MESSAGE,
      "fieldPath": ".workload", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::EMPTY_DIRS_RULE, "message": schema_rules::EMPTY_DIRS_MESSAGE,
      "fieldPath": ".emptyDirs", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::CONTAINER_RULE, "message": schema_rules::CONTAINER_MESSAGE,
      "fieldPath": ".containerName", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::AVOIDANCE_RULE, "message": schema_rules::AVOIDANCE_MESSAGE,
      "fieldPath": ".avoidNodeFor", "reason": "FieldValueForbidden"},
    {"rule": fast_restart::FAST_RULE, "message": fast_restart::FAST_MESSAGE,
      "fieldPath": ".fast", "reason": "FieldValueForbidden"}
]))]
pub struct PodRestartSpec {
    /// The pod's name, in the request's own namespace. Either this or `selector` is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253), regex(pattern = schema_rules::POD_NAME))]
    pub pod_name: String,
    /// When given, only the pod with this UID is restarted: a re-created one of the same name is
    /// left alone.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pod_uid: Option<String>,
    /// Restarts the pods of the namespace that have these labels as one: on the rungs Containers
    /// and Pod all stop before any starts, on Recreate and Reschedule all are evicted together. The
    /// pods are those that it matches when the request is taken up, at most 500. It may not be
    /// empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"), extend("x-kubernetes-validations" = [
        {"rule": schema_rules::SELECTOR_RULE, "message": schema_rules::GROUP_SELECTOR_MESSAGE, "reason": "FieldValueRequired"}
    ]))]
    pub selector: Option<LabelSelector>,
    /// Of a group: only those of the selected pods that belong to this workload. A ladder of scope
    /// Group sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<RestartWorkload>,
    /// Of a request that the controller made: the PodRestart of the group that the pod is a member
    /// of. The pod is held back after it has stopped until all members have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = schema_rules::POD_NAME))]
    pub member_of: Option<String>,
    /// What is restarted. Default Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = Rung::Pod))]
    pub rung: Option<Rung>,
    /// Of a Container restart: the container, or sidecar, that alone is ended and started again;
    /// the others are left as they are. Absent: all that run, each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema_rules::CONTAINER_NAME))]
    pub container_name: Option<String>,
    /// Of a Pod restart: what becomes of the contents of emptyDir volumes. Default Clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dirs: Option<EmptyDirPolicy>,
    /// Why, in words for people; shown in the pod's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Seconds the containers get to end, in place of the pod's terminationGracePeriodSeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2147483647))]
    pub grace_period_seconds: Option<i64>,
    /// Of a Containers restart: whether containers are killed at once, without preStop hooks and
    /// grace period. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<bool>,
    /// Seconds by which it has to be done, at least 1. Of a restart in place they count from its
    /// creation: it is not begun any more then, and what was begun goes on; default: 600 and the
    /// pod's grace period. Of a group they count for the whole. Of Recreate and Reschedule they
    /// count from the eviction until the new pod is ready, and also end a request that a budget
    /// has held back for so long; default: 600 and the pod's grace period, and no end while a
    /// budget holds it back. A request that fails with a pod without a controller still to be
    /// created again goes on trying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2147483647))]
    pub deadline_seconds: Option<i64>,
    /// Seconds that the request is kept after it is done. Default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2147483647))]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Of Reschedule: how long the node is avoided. A duration; default 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema_rules::SPAN), length(max = 32), extend("x-kubernetes-validations" = [
        {"rule": schema_rules::SPAN_RULE, "message": schema_rules::SPAN_MESSAGE}
    ]))]
    pub avoid_node_for: Option<String>,
    /// The ladder that asks; absent for a person's request. A ladder's request to replace a pod is
    /// withdrawn when the pod is well again before it was evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder_name: Option<String>,
}

impl PodRestartSpec {
    /// What is restarted, by default where it is not said.
    pub fn rung(&self) -> Rung {
        self.rung.unwrap_or(Rung::Pod)
    }
}

/// A request that says nothing else is given up after this long: a restart in place, from its
/// creation on and the pod's grace period aside; a replacement, from the eviction on; a rollback,
/// from its beginning on. It takes no room in any budget from then on.
pub const RESTART_GIVEN_UP_AFTER: TickDuration = TickDuration::from_secs(600);

/// How a restart went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartStatus", extend("x-kubernetes-validations" = [
    {"rule": schema_rules::TAKEN_UP_RULE, "message": schema_rules::TAKEN_UP_MESSAGE, "fieldPath": ".podUID"}
]))]
pub struct PodRestartStatus {
    /// Where it is. Absent while nobody has taken it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PodRestartPhase>,
    /// The UID of the pod that it was taken up for. Never changed: a later pod of the same name is
    /// left alone.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pod_uid: Option<String>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the node began to stop containers, or the pod's eviction was asked for. Absent while a
    /// budget holds it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Of a member of a group: when all its containers had ended. It waits for the others then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Time>,
    /// When every container that had to be was running again, or the new pod was ready, or it was
    /// given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Finished and Succeeded, to be waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// What was done, in order, and when; the oldest are dropped when there are more than 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PodRestartStep>,
    /// The node whose agent answers it, on a cluster that is not Rekindle's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_name: Option<String>,
    /// Of a restart in place by such an agent: what it was begun on. Written before the first stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeRestart>,
    /// Of Recreate and Reschedule: how far the replacement of the pod is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<PodReplacement>,
    /// Of Rollback: from where and to where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackStatus>,
    /// Of a group: its members, and how far they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupRestart>,
}

/// From where and to where a Deployment is rolled back. Written before the Deployment is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RollbackStatus")]
pub struct RollbackStatus {
    /// The Deployment.
    pub deployment_name: String,
    /// The ReplicaSet of the revision that failed.
    pub from_replica_set: String,
    /// The ReplicaSet of the revision before.
    pub to_replica_set: String,
    /// That revision's number when it was chosen.
    pub to_revision: i64,
}

/// How far the replacement of a pod is, and what is needed to finish it whatever dies meanwhile.
/// Written before the eviction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.PodReplacement")]
pub struct PodReplacement {
    /// What is being done.
    pub step: ReplacementStep,
    /// Since when.
    pub since: Time,
    /// What holds it back, or did until it went on. Absent when nothing has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<ReplacementHold>,
    /// Since when that holds it back, however often it was tried since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<Time>,
    /// When it is given up, if the new pod is not ready by then. Absent while it is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The pod that is replaced.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The node it was on.
    pub node_name: String,
    /// The workload that makes the new pod: the UID of the pod's controller, or of that one's
    /// controller. Absent for a pod without one, which is created again from `pod`.
    #[serde(default, rename = "workloadUID", skip_serializing_if = "Option::is_none")]
    pub workload_uid: Option<String>,
    /// The workload's kind. Absent when it is not one whose pods these controllers know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_kind: Option<String>,
    /// And its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_name: Option<String>,
    /// Until when new pods of the workload keep away from the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid_node_until: Option<Time>,
    /// The pod as it is created again: its name, labels, annotations and spec. Dropped when the new
    /// pod is there; until then the finalizer `rekindle.dev/kept-pod` keeps the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<RawExtension>,
    /// The new pod's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_pod_name: Option<String>,
    /// Its UID.
    #[serde(default, rename = "newPodUID", skip_serializing_if = "Option::is_none")]
    pub new_pod_uid: Option<String>,
}

impl PodReplacement {
    /// Of this pod, which is on this node, at this step.
    pub fn new(step: ReplacementStep, since: Time, pod_uid: String, node_name: String) -> Self {
        Self {
            step,
            since,
            held_by: None,
            held_since: None,
            deadline: None,
            pod_uid,
            node_name,
            workload_uid: None,
            workload_kind: None,
            workload_name: None,
            avoid_node_until: None,
            pod: None,
            new_pod_name: None,
            new_pod_uid: None,
        }
    }
}

/// The steps of a replacement: Held ⇄ Evicting → Starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.ReplacementStep")]
pub enum ReplacementStep {
    /// A disruption budget forbids the eviction, or there is no other node: it is tried again.
    Held,
    /// The pod is evicted: it ends with its grace period, and the new one is made.
    Evicting,
    /// The new pod is there and not ready yet.
    Starting,
}

/// What holds the replacement of a pod back. It is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.ReplacementHold")]
pub enum ReplacementHold {
    /// A disruption budget forbids the eviction now.
    DisruptionBudget,
    /// A disruption budget never lets a pod go, however healthy the others are.
    DeadlockedBudget,
    /// The API refuses the eviction for another reason.
    EvictionRefused,
    /// No other node can take the pod.
    NoOtherNode,
    /// The API would not take the pod again, which nobody but this request creates.
    PodNotTaken,
    /// It could go on, and there is no room in the budget of the ladder that asked, or in the
    /// limits over all ladders.
    LadderLimits,
}

/// Where a restart is: absent (pending) → Running → Succeeded or Failed; Refused at once when it
/// cannot be done; Withdrawn when the ladder that asked does not need it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.PodRestartPhase")]
pub enum PodRestartPhase {
    /// The node, or the operator, carries it out.
    Running,
    /// All containers that had to be are running again, or the new pod is ready.
    Succeeded,
    /// It was not finished: the pod was deleted, its node lost, or the deadline passed meanwhile.
    Failed,
    /// It cannot be done; the message says why (no such pod, another UID, terminating, a static
    /// pod, …).
    Refused,
    /// Nothing was done to the pod, and the ladder that asked does not wait for it any more: the
    /// pod was well again, or its node did not answer. Not an attempt.
    Withdrawn,
}

impl PodRestartPhase {
    /// True when nothing more will happen.
    pub const fn is_final(self) -> bool {
        match self {
            PodRestartPhase::Running => false,
            PodRestartPhase::Succeeded
            | PodRestartPhase::Failed
            | PodRestartPhase::Refused
            | PodRestartPhase::Withdrawn => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container of its pod that started at 10 s and ended then, and a restart that began at 100
    /// s.
    fn ends(phase: &str, finished_at: Option<&str>, at: u64) -> bool {
        let status = serde_json::json!({
            "phase": phase, "startedAt": "1970-01-01T00:01:40Z", "finishedAt": finished_at,
        });
        let restart = serde_json::json!({
            "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart", "metadata": {"name": "again"},
            "spec": {"podName": "web", "rung": "Pod"}, "status": status,
        });
        let restart: PodRestart = serde_json::from_value(restart).unwrap();
        restart.has_ended("app", Tick::from_secs(10), Tick::from_secs(at))
    }

    #[test]
    fn a_restart_has_ended_what_ended_while_it_was_carried_out_whatever_other_clocks_show() {
        assert!(!ends("Running", None, 99));
        assert!(ends("Running", None, 100) && ends("Running", None, 1_000_000));
        let over = Some("1970-01-01T00:02:00Z");
        assert!(ends("Succeeded", over, 120) && !ends("Succeeded", over, 121));
    }
}
