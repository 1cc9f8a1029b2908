//! Which start of a container a reader means, from the pod's status. The messages are the
//! kubelet's.

use std::path::Path;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rekindle_types::ContainerAttempt;
use rekindle_types::log_options::ContainerRun;
use rekindle_types::reasons::waiting;

use super::error::LogError;
use super::files::attempts;

/// The start whose log is meant.
pub(super) fn attempt_of(
    status: &PodStatus,
    pod: &str,
    container: &str,
    run: ContainerRun,
    folder: &Path,
) -> Result<ContainerAttempt, LogError> {
    let Some(found) = status_of(status, container) else {
        return Err(LogError::NotThere(format!(
            "container {container:?} in pod {pod:?} is not available"
        )));
    };
    let count = ContainerAttempt(u32::try_from(found.restart_count).unwrap_or(0));
    let ended = found.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    let state = found.state.as_ref();
    let is_waiting = !state.is_some_and(|s| s.running.is_some() || s.terminated.is_some());
    match run {
        ContainerRun::Previous if !ended => Err(LogError::NotThere(format!(
            "previous terminated container {container:?} in pod {pod:?} not found"
        ))),
        // between two starts the last one is what ended last
        ContainerRun::Previous if is_waiting => Ok(newest(folder, count)),
        ContainerRun::Previous => Ok(newest(folder, ContainerAttempt(count.0.saturating_sub(1)))),
        ContainerRun::Current if !is_waiting => Ok(count),
        ContainerRun::Current if ended => Ok(newest(folder, count)),
        ContainerRun::Current => Err(LogError::NotThere(waiting_message(found, pod, container))),
    }
}

/// Whether that start will write nothing more.
pub(super) fn has_ended(status: &PodStatus, container: &str, attempt: ContainerAttempt) -> bool {
    let Some(found) = status_of(status, container) else { return true };
    let same = u32::try_from(found.restart_count).is_ok_and(|count| count == attempt.0);
    let runs = found.state.as_ref().is_some_and(|state| state.running.is_some());
    !(same && runs)
}

/// The newest start up to `until` that has a log.
fn newest(folder: &Path, until: ContainerAttempt) -> ContainerAttempt {
    attempts(folder).into_iter().rfind(|attempt| *attempt <= until).unwrap_or(until)
}

fn status_of<'s>(status: &'s PodStatus, container: &str) -> Option<&'s ContainerStatus> {
    let lists = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    lists.into_iter().flat_map(|list| list.iter().flatten()).find(|found| found.name == container)
}

fn waiting_message(found: &ContainerStatus, pod: &str, container: &str) -> String {
    let reason = found
        .state
        .as_ref()
        .and_then(|state| state.waiting.as_ref())
        .and_then(|waiting| waiting.reason.as_deref());
    match reason {
        Some(waiting::ERR_IMAGE_PULL) => {
            format!(
                "container {container:?} in pod {pod:?} is waiting to start: image can't be pulled"
            )
        }
        Some(waiting::IMAGE_PULL_BACK_OFF) => format!(
            "container {container:?} in pod {pod:?} is waiting to start: trying and failing to pull image"
        ),
        Some(reason) => {
            format!("container {container:?} in pod {pod:?} is waiting to start: {reason}")
        }
        None => format!("container {container:?} in pod {pod:?} is waiting to start - no logs yet"),
    }
}
