//! What the store promises its callers, one promise a test, on a disk in memory that is driven by
//! hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use futures_core::Stream;
use rekindle_store::memory::{DiskFault, MemoryDisk};
use rekindle_store::{
    Committer, Compaction, Mutation, RangeQuery, Revision, Store, StoreError, StoreLimits,
    StoreWrite, TermFilter, WritePrecondition,
};

use crate::support::{self, delete, drain, put, revision};

fn open() -> (Store, Committer<MemoryDisk>, MemoryDisk) {
    open_with(StoreLimits::default())
}

fn open_with(limits: StoreLimits) -> (Store, Committer<MemoryDisk>, MemoryDisk) {
    let disk = MemoryDisk::new();
    let (store, committer) = Store::open(disk.clone(), limits).unwrap();
    (store, committer, disk)
}

fn keys(store: &Store, query: &RangeQuery) -> Vec<String> {
    store.range(query).unwrap().objects.iter().map(|object| object.key.to_string()).collect()
}

#[test]
fn a_write_is_invisible_until_its_batch_is_durable() {
    let (store, mut committer, _) = open();
    let mut watch = store.watch("/", Revision::ZERO).unwrap();
    let pending = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    assert!(pending.try_get().is_none());
    assert!(store.get("/a").is_none());
    assert_eq!(store.revision(), Revision::ZERO);
    assert_eq!(drain(&mut watch), [""; 0]);
    committer.commit_pending().unwrap();
    assert_eq!(revision(&pending), Revision(1));
    assert_eq!(store.get("/a").unwrap().value, "1");
    assert_eq!(store.revision(), Revision(1));
    assert_eq!(drain(&mut watch), ["put /a 1 = 1 (new)"]);
}

#[test]
fn the_encoder_is_told_the_revision_that_the_write_gets() {
    let (store, mut committer, _) = open();
    for expected in 1..=3 {
        let encode = |revision: Revision| Bytes::from(format!("rv {revision}"));
        let pending = store.write("/a", WritePrecondition::Any, Mutation::Put(&encode)).unwrap();
        committer.commit_pending().unwrap();
        let written = pending.wait().unwrap();
        assert_eq!(written.revision, Revision(expected));
        assert_eq!(written.object.unwrap().value, format!("rv {expected}"));
    }
}

#[test]
fn compare_and_swap_answers_each_expectation() {
    // The object is at revision 1, or absent; what each expectation answers to a put and to a
    // deletion.
    let at = |revision| WritePrecondition::Revision(Revision(revision));
    for (expect, present, absent) in [
        (WritePrecondition::Any, "ok", "ok"),
        (WritePrecondition::Absent, "create \"/a\": it already exists at revision 1", "ok"),
        (WritePrecondition::Present, "ok", "write \"/a\": not found"),
        (at(1), "ok", "write \"/a\": not found"),
        (at(9), "write \"/a\": expected revision 9, but it is at 1", "write \"/a\": not found"),
    ] {
        let answer =
            |result: Result<_, StoreError>| result.map_or_else(|e| e.to_string(), |_| "ok".into());
        let absent_deleted = if absent == "ok" { "write \"/a\": not found" } else { absent };
        let (store, _committer, _) = open();
        assert_eq!(answer(delete(&store, "/a", expect)), absent_deleted, "{expect:?}");
        assert_eq!(answer(put(&store, "/a", expect, "1")), absent, "{expect:?}");
        for durable in [false, true] {
            let (store, mut committer, _) = open();
            let _created = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
            if durable {
                committer.commit_pending().unwrap();
            }
            assert_eq!(answer(put(&store, "/a", expect, "2")), present, "{expect:?} {durable}");
            let (store, mut committer, _) = open();
            let _created = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
            if durable {
                committer.commit_pending().unwrap();
            }
            assert_eq!(answer(delete(&store, "/a", expect)), present, "{expect:?} {durable}");
        }
    }
}

