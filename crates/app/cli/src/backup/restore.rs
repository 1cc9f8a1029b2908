//! The store and the keys of a data directory, made from a backup. What they replace is kept beside
//! them.
//!
//! ```text
//!   all new files are written beside the old ones    a failure changes nothing
//!   the old files get second names                   a failure changes nothing
//!   restore-unfinished is written                    from here on no engine starts
//!   keys, range of Services and store get their names
//!   restore-unfinished is removed
//! ```
//! A repeated restore finds `restore-unfinished`. It does not keep the files again that this names:
//! what lies there now may come from the interrupted restore.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use rekindle_api_server::pki::{sync_folder_of, write_private};
use rekindle_kinds::service_range::ServiceRange;
use rekindle_redb_disk::{RedbDisk, newest_revision};
use rekindle_store::backup::{BackupFile, REVISION_MAX};
use rekindle_store::{Batch, BatchRow, Disk, DiskError, Revision, StoredObject};
use rekindle_types::{Tick, causes};
use tempfile::TempPath;

use super::content::VerifiedBackup;
use super::engine_keys::files_of;
use super::kept_files::keep_aside;
use super::look_quietly;
use crate::engine::data_dir::{DataDir, PKI, STORE, create_own};
use crate::engine::service_range;
use crate::engine::unfinished_restore::{self, ReplacedFile};

/// What a new file is called before it gets its name.
const STAGED_SUFFIX: &str = ".restoring";
/// How far above all known revisions they go on when the clock is behind.
const REVISION_BUMP: u64 = 1_000_000_000;

/// What a restore has made.
#[derive(Debug)]
pub struct RestoredStore {
    /// Where revisions go on.
    pub revision: Revision,
    /// Where the replaced files are kept.
    pub kept: Vec<PathBuf>,
    /// Why the newest revision of the store that was there is not known, if it is not.
    pub unread_store: Option<String>,
    /// The range of Services, if it is another one than before.
    pub new_range: Option<RestoredRange>,
}

/// The range of Services of a backup, in a data directory that had another.
#[derive(Debug)]
pub struct RestoredRange {
    /// What the directory's file said.
    pub before: String,
    /// What it says now.
    pub range: ServiceRange,
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
    let unfinished = unfinished_restore::left(data_dir)?;
    let new_files = NewFiles::find(data_dir, backup, &unfinished)?;
    let paths = paths_with_store(data_dir, &new_files.files);
    let there = paths.into_iter().rfind(|path| path.exists());
    if let (Some(file), ExistingFiles::Refuse) = (there, existing) {
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
    let staged = StagedFiles::write(data_dir, &new_files, backup.objects(), revision)?;
    let replaced = staged.keep_old(unfinished, now)?;
    unfinished_restore::begin(data_dir, &replaced)?;
    staged.replace().with_context(|| interruption(&replaced))?;
    unfinished_restore::end(data_dir)?;
    let new_range = new_files.range.and_then(|range| RestoredRange::find(range, &replaced));
    let kept = replaced.into_iter().filter_map(|replaced| replaced.aside).collect();
    Ok(RestoredStore { revision, kept, unread_store, new_range })
}

fn interruption(replaced: &[ReplacedFile]) -> String {
    let asides = replaced.iter().filter_map(|replaced| replaced.aside.as_ref());
    let asides: Vec<String> = asides.map(|aside| aside.display().to_string()).collect();
    let before = match &asides[..] {
        [] => "no store and keys were there".to_owned(),
        asides => format!("what was there is kept as {}", asides.join(", ")),
    };
    format!("the restore is unfinished, and no engine starts before it is repeated; {before}")
}

impl RestoredRange {
    fn find(range: ServiceRange, replaced: &[ReplacedFile]) -> Option<Self> {
        let mut files = replaced.iter();
        let aside =
            files.find(|replaced| replaced.file.ends_with(service_range::FILE))?.aside.as_ref()?;
        let text = std::fs::read_to_string(aside).ok()?;
        let before = text.trim();
        (before.parse().ok() != Some(range)).then(|| Self { before: before.to_owned(), range })
    }
}

/// The files of a backup beside the store, without those that the data directory has already.
struct NewFiles {
    /// In the order in which they get their names.
    files: Vec<BackupFile>,
    /// The range of Services, new or not.
    range: Option<ServiceRange>,
}

impl NewFiles {
    /// # Errors
    /// When a restore was interrupted that replaced a file which this backup does not have: the
    /// file may be that of another backup.
    fn find(
        data_dir: &DataDir,
        backup: &VerifiedBackup,
        unfinished: &[ReplacedFile],
    ) -> anyhow::Result<Self> {
        // the CA's key before its certificate
        let mut files: Vec<BackupFile> = files_of(backup.keys()).iter().rev().cloned().collect();
        let range = backup.service_range();
        files.extend(range.map(|range| BackupFile {
            name: service_range::FILE.to_owned(),
            content: range.to_string().into(),
        }));
        let all = paths_with_store(data_dir, &files);
        if let Some(missing) = unfinished.iter().find(|replaced| !all.contains(&replaced.file)) {
            bail!(
                "a restore was interrupted that replaces {}, which this backup does not have: repeat it with the same backup, \
                 or go back first, as {} says",
                missing.file.display(),
                data_dir.join(unfinished_restore::FILE).display()
            );
        }
        let mut new = Vec::new();
        for file in files {
            if differs(data_dir, &file)? {
                new.push(file);
            }
        }
        Ok(Self { files: new, range })
    }
}

/// Where these files get their names, and the store.
fn paths_with_store(data_dir: &DataDir, files: &[BackupFile]) -> Vec<PathBuf> {
    let names = files.iter().map(|file| &file.name[..]).chain([STORE]);
    names.map(|name| data_dir.join(name)).collect()
}

fn differs(data_dir: &DataDir, file: &BackupFile) -> anyhow::Result<bool> {
    let path = data_dir.join(&file.name);
    match std::fs::read(&path) {
        Ok(content) => Ok(content != file.content),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
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
                | DiskError::Encrypted { .. }
                | DiskError::Open { .. }
                | DiskError::Full { .. }
                | DiskError::Commit { .. }),
            ) => return Err(error).context("look at the store that is there"),
        };
        Ok(Self { newest: backup, unread_store: Some(unread) })
    }
}

