//! Where an image comes from: a folder or a tar file, both seen as files by name. A tar is indexed
//! once and then read at the places where its files lie, so nothing is held in memory and nothing
//! is unpacked twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::decompress::{self, CompressionFormat};
use super::tar_stream::{TarEntryKind, TarError, TarStream};
use super::unpack::{LimitedReader, UnpackLimits};

/// Bytes of a JSON document at most; containerd has the same order of size.
const DOCUMENT_MAX_BYTES: u64 = 8 << 20;
/// Files in an image archive at most, and bytes of their names.
const FILES_MAX: usize = 100_000;
const NAMES_MAX_BYTES: usize = 16 << 20;
/// Links from one file of an archive to another, followed at most.
const LINKS_MAX: usize = 4;

/// An opened archive or layout.
#[derive(Debug)]
pub(crate) enum ArchiveSource {
    /// A folder (OCI layout).
    Folder(PathBuf),
    /// A tar file (OCI archive or docker-archive).
    Tar(TarFile),
}

/// A tar file and where its files lie.
#[derive(Debug)]
pub(crate) struct TarFile {
    file: Arc<File>,
    entries: BTreeMap<String, EntryLocation>,
}

#[derive(Clone, Debug)]
enum EntryLocation {
    File {
        offset: u64,
        size: u64,
    },
    /// Another entry's name: older `docker save` shares layers by links.
    Link(String),
}

/// A file of the source.
pub(crate) struct Blob {
    pub(crate) reader: Box<dyn Read>,
    pub(crate) size: u64,
}

impl ArchiveSource {
    /// Opens `path`. A tar that is compressed as a whole is unpacked to a nameless file in
    /// `scratch` first.
    pub(crate) fn open(path: &Path, scratch: &Path) -> Result<Self, String> {
        let file = open_file(path).map_err(|error| error.to_string())?;
        let meta = file.metadata().map_err(|error| error.to_string())?;
        if meta.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        if !meta.is_file() {
            return Err("neither a file nor a folder".to_owned());
        }
        let packing = decompress::packing(&mut BufReader::new(&file)).map_err(|e| e.to_string())?;
        rewind(&file)?;
        let file = match packing {
            CompressionFormat::Plain => file,
            CompressionFormat::Gzip | CompressionFormat::Zstd => {
                let mut plain = unpacked(&file, meta.len(), scratch).map_err(|e| e.to_string())?;
                plain.rewind().map_err(|error| error.to_string())?;
                plain
            }
        };
        let entries = index(&file)?;
        Ok(Self::Tar(TarFile { file: Arc::new(file), entries }))
    }

    /// The file of this name; `None` when there is none.
    pub(crate) fn blob(&self, name: &str) -> Result<Option<Blob>, String> {
        match self {
            Self::Folder(dir) => match open_file(&dir.join(name)) {
                Ok(file) => {
                    let meta = file.metadata().map_err(|error| format!("{name}: {error}"))?;
                    if !meta.is_file() {
                        return Err(format!("{name} is no file"));
                    }
                    Ok(Some(Blob { reader: Box::new(file), size: meta.len() }))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(format!("{name}: {error}")),
            },
            Self::Tar(tar) => tar.blob(name),
        }
    }

    /// A whole JSON document.
    pub(crate) fn document(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(blob) = self.blob(name)? else { return Ok(None) };
        if blob.size > DOCUMENT_MAX_BYTES {
            return Err(format!("{name} has {} bytes; a document has 8 MiB at most", blob.size));
        }
        let mut bytes = Vec::new();
        blob.reader
            .take(DOCUMENT_MAX_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{name}: {error}"))?;
        Ok(Some(bytes))
    }
}

impl TarFile {
    fn blob(&self, name: &str) -> Result<Option<Blob>, String> {
        let mut name = normal(name.as_bytes())?;
        for _ in 0..=LINKS_MAX {
            match self.entries.get(&name) {
                None => return Ok(None),
                Some(EntryLocation::Link(to)) => name.clone_from(to),
                Some(EntryLocation::File { offset, size }) => {
                    let file = Arc::clone(&self.file);
                    let section = FileSection { file, offset: *offset, left: *size };
                    return Ok(Some(Blob { reader: Box::new(section), size: *size }));
                }
            }
        }
        Err(format!("{name}: too many links"))
    }
}

impl Blob {
    /// The first `size` bytes of a file.
    pub(crate) fn of_file(file: Arc<File>, size: u64) -> Self {
        Self { reader: Box::new(FileSection { file, offset: 0, left: size }), size }
    }
}

/// A nameless file in `dir`: gone with its last handle, also when this process is killed.
pub(crate) fn nameless_file(dir: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600))?))
}

/// A part of a file, read at its own place.
struct FileSection {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

impl Read for FileSection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..want], self.offset)?;
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Opens without waiting: a named pipe in a file's place must not hang the load.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits();
    File::options()
        .read(true)
        .custom_flags(i32::try_from(flags).expect("open flags fit an int"))
        .open(path)
}