#[test]
fn a_refused_write_takes_no_revision() {
    let (store, mut committer, _) = open();
    let _first = put(&store, "/a", WritePrecondition::Absent, "1").unwrap();
    put(&store, "/a", WritePrecondition::Absent, "2").unwrap_err();
    delete(&store, "/b", WritePrecondition::Any).unwrap_err();
    let second = put(&store, "/b", WritePrecondition::Absent, "2").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(revision(&second), Revision(2));
}

#[test]
fn everything_queued_is_one_commit_and_each_change_of_a_key_is_its_own_event() {
    let (store, mut committer, disk) = open();
    let mut watch = store.watch("/", Revision::ZERO).unwrap();
    let _a = put(&store, "/a", WritePrecondition::Absent, "1").unwrap();
    let _b = put(&store, "/b", WritePrecondition::Absent, "2").unwrap();
    let _c = put(&store, "/a", WritePrecondition::Revision(Revision(1)), "3").unwrap();
    let _d = delete(&store, "/b", WritePrecondition::Present).unwrap();
    let _e = put(&store, "/b", WritePrecondition::Absent, "5").unwrap();
    assert_eq!(store.newest("/b").unwrap().value, "5");
    assert_eq!(committer.commit_pending().unwrap().writes, 5);
    assert_eq!(disk.commits(), 1);
    assert_eq!(
        drain(&mut watch),
        [
            "put /a 1 = 1 (new)",
            "put /b 2 = 2 (new)",
            "put /a 3 = 3 (was 1)",
            "delete /b 4 (was 2)",
            "put /b 5 = 5 (new)",
        ]
    );
    // Each revision inside the batch can be read too.
    let at = |revision| RangeQuery { at: Some(Revision(revision)), ..Default::default() };
    assert_eq!(keys(&store, &at(4)), ["/a"]);
    assert_eq!(keys(&store, &at(5)), ["/a", "/b"]);
}

#[test]
fn a_written_answer_says_what_was_there_before() {
    let (store, mut committer, _) = open();
    let created = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    let replaced = put(&store, "/a", WritePrecondition::Any, "2").unwrap();
    let deleted = delete(&store, "/a", WritePrecondition::Any).unwrap();
    committer.commit_pending().unwrap();
    let values = |pending: rekindle_store::PendingWrite| {
        let written = pending.wait().unwrap();
        (written.object.map(|o| o.value.clone()), written.previous.map(|o| o.value.clone()))
    };
    let value = |text: &'static str| Some(Bytes::from(text));
    assert_eq!(values(created), (value("1"), None));
    assert_eq!(values(replaced), (value("2"), value("1")));
    assert_eq!(values(deleted), (None, value("2")));
}

#[test]
fn a_failed_commit_fails_its_batch_and_what_queued_up_behind_it_and_nothing_else() {
    for fault in [DiskFault::Refused, DiskFault::InDoubt] {
        let (store, mut committer, disk) = open();
        let kept = put(&store, "/a", WritePrecondition::Any, "kept").unwrap();
        committer.commit_pending().unwrap();
        revision(&kept);
        let mut watch = store.watch("/", Revision::ZERO).unwrap();
        disk.inject(fault);
        let lost = put(&store, "/a", WritePrecondition::Any, "lost").unwrap();
        let also_lost = put(&store, "/b", WritePrecondition::Absent, "lost").unwrap();
        committer.commit_pending().unwrap_err();
        for pending in [lost, also_lost] {
            let error = pending.wait().unwrap_err();
            assert!(matches!(error, StoreError::Disk { .. }), "{error:?}");
        }
        assert_eq!(store.newest("/a").unwrap().value, "kept");
        assert_eq!(store.revision(), Revision(1));
        // It goes on, with the revision that nobody saw.
        let next = put(&store, "/b", WritePrecondition::Absent, "next").unwrap();
        committer.commit_pending().unwrap();
        assert_eq!(revision(&next), Revision(2));
        assert_eq!(drain(&mut watch), ["put /a 1 = kept (new)", "put /b 2 = next (new)"]);
        drop(committer);
        let (reopened, _committer) = Store::open(disk, StoreLimits::default()).unwrap();
        assert_eq!(reopened.get("/a").unwrap().value, "kept", "{fault:?}");
        assert_eq!(reopened.get("/b").unwrap().value, "next", "{fault:?}");
    }
}

