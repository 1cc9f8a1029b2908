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

use super::Containers;
use super::container::{PodContainer, ProcessState, StartHold};
use crate::allocation::Allocation;
use crate::blueprint::{Definition, RoleInPod};
use crate::context::PodContext;
use crate::event::{ActionError, ActionErrorKind};
use crate::journal::{ContainerRecord, ContainerStanding, NodeStop};
use crate::key::ContainerStartKey;
use crate::outbox::Outbox;
use crate::texts;

impl Containers {
    /// The spec names one that was not there before. Answers in flight find the others at their
    /// places.
    pub(super) fn add_ephemeral(&mut self, definition: &Definition, granted: &Allocation) {
        match definition.role {
            RoleInPod::Ephemeral => self.list.push(PodContainer::restore(
                self.list.len(),
                definition.clone(),
                ContainerRecord::default(),
                granted.of(&definition.name).clone(),
                NodeStop::None,
            )),
            RoleInPod::Init | RoleInPod::Sidecar | RoleInPod::Regular => {}
        }
    }

    pub(super) fn drive_ephemerals(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        for place in 0..self.list.len() {
            if self.list[place].definition.role == RoleInPod::Ephemeral {
                self.drive_container(place, context, outbox);
            }
        }
    }

    /// A round began. In the sandbox that stands they go on; what may have run in one that was
    /// given up is not started in the next.
    pub(super) fn carry_ephemerals_over(&mut self, context: &PodContext<'_>, outbox: &mut Outbox) {
        if context.sandboxes.stands() {
            return;
        }
        for container in &mut self.list {
            if container.started_at_most_once() {
                // nothing follows the end of an ephemeral container
                let _nothing_follows = container.vanish(context, outbox);
            }
        }
    }

    /// The start whose processes a container is to see, if it asks for one.
    pub(super) fn target_of(
        &self,
        place: usize,
        context: &PodContext<'_>,
    ) -> Result<Option<ContainerStartKey>, ActionError> {
        let Some(name) = &self.list[place].definition.target else { return Ok(None) };
        let target = self.list.iter().find(|c| c.definition.name == *name);
        let refused = |kind, message| Err(ActionError { kind, message });
        match target {
            Some(target) if target.has_process() => {
                Ok(Some(target.key(context.sandboxes.attempt())))
            }
            Some(target) if target.last.is_some() => refused(
                ActionErrorKind::ContainerCreate,
                texts::target_not_running(name, &context.desired.full_name()),
            ),
            // The kubelet looks for its status.
            Some(_) | None => refused(
                ActionErrorKind::ContainerConfig,
                format!("unable to find target container {name}"),
            ),
        }
    }

    /// A container was started: those that wait to see its processes need not wait any longer.
    pub(super) fn let_joiners_try_again(&mut self, place: usize) {
        let name = self.list[place].definition.name.clone();
        for container in &mut self.list {
            if container.definition.target.as_ref() == Some(&name)
                && let ProcessState::Idle(hold @ StartHold::Retry { .. }) = &mut container.state
            {
                *hold = StartHold::None;
            }
        }
    }
}

impl PodContainer {
    /// The process of an ephemeral container is about to be started: the journal says so before.
    pub(super) fn note_only_start(&mut self) {
        match self.definition.role {
            RoleInPod::Ephemeral => self.standing = ContainerStanding::Started,
            RoleInPod::Init | RoleInPod::Sidecar | RoleInPod::Regular => {}
        }
    }

    /// A start failed. Where that was before its process ran, it is the only one still.
    pub(super) fn unnote_only_start(&mut self, error: ActionErrorKind) {
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
        if did_not_run && self.started_at_most_once() {
            self.standing = ContainerStanding::Due;
        }
    }

    /// Whether the only start of an ephemeral container may have happened, and was not seen to end.
    pub(super) fn started_at_most_once(&self) -> bool {
        self.definition.role == RoleInPod::Ephemeral && self.standing == ContainerStanding::Started
    }

    /// Its process runs.
    pub(crate) fn has_process(&self) -> bool {
        match self.state {
            ProcessState::Running { .. } => true,
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. } => false,
        }
    }
}
