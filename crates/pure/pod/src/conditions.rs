//! `status.conditions` that the node owns, with the kubelet's words
//! (`pkg/kubelet/status/generate.go`).
//!
//! Conditions of others (readiness gates, DisruptionTarget, …) are passed on as the API has them. A
//! transition time changes only with the status of its condition. Every condition says how the pod
//! is now. Initialized, too, is False again while init containers run again, in a new sandbox or in
//! a restart of all containers: by it kubectl tells Init:CrashLoopBackOff.

use k8s_openapi::api::core::v1::{PodCondition, PodReadinessGate, PodStatus};
use rekindle_types::v1alpha1::Rung;

use crate::blueprint::RoleInPod;
use crate::containers::PodContainer;
use crate::journal::{Ground, RestartRecord, RestartStage};
use crate::phase;
use crate::resize;
use crate::status_view::StatusView;
use crate::texts;

const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
/// Written by the node when it ends a pod, by others when they do; passed on otherwise.
const DISRUPTION: &str = "DisruptionTarget";
/// Its reason when the node does.
const BY_NODE: &str = "TerminationByKubelet";
const ALL_RESTARTING: &str = "AllContainersRestarting";
const OWNED: [&str; 6] =
    [READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, ALL_RESTARTING];

/// Whether the node writes conditions of this type. Those of others are passed on, and readiness
/// gates look at them.
pub fn owns_condition(type_: &str) -> bool {
    OWNED.contains(&type_) || resize::OWNED.contains(&type_)
}

/// Whether a node wrote this one. DisruptionTarget is the node's when it says that the node ended
/// the pod: the core passes it on as long as it tells of that, and a static pod that runs anew
/// after a shutdown has a mirror that shows that of its run before.
pub(crate) fn is_of_node(condition: &PodCondition) -> bool {
    let by_node = condition.reason.as_deref() == Some(BY_NODE);
    owns_condition(&condition.type_) || (condition.type_ == DISRUPTION && by_node)
}

/// What a condition says, before it is compared with what it said before.
struct ConditionDraft {
    type_: &'static str,
    status: &'static str,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl ConditionDraft {
    const fn yes(type_: &'static str) -> Self {
        Self { type_, status: "True", reason: None, message: None }
    }

    const fn no(type_: &'static str, reason: Option<&'static str>) -> Self {
        Self { type_, status: "False", reason, message: None }
    }

    /// The same under another name.
    fn renamed(&self, type_: &'static str) -> Self {
        Self { type_, status: self.status, reason: self.reason, message: self.message.clone() }
    }
}

