//! What sandboxes and containers use: figures of their cgroups, and of what they have written.

use rekindle_types::Tick;

use crate::spec::{ContainerKey, SandboxKey};
use crate::tree_usage::TreeUsage;

/// Everything that runs, and the machine itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeUsage {
    /// The root of the machine's cgroups: whatever runs on it, pods or not.
    pub machine: CgroupUsage,
    /// Every sandbox that stands, in the order of their keys.
    pub sandboxes: Vec<SandboxUsage>,
}

/// One sandbox.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxUsage {
    /// Which one.
    pub key: SandboxKey,
    /// The pod's cgroup: all containers together, and what ended ones have used. `None` when it has
    /// just gone.
    pub cgroup: Option<CgroupUsage>,
    /// A process in its network namespace; `None` while no shim lives, and when that namespace is
    /// the host's.
    pub network_pid: Option<u32>,
    /// Every container that was made and not removed.
    pub containers: Vec<RuntimeContainerUsage>,
}

/// One container.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeContainerUsage {
    /// Which one.
    pub key: ContainerKey,
    /// Its id, as [`CreatedContainer::id`](crate::CreatedContainer::id).
    pub id: String,
    /// Since when its first process runs; `None` while none does.
    pub started_at: Option<Tick>,
    /// `None` while it does not run.
    pub cgroup: Option<CgroupUsage>,
}

/// What the processes of a cgroup and of those beneath it use, and have used since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupUsage {
    /// When the figures were read.
    pub taken_at: Tick,
    /// `None` where the machine does not account for it.
    pub cpu: Option<CpuUsage>,
    /// Memory.
    pub memory: MemoryUsage,
    /// Processes and threads now; `None` where the machine does not count them, and for its root.
    pub pids: Option<u64>,
    /// How often a fork failed because of the limit of processes. Where it is counted depends on
    /// the kernel: in the group of the process that forked, in the group that has the limit (since
    /// Linux 6.11), or in those above as well.
    pub forks_refused: u64,
}

/// Time on the processors since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// Nanoseconds of all cores together.
    pub usage_ns: u64,
    /// Periods of the CPU limit that have passed while there was something to do.
    pub periods: u64,
    /// Those in which the limit was reached.
    pub throttled_periods: u64,
    /// Nanoseconds that were waited for the next period.
    pub throttled_ns: u64,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Bytes in use, the page cache included.
    pub usage_bytes: u64,
    /// The same without file pages that nobody has touched lately: what cannot be had back easily.
    /// What the kubelet compares with its thresholds.
    pub working_set_bytes: u64,
    /// Bytes of anonymous memory and swap cache.
    pub rss_bytes: u64,
    /// Page faults.
    pub page_faults: u64,
    /// Page faults that had to read from a disk.
    pub major_page_faults: u64,
    /// Processes that the kernel has killed for want of memory. With version 1 of cgroups those of
    /// the group itself, without the groups beneath it.
    pub oom_kills: u64,
}

/// What a container has written to its own root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerUsage {
    /// It lies on a disk.
    OnDisk(TreeUsage),
    /// It lies in memory, and counts there.
    InMemory,
}
