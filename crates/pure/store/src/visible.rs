//! What readers and watchers see: the durable state, its history and its watchers, changed as one
//! step a batch.

use std::sync::Arc;
use std::task::Waker;

use crate::disk::DiskContent;
use crate::error::StoreError;
use crate::history::EventHistory;
use crate::index::VersionIndex;
use crate::key::Revision;
use crate::limits::StoreLimits;
use crate::object::{ObjectVersion, StoreEvent};
use crate::range::{RangePage, RangeQuery};
use crate::subscribers::{Subscriber, Subscribers};
use crate::writer::DurableState;

#[derive(Debug)]
pub(crate) struct VisibleState {
    pub(crate) index: VersionIndex,
    pub(crate) history: EventHistory,
    pub(crate) subscribers: Subscribers,
    pub(crate) lifetime: StoreLifetime,
    /// Of all objects.
    total_bytes: usize,
}

/// Whether more events can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreLifetime {
    Open,
    /// The committer is gone: watchers end once they have taken what there is.
    Ended,
}

impl VisibleState {
    pub(crate) fn from_disk(loaded: DiskContent) -> Self {
        let mut index = VersionIndex::default();
        let mut total_bytes = 0;
        for object in loaded.objects {
            total_bytes += object.size();
            let object = Arc::new(object);
            index.apply(&object.key, ObjectVersion::Live(Arc::clone(&object)));
        }
        Self {
            index,
            history: EventHistory::starting_at(loaded.revision),
            subscribers: Subscribers::default(),
            lifetime: StoreLifetime::Open,
            total_bytes,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.history.newest()
    }

    /// What is durable.
    pub(crate) fn durable(&self) -> DurableState {
        DurableState { revision: self.revision(), total_bytes: self.total_bytes }
    }

    /// Applies durable writes, oldest first; the wakers are to be woken once no lock is held.
    pub(crate) fn publish(&mut self, events: Vec<StoreEvent>, limits: &StoreLimits) -> Vec<Waker> {
        let wakers = self.subscribers.announce(events.iter());
        let before = self.revision();
        for event in events {
            let version = match &event {
                StoreEvent::Put { object, .. } => ObjectVersion::Live(Arc::clone(object)),
                StoreEvent::Delete { revision, .. } => ObjectVersion::Deleted(*revision),
            };
            self.index.apply(event.key(), version);
            self.total_bytes = self.total_bytes.saturating_add_signed(event.growth());
            self.history.push(event);
        }
        // The batch itself stays, whatever its size: a watcher that was up to date must be able to
        // take it.
        while self.history.exceeds(limits) && self.history.oldest() < before {
            self.forget_oldest();
        }
        wakers
    }

    /// Forgets all events up to `keep_after`, as far as there are any.
    pub(crate) fn compact(&mut self, keep_after: Revision) {
        let keep_after = keep_after.min(self.revision());
        while self.history.oldest() < keep_after {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(event) = self.history.pop() {
            self.index.prune(event.key().as_str(), event.revision());
        }
    }

    pub(crate) fn range(&self, query: &RangeQuery) -> Result<RangePage, StoreError> {
        let revision = match query.at {
            None => self.revision(),
            Some(asked) => self.check_readable(asked)?,
        };
        let start_after = query.start_after.as_ref().map(|key| key.as_str());
        let mut found = self.index.range(&query.prefix, start_after, revision);
        let mut wanted =
            found.by_ref().filter(|object| object.terms.may_have_all(&query.terms)).cloned();
        let objects = match query.limit {
            None => wanted.collect(),
            Some(limit) => wanted.by_ref().take(limit).collect(),
        };
        let remaining = found.count();
        Ok(RangePage { objects, revision, remaining })
    }

    pub(crate) fn subscribe(
        &mut self,
        prefix: &str,
        after: Revision,
    ) -> Result<Arc<Subscriber>, StoreError> {
        self.check_readable(after)?;
        let first_untaken = self.history.since(prefix, after).next().map(StoreEvent::revision);
        Ok(self.subscribers.add(prefix, first_untaken))
    }

    fn check_readable(&self, asked: Revision) -> Result<Revision, StoreError> {
        let (oldest, newest) = (self.history.oldest(), self.revision());
        if asked < oldest {
            return Err(StoreError::Compacted { asked, oldest });
        }
        if asked > newest {
            return Err(StoreError::Future { asked, newest });
        }
        Ok(asked)
    }
}