#[test]
fn a_full_disk_refuses_writes_until_something_is_deleted() {
    let (store, mut committer, disk) = open();
    disk.set_capacity_bytes(Some(10));
    let _kept = put(&store, "/a", WritePrecondition::Any, "123456").unwrap();
    committer.commit_pending().unwrap();
    let refused = put(&store, "/b", WritePrecondition::Any, "123456").unwrap();
    committer.commit_pending().unwrap_err();
    let StoreError::Disk { source } = refused.wait().unwrap_err() else { panic!("not the disk") };
    assert_eq!(
        source.to_string(),
        "no space left for \"memory\": free some space there and try again"
    );
    let _freed = delete(&store, "/a", WritePrecondition::Any).unwrap();
    committer.commit_pending().unwrap();
    let taken = put(&store, "/b", WritePrecondition::Any, "123456").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(revision(&taken), Revision(3));
}

#[test]
fn a_barrier_resolves_when_all_before_it_is_durable_and_takes_no_revision() {
    let (store, mut committer, disk) = open();
    let alone = store.barrier().unwrap();
    assert_eq!(committer.commit_pending().unwrap().writes, 0);
    assert_eq!((revision(&alone), disk.commits()), (Revision(0), 0));
    let _write = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    let behind = store.barrier().unwrap();
    assert!(behind.try_get().is_none());
    committer.commit_pending().unwrap();
    assert_eq!(revision(&behind), Revision(1));
    disk.inject(DiskFault::Refused);
    let _lost = put(&store, "/a", WritePrecondition::Any, "2").unwrap();
    let failing = store.barrier().unwrap();
    committer.commit_pending().unwrap_err();
    assert!(matches!(failing.wait(), Err(StoreError::Disk { .. })));
}

#[test]
fn pages_at_one_revision_do_not_see_what_was_written_between_them() {
    let (store, mut committer, _) = open();
    for key in ["/pods/a", "/pods/b", "/pods/c", "/pods/d", "/secrets/a"] {
        let _put = put(&store, key, WritePrecondition::Absent, "1").unwrap();
    }
    committer.commit_pending().unwrap();
    let first = RangeQuery { prefix: "/pods/".into(), limit: Some(2), ..Default::default() };
    let page = store.range(&first).unwrap();
    assert_eq!((page.objects.len(), page.remaining, page.revision), (2, 2, Revision(5)));
    let _gone = delete(&store, "/pods/c", WritePrecondition::Any).unwrap();
    let _new = put(&store, "/pods/bb", WritePrecondition::Any, "2").unwrap();
    committer.commit_pending().unwrap();
    let second = RangeQuery {
        start_after: Some("/pods/b".into()),
        at: Some(page.revision),
        ..first.clone()
    };
    assert_eq!(keys(&store, &second), ["/pods/c", "/pods/d"]);
    assert_eq!(keys(&store, &first), ["/pods/a", "/pods/b"]);
    assert_eq!(store.count("/pods/"), 4);
    assert_eq!([3, 4].map(|objects| store.has_more_than("/pods/", objects)), [true, false]);
    assert_eq!(store.range(&RangeQuery { limit: Some(0), ..first }).unwrap().remaining, 4);
}