fn rewind(mut file: &File) -> Result<(), String> {
    file.rewind().map_err(|error| error.to_string())
}

fn unpacked(packed: &File, packed_bytes: u64, scratch: &Path) -> io::Result<File> {
    let mut plain = nameless_file(scratch)?;
    let space = rustix::fs::fstatvfs(&plain)?;
    let limit =
        UnpackLimits::default().unpacked_bytes(packed_bytes, space.f_bavail * space.f_frsize);
    let mut reader = LimitedReader::new(decompress::decompress(packed)?, limit);
    io::copy(&mut reader, &mut plain)?;
    Ok(plain)
}

fn index(file: &File) -> Result<BTreeMap<String, EntryLocation>, String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let mut stream = TarStream::new(BufReader::new(file));
    let mut entries = BTreeMap::new();
    let mut name_bytes = 0;
    while let Some(entry) = stream.next().map_err(|error| told(&error))? {
        let place = match entry.kind {
            TarEntryKind::File => {
                let offset = stream.seek_over_payload().map_err(|error| error.to_string())?;
                if offset.checked_add(entry.size).is_none_or(|end| end > length) {
                    return Err(format!("entry {:?}: the archive ends inside it", entry.name()));
                }
                EntryLocation::File { offset, size: entry.size }
            }
            TarEntryKind::HardLink => EntryLocation::Link(normal(&entry.link)?),
            TarEntryKind::Symlink => EntryLocation::Link(beside(&entry.path, &entry.link)?),
            TarEntryKind::Directory | TarEntryKind::Fifo | TarEntryKind::Device => continue,
        };
        name_bytes += entry.path.len() + entry.link.len();
        if entries.len() == FILES_MAX || name_bytes > NAMES_MAX_BYTES {
            return Err("it has too many files for an image archive".to_owned());
        }
        entries.insert(normal(&entry.path)?, place);
    }
    Ok(entries)
}

fn told(error: &TarError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// A name in the archive without `./` and the like. These names only find entries, they never reach
/// the disk.
fn normal(path: &[u8]) -> Result<String, String> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    String::from_utf8(parts.join(&b'/')).map_err(|_| "a file name is no UTF-8".to_owned())
}

/// Where a symbolic link beside `path` leads.
fn beside(path: &[u8], link: &[u8]) -> Result<String, String> {
    normal(&[path, b"/../", link].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_of(files: &[(&str, &[u8])], links: &[(&str, &str)]) -> tempfile::NamedTempFile {
        let mut builder = tar::Builder::new(tempfile::NamedTempFile::new().unwrap());
        for (name, body) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(body.len() as u64);
            builder.append_data(&mut header, name, *body).unwrap();
        }
        for (name, to) in links {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, name, to).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn text(source: &ArchiveSource, name: &str) -> Option<String> {
        let bytes = source.document(name).unwrap()?;
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn files_of_a_tar_are_found_by_name_and_through_links() {
        let scratch = tempfile::tempdir().unwrap();
        let big = vec![b'x'; 100_000];
        let tar = tar_of(
            &[("index.json", b"{}"), ("a/layer.tar", &big), ("z", b"last")],
            &[("b/layer.tar", "../a/layer.tar"), ("round", "round")],
        );
        let source = ArchiveSource::open(tar.path(), scratch.path()).unwrap();
        assert_eq!(text(&source, "./index.json").as_deref(), Some("{}"));
        assert_eq!(text(&source, "z").as_deref(), Some("last"));
        assert_eq!(text(&source, "b/layer.tar").map(|t| t.len()), Some(100_000));
        assert_eq!(text(&source, "absent"), None);
        assert!(source.document("round").unwrap_err().contains("too many links"));
    }

    #[test]
    fn a_tar_packed_as_a_whole_is_read_too() {
        let scratch = tempfile::tempdir().unwrap();
        let tar = std::fs::read(tar_of(&[("index.json", b"{}")], &[]).path()).unwrap();
        let packed = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        io::Write::write_all(&mut encoder, &tar).unwrap();
        let packed = encoder.finish().unwrap();
        let source = ArchiveSource::open(packed.path(), scratch.path()).unwrap();
        assert_eq!(text(&source, "index.json").as_deref(), Some("{}"));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_folder_is_read_by_name_and_a_pipe_in_it_does_not_hang() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("index.json"), "{}").unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
        let source = ArchiveSource::open(dir.path(), dir.path()).unwrap();
        assert_eq!(text(&source, "index.json").as_deref(), Some("{}"));
        assert_eq!(text(&source, "oci-layout"), None);
        assert!(source.document("pipe").unwrap_err().contains("no file"));
    }

    #[test]
    fn an_archive_cut_short_is_told_with_its_entry() {
        let scratch = tempfile::tempdir().unwrap();
        let tar = tar_of(&[("blob", &[1; 5000])], &[]);
        tar.as_file().set_len(2000).unwrap();
        let error = ArchiveSource::open(tar.path(), scratch.path()).unwrap_err();
        assert_eq!(error, "entry \"blob\": the archive ends inside it");
    }
}
