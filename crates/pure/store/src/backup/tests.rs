//! What was written is read again, however it is cut; what was changed is refused.

use proptest::collection::btree_map;
use proptest::prelude::*;

use super::*;
use crate::memory::MemoryDisk;
use crate::object::StoredObject;
use crate::store::Store;
use crate::writer::{Mutation, WritePrecondition};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    header: BackupHeader,
    files: Vec<BackupFile>,
    objects: Vec<StoredObject>,
}

impl Content {
    fn new(files: &[(&str, &[u8])], objects: &[(&str, u64, &[u8])]) -> Self {
        let header = BackupHeader {
            revision: Revision(1_000),
            created_at_micros: 1_795_000_000_000_000,
            files: u32::try_from(files.len()).unwrap(),
            objects: objects.len() as u64,
        };
        let file = |(name, content): &(&str, &[u8])| BackupFile {
            name: (*name).to_owned(),
            content: Bytes::copy_from_slice(content),
        };
        let object = |(key, revision, value): &(&str, u64, &[u8])| {
            StoredObject::new(*key, Revision(*revision), value.to_vec())
        };
        let (files, objects) =
            (files.iter().map(file).collect(), objects.iter().map(object).collect());
        Self { header, files, objects }
    }

    fn encode(&self) -> Vec<u8> {
        let mut encoder = BackupEncoder::new(&self.header);
        self.files.iter().for_each(|file| encoder.file(file).unwrap());
        self.objects.iter().for_each(|object| encoder.object(object).unwrap());
        encoder.finish().to_vec()
    }

