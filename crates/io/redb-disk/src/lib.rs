//! The store's disk on a real machine: one redb file (a copy-on-write B-tree). One transaction a
//! batch, synced before it returns.
//!
//! Layout: table `objects` maps a key to (revision of its last write, value); table `meta` holds
//! `format` and `revision`, the newest durable one. Reads come from memory, so redb's cache is
//! small.
#![forbid(unsafe_code)]

mod inspection;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use rekindle_store::{Batch, Disk, DiskContent, DiskError, ObjectKey, Revision, StoredObject};

use inspection::without_panic;
pub use inspection::{inspect, newest_revision};

const OBJECTS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const META_FORMAT: &str = "format";
const META_REVISION: &str = "revision";

/// The layout described above.
const FORMAT: u64 = 1;
const CACHE_BYTES: usize = 4 << 20;

/// A redb file. It is opened, and locked against other processes, by [`Disk::load`].
pub struct RedbDisk {
    path: PathBuf,
    open: Opener,
    /// None before the first use, and after a failure: redb refuses to go on after an IO error
    /// until it is reopened.
    database: Option<Database>,
    /// What failed commits may have left in the file, and what was there before: put back by the
    /// next commit.
    doubt: BTreeMap<ObjectKey, Option<Arc<StoredObject>>>,
}

type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send>;

impl RedbDisk {
    /// The disk in this file. The folder must exist; the file is created, readable by its owner
    /// only, since it holds Secrets.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_opener(path, Box::new(open_file))
    }

    fn with_opener(path: impl Into<PathBuf>, open: Opener) -> Self {
        Self { path: path.into(), open, database: None, doubt: BTreeMap::new() }
    }

    fn database(&mut self) -> Result<&Database, DatabaseError> {
        match self.database.take() {
            Some(open) => Ok(self.database.insert(open)),
            None => {
                let opened = (self.open)(&self.path)?;
                Ok(self.database.insert(opened))
            }
        }
    }

    fn open_error(&self, error: DatabaseError) -> DiskError {
        let path = self.path.clone();
        match error {
            DatabaseError::DatabaseAlreadyOpen => DiskError::Locked { path },
            other => DiskError::Open { path, source: Arc::new(redb::Error::from(other)) },
        }
    }

    fn load_error(&self, error: impl Into<redb::Error>) -> DiskError {
        DiskError::Load { path: self.path.clone(), source: Arc::new(error.into()) }
    }

    fn commit_error(&self, error: redb::Error) -> DiskError {
        let path = self.path.clone();
        match error {
            redb::Error::Io(io) if is_full(&io) => DiskError::Full { path },
            other => DiskError::Commit { path, source: Arc::new(other) },
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), redb::Error> {
        let doubt = std::mem::take(&mut self.doubt);
        let written = self.database().map_err(Into::into).and_then(|database| {
            let restored = doubt.iter().map(|(key, before)| (key, before.as_deref()));
            let changed = batch.rows.iter().map(|row| (&row.key, row.after.as_deref()));
            write_rows(database, batch.revision, restored.chain(changed))
        });
        if written.is_err() {
            self.database = None;
            self.doubt = doubt;
            let before = batch.rows.iter().map(|row| (row.key.clone(), row.before.clone()));
            self.doubt.extend(before);
        }
        written
    }
}

impl RedbDisk {
    /// The database is this function's until all is read. A panic drops it while it unwinds: then
    /// redb writes nothing but the mark that the file was not closed. Later it would write more.
    fn load_content(&mut self) -> Result<DiskContent, DiskError> {
        let database = match self.database.take() {
            Some(open) => open,
            None => (self.open)(&self.path).map_err(|error| self.open_error(error))?,
        };
        let content = self.read_content(&database)?;
        self.database = Some(database);
        Ok(content)
    }

    fn read_content(&self, database: &Database) -> Result<DiskContent, DiskError> {
        let meta = read_meta(database).map_err(|error| self.load_error(error))?;
        let Some(revision) = known_revision(meta, &self.path)? else {
            write_rows(database, Revision::ZERO, std::iter::empty())
                .map_err(|error| self.commit_error(error))?;
            return Ok(DiskContent::default());
        };
        let objects = read_objects(database).map_err(|error| self.load_error(error))?;
        let content = DiskContent { revision, objects };
        match content.revision_faults().first() {
            Some(fault) => {
                let what = format!("{:?} {}", fault.key.as_str(), fault.problem);
                Err(damaged(&self.path, what))
            }
            None => Ok(content),
        }
    }
}

impl Disk for RedbDisk {
    fn load(&mut self) -> Result<DiskContent, DiskError> {
        without_panic(|| self.load_content())
            .unwrap_or_else(|panic| Err(damaged(&self.path, panic)))
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), DiskError> {
        self.write(batch).map_err(|error| self.commit_error(error))
    }
}

impl std::fmt::Debug for RedbDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbDisk").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Format and newest revision; none in a new file.
fn read_meta(database: &Database) -> Result<Option<(u64, u64)>, redb::Error> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let value =
        |name| -> Result<u64, redb::Error> { Ok(meta.get(name)?.map_or(0, |value| value.value())) };
    Ok(Some((value(META_FORMAT)?, value(META_REVISION)?)))
}

/// The revision that `meta` has; none in a new file.
///
/// # Errors
/// When it is of another format.
fn known_revision(meta: Option<(u64, u64)>, path: &Path) -> Result<Option<Revision>, DiskError> {
    match meta {
        Some((FORMAT, revision)) => Ok(Some(Revision(revision))),
        Some((found, _)) => Err(DiskError::Format { path: path.to_owned(), found, known: FORMAT }),
        None => Ok(None),
    }
}

fn damaged(path: &Path, what: impl Into<String>) -> DiskError {
    DiskError::Damaged { path: path.to_owned(), what: what.into() }
}

fn read_objects(database: &Database) -> Result<Vec<StoredObject>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = transaction.open_table(OBJECTS)?;
    let mut objects = Vec::new();
    for row in table.iter()? {
        let (key, value) = row?;
        let (revision, value) = value.value();
        let value = Bytes::copy_from_slice(value);
        objects.push(StoredObject::new(key.value(), Revision(revision), value));
    }
    Ok(objects)
}

fn write_rows<'a>(
    database: &Database,
    revision: Revision,
    rows: impl Iterator<Item = (&'a ObjectKey, Option<&'a StoredObject>)>,
) -> Result<(), redb::Error> {
    // The default durability is the one we promise: the commit returns after the sync.
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for (key, state) in rows {
            match state {
                Some(object) => {
                    objects.insert(key.as_str(), (object.revision.0, &*object.value))?;
                }
                None => {
                    objects.remove(key.as_str())?;
                }
            }
        }
        let mut meta = transaction.open_table(META)?;
        meta.insert(META_FORMAT, FORMAT)?;
        meta.insert(META_REVISION, revision.0)?;
    }
    transaction.commit()?;
    Ok(())
}

fn open_file(path: &Path) -> Result<Database, DatabaseError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create_file(file)?;
    sync_folder_of(path)?;
    Ok(database)
}

/// A new file survives power loss only when its folder was synced too. Done at each start: the
/// process that created the file may have died before it came to this.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let folder: File = OpenOptions::new().read(true).open(folder)?;
    folder.sync_all()
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

#[cfg(test)]
mod tests;
