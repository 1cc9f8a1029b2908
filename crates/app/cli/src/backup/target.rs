//! A backup on its way into a file, which has no name until it is whole and durable.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle_api_server::pki::{folder_of, sync_folder_of};
use rekindle_store::StoredObject;
use rekindle_store::backup::{BackupEncoder, BackupFile, BackupHeader};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use tempfile::{NamedTempFile, TempPath};

use super::is_standard_stream;
use crate::output;

/// How many bytes are encoded before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Where a backup goes.
pub enum BackupTarget {
    /// A file with mode 0600. Dropped, it is gone.
    File {
        staged: StagedFile,
        path: PathBuf,
        replaces: bool,
    },
    StandardOutput,
}

/// A private file before it has its name.
pub enum StagedFile {
    /// It has no name at all, so it is gone with the process, however that ends.
    Unnamed(File),
    /// It has another name, since the file system has no files without one.
    Named(NamedTempFile),
}

/// Writes a backup to its target.
pub struct BackupWriter {
    target: BackupTarget,
    encoder: BackupEncoder,
    written: WrittenBackup,
}

/// A backup that was written.
pub struct WrittenBackup {
    /// Its header.
    pub header: BackupHeader,
    /// The names of its files.
    pub files: Vec<String>,
    /// Its size.
    pub bytes: u64,
}

impl BackupTarget {
    /// Refuses a file that is there already unless it may be replaced, and a terminal.
    pub fn open(file: &Path, replaces: bool) -> anyhow::Result<Self> {
        if is_standard_stream(file) {
            if std::io::stdout().is_terminal() {
                bail!("standard output is a terminal: name a file, or redirect standard output");
            }
            return Ok(Self::StandardOutput);
        }
        match file.symlink_metadata() {
            Ok(found) if !found.is_file() => bail!(
                "{} is no regular file: name one, or write to standard output with -",
                file.display()
            ),
            Ok(_) if !replaces => return Err(is_there(file)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("look at {}", file.display())),
        }
        let staged = StagedFile::create(folder_of(file))
            .with_context(|| format!("create {}", file.display()))?;
        Ok(Self::File { staged, path: file.to_owned(), replaces })
    }

    /// Begins a backup with these files.
    pub fn begin(self, header: BackupHeader, files: &[BackupFile]) -> anyhow::Result<BackupWriter> {
        let count = u32::try_from(files.len()).context("count the files")?;
        let header = BackupHeader { files: count, ..header };
        let mut encoder = BackupEncoder::new(&header);
        for file in files {
            encoder.file(file)?;
        }
        let files = files.iter().map(|file| file.name.clone()).collect();
        let written = WrittenBackup { header, files, bytes: 0 };
        Ok(BackupWriter { target: self, encoder, written })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::File { staged, path, .. } => {
                staged.file().write_all(bytes).with_context(|| format!("write {}", path.display()))
            }
            Self::StandardOutput => output::print_bytes(bytes),
        }
    }

    /// Gives the whole file its name, durably.
    fn finish(self) -> anyhow::Result<()> {
        let Self::File { staged, path, replaces } = self else { return Ok(()) };
        let writing = || format!("write {}", path.display());
        staged.file().sync_all().with_context(writing)?;
        let named = staged.named(folder_of(&path)).with_context(writing)?;
        let named = if replaces { named.persist(&path) } else { named.persist_noclobber(&path) };
        match named {
            Ok(()) => {}
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                return Err(is_there(&path));
            }
            Err(error) => return Err(error.error).with_context(writing),
        }
        sync_folder_of(&path).with_context(writing)
    }
}

impl StagedFile {
    fn create(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Self::Unnamed(file.into())),
            // if it failed for another reason, this fails for the same and reports it
            Err(_) => names().tempfile_in(folder).map(Self::Named),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// The file under some name in its folder. Dropped, it is gone.
    fn named(self, folder: &Path) -> io::Result<TempPath> {
        match self {
            Self::Unnamed(file) => {
                let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
                let link = |name: &Path| {
                    linkat(CWD, &unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
                };
                Ok(names().make_in(folder, link)?.into_temp_path())
            }
            Self::Named(file) => Ok(file.into_temp_path()),
        }
    }
}

fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".rekindle-backup-");
    names
}

impl BackupWriter {
    /// Adds the next object.
    pub fn object(&mut self, object: &StoredObject) -> anyhow::Result<()> {
        self.encoder.object(object)?;
        if self.encoder.untaken_bytes() < WRITE_BYTES {
            return Ok(());
        }
        let bytes = self.encoder.take();
        self.written.bytes += bytes.len() as u64;
        self.target.write(&bytes)
    }

    /// All objects were added. The backup is durable when this returns.
    pub fn finish(mut self) -> anyhow::Result<WrittenBackup> {
        let bytes = self.encoder.finish();
        self.written.bytes += bytes.len() as u64;
        self.target.write(&bytes)?;
        self.target.finish()?;
        Ok(self.written)
    }
}

fn is_there(file: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{} is there already: give another name, or --force to replace it",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rekindle_store::Revision;

    use super::super::test_folder::names_in;
    use super::*;

    const HEADER: BackupHeader =
        BackupHeader { revision: Revision(1), created_at_micros: 1, files: 0, objects: 0 };

    #[test]
    fn a_backup_is_private_from_its_first_byte_and_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let staged_files = [
            StagedFile::create(folder.path()).unwrap(),
            StagedFile::Named(names().tempfile_in(folder.path()).unwrap()),
        ];
        for staged in staged_files {
            assert_eq!(staged.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let target = BackupTarget::File { staged, path: path.clone(), replaces: true };
            let mut writer = target.begin(HEADER, &[]).unwrap();
            writer.target.write(b"begun").unwrap();
            assert!(!path.exists());
            writer.finish().unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(names_in(folder.path()), [""; 0]);
    }

    #[test]
    fn a_backup_that_does_not_become_whole_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let mut writer = BackupTarget::open(&path, false).unwrap().begin(HEADER, &[]).unwrap();
        writer.target.write(b"begun").unwrap();
        if let BackupTarget::File { staged: StagedFile::Unnamed(_), .. } = &writer.target {
            assert_eq!(names_in(folder.path()), [""; 0], "not even while it is written");
        }
        drop(writer);
        assert_eq!(names_in(folder.path()), [""; 0]);
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for place in [Path::new("/dev/null"), &link, folder.path()] {
            for replaces in [false, true] {
                let error = BackupTarget::open(place, replaces).err().unwrap().to_string();
                assert!(error.contains("is no regular file"), "{error}");
            }
        }
        let error = BackupTarget::open(&file, false).err().unwrap().to_string();
        assert!(error.contains("--force to replace it"), "{error}");
        assert!(BackupTarget::open(&file, true).is_ok());
    }
}
