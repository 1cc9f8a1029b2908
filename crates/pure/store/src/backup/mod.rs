//! A backup: all objects of one revision as a sequence of bytes, with the small files that an
//! engine needs beside them. Pure: bytes in, bytes out.
//!
//! ```text
//!   magic       16 bytes   "rekindle-backup\n"
//!   format       4         1
//!   revision     8         of the snapshot
//!   created      8         microseconds since 1970
//!   files        4         how many follow
//!   objects      8         how many follow
//!   each file    4 + 4     length of name and content, then these; ascending by name
//!   each object  4 + 4 + 8 length of key and value, revision, then key and value; ascending by key
//!   checksum    32         SHA-256 of everything before it; nothing follows
//! ```
//! Numbers are big-endian. What [`BackupDecoder`] hands out counts only after
//! [`BackupDecoder::finish`] has compared the checksum.

mod decoder;
mod encoder;
mod stream;

pub use decoder::{BackupDecoder, BackupPart};
pub use encoder::BackupEncoder;
pub use stream::BackupStream;

use bytes::Bytes;

use crate::key::Revision;
use crate::limits::StoreLimits;

/// No backup is of a later revision, and no store goes on from one. Clients keep a resourceVersion
/// in 64 bits with a sign: half of these numbers are left for writes.
pub const REVISION_MAX: Revision = Revision(1 << 62);

/// What a backup begins with.
const MAGIC: &[u8; 16] = b"rekindle-backup\n";
/// The layout described above.
const FORMAT: u32 = 1;
/// The bytes from the magic to the first file.
const HEADER_BYTES: usize = 16 + 4 + 8 + 8 + 4 + 8;
/// The bytes of the checksum.
const CHECKSUM_BYTES: usize = 32;
/// The most files.
const FILES_MAX: u32 = 64;
/// The most bytes of one file, its name included.
const FILE_BYTES_MAX: usize = 64 << 10;
/// What encryption may add to a value: the names of provider and key, nonce, padding and tag.
const SEALING_BYTES_MAX: usize = 1 << 10;
/// The most bytes of one object, its key included.
const OBJECT_BYTES_MAX: usize = StoreLimits::DEFAULT.object_bytes_max + SEALING_BYTES_MAX;

/// What a backup says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupHeader {
    /// The revision that saw all the objects.
    pub revision: Revision,
    /// When it was made, in microseconds since 1970.
    pub created_at_micros: u64,
    /// How many files it has.
    pub files: u32,
    /// How many objects it has.
    pub objects: u64,
}

/// A file that goes with the objects, such as a key. The store knows no names.
#[derive(Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// Its name.
    pub name: String,
    /// Its content.
    pub content: Bytes,
}

impl std::fmt::Debug for BackupFile {
    /// Without the content, which may be a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.content.len();
        f.debug_struct("BackupFile").field("name", &self.name).field("bytes", &bytes).finish()
    }
}

/// Why bytes are no backup that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// They begin with something else.
    #[error("this is no backup of rekindle")]
    NotABackup,
    /// Another version of this program wrote them.
    #[error(
        "the backup has format {found}, this version reads format {FORMAT}: use the version that wrote it"
    )]
    Format {
        /// The format that it has.
        found: u32,
    },
    /// They end too early.
    #[error("the backup is cut off")]
    Truncated,
    /// They go on after the checksum.
    #[error("the backup is damaged: {bytes} bytes follow its checksum")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// They are not what was written.
    #[error("the backup is damaged: its checksum does not match")]
    Checksum,
    /// Something does not fit into a backup.
    #[error("{name:?} has {bytes} bytes, a backup takes at most {bytes_max}")]
    TooLarge {
        /// The file's name, or the object's key.
        name: String,
        /// Its size, with the name.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// They cannot be what a store held.
    #[error("the backup is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
}

#[cfg(test)]
mod tests;
