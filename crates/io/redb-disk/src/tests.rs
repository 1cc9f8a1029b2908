//! The disk's promises against a storage that fails, fills up and loses what was not synced.

use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use proptest::prelude::*;
use redb::StorageBackend;

use super::*;
use rekindle_store::BatchRow;

/// A storage whose unsynced writes can be lost, in part and out of order, as a page cache loses
/// them with the power.
#[derive(Clone, Debug, Default)]
struct Storage {
    medium: Arc<Mutex<Medium>>,
}

#[derive(Debug, Default)]
struct Medium {
    synced: Vec<u8>,
    /// In the order in which they were issued.
    unsynced: Vec<Change>,
    current: Vec<u8>,
    failing: Option<Failing>,
}

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    Writes,
    SyncsThatReachTheMedium,
}

impl Storage {
    fn disk(&self) -> RedbDisk {
        let storage = self.clone();
        let open = move |_: &Path| redb::Builder::new().create_with_backend(storage.clone());
        RedbDisk::with_opener("test", Box::new(open))
    }

    fn set_failing(&self, failing: Option<Failing>) {
        self.medium.lock().unwrap().failing = failing;
    }

    /// Power loss: of the unsynced changes only those survive that `survives` names by their
    /// number.
    fn lose_power(&self, survives: impl Fn(usize) -> bool) {
        let mut medium = self.medium.lock().unwrap();
        let mut left = medium.synced.clone();
        for (number, change) in medium.unsynced.iter().enumerate() {
            if survives(number) {
                change.apply(&mut left);
            }
        }
        medium.synced = left.clone();
        medium.current = left;
        medium.unsynced.clear();
        medium.failing = None;
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write(offset, data) => {
                let end = offset + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(data);
            }
        }
    }
}

impl Medium {
    fn change(&mut self, change: Change) -> io::Result<()> {
        if self.failing == Some(Failing::Writes) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change.apply(&mut self.current);
        self.unsynced.push(change);
        Ok(())
    }
}

