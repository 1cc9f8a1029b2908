//! Reading a profile: beneath its folder, of a size that a person may have written.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// Bytes of a profile at most. Docker's own has 15 KiB.
const BYTES_MAX: u64 = 1024 * 1024;

/// A profile that is not there, or none. A container with it cannot be made; somebody may mend it,
/// so that is tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot load seccomp profile {path:?}: {problem}")]
pub(crate) struct ProfileError {
    /// The file.
    pub(crate) path: PathBuf,
    /// What is wrong with it, by its field.
    pub(crate) problem: String,
}

/// Reads the file. A link may lead anywhere but out of the folder.
pub(super) fn read(folder: &Path, name: &Path) -> Result<Vec<u8>, ProfileError> {
    read_beneath(folder, name).map_err(|error| problem(folder, name, text(&error)))
}

pub(super) fn problem(folder: &Path, name: &Path, problem: String) -> ProfileError {
    ProfileError { path: folder.join(name), problem }
}

/// Without the number that the standard library puts behind.
fn text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text[..1].to_ascii_lowercase() + &text[1..]
}

fn read_beneath(folder: &Path, name: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let links = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&folder, name, flags, Mode::empty(), links)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    std::fs::File::from(file).take(BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_regular_file_beneath_the_folder_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("seccomp");
        fs::create_dir_all(folder.join("team/folder")).unwrap();
        fs::write(dir.path().join("outside.json"), "{}").unwrap();
        fs::write(folder.join("team/a.json"), "text").unwrap();
        fs::write(folder.join("big.json"), vec![b' '; 1024 * 1024 + 1]).unwrap();
        symlink("team/a.json", folder.join("link.json")).unwrap();
        symlink("../outside.json", folder.join("out.json")).unwrap();
        symlink("/proc/self/cwd", folder.join("magic")).unwrap();
        for name in ["team/a.json", "link.json", "team/../link.json"] {
            assert_eq!(read(&folder, Path::new(name)).unwrap(), b"text", "{name}");
        }
        for (name, expected) in [
            ("absent.json", "no such file or directory"),
            ("out.json", "invalid cross-device link"),
            ("../outside.json", "invalid cross-device link"),
            ("team/folder", "it is not a regular file"),
            ("big.json", "it has more than 1048576 bytes"),
        ] {
            let error = read(&folder, Path::new(name)).unwrap_err();
            assert_eq!(error.problem, expected, "{name}");
            assert!(error.to_string().starts_with("cannot load seccomp profile \"/"), "{error}");
        }
        assert!(read(&folder, Path::new("magic/Cargo.toml")).is_err());
        assert!(read(&folder.join("absent"), Path::new("a.json")).is_err());
    }
}
