//! Images on a node. They are there, but for a time in which those that nothing uses are thrown
//! away and no registry answers: what has never started before has to wait then, and pulls again
//! and again. For what has, the core looks only where its spec says so.
//!
//! How long it waits is checked (P3), reckoned from what the registry was asked: 10, 20, 40 … 300 s
//! by pod and image (kubelet: image manager), whichever container has the image and whatever
//! becomes of the sandbox meanwhile. An agent that starts again begins with nothing, as the kubelet
//! does, and a restart that somebody asks for need not wait.

use std::collections::BTreeMap;

use rekindle_pod::{ActionError, ActionErrorKind, ActionOutcome, ImageSource};
use rekindle_types::{Tick, TickDuration};

use super::SimulatedPod;
use crate::faults::RegistryState;
use crate::known_bugs::KnownBug;

/// The pause after the first failure.
const FIRST: TickDuration = TickDuration::from_secs(10);
/// The longest.
const MOST: TickDuration = TickDuration::from_secs(300);
/// So long after the last failure another one may begin a new series: twice the longest pause, and
/// the failure came later than the question.
const SERIES: TickDuration = TickDuration::from_secs(540);
/// What a pull takes.
const PULL: TickDuration = TickDuration::from_millis(500);

/// The images of a pod that are not on its node.
#[derive(Debug, Default)]
pub(super) struct MissingImages {
    missing: BTreeMap<String, MissingImage>,
}

#[derive(Debug, Default)]
struct MissingImage {
    /// When the registry was asked last and did not answer, and how long nobody may ask again.
    failed: Option<(Tick, TickDuration)>,
}

impl MissingImages {
    pub(super) fn agent_crashed(&mut self) {
        self.missing.values_mut().for_each(|missing| missing.failed = None);
    }

    /// Somebody looks whether an image is on the node.
    fn look(&mut self, image: &str, registry: RegistryState) -> ActionOutcome {
        if registry == RegistryState::Gone {
            self.missing.entry(image.to_owned()).or_default();
        }
        match self.missing.contains_key(image) {
            true => ActionOutcome::ImageToPull { name: image.to_owned() },
            false => {
                let source = ImageSource::AlreadyPresent;
                ActionOutcome::ImagePresent { image_id: image.to_owned(), source }
            }
        }
    }

    /// The registry is asked for an image. What is wrong with that.
    fn check(&self, now: Tick, image: &str) -> Option<String> {
        let (asked, pause) = self.missing.get(image)?.failed?;
        let waited = now.since(asked);
        (waited < pause).then(|| {
            let [waited, pause] = [waited, pause].map(|time| time.as_micros() / 1_000);
            format!("P3: image {image} was pulled {waited} ms after that failed, and its backoff is {pause} ms")
        })
    }

    /// The same, and this is what becomes of it.
    fn fetch(
        &mut self,
        now: Tick,
        image: &str,
        registry: RegistryState,
    ) -> Result<ActionOutcome, ActionError> {
        match registry {
            RegistryState::Answers => {
                self.missing.remove(image);
                let source =
                    ImageSource::Pulled { took: PULL, with_waiting: PULL, size_bytes: 1 << 20 };
                Ok(ActionOutcome::ImagePresent { image_id: image.to_owned(), source })
            }
            RegistryState::Gone => {
                let missing = self.missing.entry(image.to_owned()).or_default();
                let before = missing.failed.filter(|(at, _)| now.since(*at) < SERIES);
                let pause = before.map_or(FIRST, |(_, pause)| pause.saturating_mul(2).min(MOST));
                missing.failed = Some((now, pause));
                let message = "the registry does not answer".to_owned();
                Err(ActionError { kind: ActionErrorKind::ImagePull, message })
            }
        }
    }

    /// Images that nobody may ask a registry for yet.
    fn held(&self, now: Tick) -> impl Iterator<Item = &String> {
        let is_held = move |missing: &MissingImage| {
            missing.failed.is_some_and(|(at, pause)| now.since(at) < pause)
        };
        self.missing.iter().filter(move |(_, missing)| is_held(missing)).map(|(image, _)| image)
    }
}

impl SimulatedPod {
    pub(super) fn look_for_image(&mut self, image: &str, registry: RegistryState) -> ActionOutcome {
        self.pulls.look(image, registry)
    }

    /// An image is pulled: how long that takes, and what comes of it.
    pub(super) fn pull_image(
        &mut self,
        now: Tick,
        image: &str,
        registry: RegistryState,
    ) -> (TickDuration, Result<ActionOutcome, ActionError>) {
        // a restart that was asked for lets go of all that waits, when its turn comes
        let broken = self.pulls.check(now, image).filter(|_| self.requests.is_empty());
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
        let fetched = self.pulls.fetch(now, image, registry);
        self.tally.failed_pulls += u64::from(fetched.is_err());
        (PULL, fetched)
    }

    /// A sandbox is made. The images that its containers wait for are not asked for sooner for
    /// that; only the bug [`KnownBug::PullBackoffOfSandbox`] does so.
    pub(super) fn pulls_go_on(
        &mut self,
        now: Tick,
        registry: RegistryState,
        bug: Option<KnownBug>,
    ) {
        let held: Vec<String> = self.pulls.held(now).cloned().collect();
        self.tally.held_pulls += u64::from(!held.is_empty());
        if bug == Some(KnownBug::PullBackoffOfSandbox) {
            held.iter().for_each(|image| drop(self.pull_image(now, image, registry)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_fetch(image: &str) -> ActionOutcome {
        ActionOutcome::ImageToPull { name: image.to_owned() }
    }

    #[test]
    fn an_image_that_cannot_be_had_is_asked_for_after_longer_and_longer_pauses() {
        let (mut pulls, gone) = (MissingImages::default(), RegistryState::Gone);
        assert_eq!(pulls.look("app:1", gone), to_fetch("app:1"));
        let mut at = Tick::from_secs(100);
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(pulls.check(at, "app:1"), None);
            assert!(pulls.fetch(at, "app:1", gone).is_err());
            let early = at + TickDuration::from_secs(pause) - TickDuration::from_millis(1);
            let expected = format!(
                "P3: image app:1 was pulled {} ms after that failed, and its backoff is {} ms",
                pause * 1_000 - 1,
                pause * 1_000
            );
            assert_eq!(pulls.check(early, "app:1"), Some(expected));
            assert_eq!(pulls.check(early, "app:2"), None);
            assert_eq!(pulls.held(early).collect::<Vec<_>>(), ["app:1"]);
            at = at + TickDuration::from_secs(pause);
        }
        assert_eq!(pulls.held(at).next(), None);
        // it is not there before somebody fetched it
        assert_eq!(pulls.look("app:1", RegistryState::Answers), to_fetch("app:1"));
        assert!(pulls.fetch(at, "app:1", RegistryState::Answers).is_ok());
        assert_ne!(pulls.look("app:1", RegistryState::Answers), to_fetch("app:1"));
        assert_ne!(pulls.look("app:2", RegistryState::Answers), to_fetch("app:2"));
    }
}
