//! Version 1: a tree per controller (or set of controllers).
//!
//! A process joins through the `tasks` file: through `cgroup.procs` the kernel waits for a grace
//! period, ten milliseconds a time.

use std::path::{Path, PathBuf};

use rekindle_shim::protocol::{CgroupPlan, CgroupView, MemoryFiles};

use super::leftovers::ControllerFiles;
use super::{CgroupError, ExistingCgroup, changed, make, read, read_number, subfolders, write};
use crate::spec::{LimitChange, MemoryState, Resources};

/// Microseconds over which a CPU limit holds: the kernel's default, and the kubelet's.
const CPU_PERIOD_US: u64 = 100_000;
/// The smallest quota the kernel takes.
const CPU_QUOTA_US_MIN: u64 = 1_000;

/// Memory limits from here on are none.
const MEMORY_UNLIMITED: u64 = i64::MAX as u64 / 4096 * 4096;

/// Where the controllers that are used here are mounted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CgroupTrees {
    cpu: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl CgroupTrees {
    /// Takes note of a mounted hierarchy; the first mount of a controller counts.
    pub(super) fn add(&mut self, point: &Path, options: &str) {
        for option in options.split(',') {
            let tree = match option {
                "cpu" => &mut self.cpu,
                "cpuacct" => &mut self.cpuacct,
                "memory" => &mut self.memory,
                "pids" => &mut self.pids,
                _ => continue,
            };
            tree.get_or_insert_with(|| point.to_owned());
        }
    }

    pub(super) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(super) fn with_unified(mut self, unified: Option<PathBuf>) -> Self {
        self.unified = unified;
        self
    }

    /// Where memory is accounted for.
    pub(super) fn memory(&self) -> &Path {
        self.memory.as_deref().expect("trees without a memory controller are no version 1")
    }

    /// Where CPU time is accounted for, and where it is limited.
    pub(super) fn cpu_folders(&self) -> Option<(&Path, &Path)> {
        Some((self.cpuacct.as_deref()?, self.cpu.as_deref()?))
    }

    /// Where processes are counted.
    pub(super) fn pids(&self) -> Option<&Path> {
        self.pids.as_deref()
    }

    /// Each mounted hierarchy once.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        let cpuacct = self.cpuacct.as_ref().filter(|root| self.cpu.as_ref() != Some(*root));
        [
            self.cpu.as_ref(),
            cpuacct,
            self.memory.as_ref(),
            self.pids.as_ref(),
            self.unified.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
    }
}

pub(super) fn create(
    trees: &CgroupTrees,
    path: &Path,
    earlier: ExistingCgroup,
    limits: &Resources,
) -> Result<(), CgroupError> {
    for root in trees.roots() {
        make(&root.join(path), earlier)?;
    }
    if let Some(cpu) = &trees.cpu {
        limit_cpu(&cpu.join(path), limits)?;
    }
    if let Some(memory) = &trees.memory {
        limit_memory(&memory.join(path), limits)?;
    }
    if let (Some(pids), Some(limit)) = (&trees.pids, limits.pids_limit) {
        write(&pids.join(path), "pids.max", &limit.to_string())?;
    }
    Ok(())
}

