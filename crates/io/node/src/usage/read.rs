//! Puts the figures of one node together.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use rekindle_net::interface_counters;
use rekindle_runtime::{
    CgroupUsage, ContainerKey, ImageFileSystem, LayerUsage, Runtime, RuntimeContainerUsage,
    RuntimeError, RuntimeUsage, SandboxUsage, TreeUsage, walk_tree,
};
use rekindle_types::{PodRef, PodUid, Tick};

use super::files;
use super::machine;
use super::snapshot::{
    ContainerUsage, FileSystemUsage, MachineUsage, NodeUsage, PodUsage, TreeMeasurement,
    VolumeMedium, VolumeUsage,
};
use super::walks::VolumeWalks;
use crate::clock::Clock;
use crate::layout::NodeDirs;
use crate::pods::{PodIndex, PodView};
use crate::register::memory_bytes;

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageScope {
    /// What the kernel has ready: processes, memory, network, file systems. Milliseconds for a
    /// hundred pods.
    Processes,
    /// Also what pods have written: layers, logs and volumes, walked through unless that was done a
    /// few seconds ago.
    Everything,
}

/// Reads what the node and its pods use. Cheap to clone.
#[derive(Clone)]
pub struct UsageReader(Arc<dyn UsageTaker>);

impl std::fmt::Debug for UsageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UsageReader")
    }
}

impl UsageReader {
    pub(crate) fn new<R: Runtime>(
        runtime: Arc<R>,
        index: PodIndex,
        dirs: NodeDirs,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(UsageSource { runtime, index, dirs, clock, walks: VolumeWalks::new(clock) }))
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// When the runtime does not say what its sandboxes use, or a file system does not answer.
    pub async fn take(&self, scope: UsageScope) -> Result<NodeUsage, RuntimeError> {
        self.0.take(scope).await
    }
}

/// The same, whatever the runtime's type is.
trait UsageTaker: Send + Sync {
    fn take(&self, scope: UsageScope) -> BoxFuture<'_, Result<NodeUsage, RuntimeError>>;
}

struct UsageSource<R> {
    runtime: Arc<R>,
    index: PodIndex,
    dirs: NodeDirs,
    clock: Clock,
    walks: VolumeWalks,
}

impl<R: Runtime> UsageTaker for UsageSource<R> {
    fn take(&self, scope: UsageScope) -> BoxFuture<'_, Result<NodeUsage, RuntimeError>> {
        Box::pin(async move {
            let taken_at = self.clock.now();
            let RuntimeUsage { machine, sandboxes } = self.runtime.usage().await?;
            let node = self.machine(machine, scope).await?;
            let mut newest: BTreeMap<PodUid, SandboxUsage> = BTreeMap::new();
            for sandbox in sandboxes {
                // in the order of their attempts
                newest.insert(sandbox.key.pod.uid.clone(), sandbox);
            }
            let mut pods = Vec::new();
            for view in self.index.all() {
                let sandbox = newest.remove(&view.pod_ref.uid);
                pods.push(self.pod(view, sandbox, scope, &node.node_fs).await);
            }
            Ok(NodeUsage { taken_at, node, pods })
        })
    }
}

impl<R: Runtime> UsageSource<R> {
    async fn machine(
        &self,
        cgroup: CgroupUsage,
        scope: UsageScope,
    ) -> Result<MachineUsage, RuntimeError> {
        let now = self.clock.now();
        let ImageFileSystem { capacity_bytes, available_bytes, used_bytes, inodes, inodes_free } =
            self.runtime.image_file_system().await?;
        let memory_capacity_bytes = memory_bytes();
        let node_fs = files::file_system(self.dirs.root(), now).map_err(|source| {
            RuntimeError::Unavailable {
                operation: "look at the file system of the node agent",
                source: source.into(),
            }
        })?;
        Ok(MachineUsage {
            started_at: machine::booted_at(),
            cgroup,
            memory_capacity_bytes,
            memory_available_bytes: memory_capacity_bytes
                .saturating_sub(cgroup.memory.working_set_bytes),
            node_fs,
            image_fs: FileSystemUsage {
                taken_at: now,
                capacity_bytes,
                available_bytes,
                used_bytes,
                inodes,
                inodes_free,
            },
            image_bytes: match scope {
                UsageScope::Processes => None,
                UsageScope::Everything => self.image_bytes().await,
            },
            processes: machine::processes(),
            network: interface_counters(std::process::id()).unwrap_or_default(),
        })
    }

    async fn image_bytes(&self) -> Option<u64> {
        let runtime = self.runtime.clone();
        let add = move |_| {
            let runtime = runtime.clone();
            async move {
                let images = runtime.images().await.map_err(|error| error.chain())?;
                let bytes = images.iter().map(|image| image.size_bytes).sum();
                Ok::<_, String>(TreeUsage { bytes, ..TreeUsage::default() })
            }
        };
        Some(self.walks.measure("images", add).await?.usage.bytes)
    }

