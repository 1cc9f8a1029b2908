//! A tar archive as a stream of entries, in bounded memory, with nothing taken on trust.
//!
//! The `tar` crate decodes the headers. The walk is ours, because that crate's reads extended
//! headers of any length into memory, splits their records at line ends (which binary attributes
//! contain), and takes the header's size for entries that a pax record gives another one: two
//! readers that disagree about sizes can be made to see different files.

use std::io::{self, Read, Seek};
use std::ops::Range;

use tar::Header;

/// Bytes of a header, and what payloads are padded to.
const BLOCK: usize = 512;
/// Bytes of an extended header (long name, pax records) at most.
const EXTENSION_MAX: u64 = 1024 * 1024;
/// Extended headers before one entry at most.
const EXTENSIONS_IN_A_ROW_MAX: u32 = 16;
/// Where a header has its numbers.
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
/// The pax record of the one extended attribute that is kept.
const CAPABILITY_RECORD: &[u8] = b"SCHILY.xattr.security.capability";

/// Why an archive cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TarError {
    /// The source failed, or ended too early.
    #[error("read")]
    Read(#[source] io::Error),
    /// It is no well-formed archive.
    #[error("malformed tar archive: {0}")]
    Malformed(&'static str),
    /// It is well-formed, but holds something that images do not have.
    #[error("{name:?}: {problem}")]
    Unsupported {
        /// The entry.
        name: String,
        /// What is the matter with it.
        problem: &'static str,
    },
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TarEntryKind {
    /// A file with `size` bytes of payload.
    File,
    /// Another name for `link`, an earlier entry.
    HardLink,
    /// A symbolic link to `link`.
    Symlink,
    /// A folder.
    Directory,
    /// A named pipe.
    Fifo,
    /// A character or block device.
    Device,
}

/// One entry; its payload is read from the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TarEntry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: TarEntryKind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since 1970.
    pub(crate) mtime_s: i64,
    pub(crate) size: u64,
    /// The target of a hard or symbolic link.
    pub(crate) link: Vec<u8>,
    /// The value of `security.capability`.
    pub(crate) capability: Option<Vec<u8>>,
}

impl TarEntry {
    /// The path for a message: what is not text is shown as replacement characters.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// Reads entries one after the other.
pub(crate) struct TarStream<R> {
    reader: R,
    /// Payload of the current entry not read yet.
    payload_left: u64,
    /// Fill bytes after it.
    padding: u64,
}

impl<R: Read> TarStream<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, payload_left: 0, padding: 0 }
    }

    /// The next entry; what is left of the one before is skipped. `None` at the archive's end.
    pub(crate) fn next(&mut self) -> Result<Option<TarEntry>, TarError> {
        let mut extensions = ExtendedHeaders::default();
        for _ in 0..=EXTENSIONS_IN_A_ROW_MAX {
            self.skip_payload()?;
            let Some(header) = self.header()? else {
                return match extensions.pending {
                    false => Ok(None),
                    true => Err(TarError::Malformed("it ends after an extended header")),
                };
            };
            extensions.pending |= matches!(header.entry_type().as_byte(), b'x' | b'L' | b'K');
            match header.entry_type().as_byte() {
                b'x' => extensions.read_pax(&self.extension(&header)?)?,
                // comments of git archive and the like; container engines do not apply them either
                b'g' => self.begin_payload(header_size(&header)?),
                b'L' => extensions.path = Some(without_nul(self.extension(&header)?)),
                b'K' => extensions.link = Some(without_nul(self.extension(&header)?)),
                _ => return self.entry(&header, extensions).map(Some),
            }
        }
        Err(TarError::Malformed("too many extended headers before one entry"))
    }

    /// The rest of the source, behind the archive's end.
    pub(crate) fn into_inner(self) -> R {
        self.reader
    }

    fn entry(
        &mut self,
        header: &Header,
        extensions: ExtendedHeaders,
    ) -> Result<TarEntry, TarError> {
        let mut path = extensions.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let name = || String::from_utf8_lossy(&path).into_owned();
        let unsupported = |problem| TarError::Unsupported { name: name(), problem };
        if extensions.sparse {
            return Err(unsupported("sparse files are not supported"));
        }
        let kind = match header.entry_type().as_byte() {
            b'0' | 0 | b'7' if path.last() == Some(&b'/') => TarEntryKind::Directory,
            b'0' | 0 | b'7' => TarEntryKind::File,
            b'1' => TarEntryKind::HardLink,
            b'2' => TarEntryKind::Symlink,
            b'3' | b'4' => TarEntryKind::Device,
            b'5' => TarEntryKind::Directory,
            b'6' => TarEntryKind::Fifo,
            b'S' => return Err(unsupported("sparse files are not supported")),
            _ => return Err(unsupported("an entry of unknown type")),
        };
        let size = match kind {
            TarEntryKind::File => match extensions.size {
                Some(size) => size,
                None => header_size(header)?,
            },
            // only files have a payload, whatever the header says: so read all engines
            TarEntryKind::HardLink
            | TarEntryKind::Symlink
            | TarEntryKind::Directory
            | TarEntryKind::Fifo
            | TarEntryKind::Device => 0,
        };
        self.begin_payload(size);
        let uid = id(header, UID, header.uid(), extensions.uid)?;
        let gid = id(header, GID, header.gid(), extensions.gid)?;
        let mode = match header.mode() {
            Ok(mode) => mode & 0o7777,
            Err(_) if is_blank(header, MODE) => 0,
            Err(_) => return Err(TarError::Malformed("a mode is no number")),
        };
        let mtime_s = match extensions.mtime_s {
            Some(mtime_s) => mtime_s,
            None => header.mtime().ok().and_then(|s| i64::try_from(s).ok()).unwrap_or(0),
        };
        let link = extensions
            .link
            .unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned());
        while path.len() > 1 && path.last() == Some(&b'/') {
            path.pop();
        }
        Ok(TarEntry {
            path,
            kind,
            mode,
            uid,
            gid,
            mtime_s,
            size,
            link,
            capability: extensions.capability,
        })
    }

    /// The next header, its checksum verified. `None` at a zero block or a clean end of the source.
    fn header(&mut self) -> Result<Option<Header>, TarError> {
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(TarError::Malformed("it ends inside a header")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TarError::Read(error)),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum =
            block[..148].iter().chain(&block[156..]).map(|byte| u32::from(*byte)).sum::<u32>();
        match header.cksum() {
            Ok(stated) if stated == sum + 8 * u32::from(b' ') => Ok(Some(header)),
            Ok(_) | Err(_) => Err(TarError::Malformed("a header's checksum is wrong")),
        }
    }

    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, TarError> {
        let size = header_size(header)?;
        if size > EXTENSION_MAX {
            return Err(TarError::Malformed("an extended header of more than 1 MiB"));
        }
        self.begin_payload(size);
        let mut bytes = Vec::new();
        self.by_ref().take(size).read_to_end(&mut bytes).map_err(TarError::Read)?;
        Ok(bytes)
    }

    fn begin_payload(&mut self, size: u64) {
        let block = BLOCK as u64;
        self.payload_left = size;
        self.padding = (block - size % block) % block;
    }

    fn skip_payload(&mut self) -> Result<(), TarError> {
        io::copy(&mut self.by_ref(), &mut io::sink()).map_err(TarError::Read)?;
        // a source that ends in the fill bytes has no header after it, which is a clean end: some
        // writers leave them away
        let padding = std::mem::take(&mut self.padding);
        io::copy(&mut self.reader.by_ref().take(padding), &mut io::sink())
            .map_err(TarError::Read)?;
        Ok(())
    }
}

