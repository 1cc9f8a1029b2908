//! The recent events, for watchers that lag or resume. Revisions are dense, so an event is found by
//! its number; a list of revisions for each first segment lets a watcher of `/pods/` skip
//! everything else.

use std::collections::{BTreeMap, VecDeque};

use crate::key::{Revision, segment_of_key, segment_of_prefix};
use crate::limits::StoreLimits;
use crate::object::StoreEvent;

/// What an event costs besides the superseded value that it keeps alive, bytes: itself, its index
/// entries, two `Arc`s.
const EVENT_OVERHEAD_BYTES: usize = 200;

#[derive(Debug)]
pub(crate) struct EventHistory {
    /// Everything up to here is forgotten; `events[0]` has the revision after it.
    oldest: Revision,
    events: VecDeque<StoreEvent>,
    by_segment: BTreeMap<Box<str>, VecDeque<Revision>>,
    bytes: usize,
}

impl EventHistory {
    /// An empty history: only what happens after `oldest` will be known.
    pub(crate) fn starting_at(oldest: Revision) -> Self {
        Self { oldest, events: VecDeque::new(), by_segment: BTreeMap::new(), bytes: 0 }
    }

    /// The oldest revision that can be read at and watched from.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// The newest revision.
    pub(crate) fn newest(&self) -> Revision {
        Revision(self.oldest.0 + self.events.len() as u64)
    }

    /// Adds the next event.
    pub(crate) fn push(&mut self, event: StoreEvent) {
        debug_assert_eq!(event.revision(), self.newest().next(), "revisions are dense");
        let segment = segment_of_key(event.key().as_str());
        match self.by_segment.get_mut(segment) {
            Some(revisions) => revisions.push_back(event.revision()),
            None => {
                self.by_segment.insert(segment.into(), VecDeque::from([event.revision()]));
            }
        }
        self.bytes += cost_bytes(&event);
        self.events.push_back(event);
    }

    /// Whether the limits ask for the oldest event to be forgotten.
    pub(crate) fn exceeds(&self, limits: &StoreLimits) -> bool {
        self.events.len() > limits.history_events_max || self.bytes > limits.history_bytes_max
    }

    /// Forgets the oldest event and hands it out, so that the versions only it needed can go too.
    pub(crate) fn pop(&mut self) -> Option<StoreEvent> {
        let event = self.events.pop_front()?;
        self.oldest = event.revision();
        self.bytes -= cost_bytes(&event);
        let segment = segment_of_key(event.key().as_str());
        if let Some(revisions) = self.by_segment.get_mut(segment) {
            revisions.pop_front();
            if revisions.is_empty() {
                self.by_segment.remove(segment);
            }
        }
        Some(event)
    }

    /// The events after `after` whose key begins with `prefix`, oldest first.
    pub(crate) fn since<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> Box<dyn Iterator<Item = &'a StoreEvent> + 'a> {
        let matches = move |event: &&StoreEvent| event.key().as_str().starts_with(prefix);
        match segment_of_prefix(prefix) {
            None => {
                let skip = after.0.saturating_sub(self.oldest.0);
                let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.events.len());
                Box::new(self.events.range(skip..).filter(matches))
            }
            Some(segment) => match self.by_segment.get(segment) {
                None => Box::new(std::iter::empty()),
                Some(revisions) => {
                    let start = revisions.partition_point(|revision| *revision <= after);
                    Box::new(revisions.range(start..).map(|r| self.at(*r)).filter(matches))
                }
            },
        }
    }

    fn at(&self, revision: Revision) -> &StoreEvent {
        let position = revision.0 - self.oldest.0 - 1;
        &self.events[usize::try_from(position).expect("a position in memory fits usize")]
    }
}

fn cost_bytes(event: &StoreEvent) -> usize {
    let superseded = event.previous().map_or(0, |object| object.value.len());
    EVENT_OVERHEAD_BYTES + event.key().as_str().len() + superseded
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::object::StoredObject;

    fn put(key: &str, revision: u64) -> StoreEvent {
        let object = StoredObject::new(key, Revision(revision), Bytes::new());
        StoreEvent::Put { object: Arc::new(object), previous: None }
    }

    fn example() -> EventHistory {
        let mut history = EventHistory::starting_at(Revision(10));
        for (offset, key) in
            ["/pods/a/x", "/nodes/n", "/pods/b/x", "/pods/a/y", "/nodes/n"].iter().enumerate()
        {
            history.push(put(key, 11 + offset as u64));
        }
        history
    }

    fn since(history: &EventHistory, prefix: &str, after: u64) -> Vec<u64> {
        history.since(prefix, Revision(after)).map(|event| event.revision().0).collect()
    }

    #[test]
    fn a_prefix_sees_its_own_events_and_no_others() {
        let history = example();
        assert_eq!(since(&history, "/", 10), [11, 12, 13, 14, 15]);
        assert_eq!(since(&history, "/pods/", 10), [11, 13, 14]);
        assert_eq!(since(&history, "/pods/a/", 11), [14]);
        assert_eq!(since(&history, "/po", 11), [13, 14]);
        assert_eq!(since(&history, "/secrets/", 10), [0; 0]);
        assert_eq!(since(&history, "/", 99), [0; 0]);
    }

    #[test]
    fn forgetting_moves_the_oldest_revision_and_frees_every_byte() {
        let mut history = example();
        while let Some(event) = history.pop() {
            assert_eq!(history.oldest(), event.revision());
            assert_eq!(history.newest(), Revision(15));
            let rest: Vec<u64> = (event.revision().0 + 1..=15).collect();
            assert_eq!(since(&history, "", 0), rest);
        }
        assert_eq!(history.bytes, 0);
        assert!(history.by_segment.is_empty());
    }
}
