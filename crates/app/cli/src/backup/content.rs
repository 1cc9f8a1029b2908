//! A backup that is read as a whole, and verified before anything is done with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use rekindle_encryption::Encryption;
use rekindle_kinds::service_range::ServiceRange;
use rekindle_store::backup::{BackupDecoder, BackupFile, BackupHeader, BackupPart};
use rekindle_store::{DiskContent, StoredObject};
use rekindle_types::Tick;

use super::engine_keys::EngineKeys;
use super::is_standard_stream;
use crate::engine::service_range;

/// How many bytes are read at a time.
const READ_BYTES: u64 = 1 << 20;

/// The parts of a whole backup. Their meaning is not checked yet.
pub struct BackupContent {
    /// Its header.
    pub header: BackupHeader,
    /// Its files.
    pub files: Vec<BackupFile>,
    /// Its objects.
    pub objects: Vec<StoredObject>,
}

/// A backup that an engine can have made, so that it may be restored.
#[derive(Debug)]
pub struct VerifiedBackup {
    header: BackupHeader,
    keys: Option<EngineKeys>,
    objects: Vec<StoredObject>,
    service_range: Option<ServiceRange>,
}

impl BackupContent {
    /// Reads a file, or standard input, to its end.
    ///
    /// # Errors
    /// When it cannot be read, or is no whole backup.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        if is_standard_stream(file) {
            return Self::read_from(io::stdin().lock()).context("read standard input");
        }
        let reading = || format!("read {}", file.display());
        let opened = File::open(file).with_context(reading)?;
        Self::read_from(opened).with_context(reading)
    }

    fn read_from(mut from: impl Read) -> anyhow::Result<Self> {
        let mut parts = BackupParts::default();
        let mut decoder = BackupDecoder::default();
        let mut chunk = Vec::new();
        while from.by_ref().take(READ_BYTES).read_to_end(&mut chunk)? > 0 {
            decoder.push(&chunk);
            chunk.clear();
            while let Some(part) = decoder.next_part()? {
                parts.add(part);
            }
        }
        decoder.finish()?;
        parts.content().context("the backup has no header")
    }
}

impl VerifiedBackup {
    /// Reads a file, or standard input, and refuses a backup that no engine can have made.
    ///
    /// # Errors
    /// When it cannot be read, is no whole backup, or has keys or revisions that cannot be. When
    /// the range of Services is encrypted with another key.
    pub fn read(file: &Path, encryption: &Encryption) -> anyhow::Result<Self> {
        let BackupContent { header, files, objects } = BackupContent::read(file)?;
        let damaged = || format!("backup {} is damaged", file.display());
        let keys = EngineKeys::from_files(files).with_context(damaged)?;
        let content = DiskContent { revision: header.revision, objects };
        if let Some(fault) = content.revision_faults().first() {
            return Err(anyhow!("{} {}", fault.key, fault.problem).context(damaged()));
        }
        let objects = content.objects;
        let service_range = service_range::of_stored_cidr(&objects, encryption)?;
        Ok(Self { header, keys, objects, service_range })
    }

    /// Its header.
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// The keys, if it has any.
    pub fn keys(&self) -> Option<&EngineKeys> {
        self.keys.as_ref()
    }

    /// Where the addresses of its Services come from, if it says so.
    pub fn service_range(&self) -> Option<ServiceRange> {
        self.service_range
    }

    /// Its objects, with their values as they lie in a store.
    pub fn objects(&self) -> &[StoredObject] {
        &self.objects
    }
}

#[derive(Default)]
struct BackupParts {
    header: Option<BackupHeader>,
    files: Vec<BackupFile>,
    objects: Vec<StoredObject>,
}

impl BackupParts {
    fn add(&mut self, part: BackupPart) {
        match part {
            BackupPart::Header(header) => self.header = Some(header),
            BackupPart::File(file) => self.files.push(file),
            BackupPart::Object(object) => self.objects.push(object),
        }
    }

    fn content(self) -> Option<BackupContent> {
        let Self { header, files, objects } = self;
        header.map(|header| BackupContent { header, files, objects })
    }
}

/// When a backup was made, as RFC 3339 writes it.
pub fn created_at(header: &BackupHeader) -> String {
    Tick::from_micros(header.created_at_micros).to_time().0.to_string()
}