impl StatusView<'_> {
    /// All conditions for a pod in `phase`; `before` is the status as it was.
    pub(crate) fn conditions(&self, phase: &str, before: &PodStatus) -> Vec<PodCondition> {
        let of_api =
            self.context.desired.api_status().and_then(|status| status.conditions.as_deref());
        let of_others = of_api.unwrap_or_default().iter();
        let mut conditions: Vec<PodCondition> =
            of_others.filter(|c| !owns_condition(&c.type_)).cloned().collect();
        let disruption = self.disruption(phase);
        // a pod that fails is no longer one to send requests to, though it may still run
        let phase = if self.fails() { phase::FAILED } else { phase };
        if disruption.is_some() {
            conditions.retain(|condition| condition.type_ != DISRUPTION);
        }
        let containers_ready = self.containers_ready(phase);
        let verdicts = [
            Some(self.ready_to_start()),
            Some(self.initialized(phase)),
            Some(self.ready(&containers_ready, &conditions)),
            Some(containers_ready),
            self.all_restarting(phase, before),
            disruption,
        ];
        for verdict in verdicts.into_iter().flatten() {
            let as_it_was = find(before, verdict.type_);
            conditions.push(self.dated(verdict, as_it_was));
        }
        // it was the scheduler's until the node took the pod up: since when it is True is in the
        // API
        let scheduled =
            find(before, SCHEDULED).or_else(|| of_api?.iter().find(|c| c.type_ == SCHEDULED));
        conditions.push(self.dated(ConditionDraft::yes(SCHEDULED), scheduled));
        if self.context.lifecycle.is_active() {
            conditions.extend(resize::conditions(self.context.resize, before, self.context.now));
        }
        conditions.shrink_to_fit(); // they are kept as long as nothing changes
        conditions
    }

    /// What the node itself does to a pod that fails by no fault of its own. It is told with the
    /// phase.
    fn disruption(&self, phase: &str) -> Option<ConditionDraft> {
        if phase != phase::FAILED {
            return None;
        }
        match self.context.lifecycle.failure_ground()? {
            Ground::Node => {}
            Ground::Pod | Ground::NotAdmitted => return None,
        }
        let (_, message) = self.reason(phase, None);
        let reason = Some(BY_NODE);
        Some(ConditionDraft { reason, message, ..ConditionDraft::yes(DISRUPTION) })
    }

    /// For the generation that is seen now; since when it is so is kept from `before`, which is the
    /// same condition as it was.
    fn dated(&self, verdict: ConditionDraft, before: Option<&PodCondition>) -> PodCondition {
        let same = before.filter(|c| c.status == verdict.status);
        PodCondition {
            last_probe_time: None,
            last_transition_time: match same {
                Some(condition) => condition.last_transition_time.clone(),
                None => Some(self.context.now.to_time()),
            },
            message: verdict.message,
            observed_generation: self.context.desired.pod().metadata.generation,
            reason: verdict.reason.map(str::to_owned),
            status: verdict.status.to_owned(),
            type_: verdict.type_.to_owned(),
        }
    }

    fn ready_to_start(&self) -> ConditionDraft {
        if self.context.sandboxes.is_ready() {
            ConditionDraft::yes(READY_TO_START)
        } else {
            ConditionDraft::no(READY_TO_START, None)
        }
    }

    /// As `GeneratePodInitializedCondition` of the kubelet: a regular container that shows a start
    /// says more than a sidecar that is between two starts.
    fn initialized(&self, phase: &str) -> ConditionDraft {
        if phase == phase::SUCCEEDED {
            return ConditionDraft {
                reason: Some("PodCompleted"),
                ..ConditionDraft::yes(INITIALIZED)
            };
        }
        let mut regular = self.containers.iter().filter(|c| c.role() == RoleInPod::Regular);
        if regular.any(PodContainer::shows_start) {
            return ConditionDraft::yes(INITIALIZED);
        }
        match names(self.containers.iter().filter(|c| !c.shows_initialized())) {
            Some(list) => ConditionDraft {
                message: Some(format!("containers with incomplete status: {list}")),
                ..ConditionDraft::no(INITIALIZED, Some("ContainersNotInitialized"))
            },
            None => ConditionDraft::yes(INITIALIZED),
        }
    }

    fn containers_ready(&self, phase: &str) -> ConditionDraft {
        match phase {
            phase::SUCCEEDED => return ConditionDraft::no(CONTAINERS_READY, Some("PodCompleted")),
            phase::FAILED => return ConditionDraft::no(CONTAINERS_READY, Some("PodFailed")),
            _ => {}
        }
        let counts = |role: RoleInPod| match role {
            RoleInPod::Init | RoleInPod::Ephemeral => false,
            RoleInPod::Sidecar | RoleInPod::Regular => true,
        };
        let unready = self.containers.iter().filter(|c| counts(c.role()) && !c.is_ready());
        match names(unready) {
            Some(list) => ConditionDraft {
                message: Some(format!("containers with unready status: {list}")),
                ..ConditionDraft::no(CONTAINERS_READY, Some("ContainersNotReady"))
            },
            None => ConditionDraft::yes(CONTAINERS_READY),
        }
    }

    fn ready(
        &self,
        containers_ready: &ConditionDraft,
        conditions: &[PodCondition],
    ) -> ConditionDraft {
        if containers_ready.status != "True" {
            return containers_ready.renamed(READY);
        }
        let gates = self
            .context
            .desired
            .pod()
            .spec
            .as_ref()
            .and_then(|spec| spec.readiness_gates.as_deref());
        let complaints: Vec<String> = gates
            .unwrap_or_default()
            .iter()
            .filter_map(|gate| gate_complaint(gate, conditions))
            .collect();
        if complaints.is_empty() {
            return ConditionDraft::yes(READY);
        }
        ConditionDraft {
            message: Some(complaints.join(", ")),
            ..ConditionDraft::no(READY, Some("ReadinessGatesNotReady"))
        }
    }

    /// True while a restart of all containers ends them, False from then on; absent in a pod that
    /// never had one and whose rules know none.
    fn all_restarting(&self, phase: &str, before: &PodStatus) -> Option<ConditionDraft> {
        let restart = self.context.restarts.current();
        if let Some(RestartRecord { cause, stage: RestartStage::Stopping { .. }, .. }) = restart
            && cause.rung() == Rung::Containers
        {
            return Some(ConditionDraft {
                reason: Some("RestartAllContainersStarted"),
                message: Some(texts::why_all_restart(cause)),
                ..ConditionDraft::yes(ALL_RESTARTING)
            });
        }
        let possible = self.containers.iter().any(|c| c.definition().may_restart_all());
        if !possible {
            find(before, ALL_RESTARTING)?;
        }
        let reason = match phase {
            phase::SUCCEEDED => Some("PodCompleted"),
            phase::FAILED => Some("PodFailed"),
            _ => None,
        };
        Some(ConditionDraft::no(ALL_RESTARTING, reason))
    }
}

fn find<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Names as Go prints a list: `[a b]`; `None` when there are none.
fn names<'a>(containers: impl Iterator<Item = &'a PodContainer>) -> Option<String> {
    let names: Vec<&str> = containers.map(|c| c.name().0.as_str()).collect();
    if names.is_empty() { None } else { Some(format!("[{}]", names.join(" "))) }
}

fn gate_complaint(gate: &PodReadinessGate, conditions: &[PodCondition]) -> Option<String> {
    let type_ = &gate.condition_type;
    match conditions.iter().find(|condition| condition.type_ == *type_) {
        None => Some(format!(
            "corresponding condition of pod readiness gate \"{type_}\" does not exist."
        )),
        Some(condition) if condition.status == "True" => None,
        Some(condition) => Some(format!(
            "the status of pod readiness gate \"{type_}\" is not \"True\", but {}",
            condition.status
        )),
    }
}
