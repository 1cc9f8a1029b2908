//! Version 2: one tree, in which a group either holds processes or hands its controllers on to children.

use std::path::{Path, PathBuf};

use rekindle_shim::protocol::{CgroupPlan, CgroupView};

use super::{CgroupError, Earlier, make, write};
use crate::spec::Resources;

const CPU_PERIOD_US: u64 = 100_000;
const CPU_QUOTA_US_MIN: u64 = 1_000;
const CONTROLLERS: &str = "+cpu +memory +pids";

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Groups of containers.
    Children,
    /// A container.
    Processes,
}

pub(super) fn create(
    root: &Path,
    path: &Path,
    holds: Holds,
    limits: &Resources,
) -> Result<(), CgroupError> {
    let folder = root.join(path);
    if holds == Holds::Children {
        hand_controllers_down(root, path)?;
    }
    let earlier = match holds {
        Holds::Children => Earlier::Taken,
        Holds::Processes => Earlier::Replaced,
    };
    make(&folder, earlier)?;
    if holds == Holds::Children {
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
        make(&folder, Earlier::Taken)?;
        write(&folder, "cgroup.subtree_control", CONTROLLERS)?;
    }
    Ok(())
}

fn limit(folder: &Path, holds: Holds, limits: &Resources) -> Result<(), CgroupError> {
    if let Some(shares) = limits.cpu_shares {
        write(folder, "cpu.weight", &weight(shares).to_string())?;
    }
    if let Some(millis) = limits.cpu_limit_millis {
        let quota_us = (millis.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_US_MIN);
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
        Holds::Processes => write(folder, "memory.oom.group", "1"),
        Holds::Children => Ok(()),
    }
}

/// Shares (2..=262144, 1024 is usual) as a weight (1..=10000, 100 is usual): the formula of KEP-2254.
fn weight(shares: u64) -> u64 {
    let shares = shares.clamp(2, 262_144);
    1 + (shares - 2) * 9999 / 262_142
}

pub(super) fn plan(root: &Path, path: &Path) -> CgroupPlan {
    let folder = root.join(path);
    let text = |path: PathBuf| path.display().to_string();
    CgroupPlan {
        oom_counter: Some(text(folder.join("memory.events"))),
        unified: Some(text(folder)),
        v1_tasks: Vec::new(),
        v1_cpu_tasks: Vec::new(),
        view: CgroupView::Unified,
    }
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn shares_become_weights_by_the_formula_of_kep_2254() {
        for (shares, expected) in [(0, 1), (2, 1), (102, 4), (1024, 39), (262_144, 10_000)] {
            assert_eq!(weight(shares), expected, "{shares}");
        }
    }
}
