//! The node's conditions, with the kubelet's reasons and messages.

use std::path::Path;

use k8s_openapi::api::core::v1::NodeCondition;
use rekindle_types::{Tick, TickDuration};

use super::machine::{Disk, Memory, disk, memory};

/// Less available memory than this is pressure (the kubelet's default hard threshold).
const MEMORY_AVAILABLE_MIN: u64 = 100 * 1024 * 1024;
/// A pressure is shown at least this long after it was last seen, so that it does not flap.
const PRESSURE_HELD: TickDuration = TickDuration::from_secs(300);

/// Which pressures were seen last, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressures {
    memory_seen: Option<Tick>,
    disk_seen: Option<Tick>,
}

/// Whether the node is fit to run pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    Ready,
    /// It stops, and has ended its pods.
    ShuttingDown,
}

/// Which pressures are to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) fitness: Fitness,
    pub(crate) memory_pressure: bool,
    pub(crate) disk_pressure: bool,
}

impl Pressures {
    /// Looks at the machine now.
    pub(crate) fn look(&mut self, now: Tick, data_dir: &Path) -> Shown {
        self.consider(now, memory(), disk(data_dir))
    }

    /// Judges what was seen.
    pub(crate) fn consider(&mut self, now: Tick, memory: Memory, disk: Option<Disk>) -> Shown {
        // a total of 0 means that it could not be read
        if memory.total_bytes > 0 && memory.available_bytes < MEMORY_AVAILABLE_MIN {
            self.memory_seen = Some(now);
        }
        if disk.is_some_and(is_full) {
            self.disk_seen = Some(now);
        }
        let held = |seen: Option<Tick>| seen.is_some_and(|seen| now.since(seen) < PRESSURE_HELD);
        Shown {
            fitness: Fitness::Ready,
            memory_pressure: held(self.memory_seen),
            disk_pressure: held(self.disk_seen),
        }
    }
}

/// Less than 10 % of the bytes or 5 % of the inodes are left (the kubelet's default hard thresholds).
fn is_full(disk: Disk) -> bool {
    let few_bytes = disk.total_bytes > 0 && disk.available_bytes < disk.total_bytes / 10;
    let few_inodes = disk.inodes > 0 && disk.inodes_free < disk.inodes / 20;
    few_bytes || few_inodes
}

/// The conditions; `since` of one that was so before is kept.
pub(crate) fn conditions(now: Tick, shown: Shown, before: &[NodeCondition]) -> Vec<NodeCondition> {
    let pressure = |kind, there, yes: (&str, &str), no: (&str, &str)| {
        let (reason, message) = if there { yes } else { no };
        condition(now, before, kind, there, reason, message)
    };
    vec![
        pressure(
            "MemoryPressure",
            shown.memory_pressure,
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ),
        pressure(
            "DiskPressure",
            shown.disk_pressure,
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ),
        pressure(
            "PIDPressure",
            false,
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ),
        match shown.fitness {
            Fitness::Ready => condition(
                now,
                before,
                "Ready",
                true,
                "KubeletReady",
                "kubelet is posting ready status",
            ),
            Fitness::ShuttingDown => {
                condition(now, before, "Ready", false, "KubeletNotReady", "node is shutting down")
            }
        },
    ]
}

fn condition(
    now: Tick,
    before: &[NodeCondition],
    kind: &str,
    is_true: bool,
    reason: &str,
    message: &str,
) -> NodeCondition {
    let status = if is_true { "True" } else { "False" };
    let same = before.iter().find(|known| known.type_ == kind && known.status == status);
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.to_time()),
        last_transition_time: same
            .and_then(|known| known.last_transition_time.clone())
            .or_else(|| Some(now.to_time())),
    }
}
