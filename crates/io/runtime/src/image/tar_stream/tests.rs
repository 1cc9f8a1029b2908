use super::*;
use proptest::prelude::*;

/// The archive that `build` writes.
fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    builder.into_inner().unwrap()
}

fn file_header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o4755);
    header.set_uid(7);
    header.set_gid(8);
    header.set_mtime(1_000_000);
    header
}

fn all(bytes: &[u8]) -> Result<Vec<(TarEntry, Vec<u8>)>, TarError> {
    let mut stream = TarStream::new(bytes);
    let mut entries = Vec::new();
    while let Some(entry) = stream.next()? {
        let mut payload = Vec::new();
        stream.read_to_end(&mut payload).map_err(TarError::Read)?;
        entries.push((entry, payload));
    }
    Ok(entries)
}

/// A pax header with these records, as raw blocks.
fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        body.extend(format!("{length} {key}=").bytes());
        body.extend(*value);
        body.push(b'\n');
    }
    raw(b'x', "PaxHeaders/x", &body)
}

/// One entry of this type, as raw blocks, without an end of archive.
fn raw(kind: u8, name: &str, body: &[u8]) -> Vec<u8> {
    let mut header = file_header(body.len() as u64);
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

#[test]
fn files_keep_their_metadata_and_payload() {
    let bytes = archive(|tar| {
        tar.append_data(&mut file_header(5), "usr/bin/su", &b"hello"[..]).unwrap();
        let mut link = file_header(0);
        link.set_entry_type(tar::EntryType::Symlink);
        tar.append_link(&mut link, "bin", "usr/bin").unwrap();
    });
    let entries = all(&bytes).unwrap();
    let (su, payload) = &entries[0];
    assert_eq!(
        (su.name().as_str(), su.kind, payload.as_slice()),
        ("usr/bin/su", TarEntryKind::File, &b"hello"[..])
    );
    assert_eq!((su.mode, su.uid, su.gid, su.mtime_s), (0o4755, 7, 8, 1_000_000));
    assert_eq!(
        (entries[1].0.kind, entries[1].0.link.as_slice()),
        (TarEntryKind::Symlink, &b"usr/bin"[..])
    );
}

#[test]
fn long_names_of_gnu_tar_are_read() {
    let long = "d/".repeat(200) + "file";
    let bytes = archive(|tar| tar.append_data(&mut file_header(1), &long, &b"x"[..]).unwrap());
    assert_eq!(all(&bytes).unwrap()[0].0.name(), long);
}

#[test]
fn a_pax_size_wins_over_the_header_so_that_no_hidden_entry_appears() {
    // two readers that disagree here see different files (the class of CVE-2025-62518)
    let hidden = raw(b'0', "hidden", b"");
    let mut bytes = pax(&[("size", hidden.len().to_string().as_bytes())]);
    bytes.extend(raw(b'0', "outer", b""));
    bytes.extend(&hidden);
    let entries = all(&bytes).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].1, hidden);
}

#[test]
fn binary_attributes_may_hold_line_ends() {
    let capability = b"\x01\n\n\x02=\0 5 x=y\n";
    let mut bytes = pax(&[
        ("SCHILY.xattr.user.other", b"dropped"),
        ("SCHILY.xattr.security.capability", capability),
        ("mtime", b"-5.25"),
    ]);
    bytes.extend(raw(b'0', "ping", b""));
    let entry = &all(&bytes).unwrap()[0].0;
    assert_eq!(entry.capability.as_deref(), Some(&capability[..]));
    assert_eq!(entry.mtime_s, -5);
}

#[test]
fn what_is_broken_is_refused_with_its_reason() {
    let mut bad_sum = raw(b'0', "a", b"");
    bad_sum[0] = b'b';
    let cut_payload = raw(b'0', "a", &[1; 600])[..1000].to_vec();
    let huge_extension = {
        let mut header = file_header(1 << 40);
        header.set_entry_type(tar::EntryType::XHeader);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let cases = [
        (bad_sum, "checksum is wrong"),
        (raw(b'0', "a", b"")[..100].to_vec(), "inside a header"),
        (cut_payload, "read"),
        (huge_extension, "more than 1 MiB"),
        (raw(b'x', "a", b"99 a=b\n"), "a pax record is broken"),
        (raw(b'x', "a", b"7 a=b\n\n"), "after an extended header"),
        (raw(b'x', "a", b"nonsense"), "a pax record is broken"),
        (pax(&[("size", b"-1")]), "bad value"),
        (pax(&[("path", b"a")]), "after an extended header"),
        (raw(b'S', "a", b""), "sparse"),
        (raw(b'Q', "a", b""), "unknown type"),
        (raw(b'L', "a", b"x").repeat(40), "too many extended headers"),
    ];
    for (bytes, reason) in cases {
        let error = all(&bytes).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..3000), fix in any::<bool>()) {
        if fix && bytes.len() >= BLOCK {
            let mut header = Header::new_old();
            header.as_mut_bytes().copy_from_slice(&bytes[..BLOCK]);
            header.set_cksum();
            bytes[..BLOCK].copy_from_slice(header.as_bytes());
        }
        let _ = all(&bytes);
    }

    #[test]
    fn what_the_tar_crate_writes_is_read_back(
        files in prop::collection::vec(("([a-z]{1,9}/){0,20}[a-z]{1,90}", prop::collection::vec(any::<u8>(), 0..1500)), 0..6)
    ) {
        let bytes = archive(|tar| for (name, body) in &files {
            tar.append_data(&mut file_header(body.len() as u64), name, body.as_slice()).unwrap();
        });
        let read: Vec<_> = all(&bytes).unwrap().into_iter().map(|(e, body)| (e.name(), body)).collect();
        prop_assert_eq!(read, files);
    }
}
