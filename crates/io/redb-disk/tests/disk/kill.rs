//! P8 with a real process: a child writes through many threads and reports each acknowledged write
//! over a pipe. It is killed with SIGKILL at some moment. Everything that it reported must be in
//! the file. The child is this test binary.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rekindle_redb_disk::RedbDisk;
use rekindle_store::{Committer, RangeQuery, Store, StoreError, StoreLimits, WritePrecondition};

use crate::support::{delete, put};

const FILE_VARIABLE: &str = "REKINDLE_STORE_KILL_TEST_FILE";
const WRITERS: usize = 4;

fn open(path: &Path) -> (Store, Committer<RedbDisk>) {
    Store::open(RedbDisk::new(path), StoreLimits::default()).unwrap()
}

/// What the child does: it runs the test below with the variable set.
fn write_until_killed(file: &Path) -> ! {
    let (store, committer) = open(file);
    std::thread::scope(|scope| {
        scope.spawn(|| committer.run());
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || write_for_ever(store, writer));
        }
    });
    unreachable!("the writers end with their process")
}

fn write_for_ever(store: &Store, writer: usize) {
    let key = format!("/pods/default/w{writer}");
    for number in 0.. {
        let value = format!("{number} ").repeat(1 + number % 400);
        let revision = if number % 7 == 6 {
            delete(store, &key, WritePrecondition::Present).unwrap().wait().unwrap().revision
        } else {
            put(store, &key, WritePrecondition::Any, value).unwrap().wait().unwrap().revision
        };
        // One write call a line, so that lines of different threads do not mix.
        let report = format!("acknowledged {writer} {number} {revision}\n");
        if std::io::stderr().write_all(report.as_bytes()).is_err() {
            // The parent is gone without killing this process.
            std::process::exit(1);
        }
    }
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Both fail only when the child is gone already.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts the child, kills it once it has acknowledged so many writes, and returns what each writer
/// acknowledged last, with the newest acknowledged revision.
fn run_child_and_kill_it_after(
    acknowledgements: usize,
    file: &Path,
) -> (BTreeMap<usize, usize>, u64) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::everything_acknowledged_survives_kill_9", "--nocapture"])
        .env(FILE_VARIABLE, file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = KillOnDrop(child);
    let mut last = BTreeMap::new();
    let mut newest_revision = 0;
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let mut seen = 0;
    for line in lines {
        let line = line.unwrap();
        let Some(report) = line.strip_prefix("acknowledged ") else { continue };
        let words: Vec<u64> = report.split(' ').map_while(|word| word.parse().ok()).collect();
        // The last line may be cut by the kill; then it does not count.
        let [writer, number, revision] = words[..] else { continue };
        last.insert(writer as usize, number as usize);
        newest_revision = newest_revision.max(revision);
        seen += 1;
        if seen == acknowledgements {
            // SIGKILL; what was reported before is still in the pipe and is read to its end.
            child.0.kill().unwrap();
        }
    }
    assert!(seen >= acknowledgements, "the child ended by itself after {seen} writes");
    (last, newest_revision)
}

#[test]
fn everything_acknowledged_survives_kill_9() {
    if let Some(file) = std::env::var_os(FILE_VARIABLE) {
        write_until_killed(Path::new(&file));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    for acknowledgements in [1, 40, 150, 400] {
        let (last, newest_revision) = run_child_and_kill_it_after(acknowledgements, &file);
        let (store, _committer) = open(&file);
        assert!(store.revision().0 >= newest_revision);
        for (writer, number) in last {
            // The writer waits for each write, so at most one more than the last acknowledged can
            // be durable.
            let found = store.get(&format!("/pods/default/w{writer}"));
            let found = found.map(|object| String::from_utf8(object.value.to_vec()).unwrap());
            let expected = |number: usize| {
                (number % 7 != 6).then(|| format!("{number} ").repeat(1 + number % 400))
            };
            assert!(
                found == expected(number) || found == expected(number + 1),
                "writer {writer} reported {number}, found {found:?}"
            );
        }
        assert!(store.range(&RangeQuery::default()).unwrap().objects.len() <= WRITERS);
    }
}

#[test]
fn a_second_engine_on_the_same_file_is_told_who_holds_it_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let (store, mut committer) = open(&file);
    let error = Store::open(RedbDisk::new(&file), StoreLimits::default()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }));
    assert_eq!(
        error.to_string(),
        format!("{file:?} is held by another engine: stop that one, or use another data directory")
    );
    let _write = put(&store, "/a", WritePrecondition::Absent, "1").unwrap();
    committer.commit_pending().unwrap();
    drop(committer);
    let (reopened, _committer) = open(&file);
    assert_eq!(reopened.get("/a").unwrap().value, "1");
}
