//! Freezing and thawing the cgroups of pods, and what they count. Version 2 only: what is frozen
//! there can still be killed, so that a sandbox ends in it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rekindle_cri_restart::is_pod_cgroup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;

/// Of cgroup version 2, as statfs(2) tells it.
const CGROUP2_MAGIC: u64 = 0x6367_7270;
/// Where version 2 is, on a machine that has version 1 beside it.
const UNIFIED: &str = "unified";
/// Marks a cgroup that an agent has frozen, from before it is until after it is thawed. A kernel
/// has such attributes since 5.7 (cgroup_xattr in kernel/cgroup/cgroup.c).
const MARK: &str = "user.rekindle.frozen";
/// Folders above the cgroups of pods: `kubepods.slice/kubepods-burstable.slice`, and some more for
/// a root of the kubelet's own.
const DEPTH_MAX: usize = 6;
/// How long the kernel may take to freeze a pod: a process in a system call may hold it up.
const FREEZE_WITHIN: Duration = Duration::from_secs(5);

/// The cgroups of a node.
#[derive(Clone, Debug)]
pub struct PodCgroups {
    root: PathBuf,
}

impl PodCgroups {
    /// Those below the folder in which cgroups are mounted.
    ///
    /// # Errors
    /// Version 2 is not mounted there.
    pub fn new(mounted: &Path) -> io::Result<Self> {
        let unified = mounted.join(UNIFIED);
        let is_version_2 = |path: &&Path| {
            let found = rustix::fs::statfs(*path);
            found.is_ok_and(|found| u64::try_from(found.f_type) == Ok(CGROUP2_MAGIC))
        };
        match [mounted, &unified].into_iter().find(is_version_2) {
            Some(root) => Ok(Self { root: root.to_owned() }),
            None => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("no cgroups of version 2 are mounted at {}", mounted.display()),
            )),
        }
    }

    /// Whether a cgroup is there, with processes in it.
    pub(crate) fn is_populated(&self, cgroup: &str) -> bool {
        let events = self.open(cgroup).and_then(|folder| read(&folder, "cgroup.events"));
        events.is_ok_and(|events| value_of(&events, "populated") == Some(1))
    }

    /// How often the kernel has ended a process in it for lack of memory; none where memory is not
    /// counted by version 2.
    pub(crate) fn oom_kills(&self, cgroup: &str) -> Option<i64> {
        let events = self.open(cgroup).and_then(|folder| read(&folder, "memory.events")).ok()?;
        value_of(&events, "oom_kill")
    }

    /// Freezes a cgroup, and waits until all in it is. It is marked first: without a mark no agent
    /// would find it again if its request is deleted.
    pub(crate) fn freeze(&self, cgroup: &str) -> io::Result<()> {
        let folder = self.open(cgroup)?;
        let readable = readable(&folder)?;
        rustix::fs::fsetxattr(&readable, MARK, b"1", XattrFlags::empty())?;
        write(&folder, "1")?;
        let mut events = open_file(&folder, "cgroup.events", OFlags::RDONLY)?;
        let due = Instant::now() + FREEZE_WITHIN;
        while !is_frozen(&mut events)? {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("not all processes of {cgroup} were frozen within {FREEZE_WITHIN:?}"),
                ));
            }
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            // the file has news when it is read again (cgroups(7))
            match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether a cgroup and all in it is frozen.
    pub(crate) fn is_frozen(&self, cgroup: &str) -> io::Result<bool> {
        is_frozen(&mut open_file(&self.open(cgroup)?, "cgroup.events", OFlags::RDONLY)?)
    }

    /// The cgroups of pods that an agent had frozen, and nothing says that it thawed them.
    pub(crate) fn marked(&self) -> io::Result<Vec<String>> {
        let mut marked = Vec::new();
        let mut folders = vec![(String::new(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for path in self.folders_in(&folder)? {
                if !is_pod_cgroup(&path) {
                    if depth < DEPTH_MAX {
                        folders.push((format!("{path}/"), depth + 1));
                    }
                } else if self.is_marked(&path)? {
                    marked.push(path);
                }
            }
        }
        Ok(marked)
    }

    /// The cgroups in a cgroup, which ends with a slash; none when it is gone since. No link is
    /// followed.
    fn folders_in(&self, cgroup: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.root.join(cgroup)) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if is_gone(&error) => break,
                Err(error) => return Err(error),
            };
            if let (Some(name), true) = (entry.file_name().to_str(), is_folder(&entry)) {
                folders.push(format!("{cgroup}{name}"));
            }
        }
        Ok(folders)
    }

    fn is_marked(&self, cgroup: &str) -> io::Result<bool> {
        let found = self.open(cgroup).and_then(|folder| readable(&folder));
        match found.and_then(|folder| Ok(rustix::fs::fgetxattr(&folder, MARK, &mut [0; 8])?)) {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            // no mark, or a kernel without marks, where no agent freezes a pod
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
                Some(_) | None => Err(error),
            },
        }
    }

    /// Lets a cgroup go on; one that is gone needs nothing.
    pub(crate) fn thaw(&self, cgroup: &str) -> io::Result<()> {
        let thawed = self.open(cgroup).and_then(|folder| {
            write(&folder, "0")?;
            match rustix::fs::fremovexattr(readable(&folder)?, MARK) {
                Ok(()) | Err(Errno::NODATA) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        match thawed {
            Err(error) if is_gone(&error) => Ok(()),
            answer => answer,
        }
    }

    fn open(&self, cgroup: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, flags, Mode::empty())?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let path = cgroup.trim_start_matches('/');
        Ok(rustix::fs::openat2(&root, path, flags, Mode::empty(), beneath)?)
    }
}

/// A cgroup that is removed while it is open has no such device.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::NODEV)
}

