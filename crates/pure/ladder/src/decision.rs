//! What goes into a decision and what comes out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::v1alpha1::{
    EmptyDirPolicy, PodRestart, PodRestartSpec, RestartLedgerStatus, RestartWorkload, Rung,
};
use rekindle_types::{EventSeverity, Tick};

use crate::{
    LadderAuthority, LadderPolicy, LadderSubject, LimitUsage, Occupancy, RestartLimits,
    RevisionPeers,
};

/// What is known when a decision is taken.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The time.
    pub now: Tick,
    /// The ladder.
    pub policy: &'a LadderPolicy,
    /// The pod, or the pods of a group, with their status.
    pub subject: LadderSubject<'a>,
    /// The status of its ledger as last written; none when there is no ledger yet.
    pub ledger: Option<&'a RestartLedgerStatus>,
    /// The PodRestarts that name this pod, whoever made them, finished ones too.
    pub restarts: &'a [&'a PodRestart],
    /// What the ladder's other pods take of its budget.
    pub others: &'a Occupancy,
    /// What restarts of other ladders' pods take of the limits.
    pub crowd: &'a LimitUsage,
    /// The limits over all ladders.
    pub limits: &'a RestartLimits,
    /// What the pod's peers do, when it fails itself.
    pub peers: &'a RevisionPeers,
    /// The revision that a Rollback would go back to; none when there is none that was healthy, or
    /// nothing to go back from.
    pub rollback: Option<&'a RollbackTarget>,
    /// What may be done for the pod.
    pub authority: LadderAuthority,
}

/// A revision of a Deployment that was healthy, before the one that the pod is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackTarget {
    /// The Deployment.
    pub deployment: String,
    /// The number of the revision.
    pub revision: i64,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct RestartDecision {
    /// The ledger's next status; equal to the old one (or blank, when there was none) if nothing
    /// changed. To be written before the action is carried out.
    pub ledger: RestartLedgerStatus,
    /// What to do.
    pub action: LadderAction,
    /// What to say about the pod.
    pub events: Vec<LadderEvent>,
    /// When to decide again although nothing changed.
    pub again_at: Option<Tick>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum LadderAction {
    /// Nothing.
    None,
    /// Create this PodRestart.
    Restart(PodRestartPlan),
    /// End the pod as Failed, with this message and reason `LadderExhausted`.
    Fail {
        /// For people.
        message: String,
    },
}

/// A PodRestart to create.
#[derive(Clone, Debug, PartialEq)]
pub struct PodRestartPlan {
    /// Its name. The same decision always has the same one.
    pub name: String,
    /// The pod, or the group.
    pub target: RestartTarget,
    /// What is restarted.
    pub rung: Rung,
    /// Of a Pod restart: what becomes of emptyDir volumes; absent for the default.
    pub empty_dirs: Option<EmptyDirPolicy>,
    /// Of a Reschedule: how long the node is avoided; absent for the default.
    pub avoid_node_for: Option<String>,
    /// The ladder that asks.
    pub ladder_name: String,
    /// Why, for people.
    pub reason: String,
}

/// What a PodRestart of a ladder is for.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartTarget {
    /// This very pod, not a later one of the same name.
    Pod {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// The pods of a workload, as one.
    Group {
        /// The selector of the ladder.
        selector: LabelSelector,
        /// Only its pods.
        workload: RestartWorkload,
    },
}

impl PodRestartPlan {
    /// The `spec` of the PodRestart. The pod's own grace period holds.
    pub fn spec(&self) -> PodRestartSpec {
        let (pod_name, pod_uid, selector, workload) = match &self.target {
            RestartTarget::Pod { name, uid } => (name.clone(), Some(uid.clone()), None, None),
            RestartTarget::Group { selector, workload } => {
                (String::new(), None, Some(selector.clone()), Some(workload.clone()))
            }
        };
        PodRestartSpec {
            pod_name,
            pod_uid,
            selector,
            workload,
            member_of: None,
            rung: Some(self.rung),
            container_name: None,
            empty_dirs: self.empty_dirs,
            reason: Some(self.reason.clone()),
            avoid_node_for: self.avoid_node_for.clone(),
            ladder_name: Some(self.ladder_name.clone()),
            grace_period_seconds: None,
            fast: None,
            deadline_seconds: None,
            ttl_seconds_after_finished: None,
        }
    }
}

/// An Event about the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderEvent {
    /// Normal or Warning.
    pub severity: EventSeverity,
    /// One of `rekindle_types::reasons::event::LADDER_*`.
    pub reason: &'static str,
    /// For people; at most 1 KiB.
    pub message: String,
    /// What kind of decision it tells of: the rung, or what is waited for. Those of one kind are
    /// counted together.
    pub kind: &'static str,
}
