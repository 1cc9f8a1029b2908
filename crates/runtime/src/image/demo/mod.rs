//! The built-in image `localhost/demo`: the running program itself, `/rekindle`, with the shared objects that it has
//! loaded, a /tmp and two users. So examples run anywhere, without a registry.
//!
//! It lies in `demo/<fingerprint>/fs`, made at the first use by each new build of the program. A program that runs cannot
//! be overwritten, so hard links to it are as good as copies and cost nothing. The last few builds are kept: containers of
//! an engine that was replaced may still run on them.

mod elf;
mod loaded;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use self::loaded::SharedObject;
use super::digest::Sha256Digest;
use super::layers::{private_folder, remove, write_synced};
use super::{ImageConfig, ImageError, ResolvedImage, Rootfs, UpperKind};

const PROGRAM: &str = "/proc/self/exe";
const FOLDER: &str = "demo";
const ROOT: &str = "fs";
const UNFINISHED: &str = "unfinished-";
/// Builds kept, the current one included.
const BUILDS_MAX: usize = 4;
/// What everybody may do with the program inside.
const EXECUTABLE: u32 = 0o555;
/// Where the dynamic loader looks by itself.
const LOADER_DIRS: [&str; 2] = ["/lib", "/usr/lib"];

const PASSWD: &str = "root:x:0:0:root:/:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// The demo image of the running program; made when it is not there.
pub(super) fn resolve(store: &Path) -> Result<ResolvedImage, ImageError> {
    let objects =
        loaded::shared_objects().map_err(|source| failed("read", "/proc/self/maps", source))?;
    let fingerprint = fingerprint(&objects).map_err(|source| failed("look at", PROGRAM, source))?;
    let dir = store.join(FOLDER);
    let root = dir.join(fingerprint.hex()).join(ROOT);
    if !root.is_dir() {
        private_folder(&dir)?;
        make(&dir, fingerprint.hex(), &objects)?;
        forget_old_builds(&dir, fingerprint.hex())?;
    }
    Ok(ResolvedImage {
        id: fingerprint.to_string(),
        config: config(&objects),
        rootfs: Rootfs { lower_dirs: vec![root], upper: UpperKind::Directory, mask: Vec::new() },
    })
}

/// Bytes of the image's files.
pub(super) fn size_bytes(image: &ResolvedImage) -> u64 {
    fn of(dir: &Path) -> u64 {
        let Ok(listing) = fs::read_dir(dir) else { return 0 };
        let size = |entry: fs::DirEntry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => of(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        };
        listing.flatten().map(size).sum()
    }
    image.rootfs.lower_dirs.iter().map(|dir| of(dir)).sum()
}

fn config(objects: &[SharedObject]) -> ImageConfig {
    let unusual: BTreeSet<&Path> = objects
        .iter()
        .filter_map(|object| object.path.parent())
        .filter(|dir| !LOADER_DIRS.iter().any(|usual| dir.starts_with(usual)))
        .collect();
    let unusual: Vec<&str> = unusual.into_iter().filter_map(Path::to_str).collect();
    let mut env = vec![("PATH".to_owned(), "/".to_owned())];
    if !unusual.is_empty() {
        env.push(("LD_LIBRARY_PATH".to_owned(), unusual.join(":")));
    }
    ImageConfig {
        entrypoint: vec!["/rekindle".to_owned(), "demo".to_owned()],
        cmd: Vec::new(),
        env,
        working_dir: "/".to_owned(),
        user: String::new(),
        stop_signal: None,
    }
}

