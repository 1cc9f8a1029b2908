//! Emptying the emptyDir volumes of a pod between two of its sandboxes. A kubelet makes the next
//! sandbox within a second, so the pod is frozen for that time: what is started in it waits.
//!
//! ```text
//! Held      freeze -> the sandbox is stopped -> nothing runs? -> empty the volumes
//!    v written
//! Cleared   thaw -> the sandbox is removed
//!    v written with the next status
//! Released
//! ```
//! A final status waits for the thaw, whatever the step is. What was written as final by another
//! hand is thawed and written as Released by the agent that finds it so.

use k8s_openapi::api::core::v1::PodSpec;
use rekindle_types::v1alpha1::{
    ClearingStep, EmptyDirClearing, EmptyDirPolicy, PodRestart, PodRestartPhase, PodRestartStatus,
    Rung, RuntimeRestart,
};

use crate::pod_cgroup::{is_cgroup_of_pod, is_pod_cgroup};
use crate::procedure::{
    NodeCall, RestartAction, RestartProgress, RestartSituation, RuntimeCall, try_call,
};
use crate::{PodRuntime, RuntimeContainerState, runtime_uid};

/// What the status says when the volumes are empty.
const CLEARED: &str = "the emptyDir volumes are empty";

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

/// How a request begins that empties volumes, or why it cannot.
pub(crate) fn begin(
    at: &RestartSituation<'_>,
    spec: &PodSpec,
    runtime: &PodRuntime,
) -> Result<Option<EmptyDirClearing>, String> {
    if !clears_empty_dirs(at.restart, spec) {
        return Ok(None);
    }
    let pod = &at.restart.spec.pod_name;
    if !at.can_clear {
        return Err(format!(
            "emptyDirs: Clear, the default, needs the agent's access to the kubelet's folders, and pod {pod} has emptyDir volumes: set emptyDirs: Keep, or the chart's value agent.clearEmptyDirs"
        ));
    }
    let Some(cgroup) = &runtime.cgroup else {
        return Err(format!(
            "emptyDirs: Clear freezes the pod, and node {} shows no cgroup (v2) of pod {pod} alone: set emptyDirs: Keep",
            at.node
        ));
    };
    Ok(Some(EmptyDirClearing { cgroup: cgroup.clone(), step: ClearingStep::Held }))
}

/// What is done before the sandbox is stopped.
pub(crate) fn hold(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    runtime: &PodRuntime,
    progress: &RestartProgress,
) -> Option<RestartAction> {
    let clearing = begun.empty_dirs.as_ref().filter(|c| c.step == ClearingStep::Held)?;
    if progress.is_held {
        return None;
    }
    let uid = at.pod.and_then(runtime_uid).unwrap_or_default();
    if !is_cgroup_of_pod(&clearing.cgroup, uid) {
        let why = format!("{} is not the cgroup of the pod", clearing.cgroup);
        return Some(at.write(PodRestartPhase::Failed, why));
    }
    if let Some(id) = other_sandbox(begun, runtime) {
        return Some(at.write(
            PodRestartPhase::Failed,
            format!("sandbox {id} runs already: the emptyDir volumes are left as they are"),
        ));
    }
    Some(try_call(at, progress, NodeCall::HoldPod(clearing.cgroup.clone())))
}

/// What is done between the stop of the sandbox and its removal.
pub(crate) fn clear(
    at: &RestartSituation<'_>,
    begun: &RuntimeRestart,
    spec: &PodSpec,
    runtime: &PodRuntime,
    progress: &RestartProgress,
) -> Option<RestartAction> {
    let clearing = begun.empty_dirs.as_ref()?;
    match clearing.step {
        ClearingStep::Held if progress.are_volumes_empty => {
            let mut status = at.report(PodRestartPhase::Running, CLEARED.to_owned());
            set_step(&mut status, ClearingStep::Cleared);
            Some(RestartAction::Write(Box::new(status)))
        }
        ClearingStep::Held => Some(match what_runs(runtime) {
            // it was looked at after the pod was frozen: nothing begins from then on
            None => {
                let cgroup = clearing.cgroup.clone();
                let volumes = empty_dirs(spec);
                try_call(at, progress, NodeCall::ClearEmptyDirs { cgroup, volumes })
            }
            Some(what) => at.write(
                PodRestartPhase::Failed,
                format!("{what} runs: the emptyDir volumes are left as they are"),
            ),
        }),
        ClearingStep::Cleared if !progress.is_released => Some(release(at, clearing, progress)),
        ClearingStep::Cleared => None,
        ClearingStep::Released => {
            may_be_frozen(clearing, progress).then(|| release(at, clearing, progress))
        }
    }
}

