//! What a cgroup uses, by the kernel's own accounts, in both versions.
//!
//! | figure | version 1 | version 2 |
//! |---|---|---|
//! | CPU | `cpuacct.usage`, `cpu.stat` | `cpu.stat` |
//! | memory | `memory.usage_in_bytes`, `memory.stat` (`total_…`), `memory.oom_control` | `memory.current`, `memory.stat`, `memory.events` |
//! | processes | `pids.current`, `pids.events` | `pids.current`, `pids.events` |
//!
//! The root of version 2 has no memory files of its own; there /proc/meminfo speaks for it.

use std::fs;
use std::io;
use std::path::Path;

use rekindle_types::Tick;

use super::{CgroupError, EngineCgroups, Hierarchies, v1};
use crate::spec::SandboxKey;
use crate::usage::{CgroupUsage, CpuUsage, MemoryUsage};

impl EngineCgroups {
    /// A sandbox's; `None` when it is not there.
    pub(crate) fn sandbox_usage(
        &self,
        key: &SandboxKey,
        now: Tick,
    ) -> Result<Option<CgroupUsage>, CgroupError> {
        self.usage(&self.pod_path(key), now)
    }

    /// A container's; `None` when it is not there.
    pub(crate) fn container_usage(
        &self,
        key: &SandboxKey,
        slot: &str,
        now: Tick,
    ) -> Result<Option<CgroupUsage>, CgroupError> {
        self.usage(&self.pod_path(key).join(slot), now)
    }

    /// The whole machine's.
    pub(crate) fn machine_usage(&self, now: Tick) -> Result<CgroupUsage, CgroupError> {
        let usage = match &self.hierarchies {
            Hierarchies::V1(trees) => v1_usage(trees, Path::new(""), now),
            Hierarchies::V2(root) => v2_root_usage(root, Path::new("/proc/meminfo"), now),
        };
        usage.map_err(MissingFigure::into_error)
    }

    fn usage(&self, path: &Path, now: Tick) -> Result<Option<CgroupUsage>, CgroupError> {
        let usage = match &self.hierarchies {
            Hierarchies::V1(trees) => v1_usage(trees, path, now),
            Hierarchies::V2(root) => v2_usage(&root.join(path), now),
        };
        match usage {
            Ok(usage) => Ok(Some(usage)),
            Err(MissingFigure::Group(_)) => Ok(None),
            Err(MissingFigure::Answer(error)) => Err(error),
        }
    }
}

/// Why there is no figure.
#[derive(Debug)]
pub(super) enum MissingFigure {
    /// The group has gone.
    Group(CgroupError),
    /// It is there, and says nothing that can be read.
    Answer(CgroupError),
}

impl MissingFigure {
    fn into_error(self) -> CgroupError {
        match self {
            Self::Group(error) | Self::Answer(error) => error,
        }
    }
}

pub(super) fn v1_usage(
    trees: &v1::CgroupTrees,
    path: &Path,
    now: Tick,
) -> Result<CgroupUsage, MissingFigure> {
    let memory = trees.memory().join(path);
    let stat = StatFile::read(&memory, "memory.stat")?;
    let usage_bytes = number(&memory, "memory.usage_in_bytes")?;
    // the root of the tree has no such file on some machines
    let oom = StatFile::read_or_empty(&memory, "memory.oom_control")?;
    let cpu = match trees.cpu_folders() {
        None => None,
        Some((account, limit)) => {
            let limit = StatFile::read_or_empty(&limit.join(path), "cpu.stat")?;
            Some(CpuUsage {
                usage_ns: number(&account.join(path), "cpuacct.usage")?,
                periods: limit.get("nr_periods"),
                throttled_periods: limit.get("nr_throttled"),
                throttled_ns: limit.get("throttled_time"),
            })
        }
    };
    let (pids, forks_refused) = match trees.pids() {
        None => (None, 0),
        Some(root) => {
            let folder = root.join(path);
            (number_if_there(&folder, "pids.current")?, forks_refused(&folder)?)
        }
    };
    Ok(CgroupUsage {
        taken_at: now,
        cpu,
        memory: MemoryUsage {
            usage_bytes,
            working_set_bytes: usage_bytes.saturating_sub(stat.get("total_inactive_file")),
            rss_bytes: stat.get("total_rss"),
            page_faults: stat.get("total_pgfault"),
            major_page_faults: stat.get("total_pgmajfault"),
            oom_kills: oom.get("oom_kill"),
        },
        pids,
        forks_refused,
    })
}

