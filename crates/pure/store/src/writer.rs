//! Where writes are ordered: compare-and-swap against the newest state, the next revision, the
//! queue for the disk.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Batch, BatchRow};
use crate::error::StoreError;
use crate::key::{ObjectKey, Revision};
use crate::limits::StoreLimits;
use crate::object::{ObjectVersion, StoreEvent, StoredObject};
use crate::pending::{DurableWrite, PendingWrite, WriteCompleter, pending};

/// The part of the limit, as its reciprocal, that is kept for what is there already.
const UPDATE_RESERVE: usize = 8;

/// What a write requires of the newest state, writes that wait for the disk included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePrecondition {
    /// Nothing.
    Any,
    /// The object does not exist; else [`StoreError::AlreadyExists`].
    Absent,
    /// The object exists; else [`StoreError::NotFound`].
    Present,
    /// The object exists at exactly this revision; else [`StoreError::NotFound`] or
    /// [`StoreError::Conflict`].
    Revision(Revision),
}

/// What a write does.
pub enum Mutation<'a> {
    /// Creates or replaces the object. The encoder is told the revision that the write will have,
    /// so that it can be part of the value. It runs while all other writes wait, so it should only
    /// splice, and must not write itself.
    Put(&'a dyn Fn(Revision) -> Bytes),
    /// Deletes the object. [`StoreError::NotFound`] when there is none, whatever was expected.
    Delete,
}

/// One of several writes that happen together: all of them, or none.
pub struct StoreWrite<'a> {
    /// The object.
    pub key: &'a str,
    /// What it requires.
    pub expect: WritePrecondition,
    /// What it does.
    pub mutation: Mutation<'a>,
}

/// A span without a failed commit. What was decided from the newest state counts as long as the
/// epoch lasts: a failed commit takes back writes that were part of that state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteEpoch(u64);

/// The newest state, as far as it is not durable yet, and the writes that lead there.
#[derive(Debug)]
pub(crate) struct StoreWriter {
    /// The newest version of each key that some queued or in-flight write changes.
    heads: BTreeMap<ObjectKey, ObjectVersion>,
    queue: Vec<QueuedWrite>,
    queued_bytes: usize,
    /// Of all objects in the newest state.
    total_bytes: usize,
    newest: Revision,
    epoch: WriteEpoch,
    pub(crate) gate: WriteGate,
}

/// Where the newest state goes back to when a commit fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableState {
    pub(crate) revision: Revision,
    pub(crate) total_bytes: usize,
}

/// Whether writes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteGate {
    Open,
    /// No new ones; those queued are still committed.
    Closing,
}

/// One accepted write, or a wish to be told when all before it are durable.
#[derive(Debug)]
pub(crate) struct QueuedWrite {
    work: CommitWork,
    completer: WriteCompleter,
}

#[derive(Debug)]
enum CommitWork {
    Write(StoreEvent),
    Barrier,
}

impl StoreWriter {
    pub(crate) fn new(durable: DurableState) -> Self {
        Self {
            heads: BTreeMap::new(),
            queue: Vec::new(),
            queued_bytes: 0,
            total_bytes: durable.total_bytes,
            newest: durable.revision,
            epoch: WriteEpoch(0),
            gate: WriteGate::Open,
        }
    }

    /// The newest version of a key that is not durable yet; none when the visible state has the
    /// newest.
    pub(crate) fn head(&self, key: &str) -> Option<&ObjectVersion> {
        self.heads.get(key)
    }

    /// Orders a write. `current` is the newest state of the key.
    pub(crate) fn write(
        &mut self,
        key: &str,
        current: Option<Arc<StoredObject>>,
        expect: WritePrecondition,
        mutation: &Mutation<'_>,
        limits: &StoreLimits,
    ) -> Result<PendingWrite, StoreError> {
        self.admit(key, limits)?;
        let write = (key, expect, mutation);
        let event = event_of(write, current, self.newest.next(), limits)?;
        self.check_total(&event, 0, limits)?;
        Ok(self.push(event))
    }

