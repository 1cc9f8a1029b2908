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
//! be had they are held with it ([`failed_pulls`](crate::failed_pulls)).
//!
//! The kubelet shows ErrImagePull until its next pod sync; here it is shown for a fixed time.
//! ErrImageNeverPull is looked at again after 1 s doubling to 10 s, as somebody may load the image;
//! InvalidImageName waits for another spec.

use rekindle_types::reasons::waiting;
use rekindle_types::{ContainerName, TickDuration};

use crate::action::Action;
use crate::blueprint::Definition;
use crate::container::{Checked, Complaint, Hold, PullStep, State};
use crate::core::PodCore;
use crate::event::{ActionError, ActionErrorKind, ImageSource, Outcome};
use crate::failed_pulls::ImageName;
use crate::key::ActionId;
use crate::outbox::Pending;
use crate::texts;

/// How long ErrImagePull is shown before ImagePullBackOff.
const ERROR_SHOWN_FOR: TickDuration = TickDuration::from_secs(2);

impl PodCore {
    /// Makes sure of the container's own image, and then of those of the volumes that it mounts.
    pub(crate) fn ensure_images(&mut self, place: usize) {
        self.containers[place].image.number = 0;
        self.look_for(place);
    }

    /// The container as if the image that is being made sure of were its own.
    fn under_way(&self, place: usize) -> Definition {
        let container = &self.containers[place];
        container.definition.about_image(container.image.number)
    }

    fn look_for(&mut self, place: usize) {
        let definition = self.under_way(place);
        let action = Action::FindImage {
            container: definition.name,
            image: definition.image,
            policy: definition.pull_policy,
        };
        let action = self.outbox.act(action, Pending::Pull(place));
        self.containers[place].image.name = None;
        self.containers[place].state = State::Pulling { step: PullStep::Look(action) };
        self.status_changed = true;
        self.moved = true;
    }

    /// It waits for a pull that another container has begun: when that is over, it looks for the
    /// image anew.
    pub(crate) fn look_again(&mut self, place: usize) {
        let is_being_pulled = self.containers[place]
            .image
            .name
            .as_ref()
            .is_some_and(|name| self.is_being_pulled(name));
        if !is_being_pulled {
            self.look_for(place);
        }
    }

    /// A container of the pod has the image pulled.
    fn is_being_pulled(&self, image: &ImageName) -> bool {
        self.containers.iter().any(|container| match container.state {
            State::Pulling { step: PullStep::Pull(_) } => {
                container.image.name.as_ref().is_some_and(|name| name.full == image.full)
            }
            State::Pulling { step: PullStep::Look(_) | PullStep::Await }
            | State::Idle(_)
            | State::Starting { .. }
            | State::Running { .. } => false,
        })
    }

    /// The image is not here: it is pulled, unless that is under way or has just failed.
    fn image_is_missing(&mut self, place: usize, full: String) {
        let image = ImageName { written: self.under_way(place).image, full };
        self.containers[place].image.name = Some(image.clone());
        if self.is_being_pulled(&image) {
            self.containers[place].state = State::Pulling { step: PullStep::Await };
        } else if let Some((until, error)) = self.failed_pulls.held(&image, self.now) {
            let message = texts::image_back_off(&image.written, Some(error));
            self.containers[place].state = State::Idle(Hold::Image { shown_at: None, until });
            self.complain_of_held_image(place, message);
        } else {
            self.pull(place);
        }
    }

    /// Pulls that failed need not wait any more, of the images of all containers or of one.
    pub(crate) fn let_go_of_pulls(&mut self, of: Option<&ContainerName>) {
        let now = self.now;
        for container in &self.containers {
            let definition = &container.definition;
            if of.is_none_or(|name| *name == definition.name) {
                self.failed_pulls.let_go(&definition.image, now);
                for volume in &definition.volume_images {
                    self.failed_pulls.let_go(&volume.image, now);
                }
            }
        }
    }

    /// The image is to be pulled.
    fn pull(&mut self, place: usize) {
        let definition = self.under_way(place);
        let pulling = texts::pulling(&definition);
        let action = Action::PullImage { container: definition.name, image: definition.image };
        let action = self.outbox.act(action, Pending::Pull(place));
        self.containers[place].state = State::Pulling { step: PullStep::Pull(action) };
        self.emit(pulling);
    }

