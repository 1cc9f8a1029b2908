//! What is watched, and what it stands for.

use std::fmt;

/// What a threshold is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionSignal {
    /// Memory that the machine's processes do not hold.
    MemoryAvailable,
    /// Bytes that may be written where volumes, logs and writable layers lie.
    NodeFsAvailable,
    /// Files that may be made there.
    NodeFsInodesFree,
    /// Bytes that may be written where images lie.
    ImageFsAvailable,
    /// Files that may be made there.
    ImageFsInodesFree,
    /// Processes that may be started.
    PidAvailable,
}

/// What a node runs out of, as its conditions and taints call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureKind {
    /// MemoryPressure.
    Memory,
    /// DiskPressure.
    Disk,
    /// PIDPressure.
    Pid,
}

/// What pods are evicted for, as events and messages call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StarvedResource {
    Memory,
    EphemeralStorage,
    Inodes,
    Pids,
}

impl EvictionSignal {
    /// All of them.
    pub const ALL: [EvictionSignal; 6] = [
        EvictionSignal::MemoryAvailable,
        EvictionSignal::NodeFsAvailable,
        EvictionSignal::NodeFsInodesFree,
        EvictionSignal::ImageFsAvailable,
        EvictionSignal::ImageFsInodesFree,
        EvictionSignal::PidAvailable,
    ];

    /// As settings name it.
    pub const fn name(self) -> &'static str {
        match self {
            EvictionSignal::MemoryAvailable => "memory.available",
            EvictionSignal::NodeFsAvailable => "nodefs.available",
            EvictionSignal::NodeFsInodesFree => "nodefs.inodesFree",
            EvictionSignal::ImageFsAvailable => "imagefs.available",
            EvictionSignal::ImageFsInodesFree => "imagefs.inodesFree",
            EvictionSignal::PidAvailable => "pid.available",
        }
    }

    /// The signal of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.name() == name)
    }

    pub(crate) const fn pressure(self) -> PressureKind {
        match self {
            EvictionSignal::MemoryAvailable => PressureKind::Memory,
            EvictionSignal::NodeFsAvailable
            | EvictionSignal::NodeFsInodesFree
            | EvictionSignal::ImageFsAvailable
            | EvictionSignal::ImageFsInodesFree => PressureKind::Disk,
            EvictionSignal::PidAvailable => PressureKind::Pid,
        }
    }

    pub(crate) const fn resource(self) -> StarvedResource {
        match self {
            EvictionSignal::MemoryAvailable => StarvedResource::Memory,
            EvictionSignal::NodeFsAvailable | EvictionSignal::ImageFsAvailable => {
                StarvedResource::EphemeralStorage
            }
            EvictionSignal::NodeFsInodesFree | EvictionSignal::ImageFsInodesFree => {
                StarvedResource::Inodes
            }
            EvictionSignal::PidAvailable => StarvedResource::Pids,
        }
    }
}

impl PressureKind {
    /// The type of the node's condition.
    pub const fn condition(self) -> &'static str {
        match self {
            PressureKind::Memory => "MemoryPressure",
            PressureKind::Disk => "DiskPressure",
            PressureKind::Pid => "PIDPressure",
        }
    }
}

impl StarvedResource {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            StarvedResource::Memory => "memory",
            StarvedResource::EphemeralStorage => "ephemeral-storage",
            StarvedResource::Inodes => "inodes",
            StarvedResource::Pids => "pids",
        }
    }
}

impl fmt::Display for EvictionSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
