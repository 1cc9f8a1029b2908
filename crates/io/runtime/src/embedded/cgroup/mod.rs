//! Cgroups of pods and containers, version 1 and 2:
//! `rekindle/<engine>/pod<uid>/<sandbox attempt>/<container>-<attempt>`.
//!
//! A pod's limits are on its sandbox attempt, so that a whole-pod restart starts with fresh
//! counters.

mod leftovers;
mod oom_notices;
mod usage;
mod v1;
mod v2;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rekindle_shim::protocol::CgroupPlan;

use crate::spec::{LimitChange, MemoryState, Resources, SandboxKey};

/// What could not be done with a cgroup.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub(crate) struct CgroupError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl CgroupError {
    fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }

    /// Whether it would be gone by another try: processes that are about to end.
    pub(crate) fn is_busy(&self) -> bool {
        self.source.kind() == io::ErrorKind::ResourceBusy
    }
}

/// One engine's cgroups.
#[derive(Debug)]
pub(crate) struct EngineCgroups {
    hierarchies: Hierarchies,
    /// `rekindle/<engine>`, beneath each hierarchy's root.
    base: PathBuf,
}

/// How this machine has them.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchies {
    /// A tree for each controller, and maybe the unified one beside them, without controllers.
    V1(v1::CgroupTrees),
    /// The unified one with the controllers in it.
    V2(PathBuf),
}

impl EngineCgroups {
    /// Looks which hierarchies this machine has mounted.
    pub(crate) fn detect(engine_id: &str) -> Result<Self, CgroupError> {
        let path = Path::new("/proc/self/mountinfo");
        let mounts = fs::read_to_string(path).map_err(|e| CgroupError::new("read", path, e))?;
        let hierarchies = hierarchies(&mounts).ok_or_else(|| {
            let problem = "no cgroup hierarchy with a memory controller is mounted";
            CgroupError::new("look for cgroups in", path, io::Error::other(problem))
        })?;
        Ok(Self { hierarchies, base: Path::new("rekindle").join(engine_id) })
    }

    fn pod_path(&self, key: &SandboxKey) -> PathBuf {
        self.base.join(format!("pod{}", key.pod.uid)).join(key.attempt.to_string())
    }

    /// Every folder that this relative path has, one per hierarchy.
    fn folders(&self, path: &Path) -> Vec<PathBuf> {
        match &self.hierarchies {
            Hierarchies::V1(trees) => trees.roots().map(|root| root.join(path)).collect(),
            Hierarchies::V2(root) => vec![root.join(path)],
        }
    }

    /// Makes the sandbox's cgroup with the pod's limits.
    pub(crate) fn create_sandbox(
        &self,
        key: &SandboxKey,
        limits: &Resources,
    ) -> Result<(), CgroupError> {
        let path = self.pod_path(key);
        match &self.hierarchies {
            Hierarchies::V1(trees) => v1::create(trees, &path, ExistingCgroup::Taken, limits),
            Hierarchies::V2(root) => v2::create(root, &path, v2::CgroupPurpose::Children, limits),
        }
    }

    /// Makes a container's cgroup with its limits. One that is left from an attempt to create it is
    /// replaced, so that its counters are new.
    pub(crate) fn create_container(
        &self,
        key: &SandboxKey,
        slot: &str,
        limits: &Resources,
    ) -> Result<CgroupPlan, CgroupError> {
        let path = self.pod_path(key).join(slot);
        match &self.hierarchies {
            Hierarchies::V1(trees) => {
                v1::create(trees, &path, ExistingCgroup::Replaced, limits)?;
                Ok(v1::plan(trees, &path))
            }
            Hierarchies::V2(root) => {
                v2::create(root, &path, v2::CgroupPurpose::Processes, limits)?;
                Ok(v2::plan(root, &path))
            }
        }
    }

    /// Changes the limits of a sandbox's cgroup.
    pub(crate) fn update_sandbox(
        &self,
        key: &SandboxKey,
        limits: &Resources,
        change: LimitChange,
    ) -> Result<(), CgroupError> {
        self.update(&self.pod_path(key), v2::CgroupPurpose::Children, limits, change)
    }

    /// Changes the limits of a container's cgroup.
    pub(crate) fn update_container(
        &self,
        key: &SandboxKey,
        slot: &str,
        limits: &Resources,
    ) -> Result<(), CgroupError> {
        let path = self.pod_path(key).join(slot);
        self.update(&path, v2::CgroupPurpose::Processes, limits, LimitChange::Exact)
    }

    fn update(
        &self,
        path: &Path,
        holds: v2::CgroupPurpose,
        limits: &Resources,
        change: LimitChange,
    ) -> Result<(), CgroupError> {
        match &self.hierarchies {
            Hierarchies::V1(trees) => v1::update(trees, path, limits, change),
            Hierarchies::V2(root) => v2::update(&root.join(path), holds, limits, change),
        }
    }

    /// Memory of a sandbox as a whole.
    pub(crate) fn sandbox_memory(&self, key: &SandboxKey) -> Result<MemoryState, CgroupError> {
        self.memory(&self.pod_path(key))
    }

