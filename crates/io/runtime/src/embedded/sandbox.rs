//! One sandbox in the agent's memory, kept in step with its shim.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use rekindle_shim::protocol::{
    self, ContainerPhase, ExitCause, ExitRecord, FailureKind, RootsAhead, ShimAnswer, ShimFailure,
    SignalNotice,
};
use rekindle_types::{ContainerUser, Tick};
use tokio::sync::mpsc;

use super::layout::{Layout, MOUNT_POINT, ROOTS};
use super::link::ShimLink;
use super::records::{self, RecordFile, RecordLine, SlotRecord};
use super::roots::{ReadyRoot, RootFolders};
use crate::runtime::{ContainerSnapshot, RuntimeEvent, SandboxReadiness, SandboxSnapshot};
use crate::spec::{ContainerKey, Namespaces, SandboxInfo, SandboxKey, SandboxSpec};

/// A sandbox.
pub(crate) struct EmbeddedSandbox {
    pub(crate) key: SandboxKey,
    /// Its short name on disk.
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) hostname: String,
    /// Which of its namespaces are the host's.
    pub(crate) namespaces: Namespaces,
    /// Held while the sandbox as a whole is made, found, got back in touch with, or taken away.
    pub(crate) gate: tokio::sync::Mutex<()>,
    /// Folders for writable layers.
    pub(crate) roots: RootFolders,
    /// Set when the sandbox stands, or was found.
    records: OnceLock<RecordFile>,
    inner: Mutex<SandboxContents>,
    events: mpsc::UnboundedSender<RuntimeEvent>,
}

struct SandboxContents {
    stage: SandboxLifecycle,
    spare: Option<SpareSandbox>,
    containers: BTreeMap<String, SandboxContainer>,
    /// Whether its shim makes roots ahead of need, and which stand in there, by the containers'
    /// names.
    roots_ahead: RootsAhead,
    ready_roots: BTreeMap<String, ReadyRoot>,
    /// Held while the container of this name is made, started or removed.
    gates: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
}

/// What of a sandbox's spec is remembered as long as it stands.
pub(crate) struct SandboxTraits {
    pub(crate) key: SandboxKey,
    pub(crate) hostname: String,
    pub(crate) namespaces: Namespaces,
}

impl From<&SandboxSpec> for SandboxTraits {
    fn from(spec: &SandboxSpec) -> Self {
        let (key, hostname) = (spec.key.clone(), spec.hostname.clone());
        Self { key, hostname, namespaces: spec.namespaces }
    }
}

/// Where a sandbox is.
pub(crate) enum SandboxLifecycle {
    /// It has no shim yet, or one that was made ahead and does not know yet whose it is.
    New,
    /// Its shim lives.
    Ready {
        link: ShimLink,
        pid: u32,
        /// When it was this process that started the shim: to reap it.
        child: Option<Child>,
    },
    /// It is being taken away: what ends now was meant to.
    Going { pid: Option<u32>, child: Option<Child> },
    /// Its shim is gone.
    Dead { child: Option<Child> },
}

/// A container.
pub(crate) struct SandboxContainer {
    pub(crate) record: SlotRecord,
    pub(crate) phase: ContainerPhase,
}

impl EmbeddedSandbox {
    /// A sandbox that is to be made, or was found, under this id.
    pub(crate) fn new(
        traits: SandboxTraits,
        id: String,
        layout: &Layout,
        events: mpsc::UnboundedSender<RuntimeEvent>,
    ) -> Self {
        let SandboxTraits { key, hostname, namespaces } = traits;
        let dir = layout.sandbox_dir(&id);
        let inner = SandboxContents {
            stage: SandboxLifecycle::New,
            spare: None,
            containers: BTreeMap::new(),
            roots_ahead: RootsAhead::Unknown,
            ready_roots: BTreeMap::new(),
            gates: BTreeMap::new(),
        };
        Self {
            key,
            id,
            hostname,
            namespaces,
            gate: tokio::sync::Mutex::default(),
            roots: RootFolders::new(dir.join(ROOTS)),
            records: OnceLock::new(),
            inner: Mutex::new(inner),
            events,
            dir,
        }
    }