/// Where revisions go on: at the time, in microseconds since 1970. A store has less than one write
/// in a microsecond. So all earlier revisions are below it, also those of earlier restores and of
/// lost stores. If the clock is behind, they go on far above the known ones. None when no number is
/// left.
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
        new_files: &NewFiles,
        objects: &[StoredObject],
        revision: Revision,
    ) -> anyhow::Result<Self> {
        if new_files.files.iter().any(|file| Path::new(&file.name).starts_with(PKI)) {
            create_own(&data_dir.join(PKI))?;
        }
        let mut files = Vec::new();
        for file in &new_files.files {
            let (staged, path) = staged(data_dir, &file.name)?;
            write_private(&staged, &file.content)
                .with_context(|| format!("write {}", staged.display()))?;
            files.push((staged, path));
        }
        let (staged, path) = staged(data_dir, STORE)?;
        write_store(&staged, objects, revision)?;
        files.push((staged, path));
        Ok(Self { files })
    }

    /// Second names for the old files, but for those that an interrupted restore has kept. Answers
    /// both.
    fn keep_old(
        &self,
        mut replaced: Vec<ReplacedFile>,
        now: Tick,
    ) -> anyhow::Result<Vec<ReplacedFile>> {
        let is_new = |path: &&PathBuf| replaced.iter().all(|replaced| replaced.file != **path);
        let files = self.files.iter().map(|(_, path)| path).filter(is_new).cloned().collect();
        replaced.extend(keep_aside(files, now)?);
        Ok(replaced)
    }

    /// The new files get their names. The store is the last.
    fn replace(self) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use rekindle_encryption::Encryption;
    use rekindle_store::backup::{BackupEncoder, BackupHeader};

    use super::*;

    const NOW: Tick = Tick::from_secs(1_795_000_000);
    const LATER: Tick = Tick::from_secs(1_795_000_100);
    const KEYS: [&str; 3] = ["pki/ca.crt", "pki/ca.key", "pki/sa.key"];

    /// A backup with the keys of these names, which say `text`, and this range of Services.
    fn backup(keys: &[&str], text: &str, range: &str) -> VerifiedBackup {
        let value = serde_json::json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes", "resourceVersion": "1"},
            "spec": {"cidrs": [range]},
        });
        let key = "/servicecidrs.networking.k8s.io/kubernetes";
        let object = StoredObject::new(key, Revision(1), value.to_string());
        let mut encoder = BackupEncoder::new(&BackupHeader {
            revision: Revision(1),
            created_at_micros: 1,
            files: u32::try_from(keys.len()).unwrap(),
            objects: 1,
        });
        for name in keys {
            let content = text.to_owned().into();
            encoder.file(&BackupFile { name: (*name).to_owned(), content }).unwrap();
        }
        encoder.object(&object).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), encoder.finish()).unwrap();
        VerifiedBackup::read(file.path(), &Encryption::none()).unwrap()
    }

    fn contents(data_dir: &DataDir) -> Vec<Vec<u8>> {
        let names = KEYS.into_iter().chain([service_range::FILE, STORE]);
        names.map(|name| std::fs::read(data_dir.join(name)).unwrap()).collect()
    }

    /// The process ends after each step in turn; what it has staged is left behind.
    #[test]
    fn wherever_a_restore_is_interrupted_the_old_files_are_there_or_engines_are_kept_out() {
        let (old, new) =
            (backup(&KEYS, "old", "10.96.0.0/16"), backup(&KEYS, "new", "10.97.0.0/16"));
        for steps in 0..=7 {
            let folder = tempfile::tempdir().unwrap();
            let data_dir = DataDir::hold(folder.path()).unwrap();
            restore(&data_dir, &old, ExistingFiles::Refuse, NOW).unwrap();
            let before = contents(&data_dir);

            let new_files = NewFiles::find(&data_dir, &new, &[]).unwrap();
            let mut staged =
                StagedFiles::write(&data_dir, &new_files, new.objects(), Revision(9)).unwrap();
            let mut replaced = Vec::new();
            if steps >= 1 {
                replaced = staged.keep_old(Vec::new(), NOW).unwrap();
            }
            if steps >= 2 {
                unfinished_restore::begin(&data_dir, &replaced).unwrap();
            }
            let files_left = staged.files.split_off(steps.max(2) - 2);
            assert_eq!(files_left.is_empty(), steps == 7, "the last step is the last file");
            staged.replace().unwrap();
            std::mem::forget(files_left);

            let is_refused = unfinished_restore::refuse(data_dir.path()).is_err();
            assert_eq!(is_refused, steps >= 2, "{steps} steps");
            assert_eq!(contents(&data_dir) == before, steps <= 2, "{steps} steps");

            let again = restore(&data_dir, &new, ExistingFiles::Replace, LATER).unwrap();
            unfinished_restore::refuse(data_dir.path()).unwrap();
            let now = contents(&data_dir);
            assert!(now.starts_with(&[&b"new"[..]; 3].map(<[u8]>::to_vec)), "{steps} steps");
            assert_eq!(now[3], b"10.97.0.0/16");
            let asides: Vec<_> = replaced.into_iter().filter_map(|file| file.aside).collect();
            assert_eq!(again.kept == asides, is_refused, "what is kept is not kept again");
            let mut kept: Vec<_> =
                again.kept.iter().map(|aside| std::fs::read(aside).unwrap()).collect();
            kept[..3].reverse();
            assert!(kept == before, "{steps} steps");
            assert_eq!(again.new_range.unwrap().before, "10.96.0.0/16", "{steps} steps");
        }
    }

    #[test]
    fn an_interrupted_restore_is_not_mixed_with_another_backup() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::hold(folder.path()).unwrap();
        let file = data_dir.join("pki/ca.key");
        let marked = ReplacedFile { file: file.clone(), aside: None };
        unfinished_restore::begin(&data_dir, &[marked]).unwrap();
        let without_keys = backup(&[], "", "10.96.0.0/16");
        let refused = restore(&data_dir, &without_keys, ExistingFiles::Replace, NOW);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(&format!("replaces {}", file.display())), "{error}");
        assert!(!data_dir.join(STORE).exists());
    }

    #[test]
    fn files_that_are_as_in_the_backup_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::hold(folder.path()).unwrap();
        let backup = backup(&KEYS, "key", "10.96.0.0/16");
        restore(&data_dir, &backup, ExistingFiles::Refuse, NOW).unwrap();
        let again = restore(&data_dir, &backup, ExistingFiles::Replace, LATER).unwrap();
        let store = "store.redb.before-restore-20261118T110820Z";
        assert_eq!(again.kept, [data_dir.join(store)]);
        assert!(again.new_range.is_none());
    }

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
}