impl StorageBackend for Storage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.medium.lock().unwrap().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        out.copy_from_slice(&self.medium.lock().unwrap().current[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.medium.lock().unwrap().change(Change::Length(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut medium = self.medium.lock().unwrap();
        medium.synced = medium.current.clone();
        medium.unsynced.clear();
        match medium.failing {
            None | Some(Failing::Writes) => Ok(()),
            Some(Failing::SyncsThatReachTheMedium) => Err(io::Error::other("sync failed")),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.medium.lock().unwrap().change(Change::Write(offset as usize, data.to_vec()))
    }
}

fn object(key: &str, revision: u64, value: &str) -> Arc<StoredObject> {
    Arc::new(StoredObject::new(key, Revision(revision), value.to_owned()))
}

/// A key, and the object there before and after.
type Step<'a> = (&'a str, Option<&'a Arc<StoredObject>>, Option<&'a Arc<StoredObject>>);

fn batch<const N: usize>(revision: u64, rows: [Step<'_>; N]) -> Batch {
    let row = |(key, before, after): Step<'_>| BatchRow {
        key: key.into(),
        before: before.cloned(),
        after: after.cloned(),
    };
    Batch { revision: Revision(revision), rows: rows.map(row).to_vec() }
}

fn loaded(revision: u64, objects: &[&Arc<StoredObject>]) -> DiskContent {
    let objects = objects.iter().map(|object| (***object).clone()).collect();
    DiskContent { revision: Revision(revision), objects }
}

#[test]
fn what_was_committed_is_there_after_power_loss() {
    let storage = Storage::default();
    let (a, b) = (object("/a", 1, "one"), object("/b", 2, "two"));
    let mut disk = storage.disk();
    assert_eq!(disk.load().unwrap(), loaded(0, &[]));
    disk.commit(&batch(2, [("/a", None, Some(&a)), ("/b", None, Some(&b))])).unwrap();
    disk.commit(&batch(3, [("/b", Some(&b), None)])).unwrap();
    // The process is gone without closing the file, and then the power.
    std::mem::forget(disk);
    storage.lose_power(|_| false);
    assert_eq!(storage.disk().load().unwrap(), loaded(3, &[&a]));
}

#[test]
fn a_full_disk_is_told_apart_and_the_disk_goes_on_when_there_is_space_again() {
    let storage = Storage::default();
    let a = object("/a", 1, "one");
    let mut disk = storage.disk();
    disk.load().unwrap();
    storage.set_failing(Some(Failing::Writes));
    for _ in 0..3 {
        let refused = disk.commit(&batch(1, [("/a", None, Some(&a))]));
        assert!(matches!(refused, Err(DiskError::Full { .. })), "{refused:?}");
    }
    storage.set_failing(None);
    disk.commit(&batch(1, [("/a", None, Some(&a))])).unwrap();
    drop(disk);
    assert_eq!(storage.disk().load().unwrap(), loaded(1, &[&a]));
}

#[test]
fn a_batch_whose_sync_failed_is_undone_by_the_next_commit_although_it_reached_the_medium() {
    let storage = Storage::default();
    let (a1, b1) = (object("/a", 1, "one"), object("/b", 2, "kept"));
    let (a2, c) = (object("/a", 3, "lost"), object("/c", 4, "lost"));
    let d = object("/d", 3, "next");
    let mut disk = storage.disk();
    disk.load().unwrap();
    disk.commit(&batch(2, [("/a", None, Some(&a1)), ("/b", None, Some(&b1))])).unwrap();
    storage.set_failing(Some(Failing::SyncsThatReachTheMedium));
    let doubtful =
        batch(5, [("/a", Some(&a1), Some(&a2)), ("/b", Some(&b1), None), ("/c", None, Some(&c))]);
    let refused = disk.commit(&doubtful);
    assert!(matches!(refused, Err(DiskError::Commit { .. })), "{refused:?}");
    storage.set_failing(None);
    disk.commit(&batch(3, [("/d", None, Some(&d))])).unwrap();
    drop(disk);
    storage.lose_power(|_| false);
    assert_eq!(storage.disk().load().unwrap(), loaded(3, &[&a1, &b1, &d]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// P8, and the all-or-nothing rule of [`Disk::commit`]: whatever subset of the unsynced writes
    /// a power loss leaves, the file opens and holds the last acknowledged batch, or the whole one
    /// after it.
    #[test]
    fn power_loss_at_any_moment_leaves_a_whole_batch(
        values in prop::collection::vec(0..6_u64, 1..8),
        fails in any::<bool>(),
        survivors in any::<u64>(),
    ) {
        let storage = Storage::default();
        let mut disk = storage.disk();
        disk.load().unwrap();
        let mut state: BTreeMap<ObjectKey, Arc<StoredObject>> = BTreeMap::new();
        let mut allowed = Vec::new();
        for (number, value) in values.iter().enumerate() {
            let revision = number as u64 + 1;
            let key = format!("/k{value}");
            let large = "x".repeat(3_000 * (*value as usize + 1));
            let (before, after) = (state.get(key.as_str()).cloned(), object(&key, revision, &large));
            let next = batch(revision, [(&key, before.as_ref(), Some(&after))]);
            let last = number + 1 == values.len();
            if last && fails {
                // The changes of the last batch stay in the page cache.
                allowed.push(state.clone());
                storage.set_failing(Some(Failing::SyncsThatReachTheMedium));
                let synced = storage.medium.lock().unwrap().synced.clone();
                prop_assert!(disk.commit(&next).is_err());
                let mut medium = storage.medium.lock().unwrap();
                let reached = std::mem::replace(&mut medium.synced, synced);
                medium.unsynced = differing_pages(&medium.synced, &reached);
            } else {
                disk.commit(&next).unwrap();
            }
            state.insert(after.key.clone(), after);
        }
        allowed.push(state);
        std::mem::forget(disk);
        storage.lose_power(|change| survivors >> (change % 64) & 1 == 1);
        let found = storage.disk().load().unwrap();
        let found: BTreeMap<ObjectKey, Arc<StoredObject>> =
            found.objects.into_iter().map(|o| (o.key.clone(), Arc::new(o))).collect();
        prop_assert!(allowed.contains(&found));
    }
}

/// The changes, page by page, that make `to` out of `from`.
fn differing_pages(from: &[u8], to: &[u8]) -> Vec<Change> {
    const PAGE: usize = 4096;
    let mut changes = vec![Change::Length(to.len())];
    for (number, page) in to.chunks(PAGE).enumerate() {
        let offset = number * PAGE;
        if from.get(offset..offset + page.len()) != Some(page) {
            changes.push(Change::Write(offset, page.to_vec()));
        }
    }
    changes
}

#[test]
fn the_file_is_readable_by_its_owner_only_since_it_holds_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    RedbDisk::new(&path).load().unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_open_elsewhere_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let mut holder = RedbDisk::new(&path);
    holder.load().unwrap();
    let refused = RedbDisk::new(&path).load();
    assert!(matches!(&refused, Err(DiskError::Locked { path: at }) if *at == path), "{refused:?}");
    drop(holder);
    RedbDisk::new(&path).load().unwrap();
}

#[test]
fn a_file_of_another_format_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let mut disk = RedbDisk::new(&path);
    disk.load().unwrap();
    let transaction = disk.database().unwrap().begin_write().unwrap();
    transaction.open_table(META).unwrap().insert(META_FORMAT, FORMAT + 1).unwrap();
    transaction.commit().unwrap();
    drop(disk);
    let refused = RedbDisk::new("store.redb").with_file(&path).load().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "\"store.redb\" has data format 2, this version reads format 1: \
         use the version that wrote it, or another data directory"
    );
    for inspected in [inspect(&path).map(drop), newest_revision(&path).map(drop)] {
        assert!(
            matches!(&inspected, Err(DiskError::Format { found: 2, .. })),
            "it is whole, so another version can use it: {inspected:?}"
        );
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let content = "not a database, but long enough to be looked at. ".repeat(500);
    OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    std::io::Write::write_all(
        &mut OpenOptions::new().write(true).open(&path).unwrap(),
        content.as_bytes(),
    )
    .unwrap();
    let refused = RedbDisk::new(&path).load();
    assert!(matches!(refused, Err(DiskError::Open { .. })), "{refused:?}");
    let mut found = String::new();
    std::io::Read::read_to_string(
        &mut OpenOptions::new().read(true).open(&path).unwrap(),
        &mut found,
    )
    .unwrap();
    assert_eq!(found, content);
}

/// A store of a few hundred objects, closed as an engine closes it, or left as kill -9 leaves it.
fn store_file(folder: &Path, is_closed: bool) -> (PathBuf, DiskContent) {
    let path = folder.join("store.redb");
    let mut disk = RedbDisk::new(&path);
    disk.load().unwrap();
    let objects: Vec<_> =
        (1..=300).map(|n| object(&format!("/k{n:03}"), n, &"x".repeat(n as usize))).collect();
    for object in &objects {
        let rows = [(object.key.as_str(), None, Some(object))];
        disk.commit(&batch(object.revision.0, rows)).unwrap();
    }
    if is_closed {
        drop(disk);
    } else {
        let bytes = bytes_of(&path);
        drop(disk);
        write_over(&path, &bytes);
    }
    (path, loaded(300, &objects.iter().collect::<Vec<_>>()))
}

fn bytes_of(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut OpenOptions::new().read(true).open(path).unwrap(), &mut bytes)
        .unwrap();
    bytes
}

fn write_over(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    io::Write::write_all(&mut file, bytes).unwrap();
}

#[test]
fn a_whole_file_is_found_whole_and_left_as_it_is() {
    for is_closed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (path, content) = store_file(folder.path(), is_closed);
        let before = bytes_of(&path);
        assert_eq!(inspect(&path).unwrap(), content, "closed: {is_closed}");
        assert!(bytes_of(&path) == before, "closed: {is_closed}");
    }
}

