//! Images: made sure of before each first start, with a backoff of their own when they cannot be
//! had.
//!
//! ```text
//!  Pulling ── failed ─► ErrImagePull ── 2 s ─► ImagePullBackOff ── 10, 20 … 300 s since the failure ─► Pulling
//! ```
//! A pull has two steps: the driver looks for the image, and only when it says that there is
//! something to pull, the event Pulling is recorded and it is pulled. Whether an image has a
//! registry (the built-in ones have none) is for the driver to know.
//!
//! The image of a volume is made sure of like the container's own, after it, for each container
//! that mounts it; its failures are the container's. An image that several containers have, however
//! they write its name, is pulled once: the others wait for the one that does, and when it cannot
//! be had they are held with it ([`failed_pulls`](super::failed_pulls)).
//!
//! The kubelet shows ErrImagePull until its next pod sync; here it is shown for a fixed time.
//! ErrImageNeverPull is looked at again after 1 s doubling to 10 s, as a user may load the image;
//! InvalidImageName waits for another spec.

use rekindle_types::reasons::waiting;
use rekindle_types::{ContainerName, Tick, TickDuration};

use super::Containers;
use super::container::{PodContainer, ProcessState, PullStep, StartHold};
use super::failed_pulls::ImageName;
use crate::action::CoreAction;
use crate::blueprint::Definition;
use crate::complaint::Complaint;
use crate::event::{ActionError, ActionErrorKind, ActionOutcome, ImageSource};
use crate::key::ActionId;
use crate::outbox::{Outbox, PendingAnswer};
use crate::texts;

/// How long ErrImagePull is shown before ImagePullBackOff.
const ERROR_SHOWN_FOR: TickDuration = TickDuration::from_secs(2);

impl Containers {
    /// It waits for a pull that another container has begun: when that is over, it looks for the
    /// image anew.
    pub(super) fn look_again(&mut self, place: usize, outbox: &mut Outbox) {
        let name = self.list[place].image.name.as_ref();
        if !name.is_some_and(|name| self.is_being_pulled(name)) {
            self.list[place].look_for_image(outbox);
        }
    }

    /// A container of the pod has the image pulled.
    fn is_being_pulled(&self, image: &ImageName) -> bool {
        self.list.iter().any(|container| match container.state {
            ProcessState::Pulling { step: PullStep::Pull(_) } => {
                container.image.name.as_ref().is_some_and(|name| name.full == image.full)
            }
            ProcessState::Pulling { step: PullStep::Look(_) | PullStep::Await }
            | ProcessState::Idle(_)
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => false,
        })
    }

    /// The image is not here: it is pulled, unless that is under way or has just failed.
    fn image_is_missing(&mut self, place: usize, full: String, now: Tick, outbox: &mut Outbox) {
        let image = ImageName { written: self.list[place].under_way().image, full };
        self.list[place].image.name = Some(image.clone());
        let is_being_pulled = self.is_being_pulled(&image);
        let container = &mut self.list[place];
        if is_being_pulled {
            container.state = ProcessState::Pulling { step: PullStep::Await };
        } else if let Some((until, error)) = self.failed_pulls.held(&image, now) {
            let message = texts::image_back_off(&image.written, Some(error));
            container.state = ProcessState::Idle(StartHold::Image { shown_at: None, until });
            container.complain_of_held_image(message, outbox);
        } else {
            container.pull(outbox);
        }
    }

    /// Pulls that failed need not wait any more, of the images of all containers.
    pub(super) fn let_go_of_pulls(&mut self, now: Tick) {
        for container in &self.list {
            self.failed_pulls.let_go_of(&container.definition, now);
        }
    }

    /// The same of the images of one container.
    pub(super) fn let_go_of_pulls_of(&mut self, name: &ContainerName, now: Tick) {
        for container in self.list.iter().filter(|c| c.definition.name == *name) {
            self.failed_pulls.let_go_of(&container.definition, now);
        }
    }

