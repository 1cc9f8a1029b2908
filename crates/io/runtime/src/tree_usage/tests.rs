use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn measured(path: &Path) -> TreeUsage {
    measure_tree(path, TREE_ENTRIES_MAX).unwrap()
}

#[test]
fn files_count_by_their_blocks_and_folders_and_links_as_inodes() {
    let dir = tempfile::tempdir().unwrap();
    let empty = measured(dir.path());
    assert_eq!((empty.inodes, empty.extent), (1, WalkExtent::Whole));
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/file"), vec![1; 1 << 20]).unwrap();
    symlink("/etc", dir.path().join("a/link")).unwrap();
    let full = measured(dir.path());
    assert_eq!(full.inodes, 5);
    assert!(full.bytes - empty.bytes >= 1 << 20, "{full:?}");
    assert!(full.bytes - empty.bytes < (1 << 20) + 65536, "{full:?}");
}

#[test]
fn what_is_absent_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(measured(&dir.path().join("no")), TreeUsage::default());
}

#[test]
fn a_file_with_two_names_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("one"), vec![1; 1 << 20]).unwrap();
    let before = measured(dir.path());
    fs::hard_link(dir.path().join("one"), dir.path().join("two")).unwrap();
    assert_eq!(measured(dir.path()).inodes, before.inodes);
}

#[test]
fn links_are_not_followed_neither_on_the_way_nor_inside() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("big"), vec![1; 1 << 20]).unwrap();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    assert!(measured(dir.path()).bytes < 1 << 20);
    assert!(measure_tree(&dir.path().join("out"), 10).is_err(), "the folder itself is a link");
}

#[test]
fn a_tree_of_too_many_entries_takes_at_least_what_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20 {
        fs::write(dir.path().join(number.to_string()), "x").unwrap();
    }
    let part = measure_tree(dir.path(), 10).unwrap();
    assert_eq!((part.inodes, part.extent), (11, WalkExtent::AtLeast));
    assert_eq!(measure_tree(dir.path(), 20).unwrap().extent, WalkExtent::Whole);
}

#[test]
fn a_tree_deeper_than_a_path_is_long_is_measured_to_its_bottom() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = rustix::fs::openat(CWD, dir.path(), folder_flags(), Mode::empty()).unwrap();
    let name = "d".repeat(200);
    for _ in 0..100 {
        rustix::fs::mkdirat(&folder, &name, Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, &name, folder_flags(), Mode::empty()).unwrap();
    }
    let found = measured(dir.path());
    assert_eq!((found.inodes, found.extent), (101, WalkExtent::Whole));
}

#[test]
fn a_tree_that_is_too_broad_to_remember_takes_at_least_what_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20 {
        fs::create_dir_all(dir.path().join(format!("{number}/inner"))).unwrap();
    }
    let limits = |pending_bytes| WalkLimits { entries: 1000, pending_bytes };
    let part = measure(dir.path(), limits(300)).unwrap();
    assert_eq!(part.extent, WalkExtent::AtLeast);
    assert!((21..41).contains(&part.inodes), "{part:?}");
    assert_eq!(measure(dir.path(), limits(10_000)).unwrap().inodes, 41);
}