    /// A sandbox that is to be made out of one that was made ahead.
    pub(crate) fn of_spare(
        traits: SandboxTraits,
        mut spare: SpareSandbox,
        layout: &Layout,
        events: mpsc::UnboundedSender<RuntimeEvent>,
    ) -> Self {
        let mut sandbox = Self::new(traits, spare.id.clone(), layout, events);
        std::mem::swap(&mut sandbox.roots, &mut spare.roots);
        sandbox.inner().spare = Some(spare);
        sandbox
    }

    /// What it is to be made out of; once.
    pub(crate) fn take_spare(&self) -> Option<SpareSandbox> {
        self.inner().spare.take()
    }

    /// Its records are kept in this file from now on.
    pub(crate) fn keep_records(&self, file: RecordFile) {
        // The gate lets one at a time make a sandbox, and it is made once.
        let _ = self.records.set(file);
    }

    /// Writes something down for the agents to come.
    pub(crate) fn record(&self, line: &RecordLine) -> std::io::Result<()> {
        match self.records.get() {
            Some(file) => file.add(line),
            None => Err(std::io::Error::other("the sandbox has no records yet")),
        }
    }

    /// Makes it nobody's again, as far as an agent to come can see.
    pub(crate) fn disown(&self) -> std::io::Result<()> {
        self.records.get().map_or(Ok(()), RecordFile::remove)
    }

    fn inner(&self) -> MutexGuard<'_, SandboxContents> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// See [`MOUNT_POINT`].
    pub(crate) fn mount_point(&self) -> PathBuf {
        self.dir.join(MOUNT_POINT)
    }

    /// Puts the sandbox into another stage and answers the one before.
    pub(crate) fn enter(&self, stage: SandboxLifecycle) -> SandboxLifecycle {
        std::mem::replace(&mut self.inner().stage, stage)
    }

    /// From now on nothing of it is an event. Answers what there is to take away: the link when the
    /// shim lives.
    pub(crate) fn begin_removal(&self) -> Option<ShimLink> {
        let mut inner = self.inner();
        let (link, pid, child) = match std::mem::replace(&mut inner.stage, SandboxLifecycle::New) {
            SandboxLifecycle::New => (None, None, None),
            SandboxLifecycle::Ready { link, pid, child } => (Some(link), Some(pid), child),
            SandboxLifecycle::Going { pid, child } => (None, pid, child),
            SandboxLifecycle::Dead { child } => (None, None, child),
        };
        inner.stage = SandboxLifecycle::Going { pid, child };
        link
    }

    /// The way to the shim, while it lives.
    pub(crate) fn link(&self) -> Option<ShimLink> {
        match &self.inner().stage {
            SandboxLifecycle::Ready { link, .. } => Some(link.clone()),
            SandboxLifecycle::New
            | SandboxLifecycle::Going { .. }
            | SandboxLifecycle::Dead { .. } => None,
        }
    }

    /// True when its shim lived, as far as was known, and the link to it has failed.
    pub(crate) fn is_out_of_touch(&self) -> bool {
        self.link().is_some_and(|link| link.is_closed())
    }

    /// Takes another link to the shim in place of the one that failed. The shim has let go of what
    /// it had made ahead, and the folders of that are left to the sandbox's end.
    pub(crate) fn relink(&self, new: ShimLink) {
        let mut inner = self.inner();
        inner.ready_roots.clear();
        match &mut inner.stage {
            SandboxLifecycle::Ready { link, .. } => *link = new,
            // Its owner holds the gate, so nobody has taken it away meanwhile.
            SandboxLifecycle::New
            | SandboxLifecycle::Going { .. }
            | SandboxLifecycle::Dead { .. } => {}
        }
    }

