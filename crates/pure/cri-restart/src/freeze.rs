//! A pod that is frozen between two of its sandboxes. A kubelet makes the next sandbox within a
//! second; what it starts in a frozen pod waits. So emptyDir volumes are emptied while nothing
//! runs, and a member of a group starts when the others have stopped. What is killed in a frozen
//! pod does not end by itself: a pod with restartPolicy OnFailure does not count as finished.
//!
//! ```text
//! Held      freeze -> the sandbox is stopped -> nothing runs? -> empty the volumes
//!    v written, with the time for a group
//! Stopped   the sandbox is removed -> wait for the group -> thaw
//!    v written with the next status
//! Released
//! ```
//! A final status waits for the thaw, whatever the step is. What was written as final by another
//! hand is thawed and written as Released by the agent that finds it so. A request that is deleted
//! says nothing any more: its pod is thawed at once, or when the next agent starts.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use rekindle_types::span;
use rekindle_types::v1alpha1::{
    EmptyDirPolicy, MemberTurn, PodFreeze, PodFreezeStep, PodRestart, PodRestartPhase,
    PodRestartStatus, Rung, RuntimeRestart,
};

use crate::pod_cgroup::{is_cgroup_of_pod, is_pod_cgroup};
use crate::procedure::{
    NodeCall, RestartAction, RestartProgress, RestartSituation, RuntimeCall, try_call,
};
use crate::refusals::is_killed;
use crate::{PodRuntime, RuntimeContainerState, runtime_uid};

/// What the status says when the volumes are empty.
const CLEARED: &str = "the emptyDir volumes are empty";

/// What the status of a member of a group says then.
const WAITING: &str = "everything has ended: the pod waits, frozen, for the others of its group";

/// What an agent can do to a pod beside the calls of the runtime. Each can do what those before it
/// can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreezeSupport {
    /// Nothing: it sees no cgroups.
    Nothing,
    /// It freezes pods.
    FreezesPods,
    /// It empties the volumes of a frozen pod: it sees the kubelet's folders.
    EmptiesVolumes,
}

/// What the status says when the pod was only killed.
const KILLED: &str = "everything was killed in the frozen pod";

/// An emptyDir volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyDirVolume {
    /// Its name.
    pub name: String,
    /// Whether the kubelet mounts a file system of its own there (`medium` Memory and HugePages).
    pub is_mount: bool,
}

/// Whether a request is to empty volumes of this pod.
pub fn clears_empty_dirs(restart: &PodRestart, spec: &PodSpec) -> bool {
    restart.spec.rung() == Rung::Pod
        && restart.spec.empty_dirs.unwrap_or_default() == EmptyDirPolicy::Clear
        && !empty_dirs(spec).is_empty()
}

fn empty_dirs(spec: &PodSpec) -> Vec<EmptyDirVolume> {
    let volumes = spec.volumes.iter().flatten().filter_map(|volume| {
        let medium = volume.empty_dir.as_ref()?.medium.as_deref().unwrap_or_default();
        Some(EmptyDirVolume { name: volume.name.clone(), is_mount: !medium.is_empty() })
    });
    volumes.collect()
}

/// How a request begins that freezes its pod, or why it cannot.
pub(crate) fn begin(
    at: &RestartSituation<'_>,
    spec: &PodSpec,
    runtime: &PodRuntime,
) -> Result<Option<PodFreeze>, String> {
    let pod = &at.restart.spec.pod_name;
    let clears = clears_empty_dirs(at.restart, spec);
    if clears && at.support < FreezeSupport::EmptiesVolumes {
        return Err(format!(
            "emptyDirs: Clear, the default, needs the agent's access to the kubelet's folders, and pod {pod} has emptyDir volumes: set emptyDirs: Keep, or the chart's value agent.clearEmptyDirs"
        ));
    }
    let (what, instead) = match &at.restart.spec.member_of {
        Some(_) => ("a member of a group is frozen until all have stopped", ""),
        None if is_killed(spec) => ("a pod with restartPolicy OnFailure is killed frozen", ""),
        None if clears => ("emptyDirs: Clear freezes the pod", ": set emptyDirs: Keep"),
        None => return Ok(None),
    };
    if at.support < FreezeSupport::FreezesPods {
        return Err(format!(
            "{what}, and the agent does not see cgroups: set the chart's value agent.freezePods"
        ));
    }
    let Some(cgroup) = &runtime.cgroup else {
        return Err(format!(
            "{what}, and node {} shows no cgroup (v2) of pod {pod} alone{instead}",
            at.node
        ));
    };
    Ok(Some(PodFreeze { cgroup: cgroup.clone(), step: PodFreezeStep::Held }))
}

