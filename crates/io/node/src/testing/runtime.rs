//! A container runtime that only remembers, on a machine that outlives the agents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rekindle_runtime::{
    ContainerKey, ContainerSnapshot, ContainerSpec, CreatedContainer, ExecExit, ExecOutcome,
    ExecStreams, ImageErrorKind, ImageFileSystem, ImageInfo, ImageOnDisk, ImagePull, LayerUsage,
    LimitChange, Namespaces, Resources, Runtime, RuntimeContainerState, RuntimeContainerUsage,
    RuntimeError, RuntimeEvent, RuntimeUsage, SandboxInfo, SandboxKey, SandboxMemory,
    SandboxReadiness, SandboxSnapshot, SandboxSpec, SandboxUsage, SandboxUsers, StartedContainer,
    StopSignal, StreamRequest,
};
use rekindle_types::{Exit, ExitStatus, StopNotice, Tick};
use tokio::sync::{mpsc, watch};

use super::images::Images;
use super::usage::Usages;
use crate::clock::Clock;

/// The machine: what stands on it, and what was done to it.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    images: Mutex<Images>,
    usages: Mutex<Usages>,
    changed: watch::Sender<u64>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<SandboxKey, BTreeMap<ContainerKey, Standing>>,
    /// Of every sandbox that ever stood.
    namespaces: BTreeMap<SandboxKey, Namespaces>,
    calls: Vec<String>,
    /// Containers by name that end with this code as soon as they start.
    ends_at_once: BTreeMap<String, i32>,
    /// Containers by name that do not end on their stop signal.
    stubborn: Vec<String>,
    /// Containers by name that do not even end on SIGKILL.
    stuck: Vec<String>,
    /// How long the starts of a container take.
    start_times: BTreeMap<String, Duration>,
    /// How commands end that are run in containers, by their text.
    commands: BTreeMap<String, CommandEnds>,
    /// Creating a container of this name panics, once.
    panics_at: Option<String>,
    /// Boundaries of calls that are still passed before the agent hangs there for ever.
    crash_in: Option<u32>,
    agent: Option<mpsc::UnboundedSender<RuntimeEvent>>,
}

/// How a command in a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnds {
    With(i32),
    /// Not before its time is over.
    Never,
}

#[derive(Clone, Debug)]
struct Standing {
    spec: ContainerSpec,
    state: RuntimeContainerState,
}

/// One agent's connection to the machine.
pub(crate) struct FakeRuntime {
    machine: Machine,
    events: tokio::sync::Mutex<mpsc::UnboundedReceiver<RuntimeEvent>>,
}

impl Machine {
    pub(crate) fn new(clock: Clock) -> Self {
        let changed = watch::Sender::new(0);
        Self(Arc::new(Shared {
            state: Mutex::default(),
            images: Mutex::default(),
            usages: Mutex::default(),
            changed,
            clock,
        }))
    }

