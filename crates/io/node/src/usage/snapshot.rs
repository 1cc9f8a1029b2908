//! What is answered: the node and its pods at one time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_net::InterfaceCounters;
use rekindle_runtime::{CgroupUsage, TreeUsage};
use rekindle_types::{ContainerAttempt, ContainerName, PodRef, SandboxAttempt, Tick};

/// The node and its pods.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    /// When it was asked for; what is older says so itself.
    pub taken_at: Tick,
    /// The machine.
    pub node: MachineUsage,
    /// Every pod that is here, in the order of their UIDs, also those that have nothing running.
    pub pods: Vec<PodUsage>,
}

impl NodeUsage {
    /// Every container, each with its pod.
    pub fn containers(&self) -> impl Iterator<Item = (&PodUsage, &ContainerUsage)> {
        self.pods
            .iter()
            .flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
    }
}

/// The machine: whatever runs on it, pods or not.
#[derive(Clone, Debug)]
pub struct MachineUsage {
    /// When the machine was booted.
    pub started_at: Option<Tick>,
    /// The root cgroup.
    pub cgroup: CgroupUsage,
    /// Bytes of memory that the machine has.
    pub memory_capacity_bytes: u64,
    /// The capacity without the root cgroup's working set: the kubelet's `memory.available`.
    pub memory_available_bytes: u64,
    /// The file system of volumes, logs and writable layers: `nodefs`.
    pub node_fs: FileSystemUsage,
    /// The file system of images: `imagefs`.
    pub image_fs: FileSystemUsage,
    /// Bytes of images, those that share layers in full. `None` unless files were asked for.
    pub image_bytes: Option<u64>,
    /// Processes.
    pub processes: ProcessUsage,
    /// The machine's own interfaces.
    pub network: Vec<InterfaceCounters>,
}

/// A file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemUsage {
    /// When it was looked at.
    pub taken_at: Tick,
    /// Its size.
    pub capacity_bytes: u64,
    /// What may still be written.
    pub available_bytes: u64,
    /// What is written, whoever wrote it.
    pub used_bytes: u64,
    /// Files and folders that it has room for; 0 where that is not bounded.
    pub inodes: u64,
    /// Those that may still be made.
    pub inodes_free: u64,
}

impl FileSystemUsage {
    /// Those that are there.
    pub fn inodes_used(&self) -> u64 {
        self.inodes.saturating_sub(self.inodes_free)
    }
}

/// Processes and threads of the machine: the kubelet's `pid.available` is `max` − `running`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// There are so many.
    pub running: u64,
    /// There may be so many.
    pub max: u64,
}

/// One pod.
#[derive(Clone, Debug)]
pub struct PodUsage {
    /// Which one.
    pub pod_ref: PodRef,
    /// Its object as this node knows it, without a status that could be relied on.
    pub pod: Arc<Pod>,
    /// Its newest sandbox; `None` while none stands.
    pub sandbox: Option<SandboxAttempt>,
    /// The cgroup of that sandbox: all its containers together.
    pub cgroup: Option<CgroupUsage>,
    /// Its own interfaces; empty for one on the host's network.
    pub network: Vec<InterfaceCounters>,
    /// The containers of that sandbox, the newest attempt of each, in the order of their names.
    pub containers: Vec<ContainerUsage>,
    /// Its volumes that the node keeps, in the order of the spec: all kinds but hostPath. Empty
    /// unless files were asked for.
    pub volumes: Vec<VolumeUsage>,
    /// Layers and logs of its containers and the volumes that lie on the node's disk (emptyDir,
    /// configMap), as the kubelet counts a pod's ephemeral storage. `None` unless files were asked
    /// for.
    pub ephemeral_storage: Option<TreeMeasurement>,
}

/// One container.
#[derive(Clone, Debug)]
pub struct ContainerUsage {
    /// Its name.
    pub name: ContainerName,
    /// Which start of it.
    pub attempt: ContainerAttempt,
    /// Its id in the runtime.
    pub id: String,
    /// Since when it runs; `None` while it does not.
    pub started_at: Option<Tick>,
    /// `None` while it does not run.
    pub cgroup: Option<CgroupUsage>,
    /// What it has written to its root file system. `None` unless files were asked for, and when
    /// that lies in memory.
    pub layer: Option<TreeMeasurement>,
    /// The logs of all its attempts that are kept. `None` unless files were asked for.
    pub logs: Option<TreeMeasurement>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Its name in the pod.
    pub name: String,
    /// Where it lies.
    pub medium: VolumeMedium,
    /// What is in it.
    pub usage: TreeMeasurement,
    /// The file system that it lies on; a memory volume has its own.
    pub file_system: FileSystemUsage,
}

/// Where a volume lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeMedium {
    /// On the node's disk: it counts as ephemeral storage.
    Disk,
    /// In memory: it counts there.
    Memory,
}

/// What a walk found, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMeasurement {
    /// What was found.
    pub usage: TreeUsage,
    /// When the walk ended.
    pub taken_at: Tick,
}

impl TreeMeasurement {
    /// Both together, as old as the older of them.
    pub(super) fn and(self, other: Self) -> Self {
        Self { usage: self.usage + other.usage, taken_at: self.taken_at.min(other.taken_at) }
    }
}