    /// Takes note of what its shim can do.
    pub(crate) fn note_roots_ahead(&self, roots_ahead: RootsAhead) {
        self.inner().roots_ahead = roots_ahead;
    }

    /// Whether its shim makes roots ahead of need.
    pub(crate) fn makes_roots(&self) -> bool {
        self.inner().roots_ahead == RootsAhead::Made
    }

    /// Takes note of a root that stands in the shim at the other end of this link. Answers what is
    /// of no use now: the one before of this container, or this one when the sandbox has another
    /// link by now.
    pub(crate) fn keep_root(&self, over: &ShimLink, root: ReadyRoot) -> Option<ReadyRoot> {
        let mut inner = self.inner();
        match &inner.stage {
            SandboxLifecycle::Ready { link, .. } if link.is_same(over) => {
                inner.ready_roots.insert(root.plan.container.clone(), root)
            }
            SandboxLifecycle::Ready { .. }
            | SandboxLifecycle::New
            | SandboxLifecycle::Going { .. }
            | SandboxLifecycle::Dead { .. } => Some(root),
        }
    }

    /// Whether one was made for the container's next start.
    pub(crate) fn has_root(&self, container: &str) -> bool {
        self.inner().ready_roots.contains_key(container)
    }

    /// The root that was made for the container's next start.
    pub(crate) fn take_root(&self, container: &str) -> Option<ReadyRoot> {
        self.inner().ready_roots.remove(container)
    }

    /// Where its namespaces are, while it is ready.
    pub(crate) fn info(&self) -> Option<SandboxInfo> {
        match &self.inner().stage {
            SandboxLifecycle::Ready { pid, .. } => Some(info(&self.id, *pid, self.namespaces)),
            SandboxLifecycle::New
            | SandboxLifecycle::Going { .. }
            | SandboxLifecycle::Dead { .. } => None,
        }
    }