/// Lets the pod go before a final status is written, and says so in it.
pub(crate) fn released_first(
    at: &RestartSituation<'_>,
    progress: &mut RestartProgress,
    mut status: Box<PodRestartStatus>,
) -> RestartAction {
    let Some(clearing) = clearing_of(&status) else { return RestartAction::Write(status) };
    if progress.is_released {
        set_step(&mut status, ClearingStep::Released);
        return RestartAction::Write(status);
    }
    let verdict = status.phase.filter(|phase| phase.is_final());
    let Some(phase) = verdict.filter(|_| may_be_frozen(clearing, progress)) else {
        return RestartAction::Write(status);
    };
    // a thaw forgets what had failed
    let message = status.message.clone().unwrap_or_default();
    progress.verdict.get_or_insert((phase, message));
    if can_release(at, clearing, progress) {
        return release(at, clearing, progress);
    }
    let left = format!("; its cgroup {} may still be frozen", clearing.cgroup);
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
    let left =
        clearing_of(status).filter(|clearing| is_own && clearing.step != ClearingStep::Released);
    match left {
        Some(_) if progress.is_released => RestartAction::Write(Box::new(status.clone())),
        Some(clearing) if can_release(at, clearing, progress) => release(at, clearing, progress),
        Some(_) | None => RestartAction::Leave,
    }
}

fn release(
    at: &RestartSituation<'_>,
    clearing: &EmptyDirClearing,
    progress: &RestartProgress,
) -> RestartAction {
    try_call(at, progress, NodeCall::ReleasePod(clearing.cgroup.clone()))
}

fn can_release(
    at: &RestartSituation<'_>,
    clearing: &EmptyDirClearing,
    progress: &RestartProgress,
) -> bool {
    let call = RuntimeCall::ReleasePod;
    at.can_clear && is_pod_cgroup(&clearing.cgroup) && progress.failures_of(call) < call.tries_max()
}

/// Also where another agent has written Released, if this one has frozen the pod after that.
fn may_be_frozen(clearing: &EmptyDirClearing, progress: &RestartProgress) -> bool {
    !progress.is_released && (progress.is_held || clearing.step != ClearingStep::Released)
}

fn clearing_of(status: &PodRestartStatus) -> Option<&EmptyDirClearing> {
    status.runtime.as_ref()?.empty_dirs.as_ref()
}

fn set_step(status: &mut PodRestartStatus, step: ClearingStep) {
    let clearing = status.runtime.as_mut().and_then(|runtime| runtime.empty_dirs.as_mut());
    if let Some(clearing) = clearing {
        clearing.step = step;
    }
}

/// A sandbox that runs and that the request was not begun on.
fn other_sandbox<'a>(begun: &RuntimeRestart, runtime: &'a PodRuntime) -> Option<&'a str> {
    let id = runtime.ready_sandbox()?.id.as_str();
    (id != begun.sandbox_id).then_some(id)
}

/// What of the pod may write into its volumes.
fn what_runs(runtime: &PodRuntime) -> Option<String> {
    if let Some(sandbox) = runtime.ready_sandbox() {
        return Some(format!("sandbox {}", sandbox.id));
    }
    let running = runtime.containers.iter().find(|container| match container.state {
        RuntimeContainerState::Running | RuntimeContainerState::Unknown => true,
        RuntimeContainerState::Created | RuntimeContainerState::Exited => false,
    });
    running.map(|container| format!("container {}", container.name))
}