    /// Memory of a container.
    pub(crate) fn container_memory(
        &self,
        key: &SandboxKey,
        slot: &str,
    ) -> Result<MemoryState, CgroupError> {
        self.memory(&self.pod_path(key).join(slot))
    }

    fn memory(&self, path: &Path) -> Result<MemoryState, CgroupError> {
        match &self.hierarchies {
            Hierarchies::V1(trees) => v1::memory(trees, path),
            Hierarchies::V2(root) => v2::memory(&root.join(path)),
        }
    }

    /// Has the kernel forget what little the cgroup of an ended container holds.
    pub(crate) fn forget_container(&self, key: &SandboxKey, slot: &str) {
        self.forget(&self.pod_path(key).join(slot));
    }

    /// The same for an ended sandbox and all that was in it.
    pub(crate) fn forget_sandbox(&self, key: &SandboxKey) {
        self.forget(&self.pod_path(key));
    }

    fn forget(&self, path: &Path) {
        match &self.hierarchies {
            Hierarchies::V1(trees) => leftovers::forget(&trees.memory().join(path), &v1::LEFTOVERS),
            Hierarchies::V2(root) => leftovers::forget(&root.join(path), &v2::LEFTOVERS),
        }
    }

    /// Takes a container's cgroup away.
    pub(crate) fn remove_container(&self, key: &SandboxKey, slot: &str) -> Result<(), CgroupError> {
        self.remove(&self.pod_path(key).join(slot))
    }

    /// Kills every process in a sandbox's cgroups.
    pub(crate) fn kill_sandbox(&self, key: &SandboxKey) -> Result<(), CgroupError> {
        self.kill(&self.pod_path(key))
    }

    /// Takes a sandbox's cgroups away, and the pod's when that was the last.
    pub(crate) fn remove_sandbox(&self, key: &SandboxKey) -> Result<(), CgroupError> {
        let path = self.pod_path(key);
        self.remove(&path)?;
        for folder in path.parent().map(|pod| self.folders(pod)).unwrap_or_default() {
            match fs::remove_dir(&folder) {
                Ok(()) => {}
                // Another attempt of the pod stands.
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {}
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(CgroupError::new("remove cgroup", &folder, e)),
            }
        }
        Ok(())
    }

    /// Sandboxes' cgroups of this engine that stand but are not among `known`: leftovers of a life
    /// before.
    pub(crate) fn strays(&self, known: &[SandboxKey]) -> Vec<StrayCgroup> {
        let known: Vec<PathBuf> = known.iter().map(|key| self.pod_path(key)).collect();
        let mut strays = Vec::new();
        for base in self.folders(&self.base) {
            for pod in subfolders(&base) {
                for sandbox in subfolders(&base.join(&pod)) {
                    let path = self.base.join(&pod).join(&sandbox);
                    if !known.contains(&path)
                        && !strays.iter().any(|s: &StrayCgroup| s.path == path)
                    {
                        strays.push(StrayCgroup { path });
                    }
                }
            }
        }
        strays
    }

    /// Kills what is in a stray. Its processes end by themselves; then [`Self::remove_stray`]
    /// works.
    pub(crate) fn kill_stray(&self, stray: &StrayCgroup) -> Result<(), CgroupError> {
        self.kill(&stray.path)
    }

    /// Takes a stray away.
    pub(crate) fn remove_stray(&self, stray: &StrayCgroup) -> Result<(), CgroupError> {
        self.remove(&stray.path)?;
        for folder in stray.path.parent().map(|pod| self.folders(pod)).unwrap_or_default() {
            // The pod's folder stays while another sandbox is in it.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Takes this engine's own folders away; those that still hold a sandbox stay. The folder that
    /// all engines share stays, too: another one may be making its own in it just now.
    pub(crate) fn remove_engine(&self) -> Result<(), CgroupError> {
        for folder in self.folders(&self.base) {
            match fs::remove_dir(&folder) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {}
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(CgroupError::new("remove cgroup", &folder, e)),
            }
        }
        Ok(())
    }

    fn kill(&self, path: &Path) -> Result<(), CgroupError> {
        for folder in self.folders(path) {
            kill_tree(&folder)?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), CgroupError> {
        self.folders(path).iter().try_for_each(|folder| remove_tree(folder))
    }
}

/// A cgroup that nobody knows any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StrayCgroup {
    path: PathBuf,
}

/// Kills a tree of cgroups: with `cgroup.kill` where the kernel has it, else process by process
/// until none is left that was there before.
fn kill_tree(folder: &Path) -> Result<(), CgroupError> {
    match fs::write(folder.join("cgroup.kill"), "1") {
        Ok(()) => return Ok(()),
        Err(e) if !folder.exists() => {
            drop(e);
            return Ok(());
        }
        Err(_) => {} // version 1, or Linux before 5.14
    }
    for child in subfolders(folder) {
        kill_tree(&folder.join(child))?;
    }
    let file = folder.join("cgroup.procs");
    let pids = match fs::read_to_string(&file) {
        Ok(pids) => pids,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(CgroupError::new("read", &file, e)),
    };
    for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
        let Some(pid) = rustix::process::Pid::from_raw(pid) else { continue };
        match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => return Err(CgroupError::new("kill the processes of", folder, e.into())),
        }
    }
    Ok(())
}

