//! What a pod's spec and status say of its containers, in the ladder's terms. Ephemeral containers
//! are left out: nothing restarts them.

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use rekindle_diagnosis::{
    ContainerEnd, ContainerRestartPolicy, ContainerWait, RestartTerms, SandboxAtEnd, StartedBy,
    TerminatedReason,
};
use rekindle_types::Tick;
use rekindle_types::held::{HeldContainer, HeldContainerState, HeldContainerStatus, HeldPod};
use rekindle_types::owners::is_controlled_by;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::pods::{self, AnyContainer};
use rekindle_types::restart_rules::RuleAction;
use rekindle_types::v1alpha1::Rung;

use crate::LadderGroup;

/// The reason of condition Ready from the moment in which a node ends a pod as failed: its phase
/// says so when nothing of it runs any more.
const POD_FAILED: &str = "PodFailed";
/// The condition of a pod whose containers are all being restarted (KEP-5532).
const ALL_RESTARTING: &str = "AllContainersRestarting";

/// A pod as the ladder sees it.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPod<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// The pods that it is of: one, unless a group is decided for as one.
    pub(crate) members: Vec<ObservedMember<'a>>,
    /// When it was created.
    pub(crate) created: Option<Tick>,
    pub(crate) course: PodCourse,
    /// Rungs that cannot be carried out for it.
    pub(crate) impossible: &'static [Rung],
    pub(crate) shown: PodObject,
    /// Since when it has had no sandbox, while nothing runs and it is on a node.
    pub(crate) no_sandbox_since: Option<Tick>,
    /// Init containers, then regular ones, as in the spec.
    pub(crate) containers: Vec<ContainerView<'a>>,
}

/// What is known of one pod, beside its containers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedMember<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// Since when its node has had it; its creation while that is not known.
    pub(crate) since: Option<Tick>,
    pub(crate) sandbox: SandboxAtEnd,
    /// Since when its node has been ending all of its containers to start them again, in the
    /// sandbox that stands.
    pub(crate) all_restarting_since: Option<Tick>,
}

/// What the object in the API is of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodObject {
    /// The pod itself.
    Itself,
    /// The mirror of a static pod: what is written to it ends nothing, and its node writes over it.
    Mirror,
    /// Several pods, decided for as one.
    Group,
}

/// Whether anything is left to be decided for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodCourse {
    /// It runs, or is on its way to.
    Open,
    /// It is being ended: deleted, or as failed.
    Over,
    /// It has finished, and its object stays to be looked at.
    Finished(FinalPhase),
}

/// How a pod has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalPhase {
    Succeeded,
    Failed,
}

/// One container.
#[derive(Clone, Debug)]
pub(crate) struct ContainerView<'a> {
    /// As sentences name it: `POD/CONTAINER` in a group.
    pub(crate) name: &'a str,
    /// As its pod names it.
    pub(crate) own_name: &'a str,
    /// Which of the pods it is of.
    pub(crate) member: usize,
    pub(crate) role: ContainerRole,
    /// On which terms it is started again.
    pub(crate) terms: RestartTerms,
    /// How many of its attempts have ended: one more than the highest attempt that did.
    pub(crate) ended: u32,
    /// The attempt that runs.
    pub(crate) live: Option<LiveAttempt>,
    /// How the last ended attempt ended, if that is known.
    pub(crate) last_end: Option<ContainerEnd<'a>>,
    pub(crate) waiting: Option<ContainerWait<'a>>,
    pub(crate) ready: bool,
    pub(crate) image: &'a str,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveAttempt {
    /// Which, counted from 0.
    pub(crate) attempt: u32,
    pub(crate) started_at: Option<Tick>,
}

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRole {
    /// Runs to its end before the others.
    Init,
    /// An init container with restartPolicy Always.
    Sidecar,
    /// One of `spec.containers`.
    Regular,
}