    /// The images, to look at and to change.
    pub(crate) fn images(&self) -> MutexGuard<'_, Images> {
        self.0.images.lock().unwrap()
    }

    /// What the containers use, to look at and to change.
    pub(crate) fn usages(&self) -> MutexGuard<'_, Usages> {
        self.0.usages.lock().unwrap()
    }

    /// A new agent connects; the one before hears nothing more.
    pub(crate) fn connect(&self) -> FakeRuntime {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.state.lock().unwrap().agent = Some(sender);
        FakeRuntime { machine: self.clone(), events: tokio::sync::Mutex::new(receiver) }
    }

    /// Nobody listens: what ends now is only seen in a snapshot.
    pub(crate) fn disconnect(&self) {
        self.0.state.lock().unwrap().agent = None;
    }

    /// The agent stops for ever at the boundary after `count` others; see
    /// [`crashed`](Self::crashed).
    pub(crate) fn crash_in(&self, count: u32) {
        self.0.state.lock().unwrap().crash_in = Some(count);
    }

    /// Whether the boundary was reached.
    pub(crate) fn crashed(&self) -> bool {
        self.0.state.lock().unwrap().crash_in == Some(0)
    }

    pub(crate) fn no_more_crashes(&self) {
        self.0.state.lock().unwrap().crash_in = None;
    }

    pub(crate) fn ends_at_once(&self, container: &str, code: i32) {
        self.0.state.lock().unwrap().ends_at_once.insert(container.to_owned(), code);
    }

    pub(crate) fn panics_at_create(&self, container: &str) {
        self.0.state.lock().unwrap().panics_at = Some(container.to_owned());
    }

    /// How a command ends from now on.
    pub(crate) fn command(&self, command: &str, ends: CommandEnds) {
        self.0.state.lock().unwrap().commands.insert(command.to_owned(), ends);
    }

    pub(crate) fn stubborn(&self, container: &str) {
        self.0.state.lock().unwrap().stubborn.push(container.to_owned());
    }

    /// As a process that waits for a disk that does not answer.
    pub(crate) fn stuck(&self, container: &str) {
        self.0.state.lock().unwrap().stuck.push(container.to_owned());
    }

    /// From now on its starts take so long.
    pub(crate) fn starts_in(&self, container: &str, time: Duration) {
        self.0.state.lock().unwrap().start_times.insert(container.to_owned(), time);
    }

    /// Ends the running start of a container.
    pub(crate) fn end(&self, container: &str, status: ExitStatus) {
        let mut state = self.0.state.lock().unwrap();
        let key = state
            .containers()
            .find(|(key, standing)| key.name.0 == container && is_running(&standing.state))
            .map(|(key, _)| key.clone())
            .unwrap_or_else(|| panic!("{container} does not run"));
        state.end(&key, status, self.0.clock.now());
        drop(state);
        self.notify();
    }

    /// The starts of a container that were made so far.
    pub(crate) fn starts(&self, container: &str) -> usize {
        self.count(&format!("start {container}#"))
    }

    /// Calls that begin with this text and had an effect.
    pub(crate) fn count(&self, begin: &str) -> usize {
        let state = self.0.state.lock().unwrap();
        state.calls.iter().filter(|call| call.starts_with(begin)).count()
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.state.lock().unwrap().calls.clone()
    }

    pub(crate) fn sandboxes(&self) -> Vec<SandboxKey> {
        self.0.state.lock().unwrap().sandboxes.keys().cloned().collect()
    }

    /// Whose users the sandboxes of a pod had, up to the newest.
    pub(crate) fn users(&self, pod: &str) -> Vec<SandboxUsers> {
        let state = self.0.state.lock().unwrap();
        let of_pod = state.namespaces.iter().filter(|(key, _)| key.pod.name == pod);
        of_pod.map(|(_, namespaces)| namespaces.users).collect()
    }

    /// The running containers as `name#attempt`.
    pub(crate) fn running(&self) -> Vec<String> {
        let state = self.0.state.lock().unwrap();
        let running = state.containers().filter(|(_, standing)| is_running(&standing.state));
        running.map(|(key, _)| format!("{}#{}", key.name, key.attempt)).collect()
    }

    /// The spec that the newest start of a container was made with.
    pub(crate) fn spec(&self, container: &str) -> ContainerSpec {
        let state = self.0.state.lock().unwrap();
        let mut of_name = state.containers().filter(|(key, _)| key.name.0 == container);
        of_name.next_back().unwrap().1.spec.clone()
    }

    /// Waits until the machine is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Machine) -> bool) {
        let mut changed = self.0.changed.subscribe();
        let waited = tokio::time::timeout(std::time::Duration::from_secs(7200), async {
            while !is_so(self) {
                changed.changed().await.unwrap();
            }
        });
        if waited.await.is_err() {
            panic!("never came: {what}; calls: {:#?}", self.calls());
        }
    }

    pub(crate) fn notify(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    /// A place where an agent may die.
    pub(super) async fn boundary(&self) {
        let hangs = {
            let mut state = self.0.state.lock().unwrap();
            match &mut state.crash_in {
                None => false,
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    *left == 0
                }
            }
        };
        if hangs {
            self.notify();
            std::future::pending::<()>().await;
        }
    }

    async fn call<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        self.boundary().await;
        let answer = work(&mut self.0.state.lock().unwrap());
        self.notify();
        self.boundary().await;
        answer
    }
}

impl State {
    fn containers(&self) -> impl DoubleEndedIterator<Item = (&ContainerKey, &Standing)> {
        self.sandboxes.values().flatten()
    }

