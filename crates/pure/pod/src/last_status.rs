//! What the last status of a pod says of containers whose end was not seen, as the kubelet's
//! `TerminatePod` has it (`pkg/kubelet/status/status_manager.go`): they failed, so that nobody
//! takes the pod for one that did its work.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus,
};
use rekindle_types::ExitStatus;

use crate::texts;

/// The status of a pod of which nothing is left. Regular containers are spoken of when the pod was
/// ever initialized, init containers up to the last one that was begun; of those before all others
/// the first one says that the pod failed.
pub(crate) fn concluded(mut status: PodStatus) -> PodStatus {
    if was_initialized(&status) {
        status.container_statuses.iter_mut().flatten().for_each(conclude);
    }
    if let Some(inits) = &mut status.init_container_statuses {
        let begun = inits.iter().rposition(was_begun).unwrap_or(0);
        inits.iter_mut().take(begun + 1).for_each(conclude);
    }
    status
}

/// As `hasPodInitialized` there: a regular container was begun at some time, or the last init
/// container has done its part.
fn was_initialized(status: &PodStatus) -> bool {
    let Some(last) = status.init_container_statuses.as_ref().and_then(|inits| inits.last()) else {
        return true;
    };
    let has_succeeded = [&last.state, &last.last_state]
        .into_iter()
        .flatten()
        .any(|state| state.terminated.as_ref().is_some_and(|end| end.exit_code == 0));
    has_succeeded || status.container_statuses.iter().flatten().any(was_begun)
}

fn was_begun(container: &ContainerStatus) -> bool {
    let waits = container.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let ended = container.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    !waits || ended
}

fn conclude(container: &mut ContainerStatus) {
    if container.state.as_ref().is_some_and(|state| state.terminated.is_some()) {
        return;
    }
    let end = ContainerStateTerminated {
        exit_code: ExitStatus::Unknown.code(),
        reason: Some(ExitStatus::Unknown.reason().to_owned()),
        message: Some(texts::NEVER_LOCATED.to_owned()),
        ..ContainerStateTerminated::default()
    };
    container.state = Some(ContainerState { terminated: Some(end), ..ContainerState::default() });
}