/// What is done before the sandbox is stopped.
pub(crate) fn hold(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    runtime: &PodRuntime,
    progress: &RestartProgress,
) -> Option<RestartAction> {
    let freeze = begun.freeze.as_ref().filter(|freeze| freeze.step == PodFreezeStep::Held)?;
    if progress.is_held {
        return None;
    }
    let uid = at.pod.and_then(runtime_uid).unwrap_or_default();
    if !is_cgroup_of_pod(&freeze.cgroup, uid) {
        let why = format!("{} is not the cgroup of the pod", freeze.cgroup);
        return Some(at.write(PodRestartPhase::Failed, why));
    }
    if let Some(id) = other_sandbox(begun, runtime) {
        return Some(at.write(
            PodRestartPhase::Failed,
            format!("sandbox {id} runs already: it is left as it is, with its volumes"),
        ));
    }
    Some(try_call(at, progress, NodeCall::HoldPod(freeze.cgroup.clone())))
}

/// What is done between the stop of the sandbox and its removal.
pub(crate) fn between_sandboxes(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    spec: &PodSpec,
    runtime: &PodRuntime,
    progress: &RestartProgress,
) -> Option<RestartAction> {
    let freeze = begun.freeze.as_ref()?;
    match freeze.step {
        PodFreezeStep::Held => Some(stop_all(at, begun, freeze, spec, runtime, progress)),
        PodFreezeStep::Stopped if progress.is_released => None,
        PodFreezeStep::Stopped => Some(
            remove_frozen(begun, runtime, progress)
                .or_else(|| wait_for_group(at))
                .unwrap_or_else(|| release(at, freeze, progress)),
        ),
        PodFreezeStep::Released => {
            may_be_frozen(freeze, progress).then(|| release(at, freeze, progress))
        }
    }
}

/// Whether it is written that the sandbox was stopped. A second stop that fails would let a member
/// of a group go before the others have stopped.
pub(crate) fn says_stopped(begun: &RuntimeRestart) -> bool {
    begun.freeze.as_ref().is_some_and(|freeze| freeze.step != PodFreezeStep::Held)
}

/// The steps to where nothing of the pod runs, and its volumes are as the request wants them.
fn stop_all(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    freeze: &PodFreeze,
    spec: &PodSpec,
    runtime: &PodRuntime,
    progress: &RestartProgress,
) -> RestartAction {
    let clears = clears_empty_dirs(at.restart, spec);
    if !progress.are_volumes_empty {
        // it was looked at after the pod was frozen: nothing begins from then on
        if let Some(what) = what_runs(begun, runtime) {
            let why =
                format!("{what} still runs in the frozen pod: its volumes are left as they are");
            return at.write(PodRestartPhase::Failed, why);
        }
        if clears {
            let (cgroup, volumes) = (freeze.cgroup.clone(), empty_dirs(spec));
            return try_call(at, progress, NodeCall::ClearEmptyDirs { cgroup, volumes });
        }
    }
    let is_member = at.restart.spec.member_of.is_some();
    let message = match (is_member, clears) {
        (true, _) => WAITING,
        (false, true) => CLEARED,
        (false, false) => KILLED,
    };
    let mut status = at.report(PodRestartPhase::Running, message.to_owned());
    set_step(&mut status, PodFreezeStep::Stopped);
    if is_member {
        status.stopped_at.get_or_insert_with(|| at.now.to_time());
    }
    RestartAction::Write(Box::new(status))
}

/// The removal of the stopped sandbox while the pod is still frozen. A kubelet that finds the ended
/// containers when it starts the new sandbox counts them as crashed, and waits for its back-off: it
/// did so with CRI-O 1.36, where a sandbox has no process that a frozen cgroup would hold back. It
/// is tried once: what the kubelet began in the old sandbox may hold it up until the thaw.
fn remove_frozen(
    begun: &RuntimeRestart,
    runtime: &PodRuntime,
    progress: &RestartProgress,
) -> Option<RestartAction> {
    let sandbox = runtime.sandbox(&begun.sandbox_id)?;
    let call = || RestartAction::Call(NodeCall::RemoveSandbox(sandbox.id.clone()));
    (!progress.has_removal_failed).then(call)
}

/// A member of a group is held until the others have stopped, or the group is over. One that hears
/// nothing of its group goes on at its own deadline.
fn wait_for_group(at: &RestartSituation<'_>) -> Option<RestartAction> {
    match (&at.restart.spec.member_of, at.turn) {
        (None, _) | (Some(_), MemberTurn::Start) => None,
        (Some(group), MemberTurn::Wait | MemberTurn::Stop) if at.due() <= at.now => {
            let limit = span::show(at.limit());
            let why = format!("group {group} had not stopped within the deadline of {limit}");
            Some(at.write(PodRestartPhase::Failed, why))
        }
        (Some(_), MemberTurn::Wait | MemberTurn::Stop) => Some(RestartAction::Wait(at.due())),
    }
}

