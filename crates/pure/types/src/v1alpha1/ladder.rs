//! RestartLadder: for the pods it selects, what to try when restarting a container does not help.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LADDER_WINDOW_DEFAULT, api_object, schema_rules};
use crate::Tick;
use crate::labels::{self, Labels};

/// RestartLadder says, for the pods that its selector matches, which restarts to try one after the
/// other, how often, and what to do when none helps. A pod that no ladder selects behaves exactly
/// as Kubernetes says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartLadder", extend("required" = ["spec"]))]
pub struct RestartLadder {
    /// APIVersion is rekindle.dev/v1alpha1.
    #[serde(default)]
    pub api_version: String,
    /// Kind is RestartLadder.
    #[serde(default)]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to try.
    #[serde(default)]
    pub spec: RestartLadderSpec,
    /// What was seen of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RestartLadderStatus>,
}
api_object!(RestartLadder, "RestartLadder", "RestartLadderList", "restartladders");

impl RestartLadder {
    /// Whether it selects pods of its namespace that have these labels. With an empty selector it
    /// selects nothing, nor while it is being deleted.
    pub fn selects(&self, labels: Option<&Labels>) -> bool {
        self.is_at_work() && labels::matches(&self.spec.selector, labels)
    }

    /// Whether it may select anything.
    pub fn is_at_work(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && !labels::is_empty(&self.spec.selector)
    }

    /// Of those that select a pod the first by this decides for it: the oldest, then the first by
    /// name. One that was not stored yet is the youngest, and a name that is still to be generated
    /// comes last.
    pub fn seniority(&self) -> (Tick, bool, &str) {
        let created = self.metadata.creation_timestamp.as_ref();
        let name = self.metadata.name.as_deref().unwrap_or_default();
        (created.map_or(Tick::from_micros(u64::MAX), Tick::from), name.is_empty(), name)
    }
}

/// What a ladder tries, on which pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartLadderSpec", extend("required" = ["selector", "rungs"]), extend("x-kubernetes-validations" = [
    {"rule": schema_rules::GROUP_ROLLBACK_RULE, "message": schema_rules::GROUP_ROLLBACK_MESSAGE,
      "fieldPath": ".rungs", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::GROUP_FAIL_RULE, "message": schema_rules::GROUP_FAIL_MESSAGE,
      "fieldPath": ".onExhausted", "reason": "FieldValueForbidden"}
]))]
pub struct RestartLadderSpec {
    /// The pods, in the ladder's own namespace. It may not be empty: a ladder never selects
    /// everything by mistake. When several ladders select a pod, the oldest counts, then the first
    /// by name.
    // One selector is one thing: of two that apply a part of it each, neither would get the pods it
    // meant.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"), extend("x-kubernetes-validations" = [
        {"rule": schema_rules::SELECTOR_RULE, "message": schema_rules::SELECTOR_MESSAGE, "reason": "FieldValueRequired"}
    ]))]
    pub selector: LabelSelector,
    /// What fails and is restarted as one: each pod by itself, or all pods of a workload that the
    /// selector matches. Default Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = LadderScope::default()))]
    pub scope: Option<LadderScope>,
    /// Attempts count inside this window, and running stably this long clears them. A duration such
    /// as 90s, 10m or 1h30m. Default 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema_rules::SPAN), length(max = 32), extend("default" = LADDER_WINDOW_DEFAULT), extend("x-kubernetes-validations" = [
        {"rule": schema_rules::SPAN_RULE, "message": schema_rules::SPAN_MESSAGE}
    ]))]
    pub window: Option<String>,
    /// The rungs from the mildest on: each rung at most once, in the order Container, Containers,
    /// Pod, Recreate, Reschedule, Rollback.
    #[serde(default)]
    // A rung is its own key and not a part of an atomic list: then no server takes it twice, also
    // one that knows no expressions, and what somebody else applies to one rung (its attempts, say)
    // leaves the others alone. Where two that apply rungs make a list that is out of order, the
    // rule refuses it.
    #[schemars(length(min = 1, max = 6), extend("x-kubernetes-validations" = [
        {"rule": schema_rules::ORDER_RULE, "message": schema_rules::ORDER_MESSAGE}
    ]))]
    pub rungs: Vec<LadderRung>,
    /// How many pods of this ladder may be on a voluntary rung at once, and how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<LadderBudget>,
    /// What to do when every rung was tried: Hold leaves the pod to Kubernetes' own backoff, Fail
    /// ends it as Failed. Default Hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = OnExhausted::default()))]
    pub on_exhausted: Option<OnExhausted>,
}