fn limit_cpu(folder: &Path, limits: &Resources) -> Result<(), CgroupError> {
    if let Some(shares) = limits.cpu_shares {
        write(folder, "cpu.shares", &shares.to_string())?;
    }
    if let Some(millis) = limits.cpu_limit_millis {
        let quota_us = quota_us(millis);
        write(folder, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
        write(folder, "cpu.cfs_quota_us", &quota_us.to_string())?;
    }
    Ok(())
}

fn quota_us(millis: u64) -> u64 {
    (millis.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_US_MIN)
}

fn limit_memory(folder: &Path, limits: &Resources) -> Result<(), CgroupError> {
    let Some(bytes) = limits.memory_limit_bytes else { return Ok(()) };
    let bytes = bytes.to_string();
    write(folder, "memory.limit_in_bytes", &bytes)?;
    // No swap beyond the limit; absent where the kernel does not account for swap.
    let _ = write(folder, "memory.memsw.limit_in_bytes", &bytes);
    Ok(())
}

/// Changes the limits of a group that stands.
pub(super) fn update(
    trees: &CgroupTrees,
    path: &Path,
    limits: &Resources,
    change: LimitChange,
) -> Result<(), CgroupError> {
    if let Some(cpu) = &trees.cpu {
        update_cpu(&cpu.join(path), limits, change)?;
    }
    if let Some(memory) = &trees.memory {
        update_memory(&memory.join(path), limits, change)?;
    }
    Ok(())
}

fn update_cpu(folder: &Path, limits: &Resources, change: LimitChange) -> Result<(), CgroupError> {
    const SHARES: &str = "cpu.shares";
    const QUOTA: &str = "cpu.cfs_quota_us";
    if let Some(Some(shares)) =
        changed(Some(read_number(folder, SHARES)?), limits.cpu_shares, change)
    {
        write(folder, SHARES, &shares.to_string())?;
    }
    let current = read(folder, QUOTA)?.parse().ok(); // -1 is none
    let Some(new) = changed(current, limits.cpu_limit_millis.map(quota_us), change) else {
        return Ok(());
    };
    match new {
        Some(quota_us) => {
            free_ended(folder)?;
            write(folder, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            write(folder, QUOTA, &quota_us.to_string())
        }
        None => write(folder, QUOTA, "-1"),
    }
}

/// The kernel lets no group have a smaller quota than one inside of it, ended containers included.
fn free_ended(folder: &Path) -> Result<(), CgroupError> {
    for child in subfolders(folder) {
        let child = folder.join(child);
        if read(&child, "tasks")?.is_empty() {
            write(&child, "cpu.cfs_quota_us", "-1")?;
        }
    }
    Ok(())
}

fn update_memory(
    folder: &Path,
    limits: &Resources,
    change: LimitChange,
) -> Result<(), CgroupError> {
    let current = memory_limit(folder)?;
    let Some(new) = changed(current, limits.memory_limit_bytes, change) else { return Ok(()) };
    let text = new.map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string());
    let is_lowered = new.is_some_and(|new| current.is_none_or(|current| new < current));
    // The limit with swap may never be below the one without; absent where the kernel does not
    // account for swap.
    let with_swap = || drop(write(folder, "memory.memsw.limit_in_bytes", &text));
    if is_lowered {
        write(folder, "memory.limit_in_bytes", &text)?;
        with_swap();
        Ok(())
    } else {
        with_swap();
        write(folder, "memory.limit_in_bytes", &text)
    }
}

/// Without a limit the kernel shows the most that it can count, in whole pages.
fn memory_limit(folder: &Path) -> Result<Option<u64>, CgroupError> {
    let bytes = read_number(folder, "memory.limit_in_bytes")?;
    Ok(Some(bytes).filter(|bytes| *bytes < MEMORY_UNLIMITED))
}

/// What is written to `force_empty` does not count.
pub(super) const LEFTOVERS: ControllerFiles =
    ControllerFiles { usage: "memory.usage_in_bytes", forget: "memory.force_empty" };

pub(super) fn memory(trees: &CgroupTrees, path: &Path) -> Result<MemoryState, CgroupError> {
    let Some(memory) = &trees.memory else { return Ok(MemoryState::default()) };
    let folder = memory.join(path);
    Ok(MemoryState {
        limit_bytes: memory_limit(&folder)?,
        usage_bytes: read_number(&folder, "memory.usage_in_bytes")?,
    })
}

/// The `tasks` files of a group in these trees, each once: controllers may share a tree.
fn tasks(trees: [&Option<PathBuf>; 2], path: &Path) -> Vec<String> {
    let roots: std::collections::BTreeSet<&PathBuf> = trees.into_iter().flatten().collect();
    roots.into_iter().map(|root| root.join(path).join("tasks").display().to_string()).collect()
}

pub(super) fn plan(trees: &CgroupTrees, path: &Path) -> CgroupPlan {
    let text = |path: PathBuf| path.display().to_string();
    CgroupPlan {
        unified: trees.unified.as_ref().map(|root| text(root.join(path))),
        v1_tasks: tasks([&trees.memory, &trees.pids], path),
        v1_cpu_tasks: tasks([&trees.cpu, &trees.cpuacct], path),
        memory: trees.memory.as_ref().map(|root| {
            let folder = root.join(path);
            MemoryFiles {
                oom_counter: text(folder.join("memory.oom_control")),
                limit: text(folder.join("memory.limit_in_bytes")),
                peak: text(folder.join("memory.max_usage_in_bytes")),
            }
        }),
        view: CgroupView::Hidden,
    }
}