#[test]
fn a_range_leaves_out_what_readers_know_not_to_have_the_wanted_terms() {
    let (store, mut committer, _disk) = open();
    for name in ["a", "b", "c", "d"] {
        let _made = put(&store, &format!("/pods/{name}"), WritePrecondition::Any, "1").unwrap();
    }
    committer.commit_pending().unwrap();
    let [red, blue] = ["red", "blue"].map(|term| {
        let mut terms = TermFilter::default();
        terms.insert(term);
        terms
    });
    let all = RangeQuery { prefix: "/pods/".into(), ..Default::default() };
    let wanted = RangeQuery { terms: red, ..all.clone() };
    assert_eq!(keys(&store, &wanted), keys(&store, &all), "no reader has looked");
    for (object, terms) in store.range(&all).unwrap().objects.iter().zip([red, blue, red, red]) {
        object.terms.learn(terms);
    }
    assert_eq!(keys(&store, &wanted), ["/pods/a", "/pods/c", "/pods/d"]);
    assert_eq!(keys(&store, &all).len(), 4, "whatever the terms");
    let page = store.range(&RangeQuery { limit: Some(2), ..wanted.clone() }).unwrap();
    assert_eq!((page.objects.len(), page.remaining), (2, 1));
    let _made = put(&store, "/pods/b", WritePrecondition::Any, "2").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(keys(&store, &wanted).len(), 4, "no reader has looked at the new version");
}

#[test]
fn whether_anything_is_left_counts_writes_that_wait_for_the_disk() {
    let (store, mut committer, _) = open();
    assert!(!store.has_newest_below("/pods/"));
    let _a = put(&store, "/pods/a", WritePrecondition::Any, "1").unwrap();
    let _other = put(&store, "/podsets/a", WritePrecondition::Any, "1").unwrap();
    assert!(store.has_newest_below("/pods/"), "it waits for the disk");
    committer.commit_pending().unwrap();
    let _b = put(&store, "/pods/b", WritePrecondition::Any, "1").unwrap();
    let _gone = delete(&store, "/pods/a", WritePrecondition::Any).unwrap();
    assert!(store.has_newest_below("/pods/"));
    let _gone = delete(&store, "/pods/b", WritePrecondition::Any).unwrap();
    assert!(!store.has_newest_below("/pods/"), "the last removal waits for the disk");
    committer.commit_pending().unwrap();
    assert!(!store.has_newest_below("/pods/"));
}

#[test]
fn revisions_that_cannot_be_read_are_told_apart() {
    let (store, mut committer, _) = open();
    for value in ["1", "2", "3"] {
        let _put = put(&store, "/a", WritePrecondition::Any, value).unwrap();
        committer.commit_pending().unwrap();
    }
    store.compact(Revision(2));
    assert_eq!(store.oldest_revision(), Revision(2));
    for (asked, expected) in [
        (1, Err("revision 1 is compacted: the oldest that can still be read is 2".to_owned())),
        (2, Ok("2".to_owned())),
        (3, Ok("3".to_owned())),
        (4, Err("revision 4 does not exist yet: the newest is 3".to_owned())),
    ] {
        let query = RangeQuery { at: Some(Revision(asked)), ..Default::default() };
        let found = store.range(&query).map_err(|error| error.to_string());
        let found =
            found.map(|range| String::from_utf8_lossy(&range.objects[0].value).into_owned());
        assert_eq!(found, expected);
        let watched = store.watch("/", Revision(asked)).map(drop).map_err(|e| e.to_string());
        assert_eq!(watched.err(), expected.err());
    }
    // Compaction cannot run ahead of what is visible.
    store.compact(Revision(99));
    assert_eq!(store.oldest_revision(), Revision(3));
    assert_eq!(store.get("/a").unwrap().value, "3");
}

#[test]
fn the_history_of_the_last_period_stays_and_what_is_older_goes() {
    let (store, mut committer, _) = open();
    let mut compaction = Compaction::new(store.clone());
    let mut oldest = Vec::new();
    for value in ["1", "2", "3", "4"] {
        let _put = put(&store, "/a", WritePrecondition::Any, value).unwrap();
        committer.commit_pending().unwrap();
        compaction.step();
        oldest.push((store.oldest_revision().0, store.revision().0));
    }
    assert_eq!(oldest, [(0, 1), (1, 2), (2, 3), (3, 4)]);
    // nothing happened: nothing but the newest state is left
    compaction.step();
    assert_eq!(store.oldest_revision(), store.revision());
    assert_eq!(store.get("/a").unwrap().value, "4");
}

