//! What a decision looks at: what is left on the node, and what each pod uses of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::PodUid;
use rekindle_types::pod_annotations::is_mirror;

use super::signal::{EvictionSignal, StarvedResource};
use crate::shutdown::CRITICAL_PRIORITY;
use crate::static_pods::is_static;
use crate::usage::{NodeUsage, PodUsage, VolumeMedium};

/// What is left of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) available: u64,
    pub(crate) capacity: u64,
}

/// What is left of everything that can be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observations {
    pub(crate) by_signal: BTreeMap<EvictionSignal, Observation>,
    pub(crate) image_fs: ImageFs,
}

/// Whether images have a file system of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ImageFs {
    #[default]
    Shared,
    Dedicated,
}

/// One pod that is not over.
#[derive(Clone, Debug)]
pub(crate) struct EvictionFigures {
    pub(crate) uid: PodUid,
    pub(crate) pod: Arc<Pod>,
    /// Bytes of its cgroup's working set; `None` where nobody counts.
    pub(crate) memory: Option<u64>,
    /// Bytes and inodes of its layers, logs and volumes on disk.
    pub(crate) disk: Option<DiskUsage>,
    pub(crate) pids: Option<u64>,
    pub(crate) containers: Vec<ContainerFigures>,
    /// Bytes in volumes, by their names.
    pub(crate) volumes: BTreeMap<String, u64>,
}

/// What lies on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerFigures {
    pub(crate) name: String,
    pub(crate) memory: Option<u64>,
    /// Bytes of its layer and its logs.
    pub(crate) disk: Option<u64>,
}

impl Observations {
    pub(crate) fn from_usage(usage: &NodeUsage) -> Self {
        let node = &usage.node;
        let (node_fs, image_fs) = (&node.node_fs, &node.image_fs);
        let found = [
            (
                EvictionSignal::MemoryAvailable,
                node.memory_available_bytes,
                node.memory_capacity_bytes,
            ),
            (EvictionSignal::NodeFsAvailable, node_fs.available_bytes, node_fs.capacity_bytes),
            (EvictionSignal::NodeFsInodesFree, node_fs.inodes_free, node_fs.inodes),
            (EvictionSignal::ImageFsAvailable, image_fs.available_bytes, image_fs.capacity_bytes),
            (EvictionSignal::ImageFsInodesFree, image_fs.inodes_free, image_fs.inodes),
            (
                EvictionSignal::PidAvailable,
                node.processes.max.saturating_sub(node.processes.running),
                node.processes.max,
            ),
        ];
        // a capacity of 0 could not be read, or is not bounded
        let known = found.into_iter().filter(|(_, _, capacity)| *capacity > 0);
        let by_signal = known
            .map(|(signal, available, capacity)| (signal, Observation { available, capacity }))
            .collect();
        // the runtime does not say which device its images lie on; two file systems are hardly
        // alike to the byte
        let same =
            (node_fs.capacity_bytes, node_fs.inodes) == (image_fs.capacity_bytes, image_fs.inodes);
        Self { by_signal, image_fs: if same { ImageFs::Shared } else { ImageFs::Dedicated } }
    }
}

impl EvictionFigures {
    pub(crate) fn from_usage(usage: &PodUsage) -> Self {
        let containers = usage.containers.iter().map(|container| ContainerFigures {
            name: container.name.0.clone(),
            memory: container.cgroup.map(|cgroup| cgroup.memory.working_set_bytes),
            disk: match (container.layer, container.logs) {
                (None, None) => None,
                (layer, logs) => {
                    Some([layer, logs].into_iter().flatten().map(|part| part.usage.bytes).sum())
                }
            },
        });
        let volumes = usage.volumes.iter().filter(|volume| volume.medium == VolumeMedium::Disk);
        Self {
            uid: usage.pod_ref.uid.clone(),
            pod: Arc::clone(&usage.pod),
            memory: usage.cgroup.map(|cgroup| cgroup.memory.working_set_bytes),
            disk: usage
                .ephemeral_storage
                .map(|disk| DiskUsage { bytes: disk.usage.bytes, inodes: disk.usage.inodes }),
            pids: usage.cgroup.and_then(|cgroup| cgroup.pids),
            containers: containers.collect(),
            volumes: volumes.map(|found| (found.name.clone(), found.usage.usage.bytes)).collect(),
        }
    }

    /// What it uses of a resource; `None` where nobody counted.
    pub(crate) fn usage(&self, resource: StarvedResource) -> Option<u64> {
        match resource {
            StarvedResource::Memory => self.memory,
            StarvedResource::EphemeralStorage => self.disk.map(|disk| disk.bytes),
            StarvedResource::Inodes => self.disk.map(|disk| disk.inodes),
            StarvedResource::Pids => self.pids,
        }
    }

    pub(crate) fn priority(&self) -> i32 {
        self.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
    }

    /// Critical pods are never evicted.
    pub(crate) fn is_critical(&self) -> bool {
        is_critical(&self.pod)
    }
}

/// Critical by its priority, or a pod of the node's own manifests, or the mirror of one.
pub(crate) fn is_critical(pod: &Pod) -> bool {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    is_static(pod) || is_mirror(pod) || priority >= CRITICAL_PRIORITY
}
