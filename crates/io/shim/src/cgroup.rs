//! Killing what a container has left behind in a PID namespace that is not its own: everything in
//! its cgroup.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::paths::{self, LinkPolicy};
use crate::protocol::CgroupPlan;
use crate::sandbox::ShimSandbox;

/// How often the processes of a group without `cgroup.kill` are looked at: each look finds those
/// forked since the one before.
const LOOKS_MAX: usize = 64;
/// Bytes of a list of processes; more of them than that takes another look.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// Kills everything in a container's cgroup. The ends are the kernel's to bring about; nobody waits
/// for them here.
pub(crate) fn kill_all(sandbox: &ShimSandbox, plan: &CgroupPlan) -> Result<(), String> {
    let folders = plan.unified.iter().map(PathBuf::from);
    let tasks =
        plan.v1_tasks.iter().filter_map(|file| Path::new(file).parent().map(Path::to_owned));
    // Each process is in all of them.
    let Some(folder) = folders.chain(tasks).next() else { return Ok(()) };
    match kill_group(sandbox, &folder) {
        Err(Errno::NOENT) => kill_each(sandbox, &folder),
        Ok(()) => Ok(()),
        Err(errno) => Err(crate::problem::errno_text(errno)),
    }
}

/// Linux 5.14, version 2.
fn kill_group(sandbox: &ShimSandbox, folder: &Path) -> Result<(), Errno> {
    let path = folder.join("cgroup.kill");
    let file = paths::open(sandbox.host_root.as_fd(), &path, OFlags::WRONLY, LinkPolicy::InRoot)?;
    rustix::io::write(&file, b"1").map(drop)
}

fn kill_each(sandbox: &ShimSandbox, folder: &Path) -> Result<(), String> {
    let path = folder.join("cgroup.procs");
    let path = path.to_str().ok_or("the cgroup's path is not UTF-8")?;
    let mut killed: BTreeSet<i32> = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let list = sandbox.read_host_file(path, LIST_BYTES_MAX)?;
        let found = list.lines().filter_map(|line| line.parse().ok());
        let new: Vec<i32> = found.filter(|pid| killed.insert(*pid)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for pid in new.into_iter().filter_map(Pid::from_raw) {
            // One that is gone already is as good.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    Err("it forks faster than it can be killed".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// A folder that looks like a group of version 1, which has no `cgroup.kill`.
    #[test]
    fn without_a_file_for_it_each_process_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        std::fs::write(folder.path().join("cgroup.procs"), format!("{}\n", sleeper.id())).unwrap();
        let tasks = folder.path().join("tasks").to_str().unwrap().to_owned();
        let plan = CgroupPlan { v1_tasks: vec![tasks], ..CgroupPlan::default() };
        kill_all(&ShimSandbox::of_no_pod(), &plan).unwrap();
        assert_eq!(sleeper.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_group_that_is_gone_is_a_problem_that_is_told_and_none_at_all_is_none() {
        let plan = CgroupPlan { unified: Some("/nowhere".to_owned()), ..CgroupPlan::default() };
        assert!(kill_all(&ShimSandbox::of_no_pod(), &plan).is_err());
        assert_eq!(kill_all(&ShimSandbox::of_no_pod(), &CgroupPlan::default()), Ok(()));
    }
}
