//! Events live for an hour after their last write, as upstream's `--event-ttl`.

use rekindle_kinds::registry::{KindEntry, Registry};
use rekindle_store::{Mutation, PendingWrite, RangeQuery, Store, StoreError, WritePrecondition};
use rekindle_types::{Tick, TickDuration};
use serde::Deserialize;

use crate::due_times::DueTimes;
use crate::keys;

/// So many are removed at once: a thousand pods that began together must not fill the store's queue
/// an hour later.
const REMOVED_MAX: usize = 256;
/// How long an Event lives after its last write.
const EVENT_LIFETIME: TickDuration = TickDuration::from_secs(3600);

/// When which Event is due.
#[derive(Debug, Default)]
pub(crate) struct EventExpiry {
    due: DueTimes,
}

/// The times inside an Event; the latest counts when the engine starts again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventTimes {
    metadata: CreationMetadata,
    last_timestamp: Option<jiff::Timestamp>,
    event_time: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreationMetadata {
    creation_timestamp: Option<jiff::Timestamp>,
}

impl EventExpiry {
    /// The Events that a store holds already.
    pub(crate) fn new(registry: &Registry, store: &Store) -> Self {
        let mut expiry = Self::default();
        let Some(entry) = registry.find("", "v1", "events") else { return expiry };
        let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
        // A read of the newest revision cannot fail for being too old or too new.
        let objects = store.range(&query).map(|range| range.objects).unwrap_or_default();
        for object in objects {
            expiry.note(object.key.as_str(), written_at(&object.value));
        }
        expiry
    }

    /// An Event was written.
    pub(crate) fn note(&mut self, key: &str, at: Tick) {
        self.due.set(key, at + EVENT_LIFETIME);
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.due.next()
    }

    /// Removes those that are due, as many as may go at once. When the last removal is durable, all
    /// of them are.
    pub(crate) fn prune(
        &mut self,
        store: &Store,
        now: Tick,
    ) -> Result<Option<PendingWrite>, StoreError> {
        let mut last = None;
        for _ in 0..REMOVED_MAX {
            let Some(key) = self.due.first_due(now) else { break };
            match store.write(&key, WritePrecondition::Any, Mutation::Delete) {
                Ok(pending) => last = Some(pending),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            self.due.forget(&key);
        }
        Ok(last)
    }
}

fn written_at(json: &[u8]) -> Tick {
    let Ok(times) = serde_json::from_slice::<EventTimes>(json) else { return Tick::ZERO };
    let latest = [times.last_timestamp, times.event_time, times.metadata.creation_timestamp]
        .into_iter()
        .flatten()
        .max();
    latest.map_or(Tick::ZERO, |time| {
        Tick::from_micros(u64::try_from(time.as_microsecond()).unwrap_or(0))
    })
}

/// Whether objects of a kind expire. A definition may call a kind of its own `Event`, too: its
/// objects stay.
pub(crate) fn expires(entry: &KindEntry) -> bool {
    entry.home().group_and_kind() == ("", "Event")
}
