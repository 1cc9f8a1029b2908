//! The store against a simple model: a log of everything that was acknowledged. Random writes with
//! every expectation, batches, failing and doubtful commits, power loss on both sides of the sync,
//! compaction, range reads at random revisions, and watches opened, read and resumed at random
//! moments.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rekindle_store::memory::{DiskFault, MemoryDisk};
use rekindle_store::{
    Committer, ObjectKey, PendingWrite, RangeQuery, Revision, Store, StoreError, StoreEvent,
    StoreLimits, StoreWatch, WritePrecondition,
};

use crate::support::{delete, put};

const KEYS: [&str; 6] = ["/nodes/n", "/pods/a/x", "/pods/a/y", "/pods/b/x", "/podsets/a", "/z"];
const PREFIXES: [&str; 6] = ["", "/pods/", "/pods/a/", "/pods/a/x", "/po", "/none/"];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Put(usize, Expectation),
    Delete(usize, Expectation),
    Commit,
    FailingCommit(DiskFault),
    Range { prefix: usize, revisions_back: u64, start_after: Option<usize>, limit: Option<usize> },
    Watch { prefix: usize, revisions_back: u64 },
    Drain(usize),
    Unwatch(usize),
    Compact { revisions_back: u64 },
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum Expectation {
    Any,
    Absent,
    Present,
    Newest,
    Stale,
}

fn operation() -> impl Strategy<Value = Operation> {
    let expectation = prop_oneof![
        Just(Expectation::Any),
        Just(Expectation::Absent),
        Just(Expectation::Present),
        Just(Expectation::Newest),
        Just(Expectation::Stale),
    ];
    let fault = prop_oneof![
        Just(DiskFault::Refused),
        Just(DiskFault::InDoubt),
        Just(DiskFault::PowerLossBeforeSync),
        Just(DiskFault::PowerLossAfterSync),
    ];
    let back = 0..12_u64;
    let range = (
        0..PREFIXES.len(),
        back.clone(),
        prop::option::of(0..KEYS.len()),
        prop::option::of(0..4_usize),
    );
    prop_oneof![
        8 => (0..KEYS.len(), expectation.clone()).prop_map(|(key, e)| Operation::Put(key, e)),
        3 => (0..KEYS.len(), expectation).prop_map(|(key, e)| Operation::Delete(key, e)),
        5 => Just(Operation::Commit),
        1 => fault.prop_map(Operation::FailingCommit),
        2 => range.prop_map(|(prefix, revisions_back, start_after, limit)| {
            Operation::Range { prefix, revisions_back, start_after, limit }
        }),
        2 => (0..PREFIXES.len(), back.clone())
            .prop_map(|(prefix, revisions_back)| Operation::Watch { prefix, revisions_back }),
        3 => any::<usize>().prop_map(Operation::Drain),
        1 => any::<usize>().prop_map(Operation::Unwatch),
        1 => back.prop_map(|revisions_back| Operation::Compact { revisions_back }),
        1 => Just(Operation::Restart),
    ]
}

/// One write of the log: its revision is its position plus one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: &'static str,
    /// None is a deletion.
    value: Option<String>,
}

type State = BTreeMap<String, (u64, String)>;

/// The state after the first `length` entries.
fn state_of(log: &[Entry], length: usize) -> State {
    let mut state = State::new();
    for (position, entry) in log[..length].iter().enumerate() {
        match &entry.value {
            Some(value) => {
                state.insert(entry.key.to_owned(), (position as u64 + 1, value.clone()));
            }
            None => {
                state.remove(entry.key);
            }
        }
    }
    state
}

/// A watch with what the model knows of it.
struct Watched {
    watch: StoreWatch,
    prefix: &'static str,
    /// Everything up to here was received.
    received: u64,
}

struct World {
    disk: MemoryDisk,
    store: Store,
    committer: Committer<MemoryDisk>,
    /// Durable and acknowledged writes, and behind them those queued.
    log: Vec<Entry>,
    durable: usize,
    pending: Vec<PendingWrite>,
    watches: Vec<Watched>,
    /// A batch that was refused but may come back if the process dies before the next commit.
    doubtful: Option<Vec<Entry>>,
    written: u64,
}

const LIMITS: StoreLimits = StoreLimits {
    history_events_max: 8,
    history_bytes_max: usize::MAX,
    object_bytes_max: 1_000,
    total_bytes_max: usize::MAX / 2,
    queue_writes_max: 1_000,
    queue_bytes_max: 1_000_000,
};