impl<'a> ObservedPod<'a> {
    pub(crate) fn from_pod(pod: &'a HeldPod) -> Self {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let of_pod = spec.and_then(|spec| spec.restart_policy.as_deref());
        let statuses = |list: Option<&'a Vec<HeldContainerStatus>>| list.into_iter().flatten();
        let init = statuses(status.and_then(|s| s.init_container_statuses.as_ref()));
        let regular = statuses(status.and_then(|s| s.container_statuses.as_ref()));
        let init_spec = spec.into_iter().flat_map(|s| s.init_containers.iter());
        let containers: Vec<ContainerView<'a>> = init_spec
            .map(|container| (container, init_role(container), init.clone()))
            .chain(
                spec.into_iter()
                    .flat_map(|s| s.containers.iter())
                    .map(|container| (container, ContainerRole::Regular, regular.clone())),
            )
            .map(|(container, role, mut list)| {
                let status = list.find(|status| status.name == container.name);
                let terms = match role {
                    ContainerRole::Init | ContainerRole::Sidecar => {
                        RestartTerms::from_init(container, of_pod)
                    }
                    ContainerRole::Regular => RestartTerms::from_regular(container, of_pod),
                };
                ContainerView::new(container, role, terms, status)
            })
            .collect();
        let created = pod.metadata.creation_timestamp.as_ref();
        let deleted = pod.metadata.deletion_timestamp.is_some();
        let condition_of = |type_: &str| {
            status.and_then(|s| s.conditions.iter().flatten().find(|c| c.type_ == type_))
        };
        let fails = condition_of("Ready").is_some_and(|c| c.reason.as_deref() == Some(POD_FAILED));
        let condition = condition_of("PodReadyToStartContainers");
        let sandbox = match condition {
            Some(condition) if condition.status == "False" => SandboxAtEnd::Missing,
            Some(_) | None => SandboxAtEnd::Stands,
        };
        let has_node = pod.node_name.is_some();
        let nothing_runs = containers.iter().all(|container| container.live.is_none());
        let no_sandbox_since = condition
            .filter(|_| sandbox == SandboxAtEnd::Missing && has_node && nothing_runs)
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(Tick::from);
        ObservedPod {
            name: pod.metadata.name.as_deref().unwrap_or_default(),
            uid: pod.metadata.uid.as_deref().unwrap_or_default(),
            members: vec![ObservedMember {
                name: pod.metadata.name.as_deref().unwrap_or_default(),
                uid: pod.metadata.uid.as_deref().unwrap_or_default(),
                since: status.and_then(|s| s.start_time.as_ref()).or(created).map(Tick::from),
                sandbox,
                all_restarting_since: condition_of(ALL_RESTARTING)
                    .filter(|condition| condition.status == "True")
                    .and_then(|condition| condition.last_transition_time.as_ref())
                    .map(Tick::from),
            }],
            created: created.map(Tick::from),
            course: match pods::phase(pod) {
                _ if deleted => PodCourse::Over,
                "Succeeded" => PodCourse::Finished(FinalPhase::Succeeded),
                "Failed" => PodCourse::Finished(FinalPhase::Failed),
                _ if fails => PodCourse::Over,
                _ => PodCourse::Open,
            },
            impossible: impossible(pod),
            shown: if is_mirror(pod) { PodObject::Mirror } else { PodObject::Itself },
            no_sandbox_since,
            containers,
        }
    }

    /// The pods of a group as if they were one: it runs when all do, and lacks a sandbox when one
    /// does.
    pub(crate) fn from_group(group: &'a LadderGroup<'a>) -> Self {
        let mut whole = ObservedPod {
            name: &group.stem,
            uid: &group.uid,
            members: Vec::new(),
            created: None,
            course: PodCourse::Over,
            impossible: &[],
            shown: PodObject::Group,
            no_sandbox_since: None,
            containers: Vec::new(),
        };
        for member in &group.members {
            let pod = ObservedPod::from_pod(member.pod);
            match pod.course {
                PodCourse::Open => whole.course = PodCourse::Open,
                PodCourse::Over | PodCourse::Finished(_) => continue,
            }
            let place = whole.members.len();
            whole.members.extend(pod.members);
            whole.created = whole.created.max(pod.created);
            if pod.impossible.len() > whole.impossible.len() {
                whole.impossible = pod.impossible; // each list has the shorter ones in it
            }
            let earliest = [whole.no_sandbox_since, pod.no_sandbox_since].into_iter().flatten();
            whole.no_sandbox_since = earliest.min();
            let named = pod.containers.into_iter().zip(&member.names);
            whole.containers.extend(named.map(|(container, name)| ContainerView {
                name,
                member: place,
                ..container
            }));
        }
        whole
    }