    pub(crate) fn pull_answered(
        &mut self,
        place: usize,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        match self.containers[place].state {
            State::Pulling { step: PullStep::Look(action) | PullStep::Pull(action) }
                if action == id => {}
            State::Idle(_)
            | State::Pulling { .. }
            | State::Starting { .. }
            | State::Running { .. } => return,
        }
        match result {
            Ok(Outcome::ImagePresent { image_id, source }) => {
                self.tell_of_image(place, source);
                let container = &mut self.containers[place];
                if container.image.number == 0 {
                    container.image.known = Some(image_id);
                }
                if container.image.number < container.definition.volume_images.len() {
                    container.image.number += 1;
                    self.look_for(place);
                } else {
                    self.images_are_here(place);
                }
            }
            Ok(Outcome::ImageToPull { name }) => self.image_is_missing(place, name),
            Ok(other) => {
                let message = format!("the runtime answered {other:?} to the pull");
                self.image_failed(place, ActionError { kind: ActionErrorKind::ImagePull, message });
            }
            Err(error) => self.image_failed(place, error),
        }
    }

    /// Its start goes on when it is its turn, which it may be no more: its sandbox can have died
    /// meanwhile.
    fn images_are_here(&mut self, place: usize) {
        let container = &mut self.containers[place];
        container.image.checked = Checked::Yes;
        container.state = State::Idle(Hold::None);
        self.moved = true;
    }

    fn tell_of_image(&mut self, place: usize, source: ImageSource) {
        let definition = self.under_way(place);
        let event = match source {
            ImageSource::AlreadyPresent => texts::image_present(&definition),
            ImageSource::Pulled { took, with_waiting, size_bytes } => {
                texts::image_pulled(&definition, took, with_waiting, size_bytes)
            }
        };
        self.emit(event);
    }

    /// The image cannot be had (yet).
    pub(crate) fn image_failed(&mut self, place: usize, error: ActionError) {
        self.status_changed = true;
        self.containers[place].image.known = None;
        match error.kind {
            ActionErrorKind::InvalidImageName => {
                self.containers[place].state = State::Idle(Hold::SpecChange);
                self.complain_of_image(place, waiting::INVALID_IMAGE_NAME, error.message);
            }
            ActionErrorKind::ImageNeverPull => {
                let until = self.next_try(place);
                self.containers[place].state = State::Idle(Hold::Retry { until });
                let message = texts::never_pull(&self.under_way(place).image);
                self.complain_of_image(place, waiting::ERR_IMAGE_NEVER_PULL, message);
            }
            ActionErrorKind::ImagePull
            | ActionErrorKind::Sandbox
            | ActionErrorKind::Volume
            | ActionErrorKind::ContainerConfig
            | ActionErrorKind::ContainerCreate
            | ActionErrorKind::ContainerStart
            | ActionErrorKind::Other => self.pull_failed(place, error.message),
        }
    }

    fn pull_failed(&mut self, place: usize, message: String) {
        let now = self.now;
        let definition = self.under_way(place);
        let failed = texts::failed_to_pull(&definition, &message);
        // one that could not even be looked for is known by what is written only
        let name = self.containers[place].image.name.clone().unwrap_or_else(|| ImageName {
            written: definition.image.clone(),
            full: definition.image.clone(),
        });
        let until = self.failed_pulls.failed(&name, &message, now);
        self.containers[place].state =
            State::Idle(Hold::Image { shown_at: Some(now + ERROR_SHOWN_FOR), until });
        self.emit(failed);
        self.complain_of_image(place, waiting::ERR_IMAGE_PULL, message);
    }

    fn complain_of_image(&mut self, place: usize, reason: &'static str, message: String) {
        let definition = self.under_way(place);
        let details = texts::image_problem(&definition, reason, &message);
        let failed = texts::failed(&definition, reason);
        self.containers[place].complaint = Some(Complaint { reason, message });
        if let Some(event) = details {
            self.emit(event);
        }
        self.emit(failed);
    }

    /// ErrImagePull becomes ImagePullBackOff when it was shown long enough.
    pub(crate) fn show_image_backoff(&mut self, place: usize) {
        let now = self.now;
        let definition = self.under_way(place);
        let container = &mut self.containers[place];
        let State::Idle(Hold::Image { shown_at, .. }) = &mut container.state else { return };
        if !shown_at.is_some_and(|at| at <= now) {
            return;
        }
        *shown_at = None;
        let before = container.complaint.take();
        let image = &definition.image;
        let message = texts::image_back_off(image, before.as_ref().map(|c| c.message.as_str()));
        self.complain_of_held_image(place, message);
    }

    fn complain_of_held_image(&mut self, place: usize, message: String) {
        let definition = self.under_way(place);
        self.containers[place].complaint =
            Some(Complaint { reason: waiting::IMAGE_PULL_BACK_OFF, message });
        let back_off = texts::back_off_pulling(&definition);
        let failed = texts::failed(&definition, waiting::IMAGE_PULL_BACK_OFF);
        self.emit(back_off);
        self.emit(failed);
        self.status_changed = true;
        self.moved = true;
    }
}
