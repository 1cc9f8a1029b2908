//! `status` as the API shows it, built anew when something changed and written only if it differs.
//!
//! What a waiting container shows follows the kubelet: a reason that was given stays until it runs;
//! between a crash and a restart that comes at once, the end is shown; before the first start of a
//! round, ContainerCreating, or PodInitializing in a pod with init containers. `started` and
//! `ready` are what `health` says.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, ContainerUser as ApiUser, HostIP, LinuxContainerUser, PodIP, PodStatus,
    VolumeMountStatus,
};
use rekindle_types::reasons::waiting;
use rekindle_types::resources;
use rekindle_types::{ContainerUser, Tick};

use crate::blueprint::{Network, Role};
use crate::container::{Container, State};
use crate::core::{Lifecycle, PodCore};
use crate::health::Health;
use crate::journal::{EndCause, EndedContainer, Ground, Standing};
use crate::last_status;
use crate::phase;

/// All termination messages of a pod together, bytes (`MaxPodTerminationMessageLogLength`).
const MESSAGES_MAX: usize = 12 * 1024;

impl PodCore {
    pub(crate) fn build_status(&self) -> PodStatus {
        let before = &self.status;
        let of_api = self.pod.status.as_ref();
        let declared = of_api.and_then(|status| status.phase.as_deref());
        let sticky = declared.filter(|p| phase::is_final(p)).or(before.phase.as_deref());
        let phase = self.phase(sticky);
        let (reason, message) = self.reason(&phase, declared);
        let host_ips: Vec<HostIP> =
            self.config.host_ips.iter().map(|ip| HostIP { ip: ip.to_string() }).collect();
        let pod_ips = self.pod_ips();
        let whole = self.resize.granted.pod.as_ref();
        let status = PodStatus {
            allocated_resources: whole.and_then(|own| own.requests.clone()),
            resources: whole.cloned(),
            conditions: Some(self.conditions(&phase, before)),
            container_statuses: self.container_statuses(ListOf::Regular),
            ephemeral_container_statuses: self.container_statuses(ListOf::Ephemeral),
            init_container_statuses: self.container_statuses(ListOf::Init),
            host_ip: host_ips.first().map(|ip| ip.ip.clone()),
            host_ips: Some(host_ips).filter(|list| !list.is_empty()),
            message,
            observed_generation: self.pod.metadata.generation,
            phase: Some(phase),
            pod_ip: pod_ips.first().map(|ip| ip.ip.clone()),
            pod_ips: Some(pod_ips).filter(|list| !list.is_empty()),
            qos_class: self.qos_class(),
            reason,
            start_time: Some(self.start_time.to_time()),
            ..self.status_of_others()
        };
        if self.is_finished() { last_status::concluded(status) } else { status }
    }

    /// What the node does not write, as the API has it.
    fn status_of_others(&self) -> PodStatus {
        let Some(status) = &self.pod.status else { return PodStatus::default() };
        PodStatus {
            extended_resource_claim_status: status.extended_resource_claim_status.clone(),
            node_allocatable_resource_claim_statuses: status
                .node_allocatable_resource_claim_statuses
                .clone(),
            nominated_node_name: status.nominated_node_name.clone(),
            resize: status.resize.clone(),
            resource_claim_statuses: status.resource_claim_statuses.clone(),
            volume_health: status.volume_health.clone(),
            ..PodStatus::default()
        }
    }

    pub(crate) fn reason(
        &self,
        phase: &str,
        declared: Option<&str>,
    ) -> (Option<String>, Option<String>) {
        match &self.lifecycle {
            Lifecycle::Ending(ending) | Lifecycle::Finished(ending) => match &ending.cause {
                EndCause::Failed { reason, message, .. } if phase == phase::FAILED => {
                    return (Some(reason.clone()), Some(message.clone()));
                }
                EndCause::Failed { .. }
                | EndCause::Deleted
                | EndCause::Completed
                | EndCause::DeclaredFinished => {}
            },
            Lifecycle::Recovering { .. } | Lifecycle::Active => {}
        }
        // Kept as long as the phase is that it belongs to.
        let of_api = self.pod.status.as_ref().filter(|_| declared == Some(phase));
        of_api.map_or((None, None), |status| (status.reason.clone(), status.message.clone()))
    }

