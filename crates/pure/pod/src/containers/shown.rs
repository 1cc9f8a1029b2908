//! What the status shows of a container.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, ContainerUser as ApiUser, LinuxContainerUser, ResourceRequirements,
};
use rekindle_types::{ContainerUser, Tick};

use super::container::{PodContainer, ProcessState};
use crate::blueprint::RoleInPod;
use crate::health::ContainerHealth;
use crate::journal::{ContainerStanding, EndedContainer};

impl PodContainer {
    /// Ready as the status shows it.
    pub(crate) fn is_ready(&self) -> bool {
        match (&self.state, self.definition.role) {
            (ProcessState::Running { health, .. }, RoleInPod::Sidecar | RoleInPod::Regular) => {
                health.is_ready()
            }
            (_, RoleInPod::Init) => self.has_succeeded(),
            (_, RoleInPod::Sidecar | RoleInPod::Regular | RoleInPod::Ephemeral) => false,
        }
    }

    /// Its status shows a process that runs or has ended.
    pub(crate) fn shows_start(&self) -> bool {
        match self.state {
            ProcessState::Running { .. } => true,
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => self.shown_end().is_some(),
        }
    }

    /// Its part in the initialization of the pod is done, as its status shows it.
    pub(crate) fn shows_initialized(&self) -> bool {
        match self.definition.role {
            RoleInPod::Init => self.is_ready(),
            RoleInPod::Sidecar => self.health().is_some_and(ContainerHealth::is_started),
            RoleInPod::Regular | RoleInPod::Ephemeral => true,
        }
    }

    pub(crate) fn status(&self, default_reason: &str, message_max: usize) -> ContainerStatus {
        let ended = |end: &EndedContainer| ContainerState {
            terminated: Some(terminated(end, message_max)),
            ..ContainerState::default()
        };
        let (state, last) = match &self.state {
            ProcessState::Running { started_at, .. } => {
                let started_at = Some(started_at.to_time());
                let running = Some(ContainerStateRunning { started_at });
                (ContainerState { running, ..ContainerState::default() }, self.last.as_ref())
            }
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => match self.shown_end() {
                Some(end) => (ended(end), self.before.as_ref()),
                None => (self.waiting(default_reason), self.last.as_ref()),
            },
        };
        let (container_id, image_id) = self.ids();
        ContainerStatus {
            container_id: container_id.filter(|id| !id.is_empty()),
            image: self.shown_image().to_owned(),
            image_id: image_id.unwrap_or_default(),
            last_state: Some(last.map(ended).unwrap_or_default()),
            name: self.definition.name.0.clone(),
            ready: self.is_ready(),
            restart_count: self.restart_count(),
            started: self.shown_started(),
            state: Some(state),
            user: self.user(),
            ..ContainerStatus::default()
        }
    }

    /// The resources that it has while it runs, and will have when it starts.
    pub(crate) fn shown_resources<'a>(
        &'a self,
        granted: &'a ResourceRequirements,
    ) -> &'a ResourceRequirements {
        match self.state {
            ProcessState::Running { .. } => &self.in_force,
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => granted,
        }
    }

    /// The kubelet says it of those that it probes.
    fn shown_started(&self) -> Option<bool> {
        match self.definition.role {
            RoleInPod::Init | RoleInPod::Sidecar | RoleInPod::Regular => {
                Some(self.health().is_some_and(ContainerHealth::is_started))
            }
            RoleInPod::Ephemeral => None,
        }
    }

    /// Of a process that runs.
    fn user(&self) -> Option<ApiUser> {
        let ProcessState::Running { made, .. } = &self.state else { return None };
        let ContainerUser { uid, gid, groups } = made.user.as_ref()?;
        let groups = groups.iter().map(|group| i64::from(*group)).collect();
        Some(ApiUser {
            linux: Some(LinuxContainerUser {
                uid: i64::from(*uid),
                gid: i64::from(*gid),
                supplemental_groups: Some(groups),
            }),
        })
    }

    /// The image it runs, which is not the spec's while that has just changed.
    fn shown_image(&self) -> &str {
        match (&self.state, &self.started_image) {
            (ProcessState::Running { .. }, Some(image)) => image,
            (_, _) => &self.definition.image,
        }
    }

    /// The end that is shown as the state: for good, or until the restart that comes at once runs.
    fn shown_end(&self) -> Option<&EndedContainer> {
        match (self.standing, &self.complaint) {
            (ContainerStanding::Done, _) | (ContainerStanding::Started, None) => self.last.as_ref(),
            (ContainerStanding::Due, _) | (ContainerStanding::Started, Some(_)) => None,
        }
    }

    fn waiting(&self, default_reason: &str) -> ContainerState {
        let waiting = match &self.complaint {
            Some(complaint) => ContainerStateWaiting {
                reason: Some(complaint.reason.to_owned()),
                message: Some(complaint.message.clone()),
            },
            None => {
                ContainerStateWaiting { reason: Some(default_reason.to_owned()), message: None }
            }
        };
        ContainerState { waiting: Some(waiting), ..ContainerState::default() }
    }

    /// Starts minus one: the number of the running start, or of the last one that ended.
    fn restart_count(&self) -> i32 {
        let number = match (&self.state, &self.last) {
            (ProcessState::Running { .. }, _) => self.number.0,
            (_, Some(last)) => last.attempt.0,
            (_, None) => 0,
        };
        i32::try_from(number).unwrap_or(i32::MAX)
    }

    fn ids(&self) -> (Option<String>, Option<String>) {
        match (&self.state, &self.last) {
            (ProcessState::Running { made, .. }, _) => {
                (Some(made.container_id.clone()), Some(made.image_id.clone()))
            }
            (_, Some(last)) => (Some(last.container_id.clone()), Some(last.image_id.clone())),
            (_, None) => (None, None),
        }
    }
}

fn terminated(end: &EndedContainer, message_max: usize) -> ContainerStateTerminated {
    let message = cut(&end.exit.message, message_max);
    // it is not known when something ended that was never seen to run: see `last_status`
    let time = |at: Tick| (at != Tick::ZERO).then(|| at.to_time());
    ContainerStateTerminated {
        container_id: Some(end.container_id.clone()).filter(|id| !id.is_empty()),
        exit_code: end.exit.status.code(),
        finished_at: time(end.exit.finished_at),
        message: Some(message.to_owned()).filter(|message| !message.is_empty()),
        reason: Some(end.exit.status.reason().to_owned()),
        signal: None,
        started_at: time(end.exit.started_at),
    }
}

/// At most so many bytes, and no half character.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_between_characters() {
        assert_eq!(cut("héllo", 2), "h");
        assert_eq!(cut("héllo", 3), "hé");
        assert_eq!(cut("héllo", 99), "héllo");
        assert_eq!(cut("", 0), "");
    }
}