#[test]
fn reopening_goes_on_at_the_same_revision_and_older_watches_are_compacted() {
    let (store, mut committer, disk) = open();
    let _a = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    let _b = put(&store, "/b", WritePrecondition::Any, "2").unwrap();
    committer.commit_pending().unwrap();
    let _gone = delete(&store, "/b", WritePrecondition::Any).unwrap();
    committer.commit_pending().unwrap();
    drop((store, committer));
    let (store, mut committer) = Store::open(disk, StoreLimits::default()).unwrap();
    assert_eq!(store.revision(), Revision(3));
    assert_eq!(keys(&store, &RangeQuery::default()), ["/a"]);
    assert!(matches!(
        store.watch("/", Revision(2)),
        Err(StoreError::Compacted { asked: Revision(2), oldest: Revision(3) })
    ));
    let mut watch = store.watch("/", Revision(3)).unwrap();
    let _next = put(&store, "/a", WritePrecondition::Revision(Revision(1)), "4").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(drain(&mut watch), ["put /a 4 = 4 (was 1)"]);
}

#[test]
fn only_a_watcher_that_lost_an_event_of_its_own_is_cut_off() {
    let (store, mut committer, _) =
        open_with(StoreLimits { history_events_max: 4, ..StoreLimits::default() });
    let mut slow = store.watch("/pods/", Revision::ZERO).unwrap();
    let mut quiet = store.watch("/nodes/", Revision::ZERO).unwrap();
    let mut keeps_up = store.watch("/pods/", Revision::ZERO).unwrap();
    for number in 1..=10 {
        let _put = put(&store, "/pods/a", WritePrecondition::Any, number.to_string()).unwrap();
        committer.commit_pending().unwrap();
        assert_eq!(drain(&mut keeps_up).len(), 1);
    }
    assert_eq!(
        drain(&mut slow),
        ["revision 0 is compacted: the oldest that can still be read is 6"]
    );
    assert!(slow.is_ended());
    assert_eq!(quiet.progress(), Revision(10));
    assert_eq!(drain(&mut quiet), [""; 0]);
    assert!(!quiet.is_ended());
    let _node = put(&store, "/nodes/n", WritePrecondition::Any, "1").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(drain(&mut quiet), ["put /nodes/n 11 = 1 (new)"]);
}

#[test]
fn a_watcher_that_is_cut_off_half_way_says_how_far_it_came() {
    let (store, mut committer, _) = open();
    let mut watch = store.watch("/", Revision::ZERO).unwrap();
    for number in 0..100 {
        let _put = put(&store, &format!("/pods/{number}"), WritePrecondition::Any, "1").unwrap();
    }
    committer.commit_pending().unwrap();
    assert_eq!(watch.try_next().unwrap().unwrap().revision(), Revision(1));
    store.compact(Revision(100));
    let lines = drain(&mut watch);
    let (last, events) = lines.split_last().unwrap();
    let came = 1 + events.len() as u64;
    assert!(events.last().unwrap().starts_with(&format!("put /pods/{} {came} ", came - 1)));
    assert_eq!(
        *last,
        format!("revision {came} is compacted: the oldest that can still be read is 100")
    );
    assert_eq!(watch.progress(), Revision(came));
}

#[test]
fn a_batch_larger_than_the_history_reaches_a_watcher_that_was_up_to_date() {
    let (store, mut committer, _) =
        open_with(StoreLimits { history_events_max: 4, ..StoreLimits::default() });
    let mut watch = store.watch("/", Revision::ZERO).unwrap();
    let writes: Vec<_> = (0..200)
        .map(|n| put(&store, &format!("/pods/{n}"), WritePrecondition::Any, "1").unwrap())
        .collect();
    committer.commit_pending().unwrap();
    assert_eq!(writes.last().map(revision), Some(Revision(200)));
    assert_eq!(drain(&mut watch).len(), 200);
    let _next = put(&store, "/pods/x", WritePrecondition::Any, "1").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(store.oldest_revision(), Revision(197), "with the next batch the limit holds again");
}

