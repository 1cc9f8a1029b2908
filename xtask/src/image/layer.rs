//! The one layer of the image: the program, certificates of public authorities for webhooks, the
//! names of its users, and a folder for temporary files. All belong to root and have no time.

use std::io;

/// The user that the image names: no right on the node follows from it.
pub(super) const USER: &str = "65532:65532";
const PASSWD: &str = "root:x:0:0:root:/:/none\nrekindle:x:65532:65532:rekindle:/:/none\n";
const GROUP: &str = "root:x:0:\nrekindle:x:65532:\n";

/// The layer as a tar archive.
pub(super) fn pack(program: &[u8], authorities: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (folder, mode) in
        [("etc/", 0o755), ("etc/ssl/", 0o755), ("etc/ssl/certs/", 0o755), ("tmp/", 0o1777)]
    {
        append(&mut archive, folder, tar::EntryType::Directory, mode, &[])?;
    }
    for (file, mode, content) in [
        ("etc/group", 0o644, GROUP.as_bytes()),
        ("etc/passwd", 0o644, PASSWD.as_bytes()),
        ("etc/ssl/certs/ca-certificates.crt", 0o644, authorities),
        ("rekindle", 0o755, program),
    ] {
        append(&mut archive, file, tar::EntryType::Regular, mode, content)?;
    }
    archive.into_inner()
}

/// Adds an entry of root's, of the year 1970.
pub(super) fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    kind: tar::EntryType,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, path, content)
}