    /// Orders writes of different keys as one step. With each comes the newest state of its key.
    pub(crate) fn write_all(
        &mut self,
        writes: &[(&StoreWrite<'_>, Option<Arc<StoredObject>>)],
        epoch: WriteEpoch,
        limits: &StoreLimits,
    ) -> Result<Vec<PendingWrite>, StoreError> {
        self.check_open()?;
        if epoch != self.epoch {
            return Err(StoreError::RolledBack);
        }
        let mut revision = self.newest;
        let mut growth = 0;
        let mut events = Vec::with_capacity(writes.len());
        for (write, current) in writes {
            self.admit(write.key, limits)?;
            revision = revision.next();
            let one = (write.key, write.expect, &write.mutation);
            let event = event_of(one, current.clone(), revision, limits)?;
            self.check_total(&event, growth, limits)?;
            growth += event.growth();
            events.push(event);
        }
        Ok(events.into_iter().map(|event| self.push(event)).collect())
    }

    /// The span that lasts until the next failed commit.
    pub(crate) const fn epoch(&self) -> WriteEpoch {
        self.epoch
    }

    /// The keys below a prefix that some queued or in-flight write changes, as that leaves them.
    pub(crate) fn heads_below<'w>(
        &'w self,
        prefix: &'w str,
    ) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectVersion)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let after = self.heads.range::<str, _>(from);
        after.take_while(move |(key, _)| key.as_str().starts_with(prefix))
    }

    /// An answer for when everything accepted so far is durable.
    pub(crate) fn barrier(&mut self) -> Result<PendingWrite, StoreError> {
        self.check_open()?;
        let (completer, pending) = pending();
        self.queue.push(QueuedWrite { work: CommitWork::Barrier, completer });
        Ok(pending)
    }

    fn push(&mut self, event: StoreEvent) -> PendingWrite {
        let (key, version) = match &event {
            StoreEvent::Put { object, .. } => {
                self.queued_bytes += object.value.len();
                (object.key.clone(), ObjectVersion::Live(Arc::clone(object)))
            }
            StoreEvent::Delete { revision, previous } => {
                (previous.key.clone(), ObjectVersion::Deleted(*revision))
            }
        };
        self.newest = event.revision();
        self.total_bytes = self.total_bytes.saturating_add_signed(event.growth());
        self.heads.insert(key, version);
        let (completer, pending) = pending();
        self.queue.push(QueuedWrite { work: CommitWork::Write(event), completer });
        pending
    }

    fn check_open(&self) -> Result<(), StoreError> {
        match self.gate {
            WriteGate::Open => Ok(()),
            WriteGate::Closing => Err(StoreError::Closed),
        }
    }

    fn admit(&self, key: &str, limits: &StoreLimits) -> Result<(), StoreError> {
        self.check_open()?;
        let full = self.queue.len() >= limits.queue_writes_max
            || self.queued_bytes >= limits.queue_bytes_max;
        if full {
            return Err(StoreError::Overloaded { key: key.into(), queued: self.queue.len() });
        }
        Ok(())
    }

    /// Whether there is room for what a write adds. `before` is what the writes of the same step
    /// add that come before it.
    fn check_total(
        &self,
        event: &StoreEvent,
        before: isize,
        limits: &StoreLimits,
    ) -> Result<(), StoreError> {
        let limit_bytes = match event.previous() {
            None => limits.total_bytes_max,
            Some(_) => limits.total_bytes_max + limits.total_bytes_max / UPDATE_RESERVE,
        };
        let bytes = self.total_bytes.saturating_add_signed(before + event.growth());
        if event.growth() > 0 && bytes > limit_bytes {
            let key = event.key().clone();
            return Err(StoreError::NoRoom { key, bytes, limit_bytes });
        }
        Ok(())
    }

    /// Whether something waits for the committer.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Everything that waits; it stays part of the newest state.
    pub(crate) fn take_queue(&mut self) -> Vec<QueuedWrite> {
        self.queued_bytes = 0;
        std::mem::take(&mut self.queue)
    }

    /// These writes are durable and visible: the visible state has their keys' newest versions now,
    /// unless somebody wrote them again meanwhile.
    pub(crate) fn settle(&mut self, batch: &Batch) {
        for row in &batch.rows {
            if self.heads.get(&row.key).is_some_and(|head| head.revision() <= batch.revision) {
                self.heads.remove(&row.key);
            }
        }
    }

    /// Back to the durable state: what was queued on top of a failed batch is handed out to fail
    /// too, and its revisions, which nobody has seen, are given again.
    pub(crate) fn roll_back(&mut self, durable: DurableState) -> Vec<QueuedWrite> {
        self.heads.clear();
        self.newest = durable.revision;
        self.total_bytes = durable.total_bytes;
        self.epoch = WriteEpoch(self.epoch.0 + 1);
        self.take_queue()
    }
}

