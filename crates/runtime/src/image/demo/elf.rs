//! The one thing that is needed of an ELF file: which dynamic loader it asks for.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SEGMENTS_MAX: u16 = 256;
const PT_INTERP: u32 = 3;

/// The loader's path as the program has it; `None` for a static program, or one that is not 64-bit little-endian ELF.
pub(super) fn interpreter(program: &Path) -> io::Result<Option<PathBuf>> {
    let file = File::open(program)?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (table, size, count) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    for index in 0..count.min(SEGMENTS_MAX) {
        let mut segment = [0; SEGMENT_BYTES];
        file.read_exact_at(&mut segment, table + u64::from(index) * u64::from(size))?;
        if u32::from_le_bytes(array(&segment, 0)) == PT_INTERP {
            let length = usize::try_from(u64_at(&segment, 32)).unwrap_or(usize::MAX).min(4096);
            let mut path = vec![0; length];
            file.read_exact_at(&mut path, u64_at(&segment, 8))?;
            path.retain(|byte| *byte != 0);
            return Ok(Some(PathBuf::from(OsStr::from_bytes(&path))));
        }
    }
    Ok(None)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_dynamic_program_exists_and_a_script_has_none() {
        if let Some(loader) = interpreter(Path::new("/proc/self/exe")).unwrap() {
            assert!(loader.is_absolute() && loader.exists(), "{loader:?}");
        }
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n".repeat(20)).unwrap();
        assert_eq!(interpreter(script.path()).unwrap(), None);
    }
}