    fn standing(&mut self, key: &ContainerKey) -> Option<&mut Standing> {
        self.sandboxes.get_mut(&key.sandbox)?.get_mut(key)
    }

    fn create(&mut self, spec: &ContainerSpec) -> Option<()> {
        let key = &spec.key;
        let containers = self.sandboxes.get_mut(&key.sandbox)?;
        containers.entry(key.clone()).or_insert_with(|| {
            self.calls.push(format!("create {}#{}", key.name, key.attempt));
            Standing { spec: spec.clone(), state: RuntimeContainerState::Created }
        });
        Some(())
    }

    /// Since when it runs or ran.
    fn start(&mut self, key: &ContainerKey, now: Tick) -> Option<Tick> {
        let standing = self.standing(key)?;
        match &standing.state {
            RuntimeContainerState::Running { started_at, .. } => return Some(*started_at),
            RuntimeContainerState::Exited { exit } => return Some(exit.started_at),
            RuntimeContainerState::Created => {}
        }
        standing.state = RuntimeContainerState::Running {
            pid: 100,
            started_at: now,
            notice: StopNotice::NotGiven,
        };
        self.calls.push(format!("start {}#{}", key.name, key.attempt));
        if let Some(code) = self.ends_at_once.get(&key.name.0).copied() {
            self.end(key, ExitStatus::Code { code }, now);
        }
        Some(now)
    }

    fn end(&mut self, key: &ContainerKey, status: ExitStatus, now: Tick) {
        let Some(standing) = self.standing(key) else { return };
        let RuntimeContainerState::Running { started_at, .. } = standing.state else { return };
        let exit = Exit { status, started_at, finished_at: now, message: String::new() };
        standing.state = RuntimeContainerState::Exited { exit: exit.clone() };
        if let Some(agent) = &self.agent {
            // an agent that is gone sees it in its next snapshot
            let (key, created) = (key.clone(), created(key));
            let _gone = agent.send(RuntimeEvent::ContainerExited { key, created, exit });
        }
    }
}

fn absent(operation: &'static str) -> RuntimeError {
    RuntimeError::Unavailable { operation, source: "absent".into() }
}

fn is_running(state: &RuntimeContainerState) -> bool {
    matches!(state, RuntimeContainerState::Running { .. })
}

fn id_of(key: &ContainerKey) -> String {
    format!("{}-{}-{}-{}", key.sandbox.pod.uid, key.sandbox.attempt, key.name, key.attempt)
}

fn created(key: &ContainerKey) -> CreatedContainer {
    CreatedContainer { id: id_of(key), image_id: "sha256:img".to_owned(), user: None }
}

fn sandbox_id_of(key: &SandboxKey) -> String {
    format!("{}-{}", key.pod.uid, key.attempt)
}

fn info_of(key: &SandboxKey, namespaces: Namespaces) -> SandboxInfo {
    let netns = PathBuf::from("/proc/1/ns/net");
    SandboxInfo { id: sandbox_id_of(key), netns, pid: 1, namespaces }
}

impl Runtime for FakeRuntime {
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxInfo, RuntimeError> {
        let (key, namespaces) = (spec.key.clone(), spec.namespaces);
        let work = move |state: &mut State| {
            if !state.sandboxes.contains_key(&key) {
                state.calls.push(format!("sandbox {}", key.attempt));
                state.namespaces.insert(key.clone(), namespaces);
                state.sandboxes.insert(key, BTreeMap::new());
            }
        };
        self.machine.call(work).await;
        Ok(info_of(&spec.key, namespaces))
    }

    fn sandbox_id(&self, key: &SandboxKey) -> Option<String> {
        let state = self.machine.0.state.lock().unwrap();
        state.sandboxes.contains_key(key).then(|| sandbox_id_of(key))
    }

    async fn remove_sandbox(&self, key: &SandboxKey) -> Result<(), RuntimeError> {
        self.machine
            .call(|state| {
                if state.sandboxes.remove(key).is_some() {
                    state.calls.push(format!("remove sandbox {}", key.attempt));
                }
            })
            .await;
        Ok(())
    }