impl RestartLadderSpec {
    /// What fails and is restarted as one, by default where it is not said.
    pub fn scope(&self) -> LadderScope {
        self.scope.unwrap_or_default()
    }
}

/// What fails and is restarted as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.LadderScope")]
pub enum LadderScope {
    /// Each pod has a ledger of its own.
    #[default]
    Pod,
    /// The pods of one workload share a ledger. One that fails makes the ladder restart all.
    Group,
}

/// One rung with its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.LadderRung", extend("x-kubernetes-validations" = [
    {"rule": schema_rules::EMPTY_DIRS_RULE, "message": schema_rules::EMPTY_DIRS_MESSAGE,
      "fieldPath": ".emptyDirs", "reason": "FieldValueForbidden"},
    {"rule": schema_rules::AVOIDANCE_RULE, "message": schema_rules::AVOIDANCE_MESSAGE,
      "fieldPath": ".avoidNodeFor", "reason": "FieldValueForbidden"}
]))]
pub struct LadderRung {
    /// What is restarted.
    pub rung: Rung,
    /// How often it is tried inside the window before the next rung's turn; 1..=1000. Default 1.
    // No default in the schema: what a server fills in inside a list looks like a change to a
    // client that compares the lists, and a file that leaves it out would be a change each time it
    // is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub attempts: Option<u32>,
    /// Of a Pod rung: what becomes of the contents of emptyDir volumes. Default Clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dirs: Option<EmptyDirPolicy>,
    /// Of a Reschedule rung: how long the node is avoided. A duration; default 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema_rules::SPAN), length(max = 32), extend("x-kubernetes-validations" = [
        {"rule": schema_rules::SPAN_RULE, "message": schema_rules::SPAN_MESSAGE}
    ]))]
    pub avoid_node_for: Option<String>,
}

/// What a restart throws away. The order is the order of the ladder.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "dev.rekindle.v1alpha1.Rung")]
pub enum Rung {
    /// One container's process and writable layer, with exactly the kubelet's backoff.
    Container,
    /// All containers; init containers run again; the sandbox stays (KEP-5532).
    Containers,
    /// Also the sandbox: network, IPC, UTS and PID namespaces, cgroup, and the contents of emptyDir
    /// volumes.
    Pod,
    /// The Pod object itself, through the Eviction API.
    Recreate,
    /// The same, and the node is avoided for a while.
    Reschedule,
    /// The Deployment's new revision, when the one before was healthy.
    Rollback,
}

/// What a whole-pod restart does with the contents of emptyDir volumes. All else that containers
/// share (namespaces, cgroup) belongs to the sandbox, which is always a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.EmptyDirPolicy")]
pub enum EmptyDirPolicy {
    /// The containers find empty volumes.
    #[default]
    Clear,
    /// The containers find what the earlier ones left.
    Keep,
}

/// The limits that keep a ladder from making an outage worse.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.LadderBudget")]
pub struct LadderBudget {
    /// Pods of this ladder on a rung above Container at the same time. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent: Option<u32>,
    /// Restarts above Container per minute over all pods of this ladder. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub per_minute: Option<u32>,
}

/// What happens when every rung was tried in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.OnExhausted")]
pub enum OnExhausted {
    /// Nothing more: the container's own backoff goes on.
    #[default]
    Hold,
    /// The pod is ended as Failed.
    Fail,
}

/// What was seen of a ladder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartLadderStatus")]
pub struct RestartLadderStatus {
    /// The generation that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted: the spec can be carried out here, or why not. Overlapped: an older ladder decides
    /// for pods that this one selects; absent when that has never been so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// Who carries a rung out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedOutBy {
    /// The node that runs the pod: the Pod object stays.
    Node,
    /// The operator, through the API.
    Operator,
}

impl Rung {
    /// All of them, the mildest first.
    pub const ALL: [Rung; 6] = [
        Rung::Container,
        Rung::Containers,
        Rung::Pod,
        Rung::Recreate,
        Rung::Reschedule,
        Rung::Rollback,
    ];

    /// Who carries it out.
    pub const fn carried_out_by(self) -> CarriedOutBy {
        match self {
            Rung::Container | Rung::Containers | Rung::Pod => CarriedOutBy::Node,
            Rung::Recreate | Rung::Reschedule | Rung::Rollback => CarriedOutBy::Operator,
        }
    }

    /// The name as the API spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Container => "Container",
            Rung::Containers => "Containers",
            Rung::Pod => "Pod",
            Rung::Recreate => "Recreate",
            Rung::Reschedule => "Reschedule",
            Rung::Rollback => "Rollback",
        }
    }
}

impl std::fmt::Display for Rung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
