//! A backup on its way into a file: under another name until it is whole and durable.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle_api_server::pki::sync_folder_of;
use rekindle_store::StoredObject;
use rekindle_store::backup::{BackupEncoder, BackupFile, BackupHeader};
use tempfile::NamedTempFile;

use super::is_standard_stream;
use crate::output;

/// So much is encoded before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// Where a backup goes.
pub enum BackupTarget {
    /// A file with mode 0600. Dropped, it is gone.
    File {
        staged: NamedTempFile,
        path: PathBuf,
        replaces: bool,
    },
    StandardOutput,
}

/// Writes a backup to its target.
pub struct BackupWriter {
    target: BackupTarget,
    encoder: BackupEncoder,
    bytes: u64,
}

impl BackupTarget {
    /// Refuses a file that is there already unless it may be replaced, and a terminal.
    pub fn open(file: &Path, replaces: bool) -> anyhow::Result<Self> {
        if is_standard_stream(file) {
            if std::io::stdout().is_terminal() {
                bail!("standard output is a terminal: name a file, or lead it into one");
            }
            return Ok(Self::StandardOutput);
        }
        if !replaces && file.symlink_metadata().is_ok() {
            return Err(is_there(file));
        }
        let staged = tempfile::Builder::new()
            .prefix(".rekindle-backup-")
            .tempfile_in(folder_of(file))
            .with_context(|| format!("create {}", file.display()))?;
        Ok(Self::File { staged, path: file.to_owned(), replaces })
    }

    /// Begins a backup with these files.
    pub fn begin(self, header: BackupHeader, files: &[BackupFile]) -> anyhow::Result<BackupWriter> {
        let count = u32::try_from(files.len()).context("count the files")?;
        let mut encoder = BackupEncoder::new(&BackupHeader { files: count, ..header });
        for file in files {
            encoder.file(file)?;
        }
        Ok(BackupWriter { target: self, encoder, bytes: 0 })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::File { staged, path, .. } => {
                staged.write_all(bytes).with_context(|| format!("write {}", path.display()))
            }
            Self::StandardOutput => output::print_bytes(bytes),
        }
    }

    /// It is whole: gives it its name.
    fn finish(self) -> anyhow::Result<()> {
        let Self::File { staged, path, replaces } = self else { return Ok(()) };
        let writing = || format!("write {}", path.display());
        staged.as_file().sync_all().with_context(writing)?;
        let named = if replaces { staged.persist(&path) } else { staged.persist_noclobber(&path) };
        match named {
            Ok(_) => {}
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                return Err(is_there(&path));
            }
            Err(error) => return Err(error.error).with_context(writing),
        }
        sync_folder_of(&path).with_context(writing)
    }
}

impl BackupWriter {
    /// Adds the next object.
    pub fn object(&mut self, object: &StoredObject) -> anyhow::Result<()> {
        self.encoder.object(object)?;
        if self.encoder.untaken_bytes() < WRITE_BYTES {
            return Ok(());
        }
        let bytes = self.encoder.take();
        self.bytes += bytes.len() as u64;
        self.target.write(&bytes)
    }

    /// All objects were added. Answers the size of the backup, which is durable now.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        let bytes = self.encoder.finish();
        self.target.write(&bytes)?;
        self.target.finish()?;
        Ok(self.bytes + bytes.len() as u64)
    }
}

fn is_there(file: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{} is there already: give another name, or --force to replace it",
        file.display()
    )
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}