    /// Whose doing it is that the pod fails as a whole, if it does.
    pub(crate) fn failure_ground(&self) -> Option<Ground> {
        match &self.lifecycle {
            Lifecycle::Ending(ending) | Lifecycle::Finished(ending) => match &ending.cause {
                EndCause::Failed { ground, .. } => Some(*ground),
                EndCause::Deleted | EndCause::Completed | EndCause::DeclaredFinished => None,
            },
            Lifecycle::Recovering { .. } | Lifecycle::Active => None,
        }
    }

    /// True when its node refused the pod, or when it was over before anything of it was begun: an
    /// agent that is started again learns of a pod that was refused only that it is over.
    fn was_never_taken_up(&self) -> bool {
        let (Lifecycle::Ending(ending) | Lifecycle::Finished(ending)) = &self.lifecycle else {
            return false;
        };
        match &ending.cause {
            EndCause::Failed { ground, .. } => *ground == Ground::NotAdmitted,
            EndCause::DeclaredFinished => {
                let told = self.pod.status.as_ref();
                told.is_none_or(|status| {
                    status.container_statuses.is_none() && status.init_container_statuses.is_none()
                }) && !self.containers.iter().any(Container::has_begun)
            }
            EndCause::Deleted | EndCause::Completed => false,
        }
    }

    fn qos_class(&self) -> Option<String> {
        let written = self.pod.status.as_ref().and_then(|status| status.qos_class.clone());
        let spec = self.pod.spec.as_ref();
        written.or_else(|| spec.map(|spec| resources::qos_class(spec).to_owned()))
    }

    fn pod_ips(&self) -> Vec<PodIP> {
        let of_node = match self.blueprint.network {
            Network::Host => self.config.host_ips.as_slice(),
            Network::Own => &[],
        };
        let ips: &[IpAddr] = if self.ips.is_empty() { of_node } else { &self.ips };
        if ips.is_empty() {
            // Before the sandbox stands again, the last known ones.
            return self.status.pod_ips.clone().unwrap_or_default();
        }
        ips.iter().map(|ip| PodIP { ip: ip.to_string() }).collect()
    }

    /// None of a pod that the node never took up, nor of one without such containers.
    fn container_statuses(&self, list: ListOf) -> Option<Vec<ContainerStatus>> {
        if self.was_never_taken_up() {
            return None;
        }
        let wanted = |role: Role| match role {
            Role::Init | Role::Sidecar => list == ListOf::Init,
            Role::Regular => list == ListOf::Regular,
            Role::Ephemeral => list == ListOf::Ephemeral,
        };
        let is_init = |role: Role| match role {
            Role::Init | Role::Sidecar => true,
            Role::Regular | Role::Ephemeral => false,
        };
        let has_init = self.containers.iter().any(|c| is_init(c.definition.role));
        let default =
            if has_init { waiting::POD_INITIALIZING } else { waiting::CONTAINER_CREATING };
        let message_max = MESSAGES_MAX / self.containers.len().max(1);
        let containers = self.containers.iter().filter(|c| wanted(c.definition.role));
        let of = |container: &Container| {
            let granted = self.resize.granted.of(&container.definition.name);
            let resources = match container.state {
                State::Running { .. } => container.in_force.clone(),
                State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => granted.clone(),
            };
            let status = container.status(default, message_max);
            let mounts = status.container_id.is_some().then(|| self.mounts_of(&status.name));
            ContainerStatus {
                allocated_resources: granted.requests.clone(),
                resources: Some(resources),
                volume_mounts: mounts.flatten(),
                ..status
            }
        };
        let mut list: Vec<_> = containers.map(of).collect();
        list.shrink_to_fit(); // it is kept as long as nothing changes
        Some(list).filter(|list| !list.is_empty())
    }