/// Removes the folders of a tree, leaves first; the files in them are the kernel's.
fn remove_tree(folder: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(folder) {
        Ok(()) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {} // folders in it, or processes
    }
    for child in subfolders(folder) {
        remove_tree(&folder.join(child))?;
    }
    match fs::remove_dir(folder) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(CgroupError::new("remove cgroup", folder, e)),
    }
}

/// Names of the folders in a folder; none when it is not there.
fn subfolders(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn write(folder: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = folder.join(file);
    fs::write(&path, value).map_err(|e| CgroupError::new("write", &path, e))
}

fn read(folder: &Path, file: &str) -> Result<String, CgroupError> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|e| CgroupError::new("read", &path, e))?;
    Ok(text.trim().to_owned())
}

fn read_number(folder: &Path, file: &str) -> Result<u64, CgroupError> {
    let text = read(folder, file)?;
    text.parse().map_err(|_| {
        let problem = io::Error::other(format!("{text:?} is not a number"));
        CgroupError::new("read", &folder.join(file), problem)
    })
}

/// A limit: `None` is none.
type Limit = Option<u64>;

/// What a limit that is `current` becomes; `None` when nothing is to be written.
fn changed(current: Limit, new: Limit, change: LimitChange) -> Option<Limit> {
    let is_raised = match (current, new) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(current), Some(new)) => new > current,
    };
    match change {
        LimitChange::Exact => (current != new).then_some(new),
        LimitChange::RaiseOnly => is_raised.then_some(new),
    }
}

/// What becomes of a group that stands already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExistingCgroup {
    /// It is taken as it is.
    Taken,
    /// It is made anew, so that its counters are new.
    Replaced,
}

/// Makes a folder and those before it. That it is new is the usual case, so nobody looks for an
/// earlier one before.
fn make(folder: &Path, earlier: ExistingCgroup) -> Result<(), CgroupError> {
    let made = match (fs::create_dir(folder), earlier) {
        (Err(e), ExistingCgroup::Replaced) if e.kind() == io::ErrorKind::AlreadyExists => {
            remove_tree(folder)?;
            fs::create_dir(folder)
        }
        (Ok(()), _) => Ok(()),
        (Err(_), ExistingCgroup::Taken | ExistingCgroup::Replaced) => fs::create_dir_all(folder),
    };
    made.map_err(|e| CgroupError::new("make cgroup", folder, e))
}

/// Reads mountinfo(5): field 5 is the mount point; behind ` - ` come the file system and its
/// options.
fn hierarchies(mountinfo: &str) -> Option<Hierarchies> {
    let mut trees = v1::CgroupTrees::default();
    let mut unified = None;
    for line in mountinfo.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (mount.split(' ').nth(4), file_system.split(' ').next())
        else {
            continue;
        };
        let options = file_system.rsplit(' ').next().unwrap_or_default();
        match kind {
            "cgroup2" if unified.is_none() => unified = Some(PathBuf::from(point)),
            "cgroup" => trees.add(Path::new(point), options),
            _ => {}
        }
    }
    match (trees.has_memory(), unified) {
        (true, unified) => Some(Hierarchies::V1(trees.with_unified(unified))),
        (false, Some(root)) => Some(Hierarchies::V2(root)),
        (false, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
33 32 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
34 33 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
35 33 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
36 33 0:31 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
37 33 0:32 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
38 33 0:33 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn hybrid_machines_are_version_1_with_the_unified_tree_beside() {
        let Some(Hierarchies::V1(trees)) = hierarchies(HYBRID) else { panic!("not version 1") };
        let roots: Vec<_> = trees.roots().map(|root| root.display().to_string()).collect();
        assert_eq!(
            roots,
            [
                "/sys/fs/cgroup/cpu,cpuacct",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/pids",
                "/sys/fs/cgroup/unified"
            ]
        );
    }

    #[test]
    fn limits_are_raised_before_what_is_inside_and_lowered_after() {
        use LimitChange::{Exact, RaiseOnly};
        for (current, new, change, written) in [
            (Some(1), Some(2), RaiseOnly, Some(Some(2))),
            (Some(2), Some(1), RaiseOnly, None),
            (Some(1), None, RaiseOnly, Some(None)),
            (None, Some(1), RaiseOnly, None),
            (Some(2), Some(1), Exact, Some(Some(1))),
            (None, Some(1), Exact, Some(Some(1))),
            (Some(1), None, Exact, Some(None)),
            (Some(1), Some(1), Exact, None),
            (None, None, RaiseOnly, None),
        ] {
            assert_eq!(changed(current, new, change), written, "{current:?} {new:?} {change:?}");
        }
    }

    #[test]
    fn a_unified_tree_alone_is_version_2() {
        let line = "30 29 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(hierarchies(line), Some(Hierarchies::V2(PathBuf::from("/sys/fs/cgroup"))));
        assert_eq!(hierarchies(""), None);
    }
}
