//! The store and the keys of a data directory, made from a backup. What they replace is kept beside
//! them.
//!
//! ```text
//!   all new files are written beside the old ones    a failure changes nothing
//!   restore-unfinished is written                    from here on no engine starts
//!   the old files get second names
//!   keys and store get their names
//!   restore-unfinished is removed
//! ```

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use rekindle_api_server::pki::{sync_folder_of, write_private};
use rekindle_redb_disk::{RedbDisk, newest_revision};
use rekindle_store::backup::REVISION_MAX;
use rekindle_store::{Batch, BatchRow, Disk, DiskError, Revision, StoredObject};
use rekindle_types::{Tick, causes};
use tempfile::TempPath;

use super::content::VerifiedBackup;
use super::engine_keys::{EngineKeys, files_of};
use super::look_quietly;
use crate::engine::data_dir::{DataDir, PKI, STORE, create_own};
use crate::engine::service_range;
use crate::engine::unfinished_restore::{self, KeptFile};

/// What a new file is called before it gets its name.
const STAGED_SUFFIX: &str = ".restoring";
/// So far revisions go on above all that are known when the clock cannot say where.
const REVISION_BUMP: u64 = 1_000_000_000;

/// What a restore has made.
pub struct RestoredStore {
    /// Where revisions go on.
    pub revision: Revision,
    /// What was there before.
    pub kept: Vec<KeptFile>,
    /// Why the newest revision of the store that was there is not known, if it is not.
    pub unread_store: Option<String>,
}

/// Whether a store and keys that are there are replaced, and kept aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingFiles {
    /// They are left as they are, and the restore fails.
    Refuse,
    /// They are kept aside.
    Replace,
}

/// Makes the store and the keys.
pub fn restore(
    data_dir: &DataDir,
    backup: &VerifiedBackup,
    existing: ExistingFiles,
    now: Tick,
) -> anyhow::Result<RestoredStore> {
    let replaced = replaced_files(data_dir, backup.keys())?;
    if let (Some(file), ExistingFiles::Refuse) = (replaced.first(), existing) {
        bail!(
            "{} is there already: restore into another folder with --data-dir, or give --force to keep it aside",
            file.display()
        );
    }
    let NewestRevision { newest, unread_store } =
        NewestRevision::find(data_dir, backup.header().revision)?;
    let created_at = Tick::from_micros(backup.header().created_at_micros);
    let revision = next_revision(newest, created_at, now)
        .context("no revision is left above that of the store that is replaced")?;
    let staged = StagedFiles::write(data_dir, backup, revision)?;
    let kept = asides(replaced, now);
    unfinished_restore::begin(data_dir, &kept)?;
    staged.replace(&kept).with_context(|| unfinished(&kept))?;
    unfinished_restore::end(data_dir)?;
    Ok(RestoredStore { revision, kept, unread_store })
}

fn unfinished(kept: &[KeptFile]) -> String {
    let asides: Vec<String> = kept.iter().map(|kept| kept.aside.display().to_string()).collect();
    let before = match &asides[..] {
        [] => "no store and keys were there".to_owned(),
        asides => format!("what was there is kept as {}", asides.join(", ")),
    };
    format!("the restore is unfinished, and no engine starts before it is repeated; {before}")
}

