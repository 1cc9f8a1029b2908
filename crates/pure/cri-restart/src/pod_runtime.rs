//! What a container runtime says of one pod.

use rekindle_types::v1alpha1::ContainerLastEnd;

/// The sandboxes and containers of one pod, by its UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRuntime {
    /// Its sandboxes, in no order.
    pub sandboxes: Vec<RuntimeSandbox>,
    /// Their containers, in no order.
    pub containers: Vec<RuntimeContainer>,
    /// The pod's cgroup below the root of cgroups, where it has one of its own that can be frozen,
    /// and the agent looked for it.
    pub cgroup: Option<String>,
    /// How often the kernel has ended a process of the pod for lack of memory, where that is seen.
    pub oom_kills: Option<i64>,
}

/// A sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeSandbox {
    /// The runtime's id.
    pub id: String,
    /// Whether it runs.
    pub is_ready: bool,
    /// When it was created, in nanoseconds since the Unix epoch.
    pub created_at: i64,
}

/// A container of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// The runtime's id.
    pub id: String,
    /// Its sandbox's id.
    pub sandbox_id: String,
    /// Its name in the pod.
    pub name: String,
    /// Counts the starts of this name.
    pub attempt: u32,
    /// Where it is in its life.
    pub state: RuntimeContainerState,
    /// How it ended, if it has and that was asked for.
    pub end: Option<ContainerLastEnd>,
    /// The last lines of its log, where they are seen.
    pub last_log: Option<String>,
}

/// Where a container is in its life, as CRI says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeContainerState {
    /// It has not been started.
    Created,
    /// It runs.
    Running,
    /// It has ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

impl RuntimeContainer {
    /// Whether something of it may have to be stopped.
    pub fn may_run(&self) -> bool {
        match self.state {
            RuntimeContainerState::Created
            | RuntimeContainerState::Running
            | RuntimeContainerState::Unknown => true,
            RuntimeContainerState::Exited => false,
        }
    }
}

impl PodRuntime {
    /// The sandbox that runs, the latest if there are several.
    pub fn ready_sandbox(&self) -> Option<&RuntimeSandbox> {
        let ready = self.sandboxes.iter().filter(|sandbox| sandbox.is_ready);
        ready.max_by_key(|sandbox| sandbox.created_at)
    }

    /// The sandbox with this id.
    pub fn sandbox(&self, id: &str) -> Option<&RuntimeSandbox> {
        self.sandboxes.iter().find(|sandbox| sandbox.id == id)
    }

    /// The containers of a sandbox.
    pub fn containers_of<'a>(
        &'a self,
        sandbox: &'a str,
    ) -> impl Iterator<Item = &'a RuntimeContainer> {
        self.containers.iter().filter(move |container| container.sandbox_id == sandbox)
    }

    /// The latest attempt of a container of a sandbox, of those that are as asked.
    pub(crate) fn latest(
        &self,
        sandbox: &str,
        name: &str,
        is_meant: impl Fn(&RuntimeContainer) -> bool,
    ) -> Option<&RuntimeContainer> {
        let of_it = self.containers.iter().filter(|c| c.sandbox_id == sandbox && c.name == name);
        of_it.filter(|container| is_meant(container)).max_by_key(|container| container.attempt)
    }
}
