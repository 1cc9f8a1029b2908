//! Version 1: a tree per controller (or set of controllers).
//!
//! A process joins through the `tasks` file: through `cgroup.procs` the kernel waits for a grace period, ten milliseconds
//! a time.

use std::path::{Path, PathBuf};

use rekindle_shim::protocol::{CgroupPlan, CgroupView};

use super::{CgroupError, Earlier, make, write};
use crate::spec::Resources;

/// Microseconds over which a CPU limit holds: the kernel's default, and the kubelet's.
const CPU_PERIOD_US: u64 = 100_000;
/// The smallest quota the kernel takes.
const CPU_QUOTA_US_MIN: u64 = 1_000;

/// Where the controllers that are used here are mounted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Trees {
    cpu: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl Trees {
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
    trees: &Trees,
    path: &Path,
    earlier: Earlier,
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
        let quota_us = (millis.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_US_MIN);
        write(folder, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
        write(folder, "cpu.cfs_quota_us", &quota_us.to_string())?;
    }
    Ok(())
}

fn limit_memory(folder: &Path, limits: &Resources) -> Result<(), CgroupError> {
    let Some(bytes) = limits.memory_limit_bytes else { return Ok(()) };
    let bytes = bytes.to_string();
    write(folder, "memory.limit_in_bytes", &bytes)?;
    // No swap beyond the limit; absent where the kernel does not account for swap.
    let _ = write(folder, "memory.memsw.limit_in_bytes", &bytes);
    Ok(())
}

/// The `tasks` files of a group in these trees, each once: controllers may share a tree.
fn tasks(trees: [&Option<PathBuf>; 2], path: &Path) -> Vec<String> {
    let roots: std::collections::BTreeSet<&PathBuf> = trees.into_iter().flatten().collect();
    roots.into_iter().map(|root| root.join(path).join("tasks").display().to_string()).collect()
}

pub(super) fn plan(trees: &Trees, path: &Path) -> CgroupPlan {
    let text = |path: PathBuf| path.display().to_string();
    CgroupPlan {
        unified: trees.unified.as_ref().map(|root| text(root.join(path))),
        v1_tasks: tasks([&trees.memory, &trees.pids], path),
        v1_cpu_tasks: tasks([&trees.cpu, &trees.cpuacct], path),
        oom_counter: trees
            .memory
            .as_ref()
            .map(|root| text(root.join(path).join("memory.oom_control"))),
        view: CgroupView::Hidden,
    }
}