/// The files that are there and will be others: the store, and keys that differ.
fn replaced_files(data_dir: &DataDir, keys: Option<&EngineKeys>) -> anyhow::Result<Vec<PathBuf>> {
    let store = data_dir.join(STORE);
    let mut replaced = Vec::from_iter(store.exists().then_some(store));
    for file in files_of(keys) {
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

/// The newest revision that is known of: that of the store that is replaced, or of the backup.
struct NewestRevision {
    newest: Revision,
    unread_store: Option<String>,
}

impl NewestRevision {
    /// # Errors
    /// When another process has the store open: it must not be replaced under it.
    fn find(data_dir: &DataDir, backup: Revision) -> anyhow::Result<Self> {
        let store = data_dir.join(STORE);
        if !store.exists() {
            return Ok(Self { newest: backup, unread_store: None });
        }
        let unread = match look_quietly(|| newest_revision(&store)) {
            Ok(found) if found <= REVISION_MAX => {
                return Ok(Self { newest: found.max(backup), unread_store: None });
            }
            Ok(found) => format!("it says revision {found}"),
            // what a restore is for
            Err(
                error @ (DiskError::Damaged { .. }
                | DiskError::Load { .. }
                | DiskError::Format { .. }),
            ) => causes(&error),
            Err(
                error @ (DiskError::Locked { .. }
                | DiskError::Open { .. }
                | DiskError::Full { .. }
                | DiskError::Commit { .. }),
            ) => return Err(error).context("look at the store that is there"),
        };
        Ok(Self { newest: backup, unread_store: Some(unread) })
    }
}

/// Where revisions go on: at the time, in microseconds since 1970. A store has less than one write
/// in a microsecond. So every revision of before is below it, that of earlier restores and of
/// stores that are lost, too. A clock that is behind cannot say; then they go on far above those
/// that are known. None when no number is left.
fn next_revision(newest: Revision, created_at: Tick, now: Tick) -> Option<Revision> {
    let is_behind = now < created_at || now.as_micros() <= newest.0;
    let next = if is_behind { newest.0.checked_add(REVISION_BUMP)? } else { now.as_micros() };
    Some(Revision(next)).filter(|next| *next <= REVISION_MAX)
}

/// The new files, durable under other names. Dropped, they are gone.
struct StagedFiles {
    /// With the names that they get, in this order.
    files: Vec<(TempPath, PathBuf)>,
}

impl StagedFiles {
    fn write(
        data_dir: &DataDir,
        backup: &VerifiedBackup,
        revision: Revision,
    ) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        if let Some(keys) = backup.keys() {
            create_own(&data_dir.join(PKI))?;
            // the CA's key before its certificate
            for key in keys.files().iter().rev() {
                let (staged, path) = staged(data_dir, &key.name)?;
                write_private(&staged, &key.content)
                    .with_context(|| format!("write {}", staged.display()))?;
                files.push((staged, path));
            }
        }
        if let Some(range) = service_range::of_stored_cidr(backup.objects())? {
            let (staged, path) = staged(data_dir, service_range::FILE)?;
            write_private(&staged, range.to_string().as_bytes())
                .with_context(|| format!("write {}", staged.display()))?;
            files.push((staged, path));
        }
        let (staged, path) = staged(data_dir, STORE)?;
        write_store(&staged, backup.objects(), revision)?;
        files.push((staged, path));
        Ok(Self { files })
    }

    /// The old files get their second names, and the new ones theirs. The store is the last.
    fn replace(self, kept: &[KeptFile]) -> anyhow::Result<()> {
        for KeptFile { file, aside } in kept {
            keep_aside(file, aside)
                .with_context(|| format!("keep {} as {}", file.display(), aside.display()))?;
        }
        for (staged, path) in self.files {
            let renamed = staged.persist(&path).map_err(|error| error.error);
            renamed
                .and_then(|()| sync_folder_of(&path))
                .with_context(|| format!("replace {}", path.display()))?;
        }
        Ok(())
    }
}

/// Where a new file is written, and the name that it gets.
fn staged(data_dir: &DataDir, name: &str) -> anyhow::Result<(TempPath, PathBuf)> {
    let staged = data_dir.join(&[name, STAGED_SUFFIX].concat());
    let staged = TempPath::try_from_path(staged).context("name a new file")?;
    Ok((staged, data_dir.join(name)))
}

fn write_store(path: &Path, objects: &[StoredObject], revision: Revision) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => {} // of a restore that was interrupted
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("remove {}", path.display())),
    }
    let row = |object: &StoredObject| BatchRow {
        key: object.key.clone(),
        before: None,
        after: Some(Arc::new(object.clone())),
    };
    let rows = objects.iter().map(row).collect();
    RedbDisk::new(path).commit(&Batch { revision, rows }).context("write the store")
}

/// Where these files are kept, under names that are free.
fn asides(files: Vec<PathBuf>, now: Tick) -> Vec<KeptFile> {
    let time = now.to_time().0.strftime("%Y%m%dT%H%M%SZ").to_string();
    let named = |number: usize| {
        let suffix = match number {
            1 => format!(".before-restore-{time}"),
            number => format!(".before-restore-{time}-{number}"),
        };
        let aside = |file: &PathBuf| {
            let mut aside = file.clone().into_os_string();
            aside.push(&suffix);
            KeptFile { file: file.clone(), aside: aside.into() }
        };
        files.iter().map(aside).collect::<Vec<KeptFile>>()
    };
    let mut number = 1;
    loop {
        let kept = named(number);
        if kept.iter().all(|kept| kept.aside.symlink_metadata().is_err()) {
            return kept;
        }
        number += 1;
    }
}

/// A durable second name for the file, or a copy where the file system has no second names. The
/// first name stays until it is replaced, in one step.
fn keep_aside(file: &Path, aside: &Path) -> io::Result<()> {
    if std::fs::hard_link(file, aside).is_err() {
        std::fs::copy(file, aside)?;
        File::open(aside)?.sync_all()?;
    }
    sync_folder_of(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_go_on_at_the_time_or_far_above_all_that_are_known() {
        let (made, now) = (Tick::from_secs(1_795_000_000), Tick::from_secs(1_795_000_001));
        let by_clock = Revision(now.as_micros());
        let above = |newest: u64| Some(Revision(newest + REVISION_BUMP));
        for (newest, now, expected) in [
            (9, now, Some(by_clock)),
            // an earlier restore is below it, and so are writes since
            (made.as_micros() + 999_999, now, Some(by_clock)),
            (now.as_micros(), now, above(now.as_micros())),
            // the clock is older than the backup
            (9, Tick::from_secs(1_000), above(9)),
            (REVISION_MAX.0 - REVISION_BUMP, now, Some(REVISION_MAX)),
            (REVISION_MAX.0 - REVISION_BUMP + 1, now, None),
            (u64::MAX, now, None),
        ] {
            assert_eq!(next_revision(Revision(newest), made, now), expected, "{newest}");
        }
        assert!(by_clock.0 < 1 << 53, "programs keep it in a double");
    }

    #[test]
    fn what_is_kept_gets_a_name_that_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let (store, key) = (folder.path().join("store.redb"), folder.path().join("ca.key"));
        std::fs::write(&store, "store").unwrap();
        std::fs::write(&key, "key").unwrap();
        let now = Tick::from_secs(1_795_000_000);
        for end in ["Z", "Z-2", "Z-3"] {
            let kept = asides(vec![store.clone(), key.clone()], now);
            assert!(
                kept.iter().all(|kept| kept.aside.to_str().unwrap().ends_with(end)),
                "{kept:?}"
            );
            // one of the two is enough
            keep_aside(&key, &kept[1].aside).unwrap();
            assert_eq!(std::fs::read(&kept[1].aside).unwrap(), b"key");
        }
    }
}
