//! Walks through folders, kept for a while: whoever asks again soon gets what was found, with the
//! time it was taken.
//!
//! A walk that takes long is kept longer, so that walking takes a small part of one core however
//! much pods write.
//!
//! Nobody waits for more than a million entries. A tree that has more is walked to its end beside
//! all else, so that nothing is hidden behind many small files; until that is done it takes at
//! least what was seen.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_runtime::{TREE_ENTRIES_LONG, TREE_ENTRIES_MAX, TreeUsage, WalkExtent};
use rekindle_types::{Tick, TickDuration};

use super::snapshot::TreeMeasurement;
use crate::clock::Clock;

/// How long a walk is good for at least.
const KEPT: TickDuration = TickDuration::from_secs(10);
/// How many times as long as it took a walk is good for: walks take a twentieth of a core at most.
const KEPT_PER_DURATION: u32 = 20;
/// One that nobody has asked for this long is forgotten.
const FORGOTTEN: TickDuration = TickDuration::from_secs(600);

/// The walks of one node.
#[derive(Debug)]
pub(super) struct VolumeWalks {
    found: Arc<WalkCache>,
    /// One walk that somebody waits for at a time.
    walking: tokio::sync::Mutex<()>,
    /// One that nobody waits for.
    walking_on: Arc<tokio::sync::Mutex<()>>,
}

/// What walks have found.
#[derive(Debug)]
struct WalkCache {
    clock: Clock,
    kept: Mutex<BTreeMap<String, CachedWalk>>,
}

#[derive(Clone, Copy, Debug)]
struct CachedWalk {
    measured: TreeMeasurement,
    good_until: Tick,
    asked_at: Tick,
}

impl WalkCache {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, CachedWalk>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, name: &str) -> Option<TreeMeasurement> {
        let now = self.clock.now();
        let mut kept = self.kept();
        let found = kept.get_mut(name).filter(|found| now < found.good_until)?;
        found.asked_at = now;
        Some(found.measured)
    }

    /// What was found of a tree that a short walk does not see the end of, whenever that was.
    fn large(&self, name: &str) -> Option<TreeMeasurement> {
        let now = self.clock.now();
        let mut kept = self.kept();
        let found = kept.get_mut(name).filter(|found| is_large(&found.measured.usage))?;
        found.asked_at = now;
        Some(found.measured)
    }

    /// Takes the walk, and keeps what it finds. One that fails says nothing, and is told to the
    /// log.
    async fn take<E: std::fmt::Display>(
        &self,
        name: &str,
        walk: impl Future<Output = Result<TreeUsage, E>>,
    ) -> Option<TreeMeasurement> {
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
        let measured = TreeMeasurement { usage, taken_at: now };
        let good_until = now + KEPT.max(TickDuration::from_micros(took));
        let mut kept = self.kept();
        kept.retain(|_, found| now.since(found.asked_at) < FORGOTTEN);
        kept.insert(name.to_owned(), CachedWalk { measured, good_until, asked_at: now });
        Some(measured)
    }
}

/// Whether a short walk sees less than all of it.
fn is_large(usage: &TreeUsage) -> bool {
    match usage.extent {
        WalkExtent::AtLeast => true,
        WalkExtent::Whole => usage.inodes > TREE_ENTRIES_MAX,
    }
}

impl VolumeWalks {
    pub(super) fn new(clock: Clock) -> Self {
        let found = Arc::new(WalkCache { clock, kept: Mutex::default() });
        Self { found, walking: tokio::sync::Mutex::default(), walking_on: Arc::default() }
    }

    /// What the walk of this name found lately, else what it finds now among so many entries as it
    /// is told.
    pub(super) async fn measure<W, E>(
        &self,
        name: &str,
        walk: impl Fn(u64) -> W + Send + 'static,
    ) -> Option<TreeMeasurement>
    where
        W: Future<Output = Result<TreeUsage, E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        if let Some(found) = self.found.fresh(name) {
            return Some(found);
        }
        let _one = self.walking.lock().await;
        if let Some(found) = self.found.fresh(name) {
            return Some(found); // somebody else has just walked
        }
        // of one that is known to be large a short walk would only tell less
        let measured = match self.found.large(name) {
            Some(found) => found,
            None => self.found.take(name, walk(TREE_ENTRIES_MAX)).await?,
        };
        if is_large(&measured.usage) {
            self.walk_on(name, walk(TREE_ENTRIES_LONG));
        }
        Some(measured)
    }

    /// Walks to the end while nobody waits, unless another such walk is under way.
    fn walk_on<E: std::fmt::Display + Send + 'static>(
        &self,
        name: &str,
        walk: impl Future<Output = Result<TreeUsage, E>> + Send + 'static,
    ) {
        let Ok(one) = self.walking_on.clone().try_lock_owned() else { return };
        let (found, name) = (self.found.clone(), name.to_owned());
        tokio::spawn(async move {
            let _until_done = one;
            found.take(&name, walk).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rekindle_types::Tick;

    use super::*;

    /// As much as is seen of a tree of five million entries, of which the last one is large.
    async fn walk(entries_max: u64) -> Result<TreeUsage, Infallible> {
        const ENTRIES: u64 = 5_000_000;
        let inodes = ENTRIES.min(entries_max) + 1; // with the folder itself
        let (bytes, extent) = if entries_max < ENTRIES {
            (0, WalkExtent::AtLeast)
        } else {
            (1 << 30, WalkExtent::Whole)
        };
        Ok(TreeUsage { bytes, inodes, extent })
    }

    #[tokio::test(start_paused = true)]
    async fn a_tree_of_very_many_entries_is_walked_to_its_end_while_nobody_waits() {
        let clock = Clock::of_timers(Tick::from_secs(1_000_000));
        let walks = VolumeWalks::new(clock);
        let first = walks.measure("volume", walk).await.unwrap();
        assert_eq!((first.usage.bytes, first.usage.extent), (0, WalkExtent::AtLeast));
        drop(walks.walking_on.lock().await);
        for _ in 0..3 {
            let found = walks.measure("volume", walk).await.unwrap();
            assert_eq!((found.usage.bytes, found.usage.extent), (1 << 30, WalkExtent::Whole));
            // long after it was good for, it is still more than a short walk tells
            tokio::time::advance(std::time::Duration::from_secs(300)).await;
        }
        drop(walks.walking_on.lock().await);
        let last = walks.measure("volume", walk).await.unwrap();
        assert!(last.taken_at > first.taken_at, "it is walked through again");
    }
}