#[test]
fn the_history_is_bounded_by_the_bytes_that_it_keeps_alive() {
    let (store, mut committer, _) =
        open_with(StoreLimits { history_bytes_max: 10_000, ..StoreLimits::default() });
    for _ in 0..10 {
        let _put = put(&store, "/a", WritePrecondition::Any, vec![0; 4_000]).unwrap();
        committer.commit_pending().unwrap();
    }
    assert_eq!(store.oldest_revision(), Revision(8), "two superseded values fit, a third does not");
}

#[test]
fn progress_is_a_revision_to_resume_after_at_every_step() {
    let (store, mut committer, _) = open();
    let mut watch = store.watch("/pods/", Revision::ZERO).unwrap();
    for key in ["/pods/a", "/nodes/a", "/pods/b", "/nodes/b"] {
        let _put = put(&store, key, WritePrecondition::Any, "1").unwrap();
    }
    committer.commit_pending().unwrap();
    let mut seen = Vec::new();
    loop {
        let mut resumed = store.watch("/pods/", watch.progress()).unwrap();
        let rest = drain(&mut resumed);
        assert_eq!(seen.len() + rest.len(), 2, "at {}", watch.progress());
        match watch.try_next() {
            Some(event) => seen.push(event.unwrap()),
            None => break,
        }
    }
    assert_eq!(watch.progress(), Revision(4));
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_watcher_is_woken_by_events_of_its_prefix_only_and_once_a_batch() {
    let (store, mut committer, _) = open();
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut watch = Box::pin(store.watch("/pods/a/", Revision::ZERO).unwrap());
    let mut poll = || watch.as_mut().poll_next(&mut Context::from_waker(&waker));
    for (key, woken) in [("/nodes/n", 0), ("/pods/b/x", 0), ("/pods/a/x", 1)] {
        while poll().is_ready() {}
        let before = wakes.0.load(Ordering::Relaxed);
        let _twice = (
            put(&store, key, WritePrecondition::Any, "1"),
            put(&store, key, WritePrecondition::Any, "2"),
        );
        committer.commit_pending().unwrap();
        assert_eq!(wakes.0.load(Ordering::Relaxed) - before, woken, "{key}");
    }
}

#[test]
fn closing_commits_what_is_queued_refuses_the_rest_and_ends_the_watchers() {
    let (store, committer, _) = open();
    let mut watch = store.watch("/", Revision::ZERO).unwrap();
    let queued = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    store.close();
    assert!(matches!(put(&store, "/b", WritePrecondition::Any, "2"), Err(StoreError::Closed)));
    assert!(matches!(store.barrier(), Err(StoreError::Closed)));
    committer.run();
    assert_eq!(revision(&queued), Revision(1));
    assert_eq!(support::next(&mut watch).unwrap().unwrap().revision(), Revision(1));
    assert!(support::next(&mut watch).is_none());
    assert!(watch.is_ended());
}

#[test]
fn dropping_the_last_handle_ends_the_committer() {
    let (store, committer, disk) = open();
    let other = store.clone();
    let running = std::thread::spawn(|| committer.run());
    put(&store, "/a", WritePrecondition::Any, "1").unwrap().wait().unwrap();
    drop(store);
    put(&other, "/a", WritePrecondition::Any, "2").unwrap().wait().unwrap();
    let _not_waited_for = put(&other, "/a", WritePrecondition::Any, "3").unwrap();
    drop(other);
    running.join().unwrap();
    let (reopened, _committer) = Store::open(disk, StoreLimits::default()).unwrap();
    assert_eq!(reopened.get("/a").unwrap().value, "3");
}

#[test]
fn a_lost_committer_answers_every_writer() {
    let (store, committer, _) = open();
    let pending = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    drop(committer);
    assert!(matches!(pending.wait(), Err(StoreError::Closed)));
    assert!(matches!(put(&store, "/a", WritePrecondition::Any, "1"), Err(StoreError::Closed)));
    assert!(store.get("/a").is_none() && store.newest("/a").is_none());
}

#[test]
fn limits_turn_away_what_is_too_much_and_the_store_goes_on() {
    let (store, mut committer, _) = open_with(StoreLimits {
        object_bytes_max: 100,
        queue_writes_max: 3,
        queue_bytes_max: 150,
        ..StoreLimits::default()
    });
    let error = put(&store, "/a", WritePrecondition::Any, vec![0; 99]).unwrap_err();
    assert_eq!(error.to_string(), "write \"/a\": 101 bytes, more than the limit of 100");
    let _first = put(&store, "/a", WritePrecondition::Any, vec![0; 98]).unwrap();
    let _second = put(&store, "/a", WritePrecondition::Any, vec![0; 98]).unwrap();
    let error = put(&store, "/a", WritePrecondition::Any, "1").unwrap_err();
    assert_eq!(error.to_string(), "write \"/a\": 2 writes are waiting for the disk");
    committer.commit_pending().unwrap();
    for _ in 0..3 {
        let _small = put(&store, "/a", WritePrecondition::Any, "1").unwrap();
    }
    let error = put(&store, "/a", WritePrecondition::Any, "1").unwrap_err();
    assert_eq!(error.to_string(), "write \"/a\": 3 writes are waiting for the disk");
    assert_eq!(committer.commit_pending().unwrap().revision, Revision(5));
}

#[test]
fn a_panicking_encoder_stops_neither_writers_nor_readers() {
    let (store, mut committer, _) = open();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _never =
            store.write("/a", WritePrecondition::Any, Mutation::Put(&|_| panic!("bad object")));
    }));
    assert!(panicked.is_err());
    let next = put(&store, "/a", WritePrecondition::Absent, "1").unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(revision(&next), Revision(1));
}