    /// The header, and the lengths of one entry without the entry.
    fn encode_lengths(&self, name: u32, content: usize) -> Vec<u8> {
        let header = BackupEncoder::new(&self.header).take();
        let content = u32::try_from(content).unwrap();
        [&header[..], &name.to_be_bytes(), &content.to_be_bytes()].concat()
    }
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Content, BackupError> {
    let (mut header, mut files, mut objects) = (None, Vec::new(), Vec::new());
    let mut decoder = BackupDecoder::default();
    for piece in pieces {
        decoder.push(piece);
        while let Some(part) = decoder.next_part()? {
            match part {
                BackupPart::Header(found) => header = Some(found),
                BackupPart::File(file) => files.push(file),
                BackupPart::Object(object) => objects.push(object),
            }
        }
    }
    decoder.finish()?;
    Ok(Content { header: header.expect("a whole backup has a header"), files, objects })
}

fn example() -> Content {
    Content::new(
        &[("pki/ca.key", b"key"), ("service-cidr", b"10.96.0.0/16")],
        &[("/pods/default/web", 7, b"{}"), ("/secrets/default/token", 1_000, b"{\"a\":1}")],
    )
}

#[test]
fn a_backup_cut_at_any_byte_is_refused() {
    let bytes = example().encode();
    for end in 0..bytes.len() {
        assert_eq!(decode([&bytes[..end]]), Err(BackupError::Truncated), "cut at {end}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(decode([&longer[..]]), Err(BackupError::Trailing { bytes: 1 }));
}

#[test]
fn a_backup_with_any_flipped_bit_is_refused() {
    let bytes = example().encode();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(decode([&changed[..]]).is_err(), "bit {bit}");
    }
}

#[test]
fn other_files_and_other_formats_are_named_as_what_they_are() {
    assert_eq!(decode([&b"PK\x03\x04"[..]]), Err(BackupError::NotABackup));
    let mut later = example().encode();
    later[19] = 2;
    assert_eq!(decode([&later[..]]), Err(BackupError::Format { found: 2 }));
}

/// The checksum of these is right: they were made by a program with a bug, or by an attacker.
#[test]
fn what_no_store_holds_is_refused_with_a_right_checksum() {
    let object = |key, revision| Content::new(&[], &[(key, revision, b"{}")]);
    let twice = Content::new(&[], &[("/a", 1, b""), ("/a", 2, b"")]);
    let falling = Content::new(&[], &[("/b", 1, b""), ("/a", 2, b"")]);
    let mut many = example();
    many.header.files = FILES_MAX + 1;
    let mut far = example();
    far.header.revision = REVISION_MAX.next();
    for (bytes, problem) in [
        (object("/a", 0).encode(), "\"/a\" has revision 0"),
        (object("/a", 1_001).encode(), "\"/a\" has revision 1001, the backup is of revision 1000"),
        (object("", 1).encode(), "an entry has no name"),
        (twice.encode(), "\"/a\" follows \"/a\""),
        (falling.encode(), "\"/a\" follows \"/b\""),
        (
            object("/a", 1).encode_lengths(2, OBJECT_BYTES_MAX),
            "an entry has 3146754 bytes, at most 3146752",
        ),
        (example().encode_lengths(1, FILE_BYTES_MAX), "an entry has 65537 bytes, at most 65536"),
        (many.encode(), "it has 65 files, at most 64"),
        (far.encode(), "it is of revision 4611686018427387905, at most 4611686018427387904"),
    ] {
        let error = decode([&bytes[..]]).unwrap_err().to_string();
        assert!(error.contains(problem), "expected {problem:?} in {error}");
    }
    let mut fewer = example();
    fewer.header.objects = 1;
    assert_eq!(decode([&fewer.encode()[..]]), Err(BackupError::Checksum));
    let mut more = example();
    more.header.objects = 3;
    assert!(decode([&more.encode()[..]]).is_err());
}

/// A backup that no reader takes is not written.
#[test]
fn what_is_too_large_is_refused_by_name() {
    let mut content = example();
    content.files[0].content = vec![b'x'; FILE_BYTES_MAX].into();
    content.objects[0].value = vec![b'x'; OBJECT_BYTES_MAX].into();
    let mut encoder = BackupEncoder::new(&content.header);
    encoder.take();
    assert_eq!(
        encoder.file(&content.files[0]).unwrap_err().to_string(),
        "\"pki/ca.key\" has 65546 bytes, a backup takes at most 65536"
    );
    assert_eq!(
        encoder.object(&content.objects[0]).unwrap_err().to_string(),
        "\"/pods/default/web\" has 3146769 bytes, a backup takes at most 3146752"
    );
    assert_eq!(encoder.untaken_bytes(), 0);
}

/// A store that goes on: what was written after the backup began is not in it.
#[test]
fn a_backup_of_a_store_has_all_objects_of_one_revision() {
    let (store, mut committer) = Store::open(MemoryDisk::new(), StoreLimits::default()).unwrap();
    let mut put = |key: &str, value: &'static [u8]| {
        let encode = |_| Bytes::from_static(value);
        let pending = store.write(key, WritePrecondition::Any, Mutation::Put(&encode)).unwrap();
        committer.commit_pending().unwrap();
        pending.wait().unwrap();
    };
    let large: &'static [u8] = vec![b'x'; 100_000].leak();
    for key in ["/a", "/b", "/c"] {
        put(key, large);
    }
    put("/a", b"changed");
    // one write is on its way to the disk, and others come while the backup is read
    let encode = |_| Bytes::from_static(b"not durable yet");
    let pending = store.write("/b", WritePrecondition::Any, Mutation::Put(&encode)).unwrap();
    let mut stream = store.backup(42).unwrap();
    let first = stream.next().unwrap().unwrap();
    put("/a", b"too late");
    pending.try_get().expect("the commit had both").unwrap();
    put("/d", b"too late");
    let others = stream.map(Result::unwrap);
    let pieces: Vec<Bytes> = std::iter::once(first).chain(others).collect();
    assert!(pieces.len() > 2, "it comes in pieces");
    let content = decode(pieces.iter().map(|piece| &piece[..])).unwrap();
    let header =
        BackupHeader { revision: Revision(4), created_at_micros: 42, files: 0, objects: 3 };
    assert_eq!(content.header, header);
    let found: Vec<_> =
        content.objects.iter().map(|o| (o.key.as_str(), o.revision.0, &o.value[..])).collect();
    assert_eq!(found, [("/a", 4, &b"changed"[..]), ("/b", 2, large), ("/c", 3, large)]);
}

fn content() -> impl Strategy<Value = Content> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    let files = btree_map("[a-z./]{1,20}", bytes(), 0..4);
    let objects = btree_map("/[a-z/]{1,20}", (1_u64..=1_000, bytes()), 0..8);
    (files, objects).prop_map(|(files, objects)| {
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, content)| (&name[..], &content[..])).collect();
        let objects: Vec<(&str, u64, &[u8])> = objects
            .iter()
            .map(|(key, (revision, value))| (&key[..], *revision, &value[..]))
            .collect();
        Content::new(&files, &objects)
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read_however_it_is_cut(content in content(), piece in 1_usize..100) {
        let bytes = content.encode();
        prop_assert_eq!(decode(bytes.chunks(piece)), Ok(content));
    }

    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), keeps_magic: bool) {
        if keeps_magic {
            let head = [&MAGIC[..], &FORMAT.to_be_bytes()].concat();
            bytes.splice(..head.len().min(bytes.len()), head);
        }
        prop_assert!(decode([&bytes[..]]).is_err());
    }
}