    /// What is known of the pod of a container.
    pub(crate) fn pod_of(&self, container: &ContainerView<'_>) -> &ObservedMember<'a> {
        &self.members[container.member]
    }

    /// Since when the node of its first pod has had it.
    pub(crate) fn since(&self) -> Option<Tick> {
        self.members.first()?.since
    }

    /// Whether its containers run, or have run and can again. While they cannot, attempts do not
    /// leave the window: a pod that is replaced and gets no further than the one before would have
    /// all of its attempts again and again.
    pub(crate) fn has_begun(&self) -> bool {
        let began = |container: &ContainerView<'_>| container.live.is_some() || container.ended > 0;
        self.no_sandbox_since.is_none() && self.containers.iter().any(began)
    }

    /// The one that does the pod's work, where there is one alone beside those that initialize the
    /// pod or stand by.
    pub(crate) fn only_container(&self) -> Option<&'a str> {
        match self.shown {
            PodObject::Itself | PodObject::Mirror => {}
            PodObject::Group => return None,
        }
        let mut regular =
            self.containers.iter().filter(|container| container.role == ContainerRole::Regular);
        regular.next().filter(|_| regular.next().is_none()).map(|container| container.name)
    }

    /// Since when everything that should run has been running; none while something does not.
    pub(crate) fn up_since(&self) -> Option<Tick> {
        let mut since = Tick::ZERO;
        let mut some_runs = false;
        for container in &self.containers {
            match (container.role, container.live) {
                (ContainerRole::Init, _) => {}
                (ContainerRole::Sidecar | ContainerRole::Regular, Some(live)) => {
                    since = since.max(live.started_at?);
                    some_runs = true;
                }
                (ContainerRole::Regular, None) if container.is_done() => {
                    since = since.max(container.last_end?.finished_at?);
                }
                (ContainerRole::Sidecar | ContainerRole::Regular, None) => return None,
            }
        }
        some_runs.then_some(since)
    }

    /// Whether everything that runs also says that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.containers.iter().all(|c| c.role == ContainerRole::Init || c.live.is_none() || c.ready)
    }

    /// Whether a container was ended only because another one's end restarted them all: that one
    /// alone has failed.
    pub(crate) fn ended_with_the_others(
        &self,
        container: &ContainerView<'_>,
        end: &ContainerEnd<'_>,
    ) -> bool {
        if container.restarts_all(end) {
            return false;
        }
        let ran_at = |at: Tick| {
            end.started_at.is_some_and(|started| started <= at)
                && end.finished_at.is_some_and(|finished| at <= finished)
        };
        let of_pod = self.containers.iter().filter(|other| other.member == container.member);
        let others = of_pod.filter_map(|other| Some((other, other.last_end?)));
        self.pod_of(container).all_restarting_since.is_some_and(ran_at)
            || others
                .filter(|(other, end)| other.restarts_all(end))
                .any(|(_, end)| end.finished_at.is_some_and(ran_at))
    }

    /// When the node itself starts the next container, as far as its status tells.
    pub(crate) fn next_own_restart(&self) -> Option<Tick> {
        self.containers.iter().filter_map(ContainerView::own_restart_at).min()
    }
}