pub(super) fn v2_usage(folder: &Path, now: Tick) -> Result<CgroupUsage, MissingFigure> {
    let stat = StatFile::read(folder, "memory.stat")?;
    let usage_bytes = number(folder, "memory.current")?;
    let events = StatFile::read_or_empty(folder, "memory.events")?;
    Ok(CgroupUsage {
        taken_at: now,
        cpu: cpu_of_v2(folder)?,
        memory: memory_of_v2(&stat, usage_bytes, events.get("oom_kill")),
        pids: number_if_there(folder, "pids.current")?,
        forks_refused: forks_refused(folder)?,
    })
}

/// The root group of version 2: as the kubelet's container library, with used = total − free.
pub(super) fn v2_root_usage(
    root: &Path,
    meminfo: &Path,
    now: Tick,
) -> Result<CgroupUsage, MissingFigure> {
    let stat = StatFile::read(root, "memory.stat")?;
    let text = read(meminfo)?;
    let bytes = |name: &str| kilobytes(&text, name).saturating_mul(1024);
    let usage_bytes = bytes("MemTotal").saturating_sub(bytes("MemFree"));
    Ok(CgroupUsage {
        taken_at: now,
        cpu: cpu_of_v2(root)?,
        memory: memory_of_v2(&stat, usage_bytes, 0),
        pids: None,
        forks_refused: 0,
    })
}

fn forks_refused(folder: &Path) -> Result<u64, MissingFigure> {
    Ok(StatFile::read_or_empty(folder, "pids.events")?.get("max"))
}

fn cpu_of_v2(folder: &Path) -> Result<Option<CpuUsage>, MissingFigure> {
    let stat = StatFile::read_or_empty(folder, "cpu.stat")?;
    Ok(stat.find("usage_usec").map(|usage_us| CpuUsage {
        usage_ns: usage_us.saturating_mul(1000),
        periods: stat.get("nr_periods"),
        throttled_periods: stat.get("nr_throttled"),
        throttled_ns: stat.get("throttled_usec").saturating_mul(1000),
    }))
}

fn memory_of_v2(stat: &StatFile, usage_bytes: u64, oom_kills: u64) -> MemoryUsage {
    MemoryUsage {
        usage_bytes,
        working_set_bytes: usage_bytes.saturating_sub(stat.get("inactive_file")),
        rss_bytes: stat.get("anon"),
        page_faults: stat.get("pgfault"),
        major_page_faults: stat.get("pgmajfault"),
        oom_kills,
    }
}

/// A file of lines `name number`.
struct StatFile(String);

impl StatFile {
    fn read(folder: &Path, file: &str) -> Result<Self, MissingFigure> {
        read(&folder.join(file)).map(Self)
    }

    /// The same where a kernel may lack the file.
    fn read_or_empty(folder: &Path, file: &str) -> Result<Self, MissingFigure> {
        match Self::read(folder, file) {
            Err(MissingFigure::Group(_)) => Ok(Self(String::new())),
            answer => answer,
        }
    }

    fn find(&self, name: &str) -> Option<u64> {
        self.0.lines().find_map(|line| {
            let (found, number) = line.split_once(' ')?;
            (found == name).then(|| number.trim().parse().ok())?
        })
    }

    /// What the kernel does not tell is 0.
    fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or(0)
    }
}

/// A figure of /proc/meminfo, whose lines are `Name:   number kB`; what is missing is 0.
fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn number(folder: &Path, file: &str) -> Result<u64, MissingFigure> {
    let path = folder.join(file);
    let text = read(&path)?;
    text.trim().parse().map_err(|_| {
        let problem = io::Error::other(format!("{:?} is not a number", text.trim()));
        MissingFigure::Answer(CgroupError::new("read", &path, problem))
    })
}

fn number_if_there(folder: &Path, file: &str) -> Result<Option<u64>, MissingFigure> {
    match number(folder, file) {
        Ok(number) => Ok(Some(number)),
        Err(MissingFigure::Group(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> Result<String, MissingFigure> {
    fs::read_to_string(path).map_err(|error| {
        let gone = error.kind() == io::ErrorKind::NotFound
            || rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::NODEV);
        let error = CgroupError::new("read", path, error);
        if gone { MissingFigure::Group(error) } else { MissingFigure::Answer(error) }
    })
}

#[cfg(test)]
mod tests;
