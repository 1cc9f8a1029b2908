//! The store and the keys of a data directory, made from a backup. What they replace is kept beside
//! them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use rekindle_api_server::SystemClock;
use rekindle_api_server::pki::write_private;
use rekindle_redb_disk::{RedbDisk, StoreInspection};
use rekindle_store::backup::BackupFile;
use rekindle_store::{Batch, BatchRow, Disk, DiskContent, Revision, StoredObject};
use rekindle_types::causes;

use super::content::BackupContent;
use super::target::sync_folder;
use super::{inspect_quietly, key_files};
use crate::engine::data_dir::{DataDir, PKI, STORE, create_own};
use crate::engine::service_range;

/// What a restore has made.
pub struct RestoredStore {
    /// Where revisions go on.
    pub revision: Revision,
    /// Where what was there before is now.
    pub kept_aside: Vec<PathBuf>,
    /// Something that needs a look, in words.
    pub notes: Vec<String>,
}

/// How a store is restored.
#[derive(Clone, Copy, Debug)]
pub struct RestoreOptions {
    /// Whether a store and keys that are there are replaced, and kept aside. Otherwise they are
    /// left as they are, and the restore fails.
    pub replaces_existing: bool,
    /// How far revisions go on above all that are known.
    pub bump_revision: u64,
}

/// Refuses a backup that is whole, and yet is none that an engine has made. To be called before
/// anything is written.
pub fn check(backup: &BackupContent) -> anyhow::Result<()> {
    key_files::check(&backup.files)?;
    match backup.stored.revision_faults().first() {
        Some(fault) => bail!("the backup is damaged: {} {}", fault.key, fault.problem),
        None => Ok(()),
    }
}

/// Makes the store and the keys.
pub fn restore(
    data_dir: &DataDir,
    backup: BackupContent,
    options: RestoreOptions,
) -> anyhow::Result<RestoredStore> {
    let replaced = replaced_files(data_dir, &backup.files)?;
    if let Some(file) = replaced.first().filter(|_| !options.replaces_existing) {
        bail!(
            "{} is there already: restore into another folder with --data-dir, or give --force to keep it aside",
            file.display()
        );
    }
    let mut notes = Vec::new();
    let newest = newest_known(data_dir, backup.header.revision, &mut notes);
    let revision = newest.0.checked_add(options.bump_revision).map(Revision);
    let revision = revision.context("no revision is left above that of the backup")?;
    let range = service_range::of_objects(&backup.stored.objects)?;
    let staged = data_dir.join(&format!("{STORE}.restoring"));
    write_store(&staged, backup.stored, revision)?;
    let now = SystemClock::start().now().to_time().0;
    let suffix = format!(".before-restore-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let kept_aside =
        replaced.iter().map(|file| keep_aside(file, &suffix)).collect::<anyhow::Result<_>>()?;
    write_keys(data_dir, &backup.files)?;
    if let Some(range) = range {
        service_range::keep_for_next_start(data_dir, range)?;
    }
    let store = data_dir.join(STORE);
    std::fs::rename(&staged, &store).with_context(|| format!("rename {}", staged.display()))?;
    sync_folder(data_dir.path())?;
    Ok(RestoredStore { revision, kept_aside, notes })
}

/// The files that are there and will be others: the store, and keys that differ.
fn replaced_files(data_dir: &DataDir, files: &[BackupFile]) -> anyhow::Result<Vec<PathBuf>> {
    let store = data_dir.join(STORE);
    let mut replaced = Vec::from_iter(store.exists().then_some(store));
    for file in files {
        let path = data_dir.join(&file.name);
        match std::fs::read(&path) {
            Ok(content) if content == file.content => {}
            Ok(_) => replaced.push(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        }
    }
    Ok(replaced)
}

/// The newest revision that clients may know of: that of the store that is replaced is newer than
/// the backup's, unless it cannot be read.
fn newest_known(data_dir: &DataDir, backup: Revision, notes: &mut Vec<String>) -> Revision {
    let store = data_dir.join(STORE);
    if !store.exists() {
        return backup;
    }
    let unknown = match inspect_quietly(&store) {
        Ok(StoreInspection { content, faults }) if faults.is_empty() => {
            return content.revision.max(backup);
        }
        Ok(StoreInspection { faults, .. }) => faults.join(", "),
        Err(error) => causes(&error),
    };
    notes.push(format!(
        "the store that was there cannot be read ({unknown}): it must not be further ahead of the backup than --bump-revision"
    ));
    backup
}

fn write_store(path: &Path, content: DiskContent, revision: Revision) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => {} // of a restore that was interrupted
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("remove {}", path.display())),
    }
    let row = |object: StoredObject| BatchRow {
        key: object.key.clone(),
        before: None,
        after: Some(Arc::new(object)),
    };
    let rows = content.objects.into_iter().map(row).collect();
    let written = RedbDisk::new(path).commit(&Batch { revision, rows });
    written.context("write the store").inspect_err(|_| {
        // best effort: that it was not written is the error to tell of
        let _ = std::fs::remove_file(path);
    })
}

/// The file under a second name. The first one stays until it is replaced, in one step.
fn keep_aside(file: &Path, suffix: &str) -> anyhow::Result<PathBuf> {
    let mut aside = file.as_os_str().to_owned();
    aside.push(suffix);
    let aside = PathBuf::from(aside);
    std::fs::hard_link(file, &aside)
        .with_context(|| format!("keep {} as {}", file.display(), aside.display()))?;
    Ok(aside)
}

fn write_keys(data_dir: &DataDir, files: &[BackupFile]) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let folder = data_dir.join(PKI);
    create_own(&folder)?;
    for file in files {
        let path = data_dir.join(&file.name);
        write_private(&path, &file.content).with_context(|| format!("write {}", path.display()))?;
    }
    sync_folder(&folder)
}