/// Tells one build from another without reading it all.
fn fingerprint(objects: &[SharedObject]) -> io::Result<Sha256Digest> {
    let mut text = String::from("rekindle localhost/demo 1\n");
    let sources = objects.iter().map(|object| (object.path.as_path(), object.source.as_path()));
    for (name, source) in sources.chain([(Path::new("/rekindle"), Path::new(PROGRAM))]) {
        let meta = fs::metadata(source)?;
        let name = name.display();
        let line = format!(
            "{name} {} {} {} {}.{}\n",
            meta.dev(),
            meta.ino(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        text.push_str(&line);
    }
    Ok(Sha256Digest::of(text.as_bytes()))
}

/// Makes the image beside, then shows it.
fn make(dir: &Path, name: &str, objects: &[SharedObject]) -> Result<(), ImageError> {
    let beside = dir.join(format!("{UNFINISHED}{}-{name}", std::process::id()));
    let shown = dir.join(name);
    remove(&beside)?;
    let made = fill(&beside.join(ROOT), objects).and_then(|()| match fs::rename(&beside, &shown) {
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

fn fill(root: &Path, objects: &[SharedObject]) -> io::Result<()> {
    let folder = |path: &str, mode| {
        let path = root.join(path);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
    };
    folder("", 0o755)?;
    folder("etc", 0o755)?;
    folder("tmp", 0o1777)?;
    for place in ["dev", "proc", "sys"] {
        folder(place, 0o755)?;
    }
    for (path, text) in [("etc/passwd", PASSWD), ("etc/group", GROUP)] {
        let path = root.join(path);
        write_synced(&path, text.as_bytes())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    place(Path::new(PROGRAM), &root.join("rekindle"))?;
    for object in objects {
        let inside = beneath(root, &object.path);
        if let Some(parent) = inside.parent() {
            make_readable_folders(root, parent)?;
        }
        place(&object.source, &inside)?;
        for alias in &object.aliases {
            symlink(object.path.file_name().unwrap_or_default(), inside.with_file_name(alias))?;
        }
    }
    if let Some(interpreter) = elf::interpreter(Path::new(PROGRAM))? {
        let inside = beneath(root, &interpreter);
        if !inside.exists() {
            make_readable_folders(root, inside.parent().unwrap_or(root))?;
            place(&fs::canonicalize(&interpreter)?, &inside)?;
        }
    }
    Ok(())
}

/// A file by hard link where that gives everybody the right to run it, else by copy.
fn place(source: &Path, inside: &Path) -> io::Result<()> {
    let mode = fs::metadata(source)?.permissions().mode();
    if mode & EXECUTABLE == EXECUTABLE && mode & 0o7000 == 0 {
        let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
        let (from, to) = (rustix::fs::CWD, rustix::fs::CWD);
        if rustix::fs::linkat(from, source, to, inside, follow).is_ok() {
            return Ok(());
        }
    }
    // another file system, or no right to link: a copy, which shares blocks where the file system can
    fs::copy(source, inside)?;
    fs::set_permissions(inside, fs::Permissions::from_mode(0o755))
}

fn beneath(root: &Path, absolute: &Path) -> PathBuf {
    root.join(absolute.strip_prefix("/").unwrap_or(absolute))
}

/// The folders down to `folder`, open to everybody whatever the umask is.
fn make_readable_folders(root: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for dir in folder.ancestors().take_while(|dir| *dir != root) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn forget_old_builds(dir: &Path, current: &str) -> Result<(), ImageError> {
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
    let surplus = (old.len() + 1).saturating_sub(BUILDS_MAX);
    old.iter().take(surplus).try_for_each(|(_, path)| remove(path))
}

fn failed(operation: &'static str, path: &str, source: io::Error) -> ImageError {
    ImageError::Store { operation, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_program_runs_inside_its_own_image() {
        let store = tempfile::tempdir().unwrap();
        let image = resolve(store.path()).unwrap();
        let root = &image.rootfs.lower_dirs[0];
        // the program here is this test: it lists its tests from inside, with nothing of the host around it
        let mut run = Command::new("chroot");
        run.arg("--userspec=65534:65534").arg(root).args(["/rekindle", "--list"]);
        let output = run.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("the_program_runs_inside_its_own_image"),
            "{output:?}",
            output = output.stderr
        );
        assert_eq!(fs::metadata(root.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
    }

    #[test]
    fn it_is_made_once_and_old_builds_go() {
        let store = tempfile::tempdir().unwrap();
        for old in ["a", "b", "c", "d", "e"] {
            fs::create_dir_all(store.path().join(FOLDER).join(old)).unwrap();
        }
        let image = resolve(store.path()).unwrap();
        let inode =
            |image: &ResolvedImage| fs::metadata(&image.rootfs.lower_dirs[0]).unwrap().ino();
        let again = resolve(store.path()).unwrap();
        assert_eq!((again.clone(), inode(&again)), (image.clone(), inode(&image)));
        assert_eq!(fs::read_dir(store.path().join(FOLDER)).unwrap().count(), BUILDS_MAX);
        assert!(size_bytes(&image) > 0);
    }
}