#[test]
fn an_async_writer_is_woken_when_its_write_is_durable() {
    let (store, committer, _) = open();
    let running = std::thread::spawn(|| committer.run());
    let written =
        support::block_on(put(&store, "/a", WritePrecondition::Any, "1").unwrap()).unwrap();
    assert_eq!(written.revision, Revision(1));
    drop(store);
    running.join().unwrap();
}

#[test]
fn nothing_that_is_printed_for_debugging_shows_a_value() {
    let (store, mut committer, _) = open();
    let mut watch = store.watch("/", Revision::ZERO).unwrap();
    let pending = put(&store, "/secrets/a", WritePrecondition::Any, "hunter2").unwrap();
    committer.commit_pending().unwrap();
    let event = watch.try_next().unwrap().unwrap();
    let object = store.get("/secrets/a").unwrap();
    let printed = format!("{store:?} {committer:?} {watch:?} {pending:?} {event:?} {object:?}");
    assert!(!printed.contains("hunter2") && !printed.contains("104, 117, 110"), "{printed}");
    assert!(printed.contains("value_bytes: 7"), "{printed}");
}

#[test]
fn the_handles_can_move_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send + Unpin>() {}
    shared::<Store>();
    shared::<StoreError>();
    moved::<Committer<MemoryDisk>>();
    moved::<rekindle_store::StoreWatch>();
    moved::<rekindle_store::PendingWrite>();
}

fn write<'a>(
    key: &'a str,
    expect: WritePrecondition,
    encode: &'a dyn Fn(Revision) -> Bytes,
) -> StoreWrite<'a> {
    StoreWrite { key, expect, mutation: Mutation::Put(encode) }
}

