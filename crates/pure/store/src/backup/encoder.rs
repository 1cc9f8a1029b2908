//! Objects and files in, the bytes of a backup out, piece by piece.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{
    BackupError, BackupFile, BackupHeader, FILE_BYTES_MAX, FORMAT, MAGIC, OBJECT_BYTES_MAX,
};
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
    ///
    /// # Errors
    /// When it is too large.
    pub fn file(&mut self, file: &BackupFile) -> Result<(), BackupError> {
        self.lengths(&file.name, file.content.len(), FILE_BYTES_MAX)?;
        self.untaken.extend(file.name.as_bytes());
        self.untaken.extend(&file.content);
        Ok(())
    }

    /// Adds an object.
    ///
    /// # Errors
    /// When it is too large.
    pub fn object(&mut self, object: &StoredObject) -> Result<(), BackupError> {
        self.lengths(object.key.as_str(), object.value.len(), OBJECT_BYTES_MAX)?;
        self.untaken.extend(object.revision.0.to_be_bytes());
        self.untaken.extend(object.key.as_str().as_bytes());
        self.untaken.extend(&object.value);
        Ok(())
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

    /// The lengths of a name and what it names, within the limit that the decoder has.
    fn lengths(&mut self, name: &str, content: usize, bytes_max: usize) -> Result<(), BackupError> {
        let bytes = name.len().saturating_add(content);
        let too_large = || BackupError::TooLarge { name: name.to_owned(), bytes, bytes_max };
        if bytes > bytes_max {
            return Err(too_large());
        }
        for length in [name.len(), content] {
            let length = u32::try_from(length).map_err(|_| too_large())?;
            self.untaken.extend(length.to_be_bytes());
        }
        Ok(())
    }
}