/// Lets the pod go before a final status is written, and says so in it.
pub(crate) fn released_first(
    at: &RestartSituation<'_>,
    progress: &mut RestartProgress,
    mut status: Box<PodRestartStatus>,
) -> RestartAction {
    let Some(freeze) = freeze_of(&status) else { return RestartAction::Write(status) };
    if progress.is_released {
        set_step(&mut status, PodFreezeStep::Released);
        return RestartAction::Write(status);
    }
    let verdict = status.phase.filter(|phase| phase.is_final());
    let Some(phase) = verdict.filter(|_| may_be_frozen(freeze, progress)) else {
        return RestartAction::Write(status);
    };
    // a thaw forgets what had failed
    let message = status.message.clone().unwrap_or_default();
    progress.verdict.get_or_insert((phase, message));
    if can_release(at, freeze, progress) {
        return release(at, freeze, progress);
    }
    let left = format!("; its cgroup {} may still be frozen", freeze.cgroup);
    status.message.get_or_insert_default().push_str(&left);
    RestartAction::Write(status)
}

/// What is left of a request that is over: its pod may be frozen, as when the operator ended it
/// while no agent ran.
pub(crate) fn after_the_end(
    at: &RestartSituation<'_>,
    status: &PodRestartStatus,
    progress: &RestartProgress,
) -> RestartAction {
    let is_own = status.node_name.as_deref() == Some(at.node);
    let left = freeze_of(status).filter(|freeze| is_own && freeze.step != PodFreezeStep::Released);
    match left {
        Some(_) if progress.is_released => RestartAction::Write(Box::new(status.clone())),
        Some(freeze) if can_release(at, freeze, progress) => release(at, freeze, progress),
        Some(_) | None => RestartAction::Leave,
    }
}

/// The cgroup that a request leaves frozen when it is deleted, by its last status and what its
/// agent remembers.
pub fn frozen_by_deleted(last: &PodRestart, progress: &RestartProgress) -> Option<String> {
    let freeze = freeze_of(last.status.as_ref()?)?;
    may_be_frozen(freeze, progress).then(|| freeze.cgroup.clone())
}

/// Those of the cgroups that an agent had frozen that belong to these pods of its node and that no
/// request names: it was deleted while no agent ran. Another agent on the machine, beside
/// another kubelet, has frozen what belongs to none of them.
pub fn frozen_for_nothing<'a>(
    frozen: Vec<String>,
    pods: impl Iterator<Item = &'a Pod> + Clone,
    restarts: impl Iterator<Item = &'a PodRestart> + Clone,
) -> Vec<String> {
    let is_of =
        |pod: &Pod, cgroup: &str| runtime_uid(pod).is_some_and(|uid| is_cgroup_of_pod(cgroup, uid));
    let names = |restart: &PodRestart, cgroup: &str| {
        let freeze = restart.status.as_ref().and_then(freeze_of);
        freeze.is_some_and(|f| f.cgroup == cgroup && f.step != PodFreezeStep::Released)
    };
    let is_left = |cgroup: &String| {
        pods.clone().any(|pod| is_of(pod, cgroup))
            && !restarts.clone().any(|restart| names(restart, cgroup))
    };
    frozen.into_iter().filter(is_left).collect()
}

fn release(
    at: &RestartSituation<'_>,
    freeze: &PodFreeze,
    progress: &RestartProgress,
) -> RestartAction {
    try_call(at, progress, NodeCall::ReleasePod(freeze.cgroup.clone()))
}

fn can_release(at: &RestartSituation<'_>, freeze: &PodFreeze, progress: &RestartProgress) -> bool {
    let call = RuntimeCall::ReleasePod;
    at.support >= FreezeSupport::FreezesPods
        && is_pod_cgroup(&freeze.cgroup)
        && progress.failures_of(call) < call.tries_max()
}

/// Also where another agent has written Released, if this one has frozen the pod after that.
fn may_be_frozen(freeze: &PodFreeze, progress: &RestartProgress) -> bool {
    !progress.is_released && (progress.is_held || freeze.step != PodFreezeStep::Released)
}

fn freeze_of(status: &PodRestartStatus) -> Option<&PodFreeze> {
    status.runtime.as_ref()?.freeze.as_ref()
}

fn set_step(status: &mut PodRestartStatus, step: PodFreezeStep) {
    let freeze = status.runtime.as_mut().and_then(|runtime| runtime.freeze.as_mut());
    if let Some(freeze) = freeze {
        freeze.step = step;
    }
}

/// A sandbox with containers that the request was not begun on. With CRI-O a kubelet makes one
/// without containers in a frozen pod: it has no process, and writes nothing.
fn other_sandbox<'a>(begun: &RuntimeRestart, runtime: &'a PodRuntime) -> Option<&'a str> {
    let id = runtime.ready_sandbox()?.id.as_str();
    let is_used = runtime.containers_of(id).next().is_some();
    (is_used && id != begun.sandbox_id).then_some(id)
}

/// What of the pod may write into its volumes.
fn what_runs(begun: &RuntimeRestart, runtime: &PodRuntime) -> Option<String> {
    if runtime.sandbox(&begun.sandbox_id).is_some_and(|sandbox| sandbox.is_ready) {
        return Some(format!("sandbox {}", begun.sandbox_id));
    }
    let running = runtime.containers.iter().find(|container| match container.state {
        RuntimeContainerState::Running | RuntimeContainerState::Unknown => true,
        RuntimeContainerState::Created | RuntimeContainerState::Exited => false,
    });
    running.map(|container| format!("container {}", container.name))
}
