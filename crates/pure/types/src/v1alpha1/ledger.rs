//! RestartLedger: the durable history of one workload identity. A re-created pod, agent or engine
//! goes on from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LadderScope, RestartOutcome, Rung, api_object};
use crate::Tick;

/// RestartLedger is written by Rekindle, one per workload identity: a pod's place on the ladder and
/// what was decided, and why. It is bounded in size and goes with its workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartLedger")]
pub struct RestartLedger {
    /// APIVersion is rekindle.dev/v1alpha1.
    #[serde(default)]
    pub api_version: String,
    /// Kind is RestartLedger.
    #[serde(default)]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Whose history it is.
    #[serde(default)]
    pub spec: RestartLedgerSpec,
    /// The history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RestartLedgerStatus>,
}
api_object!(RestartLedger, "RestartLedger", "RestartLedgerList", "restartledgers");

/// Whose history a ledger holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartLedgerSpec")]
pub struct RestartLedgerSpec {
    /// The ladder that applied last.
    #[serde(default)]
    pub ladder_name: String,
    /// The pod that carries the identity now.
    #[serde(default)]
    pub pod_name: String,
    /// Its UID.
    #[serde(default, rename = "podUID")]
    pub pod_uid: String,
    /// Group: the ledger is of the pods of a workload. `podName` is LADDER/KIND/NAME of that, or
    /// LADDER/pods for pods without a controller, and `podUID` is its UID, or the ladder's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<LadderScope>,
}

/// The history itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartLedgerStatus")]
pub struct RestartLedgerStatus {
    /// The UID of the pod that `observed` speaks of.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The revision of that pod: its label `controller-revision-hash`; of a pod without a
    /// controller, of a ReplicationController or of a ReplicaSet without a Deployment a hash of
    /// what its containers run. A pod of another one is tried anew. Absent of pods whose controller
    /// is of one revision itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The rung the workload is on; absent when nothing failed inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// What the ladder does now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<LedgerPhase>,
    /// Why, for people: the whole account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The same at a glance, in a line of at most 60 characters: the cause, then what is done or
    /// comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When the next attempt is due, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<MicroTime>,
    /// Attempts made inside the window, by rung.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<RungAttempts>>,
    /// Failures seen since the ledger was made. Never falls.
    #[serde(default)]
    pub failures_total: u64,
    /// The failures seen of each container: how far its restartCount was accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Vec<ObservedContainer>>,
    /// Of a group: its pods, by name, and what happened to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub members: Option<Vec<LedgerMember>>,
    /// The PodRestart that `excusedAttempt` was noted for last: it is noted once, before the
    /// restart begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excused_by: Option<String>,
    /// Since when everything has been running without a failure; absent while something is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_since: Option<MicroTime>,
    /// The PodRestart that was decided and has not been seen in the API yet. It is created under
    /// this name until it is seen, so that a decision outlives a crash between its two writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_restart: Option<String>,
    /// The UID of the pod that is ended as Failed because the ladder was exhausted (`onExhausted:
    /// Fail`). A pod that takes the ledger over is not: it would be replaced and ended again
    /// without a pause.
    #[serde(default, rename = "failingPodUID", skip_serializing_if = "Option::is_none")]
    pub failing_pod_uid: Option<String>,
    /// The UID of the RestartLadder that the condition Exhausted speaks of; absent of one in
    /// annotations. Another one, also of the same name, is tried again.
    #[serde(default, rename = "ladderUID", skip_serializing_if = "Option::is_none")]
    pub ladder_uid: Option<String>,
    /// The rung that is due and that a budget, or the trial of another pod, holds back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_rung: Option<Rung>,
    /// What the ladder waits for while its phase is Holding; absent once everything runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HoldReason>,
    /// The highest rung above Container after which a container failed again, since the ledger was
    /// cleared last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_vain: Option<Rung>,
    /// Since when attempts above Container were only noted, by an operator that observes. One that
    /// acts does not count those, and goes on counting what was tried before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run_since: Option<MicroTime>,
    /// How long what failed again had been running, in seconds; absent when that is not known, when
    /// it was longer than the window, and after a first failure. Nothing has recovered before it
    /// has run for twice as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub last_run_seconds: Option<i64>,
    /// The exhaustion that the webhook was told of last: when its condition became True.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhaustion_told_at: Option<Time>,
    /// The last decisions, oldest first; at most 32, repeats counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<LedgerDecision>>,
    /// Exhausted, and what a later version adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// What the ladder does for a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.LedgerPhase")]
pub enum LedgerPhase {
    /// Nothing failed inside the window.
    Healthy,
    /// Something failed; the mildest rung that may help is being tried.
    Climbing,
    /// It waits: a restart would not help, or a budget forbids it now.
    Holding,
    /// Every rung was tried in vain.
    Exhausted,
}

/// What a ladder that holds waits for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "dev.rekindle.v1alpha1.HoldReason")]
pub enum HoldReason {
    /// No restart helps against what was seen.
    Futile,
    /// Most pods of the revision fail in the same way, and what may be tried on one of them was
    /// tried in vain.
    Revision,
    /// Most pods of the revision fail in the same way, and the rung is being tried on another one.
    Trial,
    /// The ladder's own budget.
    LadderBudget,
    /// As many pods of the controller as may be are being restarted.
    WorkloadLimit,
    /// The limit of the namespace.
    NamespaceLimit,
    /// The limit of the cluster.
    ClusterLimit,
    /// A disruption budget forbids the eviction, or there is no other node.
    Eviction,
    /// Most pods of the node ended together.
    Node,
}

impl RestartLedger {
    /// Whether it is of the pods of a workload.
    pub fn is_of_group(&self) -> bool {
        match self.spec.scope {
            Some(LadderScope::Group) => true,
            Some(LadderScope::Pod) | None => false,
        }
    }

