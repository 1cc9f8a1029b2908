//! Who watches what. Published events only mark the watchers they concern and wake them; each
//! watcher then takes the events from the shared history by itself. So a slow watcher costs no
//! memory, and a write costs one prefix comparison for each watcher of the same first segment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::key::{Revision, segment_of_key, segment_of_prefix};
use crate::object::StoreEvent;

/// All watchers, found by the first segment of the keys they watch.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    by_segment: BTreeMap<Box<str>, BTreeMap<SubscriberId, Arc<Subscriber>>>,
    /// Those whose prefix does not pin the first segment.
    everywhere: BTreeMap<SubscriberId, Arc<Subscriber>>,
    last_id: SubscriberId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubscriberId(u64);

/// One watcher, as the publisher sees it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) id: SubscriberId,
    pub(crate) prefix: Box<str>,
    state: Mutex<SubscriberState>,
}

#[derive(Debug)]
pub(crate) struct SubscriberState {
    /// The oldest published event for this watcher that it has not taken; none when it is up to
    /// date. This, and not the watcher's position, decides whether a compaction cost it anything.
    pub(crate) first_untaken: Option<Revision>,
    pub(crate) waker: Option<Waker>,
}

impl Subscriber {
    pub(crate) fn state(&self) -> MutexGuard<'_, SubscriberState> {
        // Nothing panics between two changes of this state, so a poisoned lock still guards a whole
        // one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribers {
    pub(crate) fn add(&mut self, prefix: &str, first_untaken: Option<Revision>) -> Arc<Subscriber> {
        self.last_id = SubscriberId(self.last_id.0 + 1);
        let subscriber = Arc::new(Subscriber {
            id: self.last_id,
            prefix: prefix.into(),
            state: Mutex::new(SubscriberState { first_untaken, waker: None }),
        });
        let group = match segment_of_prefix(prefix) {
            Some(segment) => self.by_segment.entry(segment.into()).or_default(),
            None => &mut self.everywhere,
        };
        group.insert(subscriber.id, Arc::clone(&subscriber));
        subscriber
    }

    pub(crate) fn remove(&mut self, subscriber: &Subscriber) {
        match segment_of_prefix(&subscriber.prefix) {
            None => {
                self.everywhere.remove(&subscriber.id);
            }
            Some(segment) => {
                if let Some(group) = self.by_segment.get_mut(segment) {
                    group.remove(&subscriber.id);
                    if group.is_empty() {
                        self.by_segment.remove(segment);
                    }
                }
            }
        }
    }

    /// Marks everyone whom these events (oldest first) concern; the wakers are to be woken once no
    /// lock is held.
    pub(crate) fn announce<'a>(&self, events: impl Iterator<Item = &'a StoreEvent>) -> Vec<Waker> {
        let mut by_segment: BTreeMap<&str, Vec<&StoreEvent>> = BTreeMap::new();
        for event in events {
            by_segment.entry(segment_of_key(event.key().as_str())).or_default().push(event);
        }
        let mut wakers = Vec::new();
        for (segment, events) in &by_segment {
            for subscriber in self.by_segment.get(*segment).into_iter().flat_map(BTreeMap::values) {
                subscriber.mark(events, &mut wakers);
            }
            for subscriber in self.everywhere.values() {
                subscriber.mark(events, &mut wakers);
            }
        }
        wakers
    }

    /// The wakers of all watchers: something happened that ends them.
    pub(crate) fn all_wakers(&self) -> Vec<Waker> {
        let groups = self.by_segment.values().chain(std::iter::once(&self.everywhere));
        groups.flat_map(BTreeMap::values).filter_map(|s| s.state().waker.take()).collect()
    }
}

impl Subscriber {
    fn mark(&self, events: &[&StoreEvent], wakers: &mut Vec<Waker>) {
        let concerns = |event: &&&StoreEvent| event.key().as_str().starts_with(&*self.prefix);
        let Some(first) = events.iter().find(concerns).map(|event| event.revision()) else {
            return;
        };
        let mut state = self.state();
        // Segments are announced one after the other, so an event of a later one may be the older.
        state.first_untaken = Some(state.first_untaken.map_or(first, |known| known.min(first)));
        wakers.extend(state.waker.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_watcher_that_is_gone() {
        let mut subscribers = Subscribers::default();
        for prefix in ["/pods/", "/pods/a/", "/", ""] {
            let subscriber = subscribers.add(prefix, None);
            subscribers.remove(&subscriber);
        }
        assert!(subscribers.by_segment.is_empty() && subscribers.everywhere.is_empty());
    }
}
