//! Paths that an image or a volume decides over: resolved by the kernel relative to a directory
//! descriptor, so that a symbolic link can lead anywhere but out, and swapping one meanwhile
//! changes nothing (openat2(2)).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// openat2 asks for another try when a rename raced with it.
const RACES_MAX: u32 = 64;

/// What stands at a path, or shall stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// A directory.
    Directory,
    /// Anything else; made as an empty regular file.
    File,
}

/// How links in a path are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPolicy {
    /// Absolute links and `..` stay inside: the directory is the root.
    InRoot,
    /// A link that leads out is an error (EXDEV).
    Beneath,
    /// Every link is an error (ELOOP).
    Refused,
}

impl LinkPolicy {
    fn flags(self) -> ResolveFlags {
        // A magic link (/proc/self/fd/3) leads to wherever a descriptor points, so none is ever
        // followed.
        ResolveFlags::NO_MAGICLINKS
            | match self {
                LinkPolicy::InRoot => ResolveFlags::IN_ROOT,
                LinkPolicy::Beneath => ResolveFlags::BENEATH,
                LinkPolicy::Refused => ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS,
            }
    }
}

/// Opens `path` inside `root` with these flags.
pub(crate) fn open(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    links: LinkPolicy,
) -> Result<OwnedFd, Errno> {
    let path = match links {
        LinkPolicy::InRoot | LinkPolicy::Refused => path,
        LinkPolicy::Beneath => path.strip_prefix("/").unwrap_or(path),
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let mut races = 0;
    loop {
        let opened =
            rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), links.flags());
        match opened {
            Err(Errno::AGAIN) if races < RACES_MAX => races += 1,
            result => return result,
        }
    }
}

/// Finds what stands at `path` inside `root`, without opening it for reading or writing.
pub(crate) fn find(root: BorrowedFd<'_>, path: &Path, links: LinkPolicy) -> Result<OwnedFd, Errno> {
    open(root, path, OFlags::PATH, links)
}

/// Finds what stands at `path` inside `root`; makes it, and the directories before it, when it is
/// absent.
pub(crate) fn find_or_make(
    root: BorrowedFd<'_>,
    path: &Path,
    kind: PathKind,
    links: LinkPolicy,
) -> Result<OwnedFd, Errno> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Errno::INVAL); // what `..` means after a link depends on the link
    }
    match find(root, path, links) {
        Err(Errno::NOENT) => {}
        result => return result,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::NOENT);
    };
    let parent = find_or_make(root, parent, PathKind::Directory, links)?;
    let made = match kind {
        PathKind::Directory => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)),
        PathKind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            rustix::fs::openat(&parent, name, flags | OFlags::WRONLY, mode).map(drop)
        }
    };
    match made {
        // Somebody made it meanwhile, or a link stands there that leads to nothing: found, or a
        // clear error.
        Ok(()) | Err(Errno::EXIST) => match find(root, path, links) {
            Err(Errno::NOENT) => Err(Errno::LOOP),
            result => result,
        },
        Err(errno) => Err(errno),
    }
}

/// Whether a directory stands there.
pub(crate) fn kind_of(file: BorrowedFd<'_>) -> Result<PathKind, Errno> {
    let mode = rustix::fs::fstat(file)?.st_mode;
    Ok(match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => PathKind::Directory,
        _ => PathKind::File,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
        root: OwnedFd,
    }

    /// `outside/secret` beside `root/`, which is resolved in.
    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/etc")).unwrap();
        fs::create_dir_all(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret"), "s").unwrap();
        let root = fs::File::open(dir.path().join("root")).unwrap().into();
        World { dir, root }
    }

    #[test]
    fn a_destination_through_an_absolute_link_stays_inside() {
        let w = world();
        symlink(w.dir.path().join("outside"), w.dir.path().join("root/data")).unwrap();
        let made = find_or_make(
            w.root.as_fd(),
            Path::new("/data/x"),
            PathKind::Directory,
            LinkPolicy::InRoot,
        );
        assert_eq!(made.map(drop), Err(Errno::LOOP), "the link dangles inside the root");
        assert!(!w.dir.path().join("outside/x").exists());
    }

    #[test]
    fn a_destination_through_a_relative_link_upwards_stays_inside() {
        let w = world();
        symlink("../../../../../../etc", w.dir.path().join("root/up")).unwrap();
        find_or_make(w.root.as_fd(), Path::new("/up/made"), PathKind::File, LinkPolicy::InRoot)
            .unwrap();
        assert!(w.dir.path().join("root/etc/made").is_file());
        assert!(!Path::new("/etc/made").exists());
    }

    #[test]
    fn missing_directories_are_made_inside() {
        let w = world();
        let path = Path::new("/a/b/c/file");
        find_or_make(w.root.as_fd(), path, PathKind::File, LinkPolicy::InRoot).unwrap();
        assert!(w.dir.path().join("root/a/b/c/file").is_file());
    }

    #[test]
    fn a_sub_path_that_leads_out_is_refused() {
        let w = world();
        symlink("../outside", w.dir.path().join("root/rel")).unwrap();
        symlink("/etc", w.dir.path().join("root/abs")).unwrap();
        for path in ["rel/secret", "rel/new", "abs/passwd", "abs/new"] {
            let found = find_or_make(
                w.root.as_fd(),
                Path::new(path),
                PathKind::Directory,
                LinkPolicy::Beneath,
            );
            assert_eq!(found.map(drop), Err(Errno::XDEV), "{path}");
        }
        let up =
            find_or_make(w.root.as_fd(), Path::new("../x"), PathKind::File, LinkPolicy::Beneath);
        assert_eq!(up.map(drop), Err(Errno::INVAL));
        assert!(!w.dir.path().join("outside/new").exists());
    }

    #[test]
    fn a_sub_path_through_a_link_that_stays_inside_works() {
        let w = world();
        symlink("etc", w.dir.path().join("root/link")).unwrap();
        let path = Path::new("link/new");
        find_or_make(w.root.as_fd(), path, PathKind::Directory, LinkPolicy::Beneath).unwrap();
        assert!(w.dir.path().join("root/etc/new").is_dir());
    }

    #[test]
    fn magic_links_are_never_followed() {
        let root: OwnedFd = fs::File::open("/").unwrap().into();
        for links in [LinkPolicy::InRoot, LinkPolicy::Beneath, LinkPolicy::Refused] {
            let found = find(root.as_fd(), Path::new("/proc/self/fd/0"), links);
            assert_eq!(found.map(drop), Err(Errno::LOOP), "{links:?}");
        }
    }
}
