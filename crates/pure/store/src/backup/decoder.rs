//! The bytes of a backup in, however they are cut, and its parts out. Every length is checked
//! before room is made for it.

use bytes::{Buf, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::{
    BackupError, BackupFile, BackupHeader, CHECKSUM_BYTES, FILE_BYTES_MAX, FILES_MAX, FORMAT,
    HEADER_BYTES, MAGIC, OBJECT_BYTES_MAX, REVISION_MAX,
};
use crate::key::Revision;
use crate::object::StoredObject;

/// A part of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupPart {
    /// The first.
    Header(BackupHeader),
    /// As many as the header says.
    File(BackupFile),
    /// As many as the header says.
    Object(StoredObject),
}

/// Reads a backup.
#[derive(Default)]
pub struct BackupDecoder {
    unread: BytesMut,
    hash: Sha256,
    stage: DecodeStage,
    /// The name of the last file, or the key of the last object.
    last_name: Option<String>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DecodeStage {
    #[default]
    Header,
    Body {
        revision: Revision,
        files: u32,
        objects: u64,
    },
    Checksum,
    Over,
}

impl BackupDecoder {
    /// Adds bytes. Take all parts that they complete before adding more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next part; none when more bytes are needed for it, or none is left.
    ///
    /// # Errors
    /// When these bytes are no part of a backup.
    pub fn next_part(&mut self) -> Result<Option<BackupPart>, BackupError> {
        match self.stage {
            DecodeStage::Header => self.header(),
            DecodeStage::Body { revision, files: 0, objects } => self.object(revision, objects),
            DecodeStage::Body { revision, files, objects } => self.file(revision, files, objects),
            DecodeStage::Checksum => self.checksum().map(|()| None),
            DecodeStage::Over => Ok(None),
        }
    }

    /// All bytes are there: whether they are a whole backup.
    ///
    /// # Errors
    /// When it is cut off, goes on, or its checksum does not match.
    pub fn finish(self) -> Result<(), BackupError> {
        match (self.stage, self.unread.len()) {
            (DecodeStage::Over, 0) => Ok(()),
            (DecodeStage::Over, bytes) => Err(BackupError::Trailing { bytes }),
            (DecodeStage::Header | DecodeStage::Body { .. } | DecodeStage::Checksum, _) => {
                Err(BackupError::Truncated)
            }
        }
    }

    fn header(&mut self) -> Result<Option<BackupPart>, BackupError> {
        let magic = self.unread.len().min(MAGIC.len());
        if self.unread[..magic] != MAGIC[..magic] {
            return Err(BackupError::NotABackup);
        }
        let Some(mut bytes) = self.read(HEADER_BYTES) else { return Ok(None) };
        bytes.advance(MAGIC.len());
        let found = bytes.get_u32();
        if found != FORMAT {
            return Err(BackupError::Format { found });
        }
        let header = BackupHeader {
            revision: Revision(bytes.get_u64()),
            created_at_micros: bytes.get_u64(),
            files: bytes.get_u32(),
            objects: bytes.get_u64(),
        };
        if header.revision > REVISION_MAX {
            return Err(damaged(format!(
                "it is of revision {}, at most {REVISION_MAX}",
                header.revision
            )));
        }
        if header.files > FILES_MAX {
            return Err(damaged(format!("it has {} files, at most {FILES_MAX}", header.files)));
        }
        self.go_on(header.revision, header.files, header.objects);
        Ok(Some(BackupPart::Header(header)))
    }

    fn file(
        &mut self,
        revision: Revision,
        files: u32,
        objects: u64,
    ) -> Result<Option<BackupPart>, BackupError> {
        let Some(mut bytes) = self.entry(8, FILE_BYTES_MAX)? else { return Ok(None) };
        let (name, content) = (bytes.get_u32(), bytes.get_u32());
        let name = self.name(&mut bytes, name)?;
        debug_assert_eq!(bytes.len(), content as usize, "the entry ends with its content");
        self.go_on(revision, files - 1, objects);
        Ok(Some(BackupPart::File(BackupFile { name, content: bytes })))
    }

    fn object(
        &mut self,
        newest: Revision,
        objects: u64,
    ) -> Result<Option<BackupPart>, BackupError> {
        let Some(mut bytes) = self.entry(16, OBJECT_BYTES_MAX)? else { return Ok(None) };
        let (name, value, revision) = (bytes.get_u32(), bytes.get_u32(), bytes.get_u64());
        let name = self.name(&mut bytes, name)?;
        debug_assert_eq!(bytes.len(), value as usize, "the entry ends with its value");
        if revision == 0 || revision > newest.0 {
            return Err(damaged(format!(
                "{name:?} has revision {revision}, the backup is of revision {newest}"
            )));
        }
        self.go_on(newest, 0, objects - 1);
        Ok(Some(BackupPart::Object(StoredObject::new(name, Revision(revision), bytes))))
    }

    fn checksum(&mut self) -> Result<(), BackupError> {
        if self.unread.len() < CHECKSUM_BYTES {
            return Ok(());
        }
        let found = self.unread.split_to(CHECKSUM_BYTES);
        let expected = std::mem::take(&mut self.hash).finalize();
        if found != expected[..] {
            return Err(BackupError::Checksum);
        }
        self.stage = DecodeStage::Over;
        Ok(())
    }

    /// What follows a header, a file or an object.
    fn go_on(&mut self, revision: Revision, files: u32, objects: u64) {
        if files == 0 && objects == 0 {
            self.stage = DecodeStage::Checksum;
            return;
        }
        if let DecodeStage::Body { files: 1, .. } = self.stage {
            // the keys of objects begin anew
            self.last_name = None;
        }
        self.stage = DecodeStage::Body { revision, files, objects };
    }

    /// A file or an object with the `head` bytes before its name, of which the first eight are its
    /// lengths; none when it is not there in full.
    fn entry(&mut self, head: usize, bytes_max: usize) -> Result<Option<Bytes>, BackupError> {
        let Some(mut lengths) = self.unread.get(..8) else { return Ok(None) };
        let (name, content) = (lengths.get_u32() as usize, lengths.get_u32() as usize);
        let bytes = name.saturating_add(content);
        if name == 0 {
            return Err(damaged("an entry has no name"));
        }
        if bytes > bytes_max {
            return Err(damaged(format!("an entry has {bytes} bytes, at most {bytes_max}")));
        }
        Ok(self.read(head + bytes))
    }

    /// The name at the front of an entry. Names ascend, so that each occurs once.
    fn name(&mut self, entry: &mut Bytes, bytes: u32) -> Result<String, BackupError> {
        let name = entry.split_to(bytes as usize);
        let name = std::str::from_utf8(&name).map_err(|_| damaged("a name is not UTF-8"))?;
        if let Some(last) = self.last_name.as_deref().filter(|last| *last >= name) {
            return Err(damaged(format!("{name:?} follows {last:?}")));
        }
        self.last_name = Some(name.to_owned());
        Ok(name.to_owned())
    }

    /// Exactly so many bytes, in memory of their own; none when they are not there yet.
    fn read(&mut self, bytes: usize) -> Option<Bytes> {
        let read = Bytes::copy_from_slice(self.unread.get(..bytes)?);
        self.unread.advance(bytes);
        self.hash.update(&read);
        Some(read)
    }
}

fn damaged(what: impl Into<String>) -> BackupError {
    BackupError::Damaged { what: what.into() }
}