    async fn create_container(
        &self,
        spec: &ContainerSpec,
    ) -> Result<CreatedContainer, RuntimeError> {
        let created = created(&spec.key);
        let panics = {
            let mut state = self.machine.0.state.lock().unwrap();
            state.panics_at.take_if(|name| *name == spec.key.name.0).is_some()
        };
        assert!(!panics, "told to panic");
        let security = &spec.security;
        if security.run_as_non_root && security.run_as_user.is_none() {
            // its images have no user of their own
            return Err(RuntimeError::Config {
                key: spec.key.clone(),
                problem: "container has runAsNonRoot and image will run as root".to_owned(),
            });
        }
        let made = self.machine.call(|state| state.create(spec)).await;
        made.map(|()| created).ok_or_else(|| absent("create: no sandbox"))
    }

    async fn start_container(&self, key: &ContainerKey) -> Result<StartedContainer, RuntimeError> {
        let takes = self.machine.0.state.lock().unwrap().start_times.get(&key.name.0).copied();
        if let Some(time) = takes {
            tokio::time::sleep(time).await;
        }
        let now = self.machine.0.clock.now();
        let started = self.machine.call(|state| state.start(key, now)).await;
        let started = started.ok_or_else(|| absent("start: no container"))?;
        Ok(StartedContainer { pid: 100, started_at: started })
    }

    async fn signal_container(
        &self,
        key: &ContainerKey,
        signal: StopSignal,
    ) -> Result<(), RuntimeError> {
        let now = self.machine.0.clock.now();
        self.machine
            .call(|state| {
                let killed = signal == StopSignal::Kill;
                state.calls.push(match signal {
                    StopSignal::Kill => format!("kill {}", key.name),
                    other => format!("signal {} {other:?}", key.name),
                });
                if let Some(Standing {
                    state: RuntimeContainerState::Running { notice, .. }, ..
                }) = state.standing(key)
                {
                    *notice = StopNotice::Given;
                }
                let stubborn = !killed && state.stubborn.contains(&key.name.0);
                if stubborn || state.stuck.contains(&key.name.0) {
                    return;
                }
                let status = if killed {
                    ExitStatus::Signal { signal: 9 }
                } else {
                    ExitStatus::Code { code: 0 }
                };
                state.end(key, status, now);
            })
            .await;
        Ok(())
    }

    async fn update_sandbox(
        &self,
        key: &SandboxKey,
        resources: &Resources,
        change: LimitChange,
    ) -> Result<(), RuntimeError> {
        let call = format!("limit pod {}m {change:?}", resources.cpu_limit_millis.unwrap_or(0));
        let known = self.machine.call(|state| {
            state.calls.push(call);
            state.sandboxes.contains_key(key)
        });
        if known.await { Ok(()) } else { Err(absent("update: no sandbox")) }
    }

    async fn update_container(
        &self,
        key: &ContainerKey,
        resources: &Resources,
    ) -> Result<(), RuntimeError> {
        let limit = resources.cpu_limit_millis.unwrap_or(0);
        let call = format!("limit {}#{} {limit}m", key.name, key.attempt);
        let update = |state: &mut State| {
            state.calls.push(call);
            if let Some(standing) = state.standing(key) {
                standing.spec.resources = resources.clone();
            }
        };
        self.machine.call(update).await;
        Ok(())
    }

    async fn memory(&self, _key: &SandboxKey) -> Result<SandboxMemory, RuntimeError> {
        Ok(SandboxMemory::default())
    }