    pub(crate) fn pull_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        now: Tick,
        outbox: &mut Outbox,
    ) {
        match self.list[place].state {
            ProcessState::Pulling { step: PullStep::Look(action) | PullStep::Pull(action) }
                if action == id => {}
            ProcessState::Idle(_)
            | ProcessState::Pulling { .. }
            | ProcessState::Starting { .. }
            | ProcessState::Running { .. } => return,
        }
        match result {
            Ok(ActionOutcome::ImagePresent { image_id, source }) => {
                self.list[place].image_is_here(image_id, source, outbox);
            }
            Ok(ActionOutcome::ImageToPull { name }) => {
                self.image_is_missing(place, name, now, outbox)
            }
            Ok(other) => {
                let message = format!("the runtime answered {other:?} to the pull");
                let error = ActionError { kind: ActionErrorKind::ImagePull, message };
                self.image_failed(place, error, now, outbox);
            }
            Err(error) => self.image_failed(place, error, now, outbox),
        }
    }

    /// The image cannot be had (yet).
    pub(super) fn image_failed(
        &mut self,
        place: usize,
        error: ActionError,
        now: Tick,
        outbox: &mut Outbox,
    ) {
        let container = &mut self.list[place];
        container.image.known = None;
        match error.kind {
            ActionErrorKind::InvalidImageName => {
                container.state = ProcessState::Idle(StartHold::SpecChange);
                let reason = waiting::INVALID_IMAGE_NAME;
                container.complain_of_image(reason, error.message, outbox);
            }
            ActionErrorKind::ImageNeverPull => {
                let until = container.next_try(now);
                container.state = ProcessState::Idle(StartHold::Retry { until });
                let message = texts::never_pull(&container.under_way().image);
                container.complain_of_image(waiting::ERR_IMAGE_NEVER_PULL, message, outbox);
            }
            ActionErrorKind::ImagePull
            | ActionErrorKind::Sandbox
            | ActionErrorKind::Volume
            | ActionErrorKind::ContainerConfig
            | ActionErrorKind::ContainerCreate
            | ActionErrorKind::ContainerStart
            | ActionErrorKind::Other => self.pull_failed(place, error.message, now, outbox),
        }
    }

    fn pull_failed(&mut self, place: usize, message: String, now: Tick, outbox: &mut Outbox) {
        let container = &mut self.list[place];
        let definition = container.under_way();
        // one that could not even be looked for is known by what is written only
        let name = container.image.name.clone().unwrap_or_else(|| ImageName {
            written: definition.image.clone(),
            full: definition.image.clone(),
        });
        let until = self.failed_pulls.failed(&name, &message, now);
        let shown_at = Some(now + ERROR_SHOWN_FOR);
        container.state = ProcessState::Idle(StartHold::Image { shown_at, until });
        outbox.emit(texts::failed_to_pull(&definition, &message));
        container.complain_of_image(waiting::ERR_IMAGE_PULL, message, outbox);
    }
}

impl PodContainer {
    /// Makes sure of its own image, and then of those of the volumes that it mounts.
    pub(super) fn ensure_images(&mut self, outbox: &mut Outbox) {
        self.image.number = 0;
        self.look_for_image(outbox);
    }

    /// Its definition as if the image that is being made sure of were its own.
    fn under_way(&self) -> Definition {
        self.definition.about_image(self.image.number)
    }

    fn look_for_image(&mut self, outbox: &mut Outbox) {
        let definition = self.under_way();
        let action = CoreAction::FindImage {
            container: definition.name,
            image: definition.image,
            policy: definition.pull_policy,
        };
        let action = outbox.act(action, PendingAnswer::Pull(self.place));
        self.image.name = None;
        self.state = ProcessState::Pulling { step: PullStep::Look(action) };
    }

    /// The image is to be pulled.
    fn pull(&mut self, outbox: &mut Outbox) {
        let definition = self.under_way();
        let pulling = texts::pulling(&definition);
        let action = CoreAction::PullImage { container: definition.name, image: definition.image };
        let action = outbox.act(action, PendingAnswer::Pull(self.place));
        self.state = ProcessState::Pulling { step: PullStep::Pull(action) };
        outbox.emit(pulling);
    }

    /// One image is here: the next one is looked for. After the last one its start goes on when it
    /// is its turn. It may not be any more: its sandbox can have died since.
    fn image_is_here(&mut self, image_id: String, source: ImageSource, outbox: &mut Outbox) {
        let definition = self.under_way();
        outbox.emit(match source {
            ImageSource::AlreadyPresent => texts::image_present(&definition),
            ImageSource::Pulled { took, with_waiting, size_bytes } => {
                texts::image_pulled(&definition, took, with_waiting, size_bytes)
            }
        });
        if self.image.number == 0 {
            self.image.known = Some(image_id);
        }
        if self.image.number < self.definition.volume_images.len() {
            self.image.number += 1;
            self.look_for_image(outbox);
        } else {
            self.image.is_checked = true;
            self.state = ProcessState::Idle(StartHold::None);
        }
    }

    fn complain_of_image(&mut self, reason: &'static str, message: String, outbox: &mut Outbox) {
        let definition = self.under_way();
        let details = texts::image_problem(&definition, reason, &message);
        let failed = texts::failed(&definition, reason);
        self.complaint = Some(Complaint { reason, message });
        if let Some(event) = details {
            outbox.emit(event);
        }
        outbox.emit(failed);
    }

    /// ErrImagePull becomes ImagePullBackOff when it was shown long enough.
    pub(super) fn show_image_backoff(&mut self, now: Tick, outbox: &mut Outbox) {
        let ProcessState::Idle(StartHold::Image { shown_at, .. }) = &mut self.state else { return };
        if !shown_at.is_some_and(|at| at <= now) {
            return;
        }
        *shown_at = None;
        let before = self.complaint.take();
        let image = self.under_way().image;
        let message = texts::image_back_off(&image, before.as_ref().map(|c| c.message.as_str()));
        self.complain_of_held_image(message, outbox);
    }

    fn complain_of_held_image(&mut self, message: String, outbox: &mut Outbox) {
        let definition = self.under_way();
        let reason = waiting::IMAGE_PULL_BACK_OFF;
        self.complaint = Some(Complaint { reason, message });
        outbox.emit(texts::back_off_pulling(&definition));
        outbox.emit(texts::failed(&definition, reason));
    }
}