impl<'a> ContainerView<'a> {
    fn new(
        container: &'a HeldContainer,
        role: ContainerRole,
        terms: RestartTerms,
        status: Option<&'a HeldContainerStatus>,
    ) -> Self {
        let count = status.map_or(0, |s| u32::try_from(s.restart_count).unwrap_or(0));
        let state = status.map(|s| &s.state);
        let running = state.and_then(HeldContainerState::running);
        let terminated = state.and_then(HeldContainerState::terminated);
        let before = status.and_then(|s| s.last_state.terminated());
        let ended = match (running, terminated, before) {
            (Some(_), _, _) => count,
            (None, Some(_), _) => count + 1,
            (None, None, Some(before)) if is_counted_unseen(before) => count,
            (None, None, Some(before)) if is_of_newest(before, status) => count + 1,
            (None, None, Some(_) | None) => count,
        };
        ContainerView {
            name: &container.name,
            own_name: &container.name,
            member: 0,
            role,
            terms,
            ended,
            live: running.map(|running| LiveAttempt {
                attempt: count,
                started_at: running.started_at.as_ref().map(Tick::from),
            }),
            last_end: terminated.or(before).map(ContainerEnd::parse),
            waiting: state.and_then(HeldContainerState::waiting).map(ContainerWait::parse),
            ready: status.is_some_and(|s| s.ready),
            image: container.image.as_deref().unwrap_or_default(),
        }
    }

    /// It has ended as it should and is not started again.
    pub(crate) fn is_done(&self) -> bool {
        let succeeded = self.last_end.is_some_and(|end| end.is_success(self.started_by(&end)));
        self.live.is_none() && self.waiting.is_none() && succeeded
    }

    /// What answers an end.
    pub(crate) fn started_by(&self, end: &ContainerEnd<'_>) -> StartedBy {
        self.terms.started_by(end.exit_code)
    }

    /// Whether an end was not expected.
    pub(crate) fn has_failed(&self, end: &ContainerEnd<'_>) -> bool {
        end.is_failure(self.started_by(end))
    }

    /// Whether it is never started again.
    pub(crate) fn stays_ended(&self) -> bool {
        self.terms.policy == ContainerRestartPolicy::Never && self.terms.rules.is_empty()
    }

    /// Whether this end made the node restart all containers of the pod.
    fn restarts_all(&self, end: &ContainerEnd<'_>) -> bool {
        self.started_by(end) == StartedBy::Rule(RuleAction::RestartAllContainers)
    }

    fn own_restart_at(&self) -> Option<Tick> {
        self.waiting?.backoff_ends_at(self.last_end.as_ref()?)
    }
}

/// The kubelet has lost a container that ran, as after a restart that removed its sandbox. It
/// counts the next start with this very status, and knows no times
/// (`convertToAPIContainerStatuses`).
fn is_counted_unseen(before: &ContainerStateTerminated) -> bool {
    TerminatedReason::parse(before.reason.as_deref().unwrap_or_default())
        == TerminatedReason::ContainerStatusUnknown
        && before.started_at.is_none()
        && before.finished_at.is_none()
}

/// A waiting container shows in `lastState` how its newest attempt ended, or, when a newer one is
/// made and not started yet, the one before: the container ids tell.
fn is_of_newest(before: &ContainerStateTerminated, status: Option<&HeldContainerStatus>) -> bool {
    let newest = status.and_then(|s| s.container_id.as_deref()).filter(|id| !id.is_empty());
    let ended = before.container_id.as_deref().filter(|id| !id.is_empty());
    match (newest, ended) {
        (Some(newest), Some(ended)) => newest == ended,
        (Some(_), None) | (None, Some(_) | None) => true,
    }
}

/// A static pod is its node's alone, and the pod of a DaemonSet has no other node.
fn impossible(pod: &HeldPod) -> &'static [Rung] {
    if is_mirror(pod) {
        &[Rung::Recreate, Rung::Reschedule, Rung::Rollback]
    } else if is_controlled_by(&pod.metadata, "DaemonSet") {
        &[Rung::Reschedule]
    } else {
        &[]
    }
}

fn init_role(container: &HeldContainer) -> ContainerRole {
    if container.is_sidecar() { ContainerRole::Sidecar } else { ContainerRole::Init }
}

#[cfg(test)]
mod tests;