/// Wherever a bit flips: it is found, or it lies where nothing is.
#[test]
fn a_damaged_page_is_one_clear_fault_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (path, content) = store_file(folder.path(), true);
    let whole = bytes_of(&path);
    let mut found_damaged = 0;
    for at in (0..whole.len()).step_by(if whole.len() > 1 << 20 { 4099 } else { 1021 }) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        write_over(&path, &damaged);
        match inspect(&path) {
            Ok(found) => assert_eq!(found, content, "byte {at}"),
            Err(DiskError::Damaged { what, .. }) => {
                assert!(!what.contains('\n'), "byte {at}: {what}");
                found_damaged += 1;
            }
            Err(other) => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(found_damaged > 0);
    for end in [0, 1, 4096, whole.len() / 2, whole.len() - 1] {
        write_over(&path, &whole[..end]);
        let cut = inspect(&path);
        assert!(matches!(cut, Err(DiskError::Damaged { .. })), "cut at {end}: {cut:?}");
    }
}

/// Where redb's file says that it is open, or was not closed.
const NOT_CLOSED_BYTE: usize = 9;

/// An engine checks no checksums when it starts, so it may read damage that [`inspect`] finds. What
/// it promises is no panic, and a file that stays what it was when redb panics inside.
#[test]
fn an_engine_that_meets_a_panic_of_redb_gets_an_error_and_the_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = store_file(folder.path(), true);
    let whole = bytes_of(&path);
    let mut panics = 0;
    // the heads of pages with objects: what redb finds wrong there, it finds when it is open
    let has_objects = |page: &usize| whole[*page..][..4096].windows(40).any(|w| w == [b'x'; 40]);
    let pages = (0..whole.len()).step_by(4096).filter(has_objects);
    for at in pages.flat_map(|page| [page + 3, page + 4, page + 12]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        write_over(&path, &damaged);
        let mut disk = RedbDisk::new(&path);
        match disk.load() {
            Err(DiskError::Damaged { what, .. }) if what.starts_with("redb panicked") => {
                panics += 1;
                let mut now = bytes_of(&path);
                now[NOT_CLOSED_BYTE] = damaged[NOT_CLOSED_BYTE];
                assert!(now == damaged, "byte {at}: {what}");
            }
            // it read something: redb may panic when it is closed, which is not asked here
            Ok(_) | Err(_) => drop(without_panic(|| drop(disk))),
        }
    }
    assert!(panics > 0);
}

