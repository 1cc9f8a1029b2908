//! The pulls of a pod's images that failed.
//!
//! Their back-off is that of the pod and the image (kubelet: image manager, `pullImage`), not of a container: however many containers
//! have the image, its registry is asked for it once, and each of them says what it answered.

use std::collections::BTreeMap;

use rekindle_types::Tick;

use crate::backoff::ImageBackoff;

/// By image, as the spec names it.
#[derive(Debug, Default)]
pub(crate) struct FailedPulls(BTreeMap<String, FailedPull>);

#[derive(Debug)]
struct FailedPull {
    backoff: ImageBackoff,
    /// Not pulled again before then.
    until: Tick,
    /// What was wrong the last time.
    message: String,
}

impl FailedPulls {
    /// A pull failed now; when the next one may be tried.
    pub(crate) fn failed(&mut self, image: &str, message: &str, now: Tick) -> Tick {
        self.0.retain(|_, pull| !pull.backoff.is_over(now));
        let mut backoff = self.0.get(image).map_or_else(Default::default, |pull| pull.backoff);
        let until = backoff.failed(now);
        let pull = FailedPull { backoff, until, message: message.to_owned() };
        self.0.insert(image.to_owned(), pull);
        until
    }

    /// Until when the image is not to be pulled, and what was wrong with it.
    pub(crate) fn held(&self, image: &str, now: Tick) -> Option<(Tick, &str)> {
        let pull = self.0.get(image).filter(|pull| pull.until > now)?;
        Some((pull.until, &pull.message))
    }

    /// Somebody asked for a restart: the image is tried at once. Should that fail, the next delay is longer all the same.
    pub(crate) fn let_go(&mut self, image: &str, now: Tick) {
        if let Some(pull) = self.0.get_mut(image) {
            pull.until = now;
        }
    }
}
