//! The archive format of an initramfs ("newc"): for each entry a header of hexadecimal numbers, its
//! name, its content, each padded to four bytes.

use std::io::{self, Write};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// Writes an archive of folders and executable files, all root's.
pub(super) struct Archive<W> {
    writer: W,
    number: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, number: 0 }
    }

    /// A folder; those above it come first.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, FOLDER, &[])
    }

    pub(super) fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(path, FILE, content)
    }

    /// The entry that ends the archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.writer)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.number += 1;
        let length = |length: usize| u32::try_from(length).map_err(io::Error::other);
        let (size, name_size) = (length(content.len())?, length(path.len() + 1)?);
        // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), length of the
        // name, checksum
        let numbers = [self.number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = String::from("070701");
        for number in numbers {
            header.push_str(&format!("{number:08X}"));
        }
        self.padded(&[header.as_bytes(), path.as_bytes(), &[0]].concat())?;
        self.padded(content)
    }

    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.writer.write_all(&[0; 3][..(4 - bytes.len() % 4) % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_the_trailer_ends_them() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("bin").expect("memory takes it");
        archive.file("bin/a", b"12345").expect("memory takes it");
        let bytes = archive.finish().expect("memory takes it");
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.starts_with(b"07070100000001000041ED"), "a folder of mode 0755");
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 3);
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{text:?}");
    }
}
