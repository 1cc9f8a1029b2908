//! Version 2: one tree, in which a group either holds processes or hands its controllers on to
//! children.

use std::path::{Path, PathBuf};

use rekindle_shim::protocol::{CgroupPlan, CgroupView, MemoryFiles};

use super::leftovers::ControllerFiles;
use super::{CgroupError, ExistingCgroup, changed, make, read, read_number, write};
use crate::spec::{LimitChange, MemoryState, Resources};

const CPU_PERIOD_US: u64 = 100_000;
const CPU_QUOTA_US_MIN: u64 = 1_000;
const CONTROLLERS: &str = "+cpu +memory +pids";

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupPurpose {
    /// Groups of containers.
    Children,
    /// A container.
    Processes,
}

pub(super) fn create(
    root: &Path,
    path: &Path,
    holds: CgroupPurpose,
    limits: &Resources,
) -> Result<(), CgroupError> {
    let folder = root.join(path);
    if holds == CgroupPurpose::Children {
        hand_controllers_down(root, path)?;
    }
    let earlier = match holds {
        CgroupPurpose::Children => ExistingCgroup::Taken,
        CgroupPurpose::Processes => ExistingCgroup::Replaced,
    };
    make(&folder, earlier)?;
    if holds == CgroupPurpose::Children {
        write(&folder, "cgroup.subtree_control", CONTROLLERS)?;
    }
    limit(&folder, holds, limits)
}

/// Every group from the root down to the new one's parent must hand its controllers on.
fn hand_controllers_down(root: &Path, path: &Path) -> Result<(), CgroupError> {
    let mut folder = root.to_owned();
    write(&folder, "cgroup.subtree_control", CONTROLLERS)?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        make(&folder, ExistingCgroup::Taken)?;
        write(&folder, "cgroup.subtree_control", CONTROLLERS)?;
    }
    Ok(())
}

fn limit(folder: &Path, holds: CgroupPurpose, limits: &Resources) -> Result<(), CgroupError> {
    if let Some(shares) = limits.cpu_shares {
        write(folder, "cpu.weight", &holds.weight(shares).to_string())?;
    }
    if let Some(millis) = limits.cpu_limit_millis {
        let quota_us = quota_us(millis);
        write(folder, "cpu.max", &format!("{quota_us} {CPU_PERIOD_US}"))?;
    }
    if let Some(bytes) = limits.memory_limit_bytes {
        write(folder, "memory.max", &bytes.to_string())?;
        // Absent where the kernel does not account for swap.
        let _ = write(folder, "memory.swap.max", "0");
    }
    if let Some(pids) = limits.pids_limit {
        write(folder, "pids.max", &pids.to_string())?;
    }
    // As the kubelet has it: an OOM kill takes the whole container, not one worker of it.
    match holds {
        CgroupPurpose::Processes => write(folder, "memory.oom.group", "1"),
        CgroupPurpose::Children => Ok(()),
    }
}

/// Changes the limits of a group that stands.
pub(super) fn update(
    folder: &Path,
    holds: CgroupPurpose,
    limits: &Resources,
    change: LimitChange,
) -> Result<(), CgroupError> {
    let current = Some(read_number(folder, "cpu.weight")?);
    let wanted = limits.cpu_shares.map(|shares| holds.weight(shares));
    if let Some(Some(weight)) = changed(current, wanted, change) {
        write(folder, "cpu.weight", &weight.to_string())?;
    }
    let cpu_max = read(folder, "cpu.max")?;
    let current = cpu_max.split(' ').next().and_then(|quota| quota.parse().ok()); // max is none
    if let Some(new) = changed(current, limits.cpu_limit_millis.map(quota_us), change) {
        let quota = new.map_or_else(|| "max".to_owned(), |quota_us| quota_us.to_string());
        write(folder, "cpu.max", &format!("{quota} {CPU_PERIOD_US}"))?;
    }
    let current = memory_limit(folder)?;
    if let Some(new) = changed(current, limits.memory_limit_bytes, change) {
        let bytes = new.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        write(folder, "memory.max", &bytes)?;
        // Absent where the kernel does not account for swap.
        let _ = write(folder, "memory.swap.max", if new.is_some() { "0" } else { "max" });
    }
    Ok(())
}

fn quota_us(millis: u64) -> u64 {
    (millis.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_US_MIN)
}

fn memory_limit(folder: &Path) -> Result<Option<u64>, CgroupError> {
    Ok(read(folder, "memory.max")?.parse().ok()) // max is none
}

/// `reclaim` is there since Linux 5.19.
pub(super) const LEFTOVERS: ControllerFiles =
    ControllerFiles { usage: "memory.current", forget: "memory.reclaim" };

pub(super) fn memory(folder: &Path) -> Result<MemoryState, CgroupError> {
    Ok(MemoryState {
        limit_bytes: memory_limit(folder)?,
        usage_bytes: read_number(folder, "memory.current")?,
    })
}