#[test]
fn several_writes_happen_together_or_not_at_all() {
    let (store, mut committer, _) = open();
    let value = |_| Bytes::from_static(b"1");
    let both = ["/a", "/b"].map(|key| write(key, WritePrecondition::Absent, &value));
    let pending = store.write_all(&both, store.epoch()).unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(pending.iter().map(revision).collect::<Vec<_>>(), [Revision(1), Revision(2)]);

    let second_is_taken = ["/c", "/b"].map(|key| write(key, WritePrecondition::Absent, &value));
    let refused = store.write_all(&second_is_taken, store.epoch());
    assert!(matches!(refused, Err(StoreError::AlreadyExists { .. })));
    assert!(store.newest("/c").is_none());
    assert_eq!(committer.commit_pending().unwrap().writes, 0);
}

#[test]
fn a_full_store_takes_nothing_new_and_keeps_an_eighth_for_what_is_there() {
    let total_bytes_max = 800;
    let (store, mut committer, disk) =
        open_with(StoreLimits { total_bytes_max, ..StoreLimits::default() });
    // with a key of two bytes
    let of = |bytes: usize| vec![0; bytes - 2];
    let put = |key, bytes: usize| put(&store, key, WritePrecondition::Any, of(bytes));
    let _kept = [put("/a", 400).unwrap(), put("/b", 300).unwrap()];
    let refused = put("/c", 101).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "write \"/c\": the store would have 801 bytes, more than its limit of 800: delete objects that are not needed, or \
         raise the limit"
    );
    let _full = put("/c", 100).unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(store.total_bytes(), 800);
    // what is there may grow by a hundred together, and shrink whatever there is
    let _grown = put("/a", 500).unwrap();
    assert!(matches!(put("/b", 301), Err(StoreError::NoRoom { bytes: 901, limit_bytes: 900, .. })));
    let _same = put("/b", 300).unwrap();
    let _less = put("/b", 200).unwrap();
    committer.commit_pending().unwrap();
    assert!(put("/d", 10).is_err(), "nothing new still");
    let _gone = delete(&store, "/a", WritePrecondition::Any).unwrap();
    let _new = put("/d", 500).unwrap();

    // what a failed commit takes back counts no more
    disk.inject(DiskFault::Refused);
    committer.commit_pending().unwrap_err();
    assert_eq!(store.total_bytes(), 800);
    assert!(put("/d", 10).is_err());
    // several writes count together
    let _gone = delete(&store, "/a", WritePrecondition::Any).unwrap();
    let value = |_| Bytes::from(of(300));
    let two = ["/d", "/e"].map(|key| write(key, WritePrecondition::Absent, &value));
    assert!(matches!(store.write_all(&two, store.epoch()), Err(StoreError::NoRoom { .. })));
    let _one = store.write_all(&two[..1], store.epoch()).unwrap();
    committer.commit_pending().unwrap();
    assert_eq!(store.total_bytes(), 600);
    // a store that is larger than its limit opens
    let small = StoreLimits { total_bytes_max: 10, ..StoreLimits::default() };
    let (store, _committer) = Store::open(disk, small).unwrap();
    assert_eq!(store.total_bytes(), 600);
}

#[test]
fn a_write_that_was_decided_before_a_failed_commit_is_refused() {
    let (store, mut committer, disk) = open();
    let _kept = put(&store, "/a/1", WritePrecondition::Any, "1").unwrap();
    committer.commit_pending().unwrap();
    let _lost = delete(&store, "/a/1", WritePrecondition::Present).unwrap();
    let _also_lost = put(&store, "/a/2", WritePrecondition::Absent, "2").unwrap();
    let (seen, epoch) = store.newest_below("/a/");
    assert_eq!(seen.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(), ["/a/2"]);

    disk.inject(DiskFault::Refused);
    committer.commit_pending().unwrap_err();
    let value = |_| Bytes::from_static(b"3");
    let third = [write("/a/3", WritePrecondition::Absent, &value)];
    assert!(matches!(store.write_all(&third, epoch), Err(StoreError::RolledBack)));
    let (seen, epoch) = store.newest_below("/a/");
    assert_eq!(seen.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(), ["/a/1"]);
    store.write_all(&third, epoch).unwrap();
    committer.commit_pending().unwrap();
    assert!(store.get("/a/3").is_some());
}
