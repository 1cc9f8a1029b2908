//! The built-in image `localhost/demo`: the app of the crate `demo`, which this program carries as
//! a small static one (see build.rs), a /tmp and two users. So examples run anywhere, without a
//! registry.
//!
//! It lies in `demo/<digest of the app>/fs`, made at the first use by each program that carries
//! another app. The last few are kept: containers of an engine that was replaced may still run on
//! them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use super::digest::Sha256Digest;
use super::layers::{private_folder, remove, write_synced};
use super::{ImageConfig, ImageError, ResolvedImage, Rootfs, UpperKind};

static APP: &[u8] = include_bytes!(env!("REKINDLE_DEMO"));
static DIGEST: LazyLock<Sha256Digest> = LazyLock::new(|| Sha256Digest::from_bytes(APP));

const FOLDER: &str = "demo";
const ROOT: &str = "fs";
const UNFINISHED: &str = "unfinished-";
/// Apps kept, the current one included.
const APPS_MAX: usize = 4;

/// Folders, with their modes.
static FOLDERS: [(&str, u32); 6] =
    [("", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("dev", 0o755), ("proc", 0o755), ("sys", 0o755)];
/// Files, with what is in them and their modes.
static FILES: [(&str, &[u8], u32); 3] = [
    (
        "etc/passwd",
        b"root:x:0:0:root:/:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        0o644,
    ),
    ("etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644),
    ("demo", APP, 0o755),
];

/// The demo image of the running program; made when it is not there.
pub(super) fn resolve(store: &Path) -> Result<ResolvedImage, ImageError> {
    let dir = store.join(FOLDER);
    let root = dir.join(DIGEST.hex()).join(ROOT);
    if !root.is_dir() {
        private_folder(&dir)?;
        make(&dir, DIGEST.hex())?;
        forget_old_apps(&dir, DIGEST.hex())?;
    }
    Ok(ResolvedImage {
        id: DIGEST.to_string(),
        config: config(),
        rootfs: Rootfs {
            lower_dirs: vec![root],
            public_dir: None,
            upper: UpperKind::Directory,
            mask: Vec::new(),
        },
    })
}

/// Bytes of the image's files.
pub(super) fn size_bytes() -> u64 {
    FILES.iter().map(|(_, content, _)| content.len() as u64).sum()
}

fn config() -> ImageConfig {
    ImageConfig {
        entrypoint: vec!["/demo".to_owned()],
        cmd: vec!["server".to_owned()],
        env: vec![("PATH".to_owned(), "/".to_owned())],
        working_dir: "/".to_owned(),
        user: String::new(),
        stop_signal: None,
        volumes: Vec::new(),
    }
}

/// Makes the image beside, then shows it.
fn make(dir: &Path, name: &str) -> Result<(), ImageError> {
    let beside = dir.join(format!("{UNFINISHED}{}-{name}", std::process::id()));
    let shown = dir.join(name);
    remove(&beside)?;
    let made = fill(&beside.join(ROOT)).and_then(|()| match fs::rename(&beside, &shown) {
        // another process was faster, with the same content
        Err(_) if shown.join(ROOT).is_dir() => Ok(()),
        result => result,
    });
    remove(&beside)?;
    made.map_err(|source| ImageError::Store {
        operation: "make the demo image in",
        path: shown,
        source,
    })
}

fn fill(root: &Path) -> io::Result<()> {
    for (path, mode) in FOLDERS {
        let path = root.join(path);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    for (path, content, mode) in FILES {
        let path = root.join(path);
        write_synced(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn forget_old_apps(dir: &Path, current: &str) -> Result<(), ImageError> {
    let failed = |source| ImageError::Store { operation: "list", path: dir.to_owned(), source };
    let mut old: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name != current && !name.starts_with(UNFINISHED) {
            let made = entry.metadata().and_then(|meta| meta.modified()).map_err(failed)?;
            old.push((made, entry.path()));
        }
    }
    old.sort();
    let surplus = (old.len() + 1).saturating_sub(APPS_MAX);
    old.iter().take(surplus).try_for_each(|(_, path)| remove(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;

    #[test]
    fn the_app_runs_inside_its_own_image() {
        let store = tempfile::tempdir().unwrap();
        let image = resolve(store.path()).unwrap();
        let root = &image.rootfs.lower_dirs[0];
        // from inside, with nothing of the host around it
        let mut run = Command::new("chroot");
        run.arg("--userspec=65534:65534").arg(root);
        run.args(["/demo", "seed", "--poison", "/tmp/bad", "--once", "/tmp/once"]);
        let output = run.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(root.join("tmp/bad").is_file(), "{output:?}");
        assert_eq!(fs::metadata(root.join("tmp")).unwrap().permissions().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn it_is_made_once_and_old_apps_go() {
        let store = tempfile::tempdir().unwrap();
        for old in ["a", "b", "c", "d", "e"] {
            fs::create_dir_all(store.path().join(FOLDER).join(old)).unwrap();
        }
        let image = resolve(store.path()).unwrap();
        let inode =
            |image: &ResolvedImage| fs::metadata(&image.rootfs.lower_dirs[0]).unwrap().ino();
        let again = resolve(store.path()).unwrap();
        assert_eq!((again.clone(), inode(&again)), (image.clone(), inode(&image)));
        assert_eq!(fs::read_dir(store.path().join(FOLDER)).unwrap().count(), APPS_MAX);
        let root = &image.rootfs.lower_dirs[0];
        let size = |path: &str| fs::metadata(root.join(path)).unwrap().len();
        assert_eq!(size_bytes(), size("demo") + size("etc/passwd") + size("etc/group"));
    }
}