impl<R: Read + Seek> TarStream<R> {
    /// Where the current entry's payload begins; it is passed over without being read.
    pub(crate) fn seek_over_payload(&mut self) -> io::Result<u64> {
        let offset = self.reader.stream_position()?;
        let over = i64::try_from(std::mem::take(&mut self.payload_left))
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.reader.seek_relative(over)?;
        Ok(offset)
    }
}

/// The payload of the current entry. A source that ends inside it is an error.
impl<R: Read> Read for TarStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.payload_left).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let read = self.reader.read(&mut buffer[..want])?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the archive ends inside an entry",
            ));
        }
        self.payload_left -= read as u64;
        Ok(read)
    }
}

/// What extended headers said about the entry that follows.
#[derive(Default)]
struct ExtendedHeaders {
    /// An entry must follow.
    pending: bool,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime_s: Option<i64>,
    capability: Option<Vec<u8>>,
    sparse: bool,
}

impl ExtendedHeaders {
    /// Reads the records `<length> <key>=<value>\n` of a pax header.
    fn read_pax(&mut self, mut bytes: &[u8]) -> Result<(), TarError> {
        const BAD: TarError = TarError::Malformed("a pax record is broken");
        while !bytes.is_empty() {
            let space = bytes.iter().position(|b| *b == b' ').ok_or(BAD)?;
            let length: usize = number(&bytes[..space]).ok_or(BAD)?;
            if length <= space + 1 || length > bytes.len() || bytes[length - 1] != b'\n' {
                return Err(BAD);
            }
            let record = &bytes[space + 1..length - 1];
            let equals = record.iter().position(|b| *b == b'=').ok_or(BAD)?;
            self.set(&record[..equals], &record[equals + 1..])?;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        const BAD: TarError = TarError::Malformed("a pax record has a bad value");
        match key {
            b"path" | b"linkpath" if value.contains(&0) => return Err(BAD),
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(number(value).ok_or(BAD)?),
            b"uid" => self.uid = Some(number(value).ok_or(BAD)?),
            b"gid" => self.gid = Some(number(value).ok_or(BAD)?),
            b"mtime" => {
                let whole = value.split(|b| *b == b'.').next().unwrap_or_default();
                self.mtime_s = Some(number(whole).ok_or(BAD)?);
            }
            CAPABILITY_RECORD => self.capability = Some(value.to_vec()),
            key if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            // names of users, other attributes (SELinux labels, user.*), access times: not carried
            // into containers
            _ => {}
        }
        Ok(())
    }
}

fn number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A user or group id: a pax record's before the header's.
fn id(
    header: &Header,
    field: Range<usize>,
    value: io::Result<u64>,
    record: Option<u32>,
) -> Result<u32, TarError> {
    match (record, value) {
        (Some(id), _) => Ok(id),
        (None, Ok(id)) => {
            u32::try_from(id).map_err(|_| TarError::Malformed("a user or group id over 32 bits"))
        }
        (None, Err(_)) if is_blank(header, field) => Ok(0),
        (None, Err(_)) => Err(TarError::Malformed("a user or group id is no number")),
    }
}

/// Some writers leave fields that they do not care about empty.
fn is_blank(header: &Header, field: Range<usize>) -> bool {
    header.as_bytes()[field].iter().all(|byte| matches!(byte, 0 | b' '))
}

fn header_size(header: &Header) -> Result<u64, TarError> {
    match header.entry_size() {
        Ok(size) if size <= i64::MAX as u64 => Ok(size),
        Ok(_) | Err(_) => Err(TarError::Malformed("a size is no number")),
    }
}

fn without_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

#[cfg(test)]
mod tests;
