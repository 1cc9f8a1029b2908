//! Walks through folders, kept for a while: whoever asks again soon gets what was found, with the time it was taken.
//!
//! A walk that takes long is kept longer, so that walking takes a small part of one core however much pods write.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rekindle_runtime::TreeUsage;
use rekindle_types::{Tick, TickDuration};

use super::snapshot::Measured;
use crate::clock::Clock;

/// How long a walk is good for at least.
const KEPT: TickDuration = TickDuration::from_secs(10);
/// How many times as long as it took a walk is good for: walks take a twentieth of a core at most.
const KEPT_PER_DURATION: u32 = 20;
/// One that nobody has asked for this long is forgotten.
const FORGOTTEN: TickDuration = TickDuration::from_secs(600);

/// The walks of one node.
#[derive(Debug)]
pub(super) struct Walks {
    clock: Clock,
    kept: Mutex<BTreeMap<String, Kept>>,
    /// One walk at a time.
    walking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    measured: Measured,
    good_until: Tick,
    asked_at: Tick,
}

impl Walks {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, kept: Mutex::default(), walking: tokio::sync::Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Option<Measured> {
        let now = self.clock.now();
        let mut kept = self.kept();
        let found = kept.get_mut(name).filter(|found| now < found.good_until)?;
        found.asked_at = now;
        Some(found.measured)
    }

    /// What the walk of this name found lately, else what it finds now. One that fails says nothing, and is told to the log.
    pub(super) async fn measure<E: std::fmt::Display>(
        &self,
        name: &str,
        walk: impl Future<Output = Result<TreeUsage, E>>,
    ) -> Option<Measured> {
        if let Some(found) = self.find(name) {
            return Some(found);
        }
        let _one = self.walking.lock().await;
        if let Some(found) = self.find(name) {
            return Some(found); // somebody else has just walked
        }
        let begun_at = self.clock.now();
        let usage = match walk.await {
            Ok(usage) => usage,
            Err(error) => {
                tracing::debug!(name, %error, "the size of a folder cannot be measured");
                return None;
            }
        };
        let now = self.clock.now();
        let took = now.since(begun_at).as_micros().saturating_mul(KEPT_PER_DURATION.into());
        let measured = Measured { usage, taken_at: now };
        let good_until = now + KEPT.max(TickDuration::from_micros(took));
        let mut kept = self.kept();
        kept.retain(|_, found| now.since(found.asked_at) < FORGOTTEN);
        kept.insert(name.to_owned(), Kept { measured, good_until, asked_at: now });
        Some(measured)
    }
}