impl World {
    fn new() -> Self {
        let disk = MemoryDisk::new();
        let (store, committer) = Store::open(disk.clone(), LIMITS).unwrap();
        Self {
            disk,
            store,
            committer,
            log: Vec::new(),
            durable: 0,
            pending: Vec::new(),
            watches: Vec::new(),
            doubtful: None,
            written: 0,
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Put(key, expectation) => {
                self.written += 1;
                let value = format!("value {}", self.written);
                self.write(KEYS[key], expectation, Some(value));
            }
            Operation::Delete(key, expectation) => self.write(KEYS[key], expectation, None),
            Operation::Commit => self.commit(),
            Operation::FailingCommit(fault) => self.failing_commit(fault),
            Operation::Range { prefix, revisions_back, start_after, limit } => {
                self.range(PREFIXES[prefix], revisions_back, start_after.map(|i| KEYS[i]), limit);
            }
            Operation::Watch { prefix, revisions_back } => {
                self.watch(PREFIXES[prefix], revisions_back);
            }
            Operation::Drain(index) => self.drain(index),
            Operation::Unwatch(index) => {
                if !self.watches.is_empty() {
                    let index = index % self.watches.len();
                    self.watches.swap_remove(index);
                }
            }
            Operation::Compact { revisions_back } => {
                let oldest = self.store.oldest_revision();
                let keep_after = Revision((self.durable as u64).saturating_sub(revisions_back));
                self.store.compact(keep_after);
                assert_eq!(self.store.oldest_revision(), keep_after.max(oldest));
            }
            Operation::Restart => self.restart(),
        }
        let durable = state_of(&self.log, self.durable);
        let bytes: usize = durable.iter().map(|(key, (_, value))| key.len() + value.len()).sum();
        assert_eq!(self.store.total_bytes(), bytes);
    }

    fn write(&mut self, key: &'static str, expectation: Expectation, value: Option<String>) {
        let newest = state_of(&self.log, self.log.len()).get(key).map(|(revision, _)| *revision);
        let (expect, holds) = match expectation {
            Expectation::Any => (WritePrecondition::Any, true),
            Expectation::Absent => (WritePrecondition::Absent, newest.is_none()),
            Expectation::Present => (WritePrecondition::Present, newest.is_some()),
            Expectation::Newest => {
                (WritePrecondition::Revision(Revision(newest.unwrap_or(1))), newest.is_some())
            }
            Expectation::Stale => {
                (WritePrecondition::Revision(Revision(newest.unwrap_or(1) - 1)), false)
            }
        };
        let result = match &value {
            Some(value) => put(&self.store, key, expect, value.clone()),
            None => delete(&self.store, key, expect),
        };
        if holds && (value.is_some() || newest.is_some()) {
            self.pending.push(result.unwrap());
            self.log.push(Entry { key, value });
        } else {
            match (result.unwrap_err(), newest) {
                (StoreError::NotFound { .. }, None) => {}
                (StoreError::AlreadyExists { revision, .. }, Some(newest))
                | (StoreError::Conflict { actual: revision, .. }, Some(newest)) => {
                    assert_eq!(revision.0, newest);
                }
                (error, _) => panic!("{error}"),
            }
        }
    }

    fn commit(&mut self) {
        let writes = self.log.len() - self.durable;
        let committed = self.committer.commit_pending().unwrap();
        assert_eq!((committed.writes, committed.revision.0), (writes, self.log.len() as u64));
        for (offset, pending) in self.pending.drain(..).enumerate() {
            let written = pending.try_get().unwrap().unwrap();
            assert_eq!(written.revision.0, (self.durable + offset + 1) as u64);
        }
        if writes > 0 {
            self.doubtful = None;
        }
        self.durable = self.log.len();
    }

    fn failing_commit(&mut self, fault: DiskFault) {
        if self.log.len() == self.durable {
            return;
        }
        self.disk.inject(fault);
        self.committer.commit_pending().unwrap_err();
        for pending in self.pending.drain(..) {
            let error = pending.try_get().unwrap().unwrap_err();
            assert!(matches!(error, StoreError::Disk { .. }), "{error}");
        }
        let lost = self.log.split_off(self.durable);
        match fault {
            DiskFault::Refused => {}
            DiskFault::InDoubt => self.doubtful = Some(lost),
            DiskFault::PowerLossBeforeSync => self.restart(),
            DiskFault::PowerLossAfterSync => {
                self.doubtful = Some(lost);
                self.restart();
            }
        }
    }

    fn restart(&mut self) {
        self.watches.clear();
        self.pending.clear();
        self.log.truncate(self.durable);
        self.log.extend(self.doubtful.take().unwrap_or_default());
        self.durable = self.log.len();
        self.disk.power_on();
        (self.store, self.committer) = Store::open(self.disk.clone(), LIMITS).unwrap();
        assert_eq!(self.store.oldest_revision().0, self.durable as u64);
        self.range("", 0, None, None);
    }

