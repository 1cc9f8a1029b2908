//! Objects and files in, the bytes of a backup out, piece by piece.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{BackupFile, BackupHeader, FORMAT, MAGIC};
use crate::object::StoredObject;

/// Writes a backup. The caller adds as many files, then objects, as the header says, each in the
/// order of their names.
pub struct BackupEncoder {
    /// What was encoded and not taken yet.
    untaken: Vec<u8>,
    hash: Sha256,
}

impl BackupEncoder {
    /// A backup with this header.
    pub fn new(header: &BackupHeader) -> Self {
        let BackupHeader { revision, created_at_micros, files, objects } = header;
        let mut untaken = MAGIC.to_vec();
        untaken.extend(FORMAT.to_be_bytes());
        untaken.extend(revision.0.to_be_bytes());
        untaken.extend(created_at_micros.to_be_bytes());
        untaken.extend(files.to_be_bytes());
        untaken.extend(objects.to_be_bytes());
        Self { untaken, hash: Sha256::new() }
    }

    /// Adds a file.
    pub fn file(&mut self, file: &BackupFile) {
        self.length(file.name.len());
        self.length(file.content.len());
        self.untaken.extend(file.name.as_bytes());
        self.untaken.extend(&file.content);
    }

    /// Adds an object.
    pub fn object(&mut self, object: &StoredObject) {
        self.length(object.key.as_str().len());
        self.length(object.value.len());
        self.untaken.extend(object.revision.0.to_be_bytes());
        self.untaken.extend(object.key.as_str().as_bytes());
        self.untaken.extend(&object.value);
    }

    /// How many bytes can be taken.
    pub fn untaken_bytes(&self) -> usize {
        self.untaken.len()
    }

    /// Takes what was encoded so far.
    pub fn take(&mut self) -> Bytes {
        self.hash.update(&self.untaken);
        std::mem::take(&mut self.untaken).into()
    }

    /// The last bytes, with the checksum.
    pub fn finish(mut self) -> Bytes {
        self.hash.update(&self.untaken);
        self.untaken.extend(self.hash.finalize());
        self.untaken.into()
    }

    fn length(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).expect("objects and files have less than 4 GiB");
        self.untaken.extend(bytes.to_be_bytes());
    }
}