impl CgroupPurpose {
    /// Shares (2..=262144, 1024 is usual) as a weight (1..=10000, 100 is usual). Upstream has two
    /// formulas: the kubelet, which makes the pods' groups, that of KEP-2254; runc (1.3.2) and crun
    /// (1.23), which make the containers', one in which the usual is the usual.
    fn weight(self, shares: u64) -> u64 {
        let shares = shares.clamp(2, 262_144);
        match self {
            CgroupPurpose::Children => 1 + (shares - 2) * 9999 / 262_142,
            CgroupPurpose::Processes => {
                let doublings = (shares as f64).log2();
                let exponent = (doublings * doublings + 125.0 * doublings) / 612.0 - 7.0 / 34.0;
                (10_f64.powf(exponent).ceil() as u64).clamp(1, 10_000)
            }
        }
    }
}

pub(super) fn plan(root: &Path, path: &Path) -> CgroupPlan {
    let folder = root.join(path);
    let text = |path: PathBuf| path.display().to_string();
    CgroupPlan {
        memory: Some(MemoryFiles {
            oom_counter: text(folder.join("memory.events")),
            limit: text(folder.join("memory.max")),
            peak: text(folder.join("memory.peak")),
        }),
        unified: Some(text(folder)),
        v1_tasks: Vec::new(),
        v1_cpu_tasks: Vec::new(),
        view: CgroupView::Unified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the files of a group, as the kernel shows them.
    fn group(cpu_max: &str, memory_max: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("cpu.weight", "100"),
            ("cpu.max", cpu_max),
            ("memory.max", memory_max),
            ("memory.swap.max", "max"),
            ("memory.current", "4096"),
        ] {
            std::fs::write(folder.path().join(file), format!("{text}\n")).unwrap();
        }
        folder
    }

    #[test]
    fn limits_change_in_the_kernels_files() {
        let limits = |cpu, memory| Resources {
            cpu_shares: Some(1024),
            cpu_limit_millis: cpu,
            memory_limit_bytes: memory,
            pids_limit: None,
        };
        for (cpu_max, memory_max, limits, change, expected) in [
            (
                "max 100000",
                "max",
                limits(Some(500), Some(9)),
                LimitChange::Exact,
                ["50000 100000", "9"],
            ),
            (
                "max 100000",
                "max",
                limits(Some(500), Some(9)),
                LimitChange::RaiseOnly,
                ["max 100000", "max"],
            ),
            (
                "50000 100000",
                "9",
                limits(Some(700), Some(8)),
                LimitChange::RaiseOnly,
                ["70000 100000", "9"],
            ),
            (
                "50000 100000",
                "9",
                limits(Some(300), Some(8)),
                LimitChange::Exact,
                ["30000 100000", "8"],
            ),
            ("50000 100000", "9", limits(None, None), LimitChange::Exact, ["max 100000", "max"]),
        ] {
            let group = group(cpu_max, memory_max);
            update(group.path(), CgroupPurpose::Processes, &limits, change).unwrap();
            let now = ["cpu.max", "memory.max"].map(|file| read(group.path(), file).unwrap());
            assert_eq!(now, expected, "{limits:?} {change:?}");
            update(group.path(), CgroupPurpose::Processes, &limits, change).unwrap();
            let again = ["cpu.max", "memory.max"].map(|file| read(group.path(), file).unwrap());
            assert_eq!(again, expected, "once more is the same");
        }
        let state = memory(group("max 100000", "max").path()).unwrap();
        assert_eq!(state, MemoryState { limit_bytes: None, usage_bytes: 4096 });
    }

    #[test]
    fn shares_become_weights_by_the_formulas_of_kubelet_and_runc() {
        for (shares, of_pod, of_container) in [
            (0, 1, 1),
            (2, 1, 1),
            (3, 1, 2),
            (10, 1, 4),
            (102, 4, 17),
            (204, 8, 29),
            (1024, 39, 100),
            (2048, 79, 174),
            (4096, 157, 303),
            (262_144, 10_000, 10_000),
            (u64::MAX, 10_000, 10_000),
        ] {
            let weights = [CgroupPurpose::Children, CgroupPurpose::Processes]
                .map(|holds| holds.weight(shares));
            assert_eq!(weights, [of_pod, of_container], "{shares}");
        }
    }

    #[test]
    fn a_resize_writes_the_weight_that_a_creation_would() {
        let limits = Resources { cpu_shares: Some(2048), ..Resources::default() };
        for (holds, expected) in
            [(CgroupPurpose::Children, "79"), (CgroupPurpose::Processes, "174")]
        {
            let group = group("max 100000", "max");
            for change in [LimitChange::RaiseOnly, LimitChange::Exact] {
                update(group.path(), holds, &limits, change).unwrap();
            }
            assert_eq!(read(group.path(), "cpu.weight").unwrap(), expected, "{holds:?}");
        }
    }
}