impl QueuedWrite {
    /// Answers with success.
    pub(crate) fn succeed(self, durable: Revision) {
        let written = match self.work {
            CommitWork::Barrier => DurableWrite { revision: durable, object: None, previous: None },
            CommitWork::Write(event) => {
                let revision = event.revision();
                match event {
                    StoreEvent::Put { object, previous } => {
                        DurableWrite { revision, object: Some(object), previous }
                    }
                    StoreEvent::Delete { previous, .. } => {
                        DurableWrite { revision, object: None, previous: Some(previous) }
                    }
                }
            }
        };
        self.completer.complete(Ok(written));
    }

    /// Answers with failure.
    pub(crate) fn fail(self, error: StoreError) {
        self.completer.complete(Err(error));
    }
}

/// The events of a taken queue, oldest first.
pub(crate) fn events(queue: &[QueuedWrite]) -> Vec<StoreEvent> {
    let event = |queued: &QueuedWrite| match &queued.work {
        CommitWork::Write(event) => Some(event.clone()),
        CommitWork::Barrier => None,
    };
    queue.iter().filter_map(event).collect()
}

/// The net effect of these events; none when there are none.
pub(crate) fn batch(events: &[StoreEvent]) -> Option<Batch> {
    let revision = events.last()?.revision();
    let mut rows: BTreeMap<&ObjectKey, BatchRow> = BTreeMap::new();
    for event in events {
        let after = match event {
            StoreEvent::Put { object, .. } => Some(Arc::clone(object)),
            StoreEvent::Delete { .. } => None,
        };
        match rows.get_mut(event.key()) {
            Some(row) => row.after = after,
            None => {
                let (key, before) = (event.key().clone(), event.previous().cloned());
                rows.insert(event.key(), BatchRow { key, before, after });
            }
        }
    }
    Some(Batch { revision, rows: rows.into_values().collect() })
}

/// The event that a write is, if it may happen.
fn event_of(
    (key, expect, mutation): (&str, WritePrecondition, &Mutation<'_>),
    current: Option<Arc<StoredObject>>,
    revision: Revision,
    limits: &StoreLimits,
) -> Result<StoreEvent, StoreError> {
    check_expectation(key, current.as_ref(), expect)?;
    match (mutation, current) {
        (Mutation::Delete, None) => Err(StoreError::NotFound { key: key.into() }),
        (Mutation::Delete, Some(previous)) => Ok(StoreEvent::Delete { revision, previous }),
        (Mutation::Put(encode), previous) => {
            let value = encode(revision);
            check_size(key, &value, limits)?;
            let key = previous.as_ref().map_or_else(|| key.into(), |object| object.key.clone());
            let object = Arc::new(StoredObject::new(key, revision, value));
            Ok(StoreEvent::Put { object, previous })
        }
    }
}

fn check_expectation(
    key: &str,
    current: Option<&Arc<StoredObject>>,
    expect: WritePrecondition,
) -> Result<(), StoreError> {
    match (expect, current) {
        (WritePrecondition::Any, _)
        | (WritePrecondition::Absent, None)
        | (WritePrecondition::Present, Some(_)) => Ok(()),
        (WritePrecondition::Absent, Some(object)) => {
            Err(StoreError::AlreadyExists { key: key.into(), revision: object.revision })
        }
        (WritePrecondition::Present | WritePrecondition::Revision(_), None) => {
            Err(StoreError::NotFound { key: key.into() })
        }
        (WritePrecondition::Revision(expected), Some(object)) if expected == object.revision => {
            Ok(())
        }
        (WritePrecondition::Revision(expected), Some(object)) => {
            Err(StoreError::Conflict { key: key.into(), expected, actual: object.revision })
        }
    }
}

fn check_size(key: &str, value: &Bytes, limits: &StoreLimits) -> Result<(), StoreError> {
    let (bytes, limit_bytes) = (key.len() + value.len(), limits.object_bytes_max);
    if bytes > limit_bytes {
        return Err(StoreError::TooLarge { key: key.into(), bytes, limit_bytes });
    }
    Ok(())
}
