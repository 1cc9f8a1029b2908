//! What the containers of the machine that only remembers use: what they were told to.

use std::collections::BTreeMap;

use rekindle_runtime::{CgroupUsage, CpuUsage, LayerUsage, MemoryUsage, TreeUsage};
use rekindle_types::Tick;

/// Figures by container name; what is not here is 0.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    /// Working set of the root cgroup.
    pub(crate) machine_memory_bytes: u64,
    /// Bytes of memory in use, half of them page cache that nobody has touched lately.
    pub(crate) memory_bytes: BTreeMap<String, u64>,
    pub(crate) cpu_ns: BTreeMap<String, u64>,
    pub(crate) forks_refused: BTreeMap<String, u64>,
    /// Bytes of the writable layer.
    pub(crate) layer_bytes: BTreeMap<String, u64>,
    /// Walks through writable layers.
    pub(crate) walks: usize,
}

impl Usages {
    pub(super) fn machine(&self, now: Tick) -> CgroupUsage {
        let bytes = self.machine_memory_bytes;
        let memory =
            MemoryUsage { usage_bytes: bytes, working_set_bytes: bytes, ..MemoryUsage::default() };
        CgroupUsage {
            taken_at: now,
            cpu: Some(CpuUsage::default()),
            memory,
            pids: None,
            forks_refused: 0,
        }
    }

    /// Of these containers together.
    pub(super) fn of(&self, containers: &[&str], now: Tick) -> CgroupUsage {
        let sum = |figures: &BTreeMap<String, u64>| {
            containers.iter().filter_map(|name| figures.get(*name)).sum::<u64>()
        };
        let usage_bytes = sum(&self.memory_bytes);
        CgroupUsage {
            taken_at: now,
            cpu: Some(CpuUsage { usage_ns: sum(&self.cpu_ns), ..CpuUsage::default() }),
            memory: MemoryUsage {
                usage_bytes,
                working_set_bytes: usage_bytes / 2,
                ..MemoryUsage::default()
            },
            pids: u64::try_from(containers.len()).ok(),
            forks_refused: sum(&self.forks_refused),
        }
    }

    pub(super) fn layer(&mut self, container: &str) -> LayerUsage {
        self.walks += 1;
        let bytes = self.layer_bytes.get(container).copied().unwrap_or(0);
        LayerUsage::OnDisk(TreeUsage { bytes, inodes: 1, ..TreeUsage::default() })
    }
}
