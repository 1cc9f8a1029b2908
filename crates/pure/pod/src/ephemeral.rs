//! Ephemeral containers: added to a pod that runs, to look at it (KEP-277, `kubectl debug`).
//!
//! - One is started as soon as the sandbox and the volumes stand, also while init containers run,
//!   and whatever the others do.
//! - It is started at most once in the pod's life. Before its process is started the journal says
//!   so; when the agent finds neither process nor end of it afterwards, it has ended with nobody to
//!   see it. What fails before that is tried again.
//! - Neither phase, conditions nor the pod's end depend on it. It ends with the pod, by the pod's
//!   grace period.
//! - A restart of all containers passes it by (KEP-5532). With the sandbox it ends, and is not
//!   started again in the next one, as the kubelet does not start what the runtime remembers
//!   (`computePodActions`); one that never ran is started there.
//! - With a target it sees that container's processes. While the target does not run it waits, as
//!   with the kubelet, and tries again when the target has been started.

use crate::blueprint::{Definition, Role};
use crate::container::{Container, Hold, State};
use crate::core::{Keep, PodCore};
use crate::event::{ActionError, ActionErrorKind};
use crate::journal::{ContainerRecord, NodeStop, Standing};
use crate::key::ContainerKey;
use crate::restart;
use crate::sandbox::SandboxState;
use crate::texts;

impl PodCore {
    /// The spec names one that was not there before. Answers in flight find the others at their
    /// places.
    pub(crate) fn add_ephemeral(&mut self, definition: &Definition) {
        match definition.role {
            Role::Ephemeral => {
                let record = ContainerRecord::default();
                let granted = self.resize.granted.of(&definition.name).clone();
                let node_stop = NodeStop::None;
                self.containers.push(Container::restore(
                    definition.clone(),
                    record,
                    granted,
                    node_stop,
                ));
                self.keep(Keep::WithNextAction);
            }
            Role::Init | Role::Sidecar | Role::Regular => {}
        }
    }

    pub(crate) fn drive_ephemeral_containers(&mut self) {
        for place in 0..self.containers.len() {
            if self.containers[place].definition.role == Role::Ephemeral {
                self.drive_container(place);
            }
        }
    }

    /// Whether the halt in progress, if there is one, is for containers of this role.
    pub(crate) fn is_halted(&self, role: Role) -> bool {
        match role {
            Role::Init | Role::Sidecar | Role::Regular => true,
            Role::Ephemeral => {
                let sandbox_stays = match self.sandbox.state {
                    SandboxState::Ready | SandboxState::Absent(_) => self.is_active(),
                    SandboxState::Dead { .. } => false,
                };
                !(sandbox_stays && self.restart.as_ref().is_some_and(restart::keeps_sandbox))
            }
        }
    }

    /// As [`nothing_lives`](Self::nothing_lives), of those that the halt in progress is for.
    pub(crate) fn nothing_halted_lives(&self) -> bool {
        let mut halted = self.containers.iter().filter(|c| self.is_halted(c.definition.role));
        !halted.any(Container::is_live)
    }

    /// A round began. In the sandbox that stands they go on; what may have run in one that was
    /// given up is not started in the next.
    pub(crate) fn carry_ephemerals_over(&mut self) {
        if self.sandbox.stands() {
            return;
        }
        for place in 0..self.containers.len() {
            if self.containers[place].started_at_most_once() {
                self.container_vanished(place);
            }
        }
    }

    /// The process of an ephemeral container is about to be started: the journal says so before.
    pub(crate) fn note_only_start(&mut self, place: usize) {
        let container = &mut self.containers[place];
        match container.definition.role {
            Role::Ephemeral => {
                container.standing = Standing::Started;
                self.keep(Keep::Now);
            }
            Role::Init | Role::Sidecar | Role::Regular => {}
        }
    }

    /// A start failed. Where that was before its process ran, it is the only one still.
    pub(crate) fn unnote_only_start(&mut self, place: usize, error: ActionErrorKind) {
        let did_not_run = match error {
            ActionErrorKind::Sandbox
            | ActionErrorKind::Volume
            | ActionErrorKind::InvalidImageName
            | ActionErrorKind::ImageNeverPull
            | ActionErrorKind::ImagePull
            | ActionErrorKind::ContainerConfig
            | ActionErrorKind::ContainerCreate
            | ActionErrorKind::ContainerStart => true,
            ActionErrorKind::Other => false,
        };
        let container = &mut self.containers[place];
        if did_not_run && container.started_at_most_once() {
            container.standing = Standing::Due;
            self.keep(Keep::Now);
        }
    }

    /// The start whose processes a container is to see, if it asks for one.
    pub(crate) fn target_of(&self, place: usize) -> Result<Option<ContainerKey>, ActionError> {
        let Some(name) = &self.containers[place].definition.target else { return Ok(None) };
        let target = self.containers.iter().find(|c| c.definition.name == *name);
        let refused = |kind, message| Err(ActionError { kind, message });
        match target {
            Some(target) if target.has_process() => Ok(Some(target.key(self.sandbox.attempt))),
            Some(target) if target.last.is_some() => refused(
                ActionErrorKind::ContainerCreate,
                texts::target_not_running(name, &self.pod_text()),
            ),
            // The kubelet looks for its status.
            Some(_) | None => refused(
                ActionErrorKind::ContainerConfig,
                format!("unable to find target container {name}"),
            ),
        }
    }

    /// A container was started: those that wait to see its processes need not wait any longer.
    pub(crate) fn let_joiners_try_again(&mut self, place: usize) {
        let name = self.containers[place].definition.name.clone();
        for container in &mut self.containers {
            if container.definition.target.as_ref() == Some(&name)
                && let State::Idle(hold @ Hold::Retry { .. }) = &mut container.state
            {
                *hold = Hold::None;
            }
        }
    }
}

impl Container {
    /// Whether the only start of an ephemeral container may have happened, and was not seen to end.
    pub(crate) fn started_at_most_once(&self) -> bool {
        self.definition.role == Role::Ephemeral && self.standing == Standing::Started
    }

    fn has_process(&self) -> bool {
        match self.state {
            State::Running { .. } => true,
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => false,
        }
    }
}
