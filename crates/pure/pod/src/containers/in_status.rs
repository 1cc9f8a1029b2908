//! What the API's status says of a container: the way back from what it shows.

use k8s_openapi::api::core::v1::{
    ContainerStateRunning, ContainerStateTerminated, ContainerStatus, PodStatus,
};
use rekindle_types::{ContainerAttempt, ContainerName, Exit, ExitStatus, SandboxAttempt, Tick};

use crate::event::Made;
use crate::journal::{EndedContainer, HealthRecord, Launched, Readiness};

/// What the API's status says of a container.
#[derive(Default)]
pub(super) struct ContainerInStatus {
    pub(super) number: ContainerAttempt,
    /// The image of what it shows running.
    pub(super) image: Option<String>,
    /// It shows it running, since then.
    pub(super) running_since: Option<Tick>,
    /// The newest end that it shows.
    pub(super) ended: Option<EndedContainer>,
    /// And the one before.
    pub(super) before: Option<EndedContainer>,
    /// How what it shows running does.
    pub(super) health: Option<HealthRecord>,
}

impl ContainerInStatus {
    /// What the status of a pod says of the container of this name.
    pub(super) fn in_status(status: Option<&PodStatus>, name: &ContainerName) -> Self {
        find(status, name).map(Self::from_status).unwrap_or_default()
    }

    fn from_status(status: &ContainerStatus) -> Self {
        let number = ContainerAttempt(u32::try_from(status.restart_count).unwrap_or(0));
        let state = status.state.as_ref();
        let running = state.and_then(|state| state.running.as_ref());
        let now = state.and_then(|state| state.terminated.as_ref());
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let of = |end: Option<&ContainerStateTerminated>, number: u32| {
            end.map(|end| ended(end, number, status))
        };
        // The end before the newest start carries the number before it.
        let previous = number.0.checked_sub(1);
        let (ended, before) = match (running, now, previous) {
            (Some(_), _, Some(previous)) => (of(last, previous), None),
            (Some(_), _, None) => (None, None),
            (None, Some(end), Some(previous)) => (of(Some(end), number.0), of(last, previous)),
            (None, Some(end), None) => (of(Some(end), number.0), None),
            (None, None, _) => (of(last, number.0), None),
        };
        let since = |running: &ContainerStateRunning| running.started_at.as_ref().map(Tick::from);
        let running_since = running.map(|running| since(running).unwrap_or_default());
        let image = running.map(|_| status.image.clone());
        let health = running.map(|_| HealthRecord {
            number,
            launched: match status.started {
                Some(true) => Launched::Started,
                Some(false) | None => Launched::Fresh,
            },
            readiness: if status.ready { Readiness::Ready } else { Readiness::Unready },
        });
        Self { number, image, running_since, ended, before, health }
    }
}

/// What it shows running, as the runtime named it.
pub(super) fn made_in_status(status: Option<&PodStatus>, name: &ContainerName) -> Made {
    find(status, name).map_or_else(Made::default, |status| Made {
        container_id: status.container_id.clone().unwrap_or_default(),
        image_id: status.image_id.clone(),
        user: None,
    })
}

fn find<'a>(status: Option<&'a PodStatus>, name: &ContainerName) -> Option<&'a ContainerStatus> {
    let status = status?;
    let lists = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    lists.into_iter().flatten().flatten().find(|status| status.name == name.0)
}

fn ended(end: &ContainerStateTerminated, number: u32, status: &ContainerStatus) -> EndedContainer {
    EndedContainer {
        sandbox: SandboxAttempt(0),
        attempt: ContainerAttempt(number),
        container_id: end.container_id.clone().unwrap_or_default(),
        image_id: status.image_id.clone(),
        exit: Exit {
            status: exit_status(end),
            started_at: end.started_at.as_ref().map(Tick::from).unwrap_or_default(),
            finished_at: end.finished_at.as_ref().map(Tick::from).unwrap_or_default(),
            message: end.message.clone().unwrap_or_default(),
        },
    }
}

/// The way back from what a status shows.
fn exit_status(end: &ContainerStateTerminated) -> ExitStatus {
    let shown = [ExitStatus::OomKilled, ExitStatus::StartError, ExitStatus::Unknown];
    let reason = end.reason.as_deref().unwrap_or_default();
    let special = shown.into_iter().find(|status| status.reason() == reason);
    special.unwrap_or(ExitStatus::Code { code: end.exit_code })
}
