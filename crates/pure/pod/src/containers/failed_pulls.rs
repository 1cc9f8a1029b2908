//! The pulls of a pod's images that failed.
//!
//! Their back-off is that of the pod and the image (kubelet: image manager, `pullImage`), not of a
//! container: however many containers have the image, its registry is asked for it once, and each
//! of them says what it answered.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::Tick;

use crate::backoff::ImageBackoff;
use crate::blueprint::Definition;

/// What an image is called. How one follows from the other is for the driver to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageName {
    /// In the spec.
    pub(super) written: String,
    /// In full: two that are the same in full are one image.
    pub(super) full: String,
}

/// By the full name of the image.
#[derive(Debug, Default)]
pub(super) struct FailedPulls(BTreeMap<String, FailedPull>);

#[derive(Debug, Default)]
struct FailedPull {
    /// As containers that were to have it name it.
    written: BTreeSet<String>,
    backoff: ImageBackoff,
    /// Not pulled again before then.
    until: Tick,
    /// What was wrong the last time.
    message: String,
}

impl FailedPulls {
    /// A pull failed now; when the next one may be tried.
    pub(super) fn failed(&mut self, image: &ImageName, message: &str, now: Tick) -> Tick {
        self.0.retain(|_, pull| !pull.backoff.is_over(now));
        let pull = self.0.entry(image.full.clone()).or_default();
        pull.written.insert(image.written.clone());
        pull.until = pull.backoff.failed(now);
        message.clone_into(&mut pull.message);
        pull.until
    }

    /// Until when the image is not to be pulled, and what was wrong with it.
    pub(super) fn held(&mut self, image: &ImageName, now: Tick) -> Option<(Tick, &str)> {
        let pull = self.0.get_mut(&image.full).filter(|pull| pull.until > now)?;
        pull.written.insert(image.written.clone());
        Some((pull.until, &pull.message))
    }

    /// A restart was asked for: the images of a container, as they are written, are tried at once.
    /// Should that fail, the next delay is longer all the same.
    pub(super) fn let_go_of(&mut self, definition: &Definition, now: Tick) {
        self.let_go(&definition.image, now);
        for volume in &definition.volume_images {
            self.let_go(&volume.image, now);
        }
    }

    fn let_go(&mut self, written: &str, now: Tick) {
        for pull in self.0.values_mut().filter(|pull| pull.written.contains(written)) {
            pull.until = now;
        }
    }
}
