//! A backup that is read as a whole, and verified before anything is done with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use rekindle_store::backup::{BackupDecoder, BackupFile, BackupHeader, BackupPart};
use rekindle_store::{DiskContent, StoredObject};
use rekindle_types::Tick;

use super::is_standard_stream;

/// So much is read at a time.
const READ_BYTES: u64 = 1 << 20;

/// What a backup has.
pub struct BackupContent {
    /// What it says of itself.
    pub header: BackupHeader,
    /// Its files.
    pub files: Vec<BackupFile>,
    /// Its objects, at the revision of the header.
    pub stored: DiskContent,
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
        let header = self.header?;
        let stored = DiskContent { revision: header.revision, objects: self.objects };
        Some(BackupContent { header, files: self.files, stored })
    }
}

/// When a backup was made, as people and programs read it.
pub fn created_at(header: &BackupHeader) -> String {
    Tick::from_micros(header.created_at_micros).to_time().0.to_string()
}