fn is_folder(entry: &std::fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// The folder itself, as attributes need it.
fn readable(folder: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?)
}

fn open_file(folder: &OwnedFd, name: &str, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

fn read(folder: &OwnedFd, name: &str) -> io::Result<String> {
    io::read_to_string(open_file(folder, name, OFlags::RDONLY)?)
}

fn write(folder: &OwnedFd, state: &str) -> io::Result<()> {
    open_file(folder, "cgroup.freeze", OFlags::WRONLY)?.write_all(state.as_bytes())
}

fn is_frozen(events: &mut File) -> io::Result<bool> {
    let mut text = String::new();
    io::Seek::rewind(events)?;
    events.read_to_string(&mut text)?;
    Ok(value_of(&text, "frozen") == Some(1))
}

/// The value of a key in a flat keyed file.
fn value_of(text: &str, key: &str) -> Option<i64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == key)?.1.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests {
    use super::*;

    /// A folder with the files of a cgroup.
    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, PodCgroups) {
        let dir = tempfile::tempdir().unwrap();
        let pod = dir.path().join("kubepods/podu1");
        std::fs::create_dir_all(&pod).unwrap();
        for (name, text) in files {
            std::fs::write(pod.join(name), text).unwrap();
        }
        let cgroups = PodCgroups { root: dir.path().to_owned() };
        (dir, cgroups)
    }

    #[test]
    fn a_cgroup_says_what_it_has_counted_and_one_that_is_gone_nothing() {
        let (_dir, cgroups) = fake(&[
            ("cgroup.events", "populated 1\nfrozen 0\n"),
            ("memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ]);
        assert!(cgroups.is_populated("kubepods/podu1"));
        assert_eq!(cgroups.oom_kills("kubepods/podu1"), Some(2));
        assert!(!cgroups.is_frozen("kubepods/podu1").unwrap());
        assert!(!cgroups.is_populated("kubepods/podu2"));
        assert_eq!(cgroups.oom_kills("kubepods/podu2"), None);
        cgroups.thaw("kubepods/podu2").unwrap();
        assert!(cgroups.freeze("kubepods/podu2").is_err());
    }

    #[test]
    fn no_path_leads_out_of_the_root() {
        let (dir, cgroups) = fake(&[("cgroup.freeze", "0"), ("cgroup.events", "frozen 1\n")]);
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("cgroup.freeze"), "0").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("kubepods/podlink")).unwrap();
        let up = format!("../{}", outside.path().file_name().unwrap().to_str().unwrap());
        for path in ["kubepods/podlink", &up] {
            assert!(cgroups.freeze(path).is_err(), "{path}");
            assert_eq!(std::fs::read_to_string(outside.path().join("cgroup.freeze")).unwrap(), "0");
        }
        cgroups.freeze("kubepods/podu1").unwrap();
        let own = dir.path().join("kubepods/podu1/cgroup.freeze");
        assert_eq!(std::fs::read_to_string(own).unwrap(), "1");
    }

    #[test]
    fn what_is_frozen_is_found_again_until_it_is_thawed() {
        let (dir, cgroups) = fake(&[("cgroup.freeze", "0"), ("cgroup.events", "frozen 1\n")]);
        std::fs::create_dir_all(dir.path().join("system.slice/app.service")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("kubepods"), dir.path().join("link")).unwrap();
        assert_eq!(cgroups.marked().unwrap(), [""; 0]);
        cgroups.freeze("kubepods/podu1").unwrap();
        assert_eq!(cgroups.marked().unwrap(), ["kubepods/podu1"]);
        assert_eq!(cgroups.folders_in("kubepods/podgone/").unwrap(), [""; 0]);
        assert!(!cgroups.is_marked("kubepods/podgone").unwrap());
        cgroups.thaw("kubepods/podu1").unwrap();
        assert_eq!(cgroups.marked().unwrap(), [""; 0]);
        cgroups.thaw("kubepods/podu1").unwrap();
    }

    #[test]
    fn a_folder_without_cgroups_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = PodCgroups::new(dir.path()).unwrap_err();
        assert!(error.to_string().contains("no cgroups of version 2"), "{error}");
    }
}
