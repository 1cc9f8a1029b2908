//! Many writers and watchers at once, on a real file: nothing is lost, nothing comes twice, nothing
//! waits for ever.

use std::collections::BTreeMap;

use rekindle_redb_disk::RedbDisk;
use rekindle_store::memory::{DiskFault, MemoryDisk};
use rekindle_store::{
    Disk, ObjectKey, RangeQuery, Revision, Store, StoreError, StoreEvent, StoreLimits,
    WritePrecondition,
};

use crate::support::{next, put};

const WRITERS: u64 = 8;
const INCREMENTS: u64 = 50;

/// Every writer raises one shared counter by compare-and-swap, built on the newest state.
fn increment(store: &Store, key: &str) -> Result<(), StoreError> {
    loop {
        let (expect, value) = match store.newest(key) {
            None => (WritePrecondition::Absent, 0),
            Some(object) => (WritePrecondition::Revision(object.revision), parse(&object.value)),
        };
        match put(store, key, expect, (value + 1).to_string()) {
            Ok(pending) => return pending.wait().map(drop),
            Err(StoreError::Conflict { .. } | StoreError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

fn parse(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

fn run<D: Disk>(disk: D, writer: impl Fn(&Store, u64) + Sync, reader: impl Fn(&Store) + Sync) {
    let (store, committer) = Store::open(disk, StoreLimits::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| committer.run());
        let readers = [0; 3].map(|_| scope.spawn(|| reader(&store)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (store, writer) = (&store, &writer);
                scope.spawn(move || writer(store, number))
            })
            .collect();
        for thread in writers {
            thread.join().unwrap();
        }
        store.close();
        for thread in readers {
            thread.join().unwrap();
        }
    });
}

#[test]
fn concurrent_compare_and_swap_loses_no_increment_and_every_watcher_sees_each_once_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    run(
        RedbDisk::new(&file),
        |store, number| {
            for _ in 0..INCREMENTS {
                increment(store, "/counters/shared").unwrap();
                increment(store, &format!("/counters/{number}")).unwrap();
            }
        },
        |store| {
            let mut watch = store.watch("/counters/", Revision::ZERO).unwrap();
            let mut replica: BTreeMap<ObjectKey, (Revision, u64)> = BTreeMap::new();
            let mut last = Revision::ZERO;
            while let Some(event) = next(&mut watch) {
                let StoreEvent::Put { object, previous } = event.unwrap() else {
                    panic!("a deletion")
                };
                assert_eq!(object.revision, last.next());
                last = object.revision;
                let before = replica.insert(object.key.clone(), (last, parse(&object.value)));
                assert_eq!(previous.map(|o| o.revision), before.map(|(revision, _)| revision));
                assert_eq!(parse(&object.value), before.map_or(0, |(_, value)| value) + 1);
            }
            assert_eq!(last, Revision(WRITERS * INCREMENTS * 2));
        },
    );
    let (store, _committer) = Store::open(RedbDisk::new(&file), StoreLimits::default()).unwrap();
    assert_eq!(parse(&store.get("/counters/shared").unwrap().value), WRITERS * INCREMENTS);
    assert_eq!(store.count("/counters/"), 1 + WRITERS as usize);
}

#[test]
fn a_disk_that_fails_now_and_then_fails_writers_but_never_strands_or_deceives_one() {
    let disk = MemoryDisk::new();
    let faults = disk.clone();
    let succeeded = std::sync::atomic::AtomicU64::new(0);
    run(
        disk.clone(),
        |store, number| {
            for round in 0..INCREMENTS {
                if (round + number) % 10 == 0 {
                    faults.inject(if number % 2 == 0 {
                        DiskFault::Refused
                    } else {
                        DiskFault::InDoubt
                    });
                }
                match increment(store, "/counters/shared") {
                    Ok(()) => {
                        succeeded.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    Err(error) => assert!(matches!(error, StoreError::Disk { .. }), "{error}"),
                }
            }
        },
        |store| {
            let mut watch = store.watch("/counters/", Revision::ZERO).unwrap();
            let mut value = 0;
            while let Some(event) = next(&mut watch) {
                let StoreEvent::Put { object, .. } = event.unwrap() else { panic!("a deletion") };
                value += 1;
                assert_eq!((object.revision.0, parse(&object.value)), (value, value));
                // What is seen is durable, and what is read is never older than what was seen.
                let query = RangeQuery { prefix: "/counters/".into(), ..Default::default() };
                assert!(parse(&store.range(&query).unwrap().objects[0].value) >= value);
            }
        },
    );
    let succeeded = succeeded.into_inner();
    assert!(succeeded > 0 && succeeded < WRITERS * INCREMENTS);
    let (store, _committer) = Store::open(disk, StoreLimits::default()).unwrap();
    let stored = parse(&store.get("/counters/shared").unwrap().value);
    assert!(stored >= succeeded, "{stored} stored, {succeeded} acknowledged");
}