    async fn pod(
        &self,
        view: PodView,
        sandbox: Option<SandboxUsage>,
        scope: UsageScope,
        node_fs: &FileSystemUsage,
    ) -> PodUsage {
        let pod = view.pod.borrow().clone();
        let mut usage = PodUsage {
            pod_ref: view.pod_ref,
            pod,
            sandbox: None,
            cgroup: None,
            network: Vec::new(),
            containers: Vec::new(),
            volumes: Vec::new(),
            ephemeral_storage: None,
        };
        if let Some(sandbox) = sandbox {
            usage.sandbox = Some(sandbox.key.attempt);
            usage.cgroup = sandbox.cgroup;
            // its shim may have ended just now
            let counters = sandbox.network_pid.and_then(|pid| interface_counters(pid).ok());
            usage.network = counters.unwrap_or_default();
            for container in newest_attempts(sandbox.containers) {
                usage.containers.push(self.container(&usage, container, scope).await);
            }
        }
        match scope {
            UsageScope::Processes => {}
            UsageScope::Everything => {
                usage.volumes = self.volumes(&usage, node_fs).await;
                usage.ephemeral_storage = Some(ephemeral_storage(&usage, self.clock.now()));
            }
        }
        usage
    }

    async fn container(
        &self,
        pod: &PodUsage,
        container: RuntimeContainerUsage,
        scope: UsageScope,
    ) -> ContainerUsage {
        let RuntimeContainerUsage { key, id, started_at, cgroup } = container;
        let (layer, logs) = match scope {
            UsageScope::Processes => (None, None),
            UsageScope::Everything => {
                (self.layer(&key, &id).await, self.logs(&pod.pod_ref, &key.name.0).await)
            }
        };
        ContainerUsage { name: key.name, attempt: key.attempt, id, started_at, cgroup, layer, logs }
    }

    async fn layer(&self, key: &ContainerKey, id: &str) -> Option<TreeMeasurement> {
        let (runtime, key) = (self.runtime.clone(), key.clone());
        let walk = move |entries_max| {
            let (runtime, key) = (runtime.clone(), key.clone());
            async move {
                match runtime.layer_usage(&key, entries_max).await {
                    Ok(Some(LayerUsage::OnDisk(usage))) => Ok(usage),
                    Ok(Some(LayerUsage::InMemory) | None) => Ok(TreeUsage::default()),
                    Err(error) => Err(error.chain()),
                }
            }
        };
        self.walks.measure(id, walk).await
    }

    /// What it has written to its log, and to the file at its terminationMessagePath, which may be
    /// used as one.
    async fn logs(&self, pod: &PodRef, container: &str) -> Option<TreeMeasurement> {
        let dirs = self.dirs.pod(pod);
        let (logs, messages) = (dirs.container_logs(container), dirs.termination_logs(container));
        let name = logs.display().to_string();
        let walks = move |entries_max| {
            let (logs, messages) = (logs.clone(), messages.clone());
            async move {
                let of_messages = walk_tree(messages, entries_max).await?;
                Ok::<_, io::Error>(walk_tree(logs, entries_max).await? + of_messages)
            }
        };
        self.walks.measure(&name, walks).await
    }

    async fn walk(&self, folder: PathBuf) -> Option<TreeMeasurement> {
        let name = folder.display().to_string();
        let walk = move |entries_max| walk_tree(folder.clone(), entries_max);
        self.walks.measure(&name, walk).await
    }

    async fn volumes(&self, pod: &PodUsage, node_fs: &FileSystemUsage) -> Vec<VolumeUsage> {
        let folder = self.dirs.pod(&pod.pod_ref).volumes();
        let mut volumes = Vec::new();
        for (name, medium) in files::kept_volumes(&pod.pod) {
            let path = folder.join(name);
            let found = match medium {
                VolumeMedium::Disk => self.walk(path).await.map(|usage| (usage, *node_fs)),
                VolumeMedium::Memory => {
                    let now = self.clock.now();
                    let mounted = files::mounted(&path, now).unwrap_or_else(|error| {
                        tracing::debug!(pod = %pod.pod_ref, volume = name, %error, "a volume cannot be looked at");
                        None
                    });
                    mounted.map(|fs| {
                        (TreeMeasurement { usage: files::all_of(&fs), taken_at: now }, fs)
                    })
                }
            };
            if let Some((usage, file_system)) = found {
                volumes.push(VolumeUsage { name: name.to_owned(), medium, usage, file_system });
            }
        }
        volumes
    }
}

/// The newest attempt of each container.
fn newest_attempts(containers: Vec<RuntimeContainerUsage>) -> Vec<RuntimeContainerUsage> {
    let mut newest = BTreeMap::new();
    for container in containers {
        let attempt = container.key.attempt;
        let name = container.key.name.clone();
        let known = newest.get(&name).map(|known: &RuntimeContainerUsage| known.key.attempt);
        if known.is_none_or(|known| known < attempt) {
            newest.insert(name, container);
        }
    }
    newest.into_values().collect()
}

fn ephemeral_storage(pod: &PodUsage, now: Tick) -> TreeMeasurement {
    let of_containers = pod.containers.iter().flat_map(|found| [found.layer, found.logs]).flatten();
    let on_disk = pod.volumes.iter().filter(|volume| volume.medium == VolumeMedium::Disk);
    let parts = of_containers.chain(on_disk.map(|volume| volume.usage));
    parts.fold(TreeMeasurement { usage: TreeUsage::default(), taken_at: now }, TreeMeasurement::and)
}
