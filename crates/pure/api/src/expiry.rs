//! Events live for an hour after their last write, as upstream's `--event-ttl`.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_store::{Mutation, PendingWrite, RangeQuery, Store, StoreError, WritePrecondition};
use rekindle_types::{Tick, TickDuration};
use serde::Deserialize;

use crate::keys;
use crate::registry::{KindEntry, Registry};

/// So many are removed at once: a thousand pods that began together must not fill the store's queue
/// an hour later.
const REMOVED_MAX: usize = 256;
/// How long an Event lives after its last write.
const EVENT_LIFETIME: TickDuration = TickDuration::from_secs(3600);

/// When which Event is due.
#[derive(Debug, Default)]
pub(crate) struct EventExpiry {
    due_by_key: BTreeMap<String, Tick>,
    keys_by_due: BTreeSet<(Tick, String)>,
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
        let due = at + EVENT_LIFETIME;
        if let Some(before) = self.due_by_key.insert(key.to_owned(), due) {
            self.keys_by_due.remove(&(before, key.to_owned()));
        }
        self.keys_by_due.insert((due, key.to_owned()));
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.keys_by_due.first().map(|(due, _)| *due)
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
            let Some((due, key)) = self.keys_by_due.first().cloned() else { break };
            if due > now {
                break;
            }
            match store.write(&key, WritePrecondition::Any, Mutation::Delete) {
                Ok(pending) => last = Some(pending),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            self.due_by_key.remove(&key);
            self.keys_by_due.remove(&(due, key));
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
