//! A disk that is really full: a child process (this test binary) runs with a file size limit,
//! meets it, and goes on.

use std::path::Path;
use std::process::Command;

use rekindle_redb_disk::RedbDisk;
use rekindle_store::{DiskError, Store, StoreError, StoreLimits, WritePrecondition};

use crate::support::{delete, put};

const FILE_VARIABLE: &str = "REKINDLE_STORE_FULL_TEST_FILE";
const VALUE_BYTES: usize = 20_000;

fn key(number: usize) -> String {
    format!("/secrets/default/s{number}")
}

/// What the child does: it runs the test below with the variable set.
fn fill_the_disk_and_go_on(file: &Path) {
    let (store, committer) = Store::open(RedbDisk::new(file), StoreLimits::default()).unwrap();
    let committing = std::thread::spawn(|| committer.run());
    let value = vec![b'x'; VALUE_BYTES];
    let write =
        |number| put(&store, &key(number), WritePrecondition::Any, value.clone()).unwrap().wait();
    let (full_at, error) = (0..10_000)
        .find_map(|number| write(number).err().map(|error| (number, error)))
        .expect("the limit is met");
    let StoreError::Disk { source: DiskError::Full { .. } } = error else { panic!("{error:?}") };
    assert!(full_at > 10);
    assert_eq!(store.count("/"), full_at);
    for number in 0..full_at / 2 {
        delete(&store, &key(number), WritePrecondition::Present).unwrap().wait().unwrap();
    }
    for number in 0..full_at / 4 {
        write(number).unwrap();
    }
    drop(store);
    committing.join().unwrap();
    let (store, _committer) = Store::open(RedbDisk::new(file), StoreLimits::default()).unwrap();
    assert_eq!(store.count("/"), full_at / 4 + full_at - full_at / 2);
    println!("went on after {full_at}");
}

#[test]
fn a_full_disk_is_told_and_after_deletions_the_store_goes_on() {
    if let Some(file) = std::env::var_os(FILE_VARIABLE) {
        return fill_the_disk_and_go_on(Path::new(&file));
    }
    let folder = tempfile::tempdir().unwrap();
    // A file size limit needs no privileges. With its signal ignored the write fails, as on a full
    // disk.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "full::a_full_disk_is_told_and_after_deletions_the_store_goes_on",
            "--nocapture",
        ])
        .env(FILE_VARIABLE, folder.path().join("store.redb"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("went on after"), "{told}\n{errors}");
}