#[test]
fn the_newest_revision_is_read_although_an_object_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = store_file(folder.path(), true);
    let mut damaged = bytes_of(&path);
    let at = damaged.windows(200).position(|bytes| bytes == [b'x'; 200]).unwrap();
    damaged[at] = b'y';
    write_over(&path, &damaged);
    assert_eq!(newest_revision(&path).unwrap(), Revision(300));
    assert!(bytes_of(&path) == damaged);
    for unreadable in [&b""[..], b"no store"] {
        write_over(&path, unreadable);
        let refused = newest_revision(&path);
        assert!(matches!(refused, Err(DiskError::Damaged { .. })), "{refused:?}");
        assert_eq!(bytes_of(&path), unreadable);
    }
}

#[test]
fn a_file_in_use_is_not_looked_at_and_a_missing_one_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let missing = inspect(&path);
    assert!(matches!(missing, Err(DiskError::Load { .. })), "{missing:?}");
    assert!(!path.exists());
    let mut holder = RedbDisk::new(&path);
    holder.load().unwrap();
    let refused = inspect(&path);
    assert!(matches!(&refused, Err(DiskError::Locked { path: at }) if *at == path), "{refused:?}");
    let refused = newest_revision(&path);
    assert!(matches!(&refused, Err(DiskError::Locked { path: at }) if *at == path), "{refused:?}");
}

impl RedbDisk {
    /// Shows one path in errors and opens another, so that a message can be compared.
    fn with_file(mut self, path: &Path) -> Self {
        let path = path.to_owned();
        self.open = Box::new(move |_| open_file(&path));
        self
    }
}