    /// A command ends at once as the machine was told by its text, else with 0.
    async fn exec_sync(
        &self,
        key: &ContainerKey,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutcome, RuntimeError> {
        let command = command.join(" ");
        let call = format!("exec {} {command}", key.name);
        let ends = self.machine.call(move |state| {
            state.calls.push(call);
            state.commands.get(&command).copied().unwrap_or(CommandEnds::With(0))
        });
        let exit = match ends.await {
            CommandEnds::With(code) => ExecExit::Code(code),
            CommandEnds::Never => {
                tokio::time::sleep(timeout).await;
                ExecExit::TimedOut
            }
        };
        Ok(ExecOutcome { exit, output: b"said so".to_vec() })
    }

    async fn exec(
        &self,
        _key: &ContainerKey,
        _command: &[String],
        _request: StreamRequest,
    ) -> Result<ExecStreams, RuntimeError> {
        Err(absent("exec: no processes here"))
    }

    async fn attach(
        &self,
        _key: &ContainerKey,
        _request: StreamRequest,
    ) -> Result<ExecStreams, RuntimeError> {
        Err(absent("attach: no processes here"))
    }

    async fn remove_container(&self, key: &ContainerKey) -> Result<(), RuntimeError> {
        self.machine
            .call(|state| {
                if let Some(sandbox) = state.sandboxes.get_mut(&key.sandbox) {
                    sandbox.remove(key);
                }
            })
            .await;
        Ok(())
    }

    async fn snapshot(&self) -> Result<Vec<SandboxSnapshot>, RuntimeError> {
        let state = self.machine.0.state.lock().unwrap();
        let container = |(key, standing): (&ContainerKey, &Standing)| ContainerSnapshot {
            key: key.clone(),
            created: created(key),
            state: standing.state.clone(),
        };
        Ok(state
            .sandboxes
            .iter()
            .map(|(key, containers)| SandboxSnapshot {
                key: key.clone(),
                state: SandboxReadiness::Ready,
                id: sandbox_id_of(key),
                info: Some(info_of(key, state.namespaces[key])),
                containers: containers.iter().map(container).collect(),
            })
            .collect())
    }

    async fn usage(&self) -> Result<RuntimeUsage, RuntimeError> {
        let now = self.machine.0.clock.now();
        let (state, usages) = (self.machine.0.state.lock().unwrap(), self.machine.usages());
        let sandboxes = state.sandboxes.iter().map(|(key, containers)| {
            let running = containers.iter().filter(|(_, found)| is_running(&found.state));
            let names: Vec<&str> = running.map(|(key, _)| key.name.0.as_str()).collect();
            let container = |(key, standing): (&ContainerKey, &Standing)| RuntimeContainerUsage {
                key: key.clone(),
                id: id_of(key),
                started_at: match standing.state {
                    RuntimeContainerState::Running { started_at, .. } => Some(started_at),
                    RuntimeContainerState::Created | RuntimeContainerState::Exited { .. } => None,
                },
                cgroup: is_running(&standing.state).then(|| usages.of(&[&key.name.0], now)),
            };
            SandboxUsage {
                key: key.clone(),
                cgroup: Some(usages.of(&names, now)),
                network_pid: None,
                containers: containers.iter().map(container).collect(),
            }
        });
        Ok(RuntimeUsage { machine: usages.machine(now), sandboxes: sandboxes.collect() })
    }

    async fn layer_usage(
        &self,
        key: &ContainerKey,
        _entries_max: u64,
    ) -> Result<Option<LayerUsage>, RuntimeError> {
        Ok(Some(self.machine.usages().layer(&key.name.0)))
    }

    async fn next_event(&self) -> RuntimeEvent {
        match self.events.lock().await.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    async fn image_status(&self, image: &str) -> Result<Option<ImageInfo>, RuntimeError> {
        self.machine.boundary().await;
        Ok(self.machine.images().status(image))
    }

    async fn pull_image(&self, request: &ImagePull) -> Result<ImageInfo, RuntimeError> {
        self.machine.images().begin_pull(request);
        self.machine.notify();
        let _under_way = UnderWay(self.machine.clone());
        self.machine.until("pulls are let go", |machine| !machine.images().held).await;
        let fetched = self.machine.images().fetch(&request.image);
        fetched.ok_or_else(|| RuntimeError::Image {
            image: request.image.clone(),
            problem: "not found".to_owned(),
            kind: ImageErrorKind::Pull,
        })
    }

    async fn images(&self) -> Result<Vec<ImageOnDisk>, RuntimeError> {
        Ok(self.machine.images().here.values().cloned().collect())
    }

    async fn image_file_system(&self) -> Result<ImageFileSystem, RuntimeError> {
        Ok(self.machine.images().disk)
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.machine.images().remove(id);
        self.machine.notify();
        Ok(())
    }
}

/// A pull that has not ended.
struct UnderWay(Machine);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.images().under_way -= 1;
        self.0.notify();
    }
}