    /// What is known of the pod with this UID, when it is of a group.
    pub fn member(&self, pod_uid: &str) -> Option<&LedgerMember> {
        let members = self.status.iter().flat_map(|status| status.members.iter().flatten());
        { members }.find(|member| member.pod_uid == pod_uid)
    }

    /// When something was decided last, as far as it is remembered.
    pub fn last_decided(&self) -> Option<Tick> {
        let decisions = self.status.iter().flat_map(|status| status.decisions.iter().flatten());
        decisions.map(|decision| Tick::from(&decision.at)).max()
    }
}

impl RestartLedgerStatus {
    /// The decisions that asked for a PodRestart, as far as they are remembered, the oldest first.
    pub fn asked(&self) -> impl DoubleEndedIterator<Item = &LedgerDecision> {
        self.decisions.iter().flatten().filter(|decision| decision.pod_restart.is_some())
    }
}

impl HoldReason {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Futile,
        Self::Revision,
        Self::Trial,
        Self::LadderBudget,
        Self::WorkloadLimit,
        Self::NamespaceLimit,
        Self::ClusterLimit,
        Self::Eviction,
        Self::Node,
    ];

    /// As the API has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Futile => "Futile",
            Self::Revision => "Revision",
            Self::Trial => "Trial",
            Self::LadderBudget => "LadderBudget",
            Self::WorkloadLimit => "WorkloadLimit",
            Self::NamespaceLimit => "NamespaceLimit",
            Self::ClusterLimit => "ClusterLimit",
            Self::Eviction => "Eviction",
            Self::Node => "Node",
        }
    }
}

/// How often a rung was tried inside the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RungAttempts")]
pub struct RungAttempts {
    /// The rung.
    pub rung: Rung,
    /// When each attempt inside the window was decided, oldest first.
    pub at: Vec<MicroTime>,
}

/// One pod of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.LedgerMember")]
pub struct LedgerMember {
    /// The pod.
    pub pod_name: String,
    /// Its UID: a later pod of that name is counted anew.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The failures of its containers that were counted.
    #[serde(default)]
    pub failures: u64,
    /// When one was counted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<MicroTime>,
    /// What that was, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// As `observed` of a single pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Vec<ObservedContainer>>,
}

/// How far a container's failures were accounted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.ObservedContainer")]
pub struct ObservedContainer {
    /// The container.
    pub name: String,
    /// The attempts (starts) whose end was counted: 1 more than the highest attempt that is known
    /// to have ended.
    pub ended_attempts: u32,
    /// The attempt (counted from 0, as restartCount) that a PodRestart ends: its end is no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excused_attempt: Option<u32>,
}

impl LedgerDecision {
    /// Whether a restart above Container was only noted: an operator that acts asks for a
    /// PodRestart in the same decision.
    pub fn is_dry_run(&self) -> bool {
        self.pod_restart.is_none() && self.rung.is_some_and(|rung| rung > Rung::Container)
    }
}

/// One decision, with its reason. The same decision again raises the count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.LedgerDecision")]
pub struct LedgerDecision {
    /// When it was taken last.
    pub at: MicroTime,
    /// When it was taken first in this row; absent when it was taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<MicroTime>,
    /// The rung it chose; absent for a decision to hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// Why.
    pub reason: String,
    /// How often in a row.
    #[schemars(range(min = 1))]
    pub count: u32,
    /// The PodRestart it created, when it created one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_restart: Option<String>,
    /// How that PodRestart ended: the ledger remembers it longer than the request is kept. Absent
    /// while it is not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RestartOutcome>,
}
