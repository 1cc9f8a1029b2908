//! What keeps events from becoming a flood, as client-go's EventCorrelator does: similar ones are
//! combined, and an object about which too much is said is told about rarely.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::event_bucket::EventBucket;
use rekindle_types::{EventSeverity, Tick, TickDuration};

use super::{EventNote, EventSubject};

/// So many different messages of one reason about one object, and from then on they are one event.
const SIMILAR_MAX: usize = 10;
/// Within this time.
const SIMILAR_WITHIN: TickDuration = TickDuration::from_secs(600);
/// Before the message of an event that stands for several.
const COMBINED: &str = "(combined from similar events): ";
/// Things remembered at most, of each sort.
pub(super) const REMEMBERED_MAX: usize = 2048;

/// A bounded memory: when it is full, the quarter that was longest not used is forgotten.
#[derive(Clone, Debug)]
pub(super) struct BoundedMemory<K, V> {
    entries: BTreeMap<K, (Tick, V)>,
}

impl<K, V> Default for BoundedMemory<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V> BoundedMemory<K, V> {
    /// What is remembered of this, or a beginning.
    pub(super) fn recall(&mut self, key: &K, now: Tick, begin: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(key) {
            self.make_room();
            self.entries.insert(key.clone(), (now, begin()));
        }
        let (used, value) = self.entries.get_mut(key).expect("it was put in if it was not there");
        *used = now;
        value
    }

    fn make_room(&mut self) {
        if self.entries.len() < REMEMBERED_MAX {
            return;
        }
        let mut ages: Vec<Tick> = self.entries.values().map(|(used, _)| *used).collect();
        ages.sort_unstable();
        let newest_forgotten = ages[ages.len() / 4];
        self.entries.retain(|_, (used, _)| *used > newest_forgotten);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// What makes events similar: all but the message.
type Kind = (EventSubject, EventSeverity, &'static str, &'static str);

/// An event with those that are similar to it.
pub(super) enum CombinedEvent {
    /// It is one of few.
    Alone(EventNote),
    /// One event stands for it and others.
    Combined {
        /// The note by which that event is known.
        known_by: EventNote,
        /// The note that it shows now.
        shown: EventNote,
    },
}

/// Combines similar events.
#[derive(Clone, Debug, Default)]
pub(super) struct EventAggregator {
    said: BoundedMemory<Kind, SimilarMessages>,
}

#[derive(Clone, Debug)]
struct SimilarMessages {
    different: BTreeSet<String>,
    last: Tick,
}

impl EventAggregator {
    /// The event by which this is told.
    pub(super) fn fold(&mut self, note: EventNote, now: Tick) -> CombinedEvent {
        let kind = (note.about.clone(), note.severity, note.reason, note.component);
        let messages = self
            .said
            .recall(&kind, now, || SimilarMessages { different: BTreeSet::new(), last: now });
        if now.since(messages.last) > SIMILAR_WITHIN {
            messages.different.clear();
        }
        messages.last = now;
        messages.different.insert(note.message.clone());
        if messages.different.len() < SIMILAR_MAX {
            return CombinedEvent::Alone(note);
        }
        messages.different.pop_first();
        let known_by = EventNote { message: COMBINED.to_owned(), ..note.clone() };
        let shown = EventNote { message: format!("{COMBINED}{}", note.message), ..note };
        CombinedEvent::Combined { known_by, shown }
    }
}

/// How much is written about each object, by component.
#[derive(Clone, Debug, Default)]
pub(super) struct EventQuota {
    buckets: BoundedMemory<(EventSubject, &'static str), EventBucket>,
}

impl EventQuota {
    /// Takes one write; false when there is none left.
    pub(super) fn take(&mut self, note: &EventNote, now: Tick) -> bool {
        let key = (note.about.clone(), note.component);
        self.buckets.recall(&key, now, || EventBucket::full(now)).take(now)
    }
}