    /// The mounts of a container that was made, as its spec has them. A read-only mount tells how
    /// far that reaches: the runtimes here can always do what `IfPossible` wishes.
    fn mounts_of(&self, name: &str) -> Option<Vec<VolumeMountStatus>> {
        let spec = self.pod.spec.as_ref()?;
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let all = all.map(|container| (&container.name, &container.volume_mounts));
        let added = spec.ephemeral_containers.iter().flatten();
        let mut all = all.chain(added.map(|added| (&added.name, &added.volume_mounts)));
        let (_, mounts) = all.find(|(own, _)| *own == name)?;
        let mounts = mounts.iter().flatten().map(|mount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only.filter(|read_only| *read_only),
            recursive_read_only: (mount.read_only == Some(true)).then(|| {
                match mount.recursive_read_only.as_deref() {
                    Some("Enabled" | "IfPossible") => "Enabled".to_owned(),
                    _ => "Disabled".to_owned(),
                }
            }),
            volume_status: None,
        });
        Some(mounts.collect::<Vec<_>>()).filter(|mounts| !mounts.is_empty())
    }
}

/// Which list of the status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListOf {
    Init,
    Regular,
    Ephemeral,
}

impl Container {
    /// Ready as the status shows it.
    pub(crate) fn is_ready(&self) -> bool {
        match (&self.state, self.definition.role) {
            (State::Running { health, .. }, Role::Sidecar | Role::Regular) => health.is_ready(),
            (_, Role::Init) => self.has_succeeded(),
            (_, Role::Sidecar | Role::Regular | Role::Ephemeral) => false,
        }
    }

    /// Its status shows a process that runs or has ended.
    pub(crate) fn shows_start(&self) -> bool {
        match self.state {
            State::Running { .. } => true,
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => {
                self.shown_end().is_some()
            }
        }
    }

    /// Its part in the initialization of the pod is done, as its status shows it.
    pub(crate) fn shows_initialized(&self) -> bool {
        match self.definition.role {
            Role::Init => self.is_ready(),
            Role::Sidecar => self.health().is_some_and(Health::is_started),
            Role::Regular | Role::Ephemeral => true,
        }
    }

    fn status(&self, default_reason: &str, message_max: usize) -> ContainerStatus {
        let ended = |end: &EndedContainer| ContainerState {
            terminated: Some(terminated(end, message_max)),
            ..ContainerState::default()
        };
        let (state, last) = match &self.state {
            State::Running { started_at, .. } => {
                let started_at = Some(started_at.to_time());
                let running = Some(ContainerStateRunning { started_at });
                (ContainerState { running, ..ContainerState::default() }, self.last.as_ref())
            }
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => {
                match self.shown_end() {
                    Some(end) => (ended(end), self.before.as_ref()),
                    None => (self.waiting(default_reason), self.last.as_ref()),
                }
            }
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

    /// The kubelet says it of those that it probes.
    fn shown_started(&self) -> Option<bool> {
        match self.definition.role {
            Role::Init | Role::Sidecar | Role::Regular => {
                Some(self.health().is_some_and(Health::is_started))
            }
            Role::Ephemeral => None,
        }
    }

    /// Of a process that runs.
    fn user(&self) -> Option<ApiUser> {
        let State::Running { made, .. } = &self.state else { return None };
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
            (State::Running { .. }, Some(image)) => image,
            (_, _) => &self.definition.image,
        }
    }

    /// The end that is shown as the state: for good, or until the restart that comes at once runs.
    fn shown_end(&self) -> Option<&EndedContainer> {
        match (self.standing, &self.complaint) {
            (Standing::Done, _) | (Standing::Started, None) => self.last.as_ref(),
            (Standing::Due, _) | (Standing::Started, Some(_)) => None,
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
            (State::Running { .. }, _) => self.number.0,
            (_, Some(last)) => last.attempt.0,
            (_, None) => 0,
        };
        i32::try_from(number).unwrap_or(i32::MAX)
    }

    fn ids(&self) -> (Option<String>, Option<String>) {
        match (&self.state, &self.last) {
            (State::Running { made, .. }, _) => {
                (Some(made.container_id.clone()), Some(made.image_id.clone()))
            }
            (_, Some(last)) => (Some(last.container_id.clone()), Some(last.image_id.clone())),
            (_, None) => (None, None),
        }
    }
}

fn terminated(end: &EndedContainer, message_max: usize) -> ContainerStateTerminated {
    let message = cut(&end.exit.message, message_max);
    // nobody knows when something ended that was never seen to run: see `last_status`
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
