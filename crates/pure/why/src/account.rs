//! What is told: the documented shape of `rekindle why -o json`, and what the text is made from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_diagnosis::Cause;
use rekindle_types::v1alpha1::{LedgerPhase, Rung, RungAttempts};
use serde::Serialize;

/// The account of one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Pod, Node, or what makes pods: CronJob, DaemonSet, Deployment, Job, ReplicaSet,
    /// ReplicationController, StatefulSet.
    pub kind: String,
    /// Its namespace; absent for a Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// How it does.
    pub state: AccountState,
    /// The answer in one sentence.
    pub summary: String,
    /// The containers of a pod that have something to tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerAccount>,
    /// Of a pod that no node has taken: the nodes that are closed to it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ClosedNodes>,
    /// What happened, oldest first, repeats folded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
    /// Where the pod is on its ladder; absent when no ladder has anything to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ladder: Option<LadderAccount>,
    /// What comes next, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextEvent>,
    /// What would help, most likely first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Of a workload or a node: its pods that are not well, alike ones folded into one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodGroup>,
}

/// How a target does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum AccountState {
    /// It does what it should.
    Healthy,
    /// It ran to its end and succeeded.
    Completed,
    /// It is not there any more; what it left tells of it.
    Gone,
    /// It is on its way, and nothing is known to be wrong.
    Starting,
    /// It is being deleted.
    Terminating,
    /// A pod that was well when that could be told last: a probe of it cannot be run.
    Unchecked,
    /// A node that is ready and does not take all pods: it is cordoned, tainted, or short of
    /// something.
    Restricted,
    /// It runs and does not take traffic: a readiness probe or gate says no.
    NotReady,
    /// It cannot begin: no node takes it, its sandbox, a volume, an image or its configuration is
    /// missing.
    Blocked,
    /// A container fails again and again.
    Failing,
    /// It ended and stays so.
    Failed,
}

/// What a container has to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerAccount {
    /// The container.
    pub name: String,
    /// What is the matter.
    pub cause: Cause,
    /// The same in words, as a sentence goes on after its name.
    pub what: String,
    /// How often it ended, as far as the pod's status counts.
    pub ends: u32,
    /// The code of its last end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that the code stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The reason that the API gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<Time>,
    /// What the cgroup of its memory said at that end, when it was killed for lack of memory and
    /// the runtime tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryAccount>,
    /// What else speaks for it: termination message, probe output, messages of the runtime.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The last lines that the dead container wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// Nodes that are closed to a pod for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedNodes {
    /// Why.
    pub why: String,
    /// Their names in order; at most three.
    pub names: Vec<String>,
    /// How many they are.
    pub count: usize,
}

/// The memory of a container when it was killed for lack of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryAccount {
    /// Its processes that the kernel killed for that, in its last run.
    pub oom_kills: u64,
    /// The limit in force then; absent when it had none of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The most that it used at once in that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

/// Who says that something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum HistorySource {
    /// The object's status.
    Status,
    /// An Event.
    Event,
    /// The RestartLedger.
    Ladder,
    /// A PodRestart.
    PodRestart,
}

/// One thing that happened, once or again and again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// When it was seen first, as far as is known.
    pub first: Time,
    /// When it was seen last.
    pub last: Time,
    /// How often.
    pub count: u32,
    /// Seconds from one to the next on average; absent for what happened once, or so often that the
    /// first is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u64>,
    /// Who says so.
    pub source: HistorySource,
    /// What; of repeats that differ in numbers only, the last.
    pub what: String,
}

/// Where a pod is on its ladder.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LadderAccount {
    /// The ladder.
    pub name: String,
    /// What it does now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<LedgerPhase>,
    /// The rung it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// The rung that is due and held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_rung: Option<Rung>,
    /// Why, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Failures since the ledger was made.
    pub failures_total: u64,
    /// Attempts inside the window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<RungAttempts>,
    /// Of a ladder for groups: the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What happened to each pod of the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberAccount>,
}

/// What happened to one pod of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberAccount {
    /// The pod.
    pub pod: String,
    /// Its failures that were counted.
    pub failures: u64,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextEvent {
    /// When, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// What.
    pub what: String,
}

/// Pods of a workload or node that are in the same state for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroup {
    /// How they do.
    pub state: AccountState,
    /// Why, numbers as of the first of them.
    pub summary: String,
    /// The pods, in order of their names; at most 10 are named. Those of a node as NAMESPACE/NAME.
    pub names: Vec<String>,
    /// How many they are.
    pub count: usize,
    /// What one of them has to tell: evidence, last lines, ladder, what is next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<ExamplePod>,
    /// What would help them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// One pod of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExamplePod {
    /// The pod, named as in its group.
    pub name: String,
    /// Its containers that have something to tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerAccount>,
    /// The nodes that are closed to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ClosedNodes>,
    /// Where it is on its ladder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ladder: Option<LadderAccount>,
    /// What comes next of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextEvent>,
}