    fn range(
        &self,
        prefix: &str,
        revisions_back: u64,
        start_after: Option<&str>,
        limit: Option<usize>,
    ) {
        let at = (self.durable as u64).saturating_sub(revisions_back);
        let query = RangeQuery {
            prefix: prefix.to_owned(),
            start_after: start_after.map(ObjectKey::from),
            limit,
            at: Some(Revision(at)),
            ..RangeQuery::default()
        };
        let range = match self.store.range(&query) {
            Ok(range) => range,
            Err(StoreError::Compacted { asked, oldest }) => {
                assert!(asked < oldest && oldest == self.store.oldest_revision());
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(Revision(at) >= self.store.oldest_revision());
        let state = state_of(&self.log, usize::try_from(at).unwrap());
        let expected: Vec<_> = state
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| start_after.is_none_or(|after| key.as_str() > after))
            .collect();
        let found: Vec<_> = range
            .objects
            .iter()
            .map(|object| {
                let value = String::from_utf8(object.value.to_vec()).unwrap();
                (object.key.to_string(), (object.revision.0, value))
            })
            .collect();
        let shown = limit.unwrap_or(usize::MAX).min(expected.len());
        assert_eq!(found, expected[..shown]);
        assert_eq!(range.remaining, expected.len() - shown);
        assert_eq!(range.revision.0, at);
        if start_after.is_none() && revisions_back == 0 {
            assert_eq!(self.store.count(prefix), expected.len());
        }
    }

    fn watch(&mut self, prefix: &'static str, revisions_back: u64) {
        let after = (self.durable as u64).saturating_sub(revisions_back);
        match self.store.watch(prefix, Revision(after)) {
            Ok(watch) => {
                assert!(Revision(after) >= self.store.oldest_revision());
                self.watches.push(Watched { watch, prefix, received: after });
            }
            Err(StoreError::Compacted { asked, oldest }) => assert!(asked < oldest),
            Err(error) => panic!("{error}"),
        }
    }

    /// Receives everything; the watch must bring exactly what the log has for it, or say that it
    /// fell behind.
    fn drain(&mut self, index: usize) {
        if self.watches.is_empty() {
            return;
        }
        let index = index % self.watches.len();
        let watched = &mut self.watches[index];
        let received = usize::try_from(watched.received).unwrap();
        let mut expected = self.log[received..self.durable]
            .iter()
            .enumerate()
            .map(|(offset, entry)| (watched.received + offset as u64 + 1, entry))
            .filter(|(_, entry)| entry.key.starts_with(watched.prefix))
            .collect::<Vec<_>>()
            .into_iter();
        while let Some(item) = watched.watch.try_next() {
            match item {
                Ok(event) => {
                    let (revision, entry) = expected.next().expect("an event of the log");
                    check_event(&event, revision, entry, &self.log);
                    let progress = watched.watch.progress().0;
                    assert!(revision <= progress);
                    assert!(expected.as_slice().first().is_none_or(|(next, _)| progress < *next));
                }
                Err(StoreError::Compacted { oldest, .. }) => {
                    let (first_missed, _) = expected.next().expect("something was missed");
                    assert!(first_missed <= oldest.0, "cut off although nothing was lost");
                    assert!(watched.watch.is_ended());
                    self.watches.swap_remove(index);
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(expected.next(), None, "an event is missing");
        assert_eq!(watched.watch.progress().0, self.durable as u64);
        watched.received = self.durable as u64;
    }
}

fn check_event(event: &StoreEvent, revision: u64, entry: &Entry, log: &[Entry]) {
    let before = state_of(log, usize::try_from(revision).unwrap() - 1);
    assert_eq!((event.revision().0, event.key().as_str()), (revision, entry.key));
    let previous = event.previous().map(|object| object.revision.0);
    assert_eq!(previous, before.get(entry.key).map(|(revision, _)| *revision));
    match (event, &entry.value) {
        (StoreEvent::Put { object, .. }, Some(value)) => assert_eq!(object.value, value.as_str()),
        (StoreEvent::Delete { .. }, None) => {}
        (event, value) => panic!("{event:?} instead of {value:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2, ..ProptestConfig::default() })]

    /// P6 and P8.
    #[test]
    fn the_store_behaves_like_a_log_of_what_was_acknowledged(
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let mut world = World::new();
        for operation in operations {
            world.apply(operation);
            prop_assert_eq!(world.store.revision().0, world.durable as u64);
        }
        world.commit();
        for index in 0..world.watches.len() {
            // From behind, since a watch that was cut off is removed.
            world.drain(world.watches.len().saturating_sub(1 + index));
        }
        world.range("", 0, None, None);
        world.restart();
    }
}