    /// True when there never was a shim.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.inner().stage, SandboxLifecycle::New)
    }

    /// True when it is being taken away.
    pub(crate) fn is_going(&self) -> bool {
        matches!(self.inner().stage, SandboxLifecycle::Going { .. })
    }

    /// Adds a container.
    pub(crate) fn insert(&self, slot: &str, record: SlotRecord, phase: ContainerPhase) {
        self.inner().containers.insert(slot.to_owned(), SandboxContainer { record, phase });
    }

    /// What to hold while this container is made, started or removed.
    pub(crate) fn container_gate(&self, slot: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.inner().gates.entry(slot.to_owned()).or_default().clone()
    }

    /// Forgets a container.
    pub(crate) fn forget(&self, slot: &str) {
        let mut inner = self.inner();
        inner.containers.remove(slot);
        // The map and the caller hold the gate; while others wait at it, it has to stay the only
        // one.
        if inner.gates.get(slot).is_some_and(|gate| Arc::strong_count(gate) <= 2) {
            inner.gates.remove(slot);
        }
    }

    /// Catches up with a shim whose messages may have been missed.
    pub(crate) fn catch_up(&self, states: &[protocol::ContainerReport]) {
        for state in states {
            match &state.phase {
                ContainerPhase::Created => {}
                ContainerPhase::Running { pid, started_at_us, notice: _ } => {
                    let answer = ShimAnswer::Started { pid: *pid, started_at_us: *started_at_us };
                    self.note_started(&state.slot, &Ok(answer));
                }
                ContainerPhase::Exited { exit, .. } => self.note_exit(&state.slot, exit),
            }
        }
    }

    /// Takes note of who a container's process is.
    pub(crate) fn identify(&self, slot: &str, user: Option<ContainerUser>) {
        if let Some(container) = self.inner().containers.get_mut(slot) {
            container.record.user = user;
        }
    }

    /// Takes note that a container got a signal.
    pub(crate) fn note_signal(&self, slot: &str) {
        if let Some(container) = self.inner().containers.get_mut(slot)
            && let ContainerPhase::Running { notice, .. } = &mut container.phase
        {
            *notice = SignalNotice::Given;
        }
    }

    /// Looks at a container.
    pub(crate) fn container<T>(
        &self,
        slot: &str,
        look: impl FnOnce(&SandboxContainer) -> T,
    ) -> Option<T> {
        self.inner().containers.get(slot).map(look)
    }

    /// The containers that have a process, or are about to get one.
    pub(crate) fn live_containers(&self) -> Vec<(String, ContainerKey)> {
        let inner = self.inner();
        let live = inner.containers.iter().filter(|(_, container)| match container.phase {
            ContainerPhase::Created | ContainerPhase::Running { .. } => true,
            ContainerPhase::Exited { .. } => false,
        });
        live.map(|(slot, container)| (slot.clone(), container.record.key.clone())).collect()
    }

    /// Looks at every container.
    pub(crate) fn containers<T>(&self, look: impl Fn(&SlotRecord, &ContainerPhase) -> T) -> Vec<T> {
        let inner = self.inner();
        inner.containers.values().map(|found| look(&found.record, &found.phase)).collect()
    }

    /// All of it, as the trait shows it.
    pub(crate) fn snapshot(&self) -> SandboxSnapshot {
        let info = self.info();
        let containers = self
            .inner()
            .containers
            .values()
            .map(|container| ContainerSnapshot {
                key: container.record.key.clone(),
                created: container.record.created(),
                state: records::state(&container.phase),
            })
            .collect();
        SandboxSnapshot {
            key: self.key.clone(),
            id: self.id.clone(),
            state: if info.is_some() {
                SandboxReadiness::Ready
            } else {
                SandboxReadiness::NotReady
            },
            info,
            containers,
        }
    }

    /// Takes the end of a container down, once, and tells it unless the whole sandbox is being
    /// taken away.
    pub(crate) fn note_exit(&self, slot: &str, exit: &ExitRecord) {
        let mut inner = self.inner();
        let quiet = matches!(inner.stage, SandboxLifecycle::Going { .. });
        let Some(container) = inner.containers.get_mut(slot) else { return };
        let pid = match container.phase {
            ContainerPhase::Exited { .. } => return,
            ContainerPhase::Running { pid, .. } => pid,
            ContainerPhase::Created => 0,
        };
        container.phase = ContainerPhase::Exited { pid, exit: exit.clone() };
        let ended = exited(&container.record, exit);
        drop(inner);
        if !quiet {
            self.tell(ended);
        }
    }

    /// Tells that processes of a container were killed for lack of memory, if it lives on.
    pub(crate) fn note_oom_kills(&self, slot: &str) {
        let key = self.container(slot, |container| match container.phase {
            ContainerPhase::Running { .. } => Some(container.record.key.clone()),
            ContainerPhase::Created | ContainerPhase::Exited { .. } => None,
        });
        if let Some(key) = key.flatten() {
            self.tell(RuntimeEvent::ProcessesOomKilled { key });
        }
    }

    pub(crate) fn note_started(&self, slot: &str, answer: &Result<ShimAnswer, ShimFailure>) {
        let mut inner = self.inner();
        let Some(container) = inner.containers.get_mut(slot) else { return };
        if !matches!(container.phase, ContainerPhase::Created) {
            return;
        }
        match answer {
            Ok(ShimAnswer::Started { pid, started_at_us }) => {
                let (pid, started_at_us) = (*pid, *started_at_us);
                let notice = SignalNotice::NotGiven;
                container.phase = ContainerPhase::Running { pid, started_at_us, notice };
            }
            Err(ShimFailure { kind: FailureKind::Start, problem }) => {
                let now_us = rekindle_shim::timestamp::now_us();
                let exit = ExitRecord {
                    cause: ExitCause::StartError,
                    started_at_us: now_us,
                    finished_at_us: now_us,
                    message: problem.clone(),
                    oom: None,
                };
                container.phase = ContainerPhase::Exited { pid: 0, exit };
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// The shim is gone: nothing in the sandbox runs any more. Each end is written down for the
    /// agents to come, and told to this one, which would wait for it. The sandbox's end comes
    /// first, so that nothing is started in it again.
    pub(crate) fn note_death(&self, now: Tick) {
        let mut inner = self.inner();
        let was_ready = match std::mem::replace(&mut inner.stage, SandboxLifecycle::New) {
            SandboxLifecycle::Ready { child, .. } => {
                inner.stage = SandboxLifecycle::Dead { child };
                true
            }
            stage @ (SandboxLifecycle::New
            | SandboxLifecycle::Going { .. }
            | SandboxLifecycle::Dead { .. }) => {
                inner.stage = stage;
                false
            }
        };
        if !was_ready {
            return;
        }
        let mut ends = Vec::new();
        for (slot, container) in &mut inner.containers {
            let path = self.dir.join(rekindle_shim::state_file::name(slot));
            let found = records::read_phase(&path).unwrap_or_else(|| container.phase.clone());
            let is_told = matches!(container.phase, ContainerPhase::Exited { .. });
            container.phase = records::phase_without_shim(Some(found), now);
            if let (false, ContainerPhase::Exited { exit, .. }) = (is_told, &container.phase) {
                ends.push(exited(&container.record, exit));
            }
            if let Err(error) = records::write_phase(&path, &container.phase) {
                tracing::warn!(%error, path = %path.display(), "failed to record a container's exit");
            }
        }
        drop(inner);
        self.tell(RuntimeEvent::SandboxDied { key: self.key.clone() });
        ends.into_iter().for_each(|ended| self.tell(ended));
    }

    fn tell(&self, event: RuntimeEvent) {
        // Nobody listens any more when the runtime itself is being dropped.
        let _ = self.events.send(event);
    }
}

fn exited(record: &SlotRecord, exit: &ExitRecord) -> RuntimeEvent {
    let (key, created) = (record.key.clone(), record.created());
    RuntimeEvent::ContainerExited { key, created, exit: records::exit(exit) }
}

/// How a sandbox is reached, by its shim.
pub(crate) fn info(id: &str, pid: u32, namespaces: Namespaces) -> SandboxInfo {
    let netns = PathBuf::from(format!("/proc/{pid}/ns/net"));
    SandboxInfo { id: id.to_owned(), netns, pid, namespaces }
}

/// The sandbox that a shim's messages are for; there is none while it is a spare.
#[derive(Clone, Default)]
pub(crate) struct MessageTarget(Arc<OnceLock<Weak<EmbeddedSandbox>>>);

impl MessageTarget {
    /// They are for this one from now on.
    pub(crate) fn set(&self, sandbox: &Arc<EmbeddedSandbox>) {
        // A spare is claimed once.
        let _ = self.0.set(Arc::downgrade(sandbox));
    }

    pub(crate) fn get(&self) -> Option<Arc<EmbeddedSandbox>> {
        self.0.get()?.upgrade()
    }
}

impl From<&Arc<EmbeddedSandbox>> for MessageTarget {
    fn from(sandbox: &Arc<EmbeddedSandbox>) -> Self {
        let target = Self::default();
        target.set(sandbox);
        target
    }
}

/// A sandbox that was made ahead of need and waits for its pod.
pub(crate) struct SpareSandbox {
    pub(crate) id: String,
    pub(crate) link: ShimLink,
    /// Whom the link's messages are for, once there is somebody.
    pub(crate) target: MessageTarget,
    pub(crate) child: Child,
    pub(crate) records: RecordFile,
    pub(crate) roots: RootFolders,
}
