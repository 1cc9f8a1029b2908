//! A runtime as the core's actions want it: idempotent by keys, and strict. What the core must
//! never ask for panics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rekindle_pod::{
    ActionErrorKind, ActionOutcome, ContainerSeen, ContainerSeenState, ContainerStartKey,
    CoreAction, ImageSource, Made, ProbeVerdict, PullPolicy, SandboxSeen, SandboxSeenState,
    Snapshot,
};
use rekindle_types::{
    ContainerName, Exit, ExitStatus, SandboxAttempt, StopNotice, Tick, TickDuration,
};

use super::Processes;

#[derive(Debug, Default)]
pub struct Runtime {
    sandboxes: BTreeMap<SandboxAttempt, Sandbox>,
    gone: BTreeSet<SandboxAttempt>,
    exits: Vec<(ContainerStartKey, Exit)>,
    /// Whose end the core was told of.
    told: BTreeSet<ContainerStartKey>,
    fetched: BTreeSet<String>,
    /// How often each container's process was started, or tried to.
    pub starts: BTreeMap<String, u32>,
    /// When, by container.
    pub start_ticks: BTreeMap<String, Vec<Tick>>,
    /// How often emptyDir was made new.
    pub refreshes: usize,
    /// Containers that end by themselves when they are signalled.
    pub obeys_signals: bool,
    /// What probes and hooks of a container come to, by `name kind`; success when it is not told.
    pub answers: BTreeMap<String, Says>,
}

/// What a probe or a hook comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Success,
    Warning,
    Failure,
    /// A failure, as nothing listens.
    NotListening,
    /// No verdict.
    Error,
    /// It does not come to an end while the container runs.
    Hangs,
}

/// A process that nobody has asked to end.
pub fn runs_since(started_at: Tick) -> ContainerSeenState {
    ContainerSeenState::Running { started_at, notice: StopNotice::NotGiven }
}

#[derive(Debug)]
struct Sandbox {
    state: SandboxSeenState,
    containers: BTreeMap<ContainerStartKey, ContainerSeenState>,
}

impl Runtime {
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty()
    }

    pub fn carry_out(
        &mut self,
        now: Tick,
        action: &CoreAction,
    ) -> Result<ActionOutcome, ActionErrorKind> {
        match action {
            CoreAction::MountVolumes => Ok(ActionOutcome::Done),
            CoreAction::RefreshVolumes => {
                let running = self.running().next();
                assert!(running.is_none(), "emptyDir is refreshed below {running:?}");
                self.refreshes += 1;
                Ok(ActionOutcome::Done)
            }
            CoreAction::SetUpSandbox { attempt, .. } => self.set_up(*attempt),
            CoreAction::TearDownSandbox { attempt } => {
                self.tear_down(now, *attempt);
                Ok(ActionOutcome::Done)
            }
            CoreAction::FindImage { image, policy, .. } => Ok(self.look_for_image(image, *policy)),
            CoreAction::PullImage { image, .. } => {
                self.fetched.insert(in_full(image));
                let source = ImageSource::Pulled {
                    took: TickDuration::from_millis(1200),
                    with_waiting: TickDuration::from_millis(1250),
                    size_bytes: 12_345,
                };
                Ok(ActionOutcome::ImagePresent { image_id: image_id(image), source })
            }
            CoreAction::StartContainer { key, target } => {
                self.create(key, target.as_ref())?;
                Ok(ActionOutcome::ContainerMade {
                    made: made(key),
                    start: Ok(self.start(now, key)?),
                })
            }
            CoreAction::SignalContainer { key } => {
                let exit = ExitStatus::Signal { signal: 15 };
                self.reach(key)?;
                self.give_notice(key);
                if self.obeys_signals {
                    self.end(now, key, exit);
                }
                Ok(ActionOutcome::Done)
            }
            CoreAction::KillContainer { key } => {
                self.reach(key)?;
                self.end(now, key, ExitStatus::Signal { signal: 9 });
                Ok(ActionOutcome::Done)
            }
            CoreAction::RemoveContainer { key } => self.remove(key),
            CoreAction::UpdateSandbox { attempt, .. } => match self.sandboxes.get(attempt) {
                Some(sandbox) if sandbox.state == SandboxSeenState::Ready => {
                    Ok(ActionOutcome::Done)
                }
                Some(_) | None => Err(ActionErrorKind::Other),
            },
            CoreAction::UpdateContainer { key } => self.reach(key).map(|()| ActionOutcome::Done),
            CoreAction::RunProbe { key, probe, .. } => {
                match self.says(key, &format!("{probe:?}")) {
                    Says::Success => Ok(probed(ProbeVerdict::Success, "ok")),
                    Says::Warning => Ok(probed(ProbeVerdict::Warning, "look at this")),
                    Says::Failure => Ok(probed(ProbeVerdict::Failure, "it is ill")),
                    Says::NotListening => {
                        Ok(probed(ProbeVerdict::NotListening, "connection refused"))
                    }
                    Says::Error | Says::Hangs => Err(ActionErrorKind::Other),
                }
            }
            CoreAction::RunHook { key, hook, .. } => match self.says(key, &format!("{hook:?}")) {
                Says::Success | Says::Warning => Ok(ActionOutcome::Done),
                Says::Failure | Says::NotListening | Says::Error | Says::Hangs => {
                    Err(ActionErrorKind::Other)
                }
            },
        }
    }

    /// Images of `registry.test` are not here until they are fetched; all others are.
    fn look_for_image(&self, image: &str, policy: PullPolicy) -> ActionOutcome {
        let here = !image.starts_with("registry.test/") || self.fetched.contains(&in_full(image));
        match policy {
            PullPolicy::Always => to_fetch(image),
            PullPolicy::IfNotPresent | PullPolicy::Never if here => ActionOutcome::ImagePresent {
                image_id: image_id(image),
                source: ImageSource::AlreadyPresent,
            },
            PullPolicy::IfNotPresent | PullPolicy::Never => to_fetch(image),
        }
    }

    fn set_up(&mut self, attempt: SandboxAttempt) -> Result<ActionOutcome, ActionErrorKind> {
        assert!(!self.gone.contains(&attempt), "sandbox {attempt} was torn down before");
        let newest = self.sandboxes.keys().next_back();
        assert!(newest.is_none_or(|newest| *newest <= attempt), "an older sandbox is set up");
        let empty = || Sandbox { state: SandboxSeenState::Ready, containers: BTreeMap::new() };
        self.sandboxes.entry(attempt).or_insert_with(empty);
        Ok(ActionOutcome::SandboxReady { ips: vec![address(attempt)] })
    }

    fn tear_down(&mut self, now: Tick, attempt: SandboxAttempt) {
        let keys: Vec<ContainerStartKey> =
            self.running().filter(|k| k.sandbox == attempt).collect();
        for key in keys {
            self.end(now, &key, ExitStatus::Signal { signal: 9 });
        }
        self.sandboxes.remove(&attempt);
        self.gone.insert(attempt);
    }

    pub fn create(
        &mut self,
        key: &ContainerStartKey,
        target: Option<&ContainerStartKey>,
    ) -> Result<(), ActionErrorKind> {
        if target.is_some_and(|target| !self.running().any(|running| running == *target)) {
            return Err(ActionErrorKind::ContainerCreate);
        }
        let Some(sandbox) = self.sandboxes.get_mut(&key.sandbox) else {
            return Err(ActionErrorKind::Other);
        };
        if sandbox.state == SandboxSeenState::NotReady {
            return Err(ActionErrorKind::Other);
        }
        let state = sandbox.containers.entry(key.clone()).or_insert(ContainerSeenState::Created);
        let ended = is_end(state);
        assert!(!ended || !self.told.contains(key), "{key:?} has ended, and is started again");
        Ok(())
    }

    fn start(&mut self, now: Tick, key: &ContainerStartKey) -> Result<Tick, ActionErrorKind> {
        let other = self.running().find(|other| other.name == key.name && other != key);
        assert!(other.is_none(), "{key:?} is started beside {other:?}");
        let Some(sandbox) = self.sandboxes.get_mut(&key.sandbox) else {
            return Err(ActionErrorKind::Other);
        };
        if sandbox.state == SandboxSeenState::NotReady {
            return Err(ActionErrorKind::Other);
        }
        let state =
            sandbox.containers.get_mut(key).unwrap_or_else(|| panic!("{key:?} was not created"));
        match state {
            ContainerSeenState::Created => {
                *state = runs_since(now);
                self.count_start(now, key);
                Ok(now)
            }
            ContainerSeenState::Running { started_at, .. } => Ok(*started_at),
            ContainerSeenState::Exited { exit } => Ok(exit.started_at),
        }
    }

    /// Beside an init container (`init…`) only sidecars (`side…`) and ephemeral containers
    /// (`debug…`) may run.
    fn check_order(&self, key: &ContainerStartKey) {
        if key.name.0.starts_with("side") || key.name.0.starts_with("debug") {
            return;
        }
        let mut others = self.running().filter(|other| other != key);
        let beside = others.find(|other| {
            other.name.0.starts_with("init")
                || (key.name.0.starts_with("init") && other.name.0.starts_with("main"))
        });
        assert!(beside.is_none(), "{key:?} is started while {beside:?} runs");
    }

    /// Starts minus one is the number of the start, always.
    fn count_start(&mut self, now: Tick, key: &ContainerStartKey) {
        let starts = self.starts.entry(key.name.0.clone()).or_default();
        *starts += 1;
        assert_eq!(key.attempt.0 + 1, *starts, "the number of {key:?} is not starts minus one");
        self.start_ticks.entry(key.name.0.clone()).or_default().push(now);
    }

    pub fn start_failed(&mut self, now: Tick, key: &ContainerStartKey) {
        self.count_start(now, key);
        if let Some(sandbox) = self.sandboxes.get_mut(&key.sandbox) {
            let exit = exit(now, now, ExitStatus::StartError);
            sandbox.containers.insert(key.clone(), ContainerSeenState::Exited { exit });
        }
    }

    /// What is asked of a container that does not run fails.
    fn says(&self, key: &ContainerStartKey, kind: &str) -> Says {
        if !self.running().any(|running| running == *key) {
            return Says::Failure;
        }
        let told = self.answers.get(&format!("{} {kind}", key.name));
        told.copied().unwrap_or(Says::Success)
    }

    /// Whether an action does not come to its end yet.
    pub fn hangs(&self, action: &CoreAction) -> bool {
        match action {
            CoreAction::RunProbe { key, probe, .. } => {
                self.says(key, &format!("{probe:?}")) == Says::Hangs
            }
            CoreAction::RunHook { key, hook, .. } => {
                self.says(key, &format!("{hook:?}")) == Says::Hangs
            }
            _ => false,
        }
    }

    fn reach(&self, key: &ContainerStartKey) -> Result<(), ActionErrorKind> {
        match self.sandboxes.get(&key.sandbox) {
            Some(sandbox) if sandbox.state == SandboxSeenState::Ready => Ok(()),
            Some(_) | None => Err(ActionErrorKind::Other),
        }
    }

    fn remove(&mut self, key: &ContainerStartKey) -> Result<ActionOutcome, ActionErrorKind> {
        if let Some(sandbox) = self.sandboxes.get_mut(&key.sandbox) {
            let runs = matches!(
                sandbox.containers.get(key),
                Some(ContainerSeenState::Running { .. } | ContainerSeenState::Created)
            );
            assert!(!runs, "{key:?} runs, and is taken away");
            sandbox.containers.remove(key);
        }
        Ok(ActionOutcome::Done)
    }

    fn give_notice(&mut self, key: &ContainerStartKey) {
        let sandbox = self.sandboxes.get_mut(&key.sandbox);
        if let Some(ContainerSeenState::Running { notice, .. }) =
            sandbox.and_then(|sandbox| sandbox.containers.get_mut(key))
        {
            *notice = StopNotice::Given;
        }
    }

    fn end(&mut self, now: Tick, key: &ContainerStartKey, status: ExitStatus) {
        let Some(sandbox) = self.sandboxes.get_mut(&key.sandbox) else { return };
        let Some(state) = sandbox.containers.get_mut(key) else { return };
        if let ContainerSeenState::Running { started_at, .. } = *state {
            let exit = exit(started_at, now, status);
            *state = ContainerSeenState::Exited { exit: exit.clone() };
            self.exits.push((key.clone(), exit));
        }
    }

    /// A process ends by itself; the core is not told yet.
    pub fn exit(&mut self, now: Tick, name: &str, status: ExitStatus) -> bool {
        let running = self.running().find(|key| key.name.0 == name);
        if let Some(key) = &running {
            self.end(now, key, status);
        }
        running.is_some()
    }

    /// The ends that are to be told.
    pub fn tell_exits(&mut self) -> Vec<(ContainerStartKey, Exit)> {
        let exits = std::mem::take(&mut self.exits);
        self.told.extend(exits.iter().map(|(key, _)| key.clone()));
        exits
    }

    /// Nobody is told of the ends that there are.
    pub fn forget_exits(&mut self) {
        self.exits.clear();
    }

    pub fn running(&self) -> impl Iterator<Item = ContainerStartKey> {
        self.sandboxes.values().flat_map(|sandbox| {
            let running = sandbox
                .containers
                .iter()
                .filter(|(_, state)| matches!(state, ContainerSeenState::Running { .. }));
            running.map(|(key, _)| key.clone())
        })
    }

    pub fn running_names(&self) -> BTreeSet<String> {
        self.running().map(|key| key.name.0).collect()
    }

    /// Of these, what can be known: in a sandbox that died nobody is asked any more.
    pub fn known_to_run(&self) -> Vec<ContainerStartKey> {
        let stands = |key: &ContainerStartKey| {
            let state = self.sandboxes.get(&key.sandbox).map(|sandbox| sandbox.state);
            state == Some(SandboxSeenState::Ready)
        };
        self.running().filter(stands).collect()
    }

    pub fn sandbox_attempts(&self) -> Vec<u32> {
        self.sandboxes.keys().map(|attempt| attempt.0).collect()
    }

    /// The newest sandbox dies, if it stands.
    pub fn sandbox_dies(&mut self, now: Tick, processes: Processes) -> Option<SandboxAttempt> {
        let (attempt, sandbox) = self.sandboxes.iter_mut().next_back()?;
        let attempt = *attempt;
        sandbox.state = SandboxSeenState::NotReady;
        if processes == Processes::DieToo {
            let keys: Vec<ContainerStartKey> =
                self.running().filter(|k| k.sandbox == attempt).collect();
            for key in keys {
                self.end(now, &key, ExitStatus::Signal { signal: 9 });
            }
            self.exits.clear(); // nobody was there to report them
        }
        Some(attempt)
    }

    /// A start that should not be there.
    pub fn insert(&mut self, key: ContainerStartKey, state: ContainerSeenState) {
        let sandbox = self.sandboxes.get_mut(&key.sandbox).expect("its sandbox stands");
        sandbox.containers.insert(key, state);
    }

    /// A running container is gone without a trace.
    pub fn forget(&mut self, name: &str) -> bool {
        let running = self.running().find(|key| key.name.0 == name);
        if let Some(key) = &running {
            let sandbox = self.sandboxes.get_mut(&key.sandbox).expect("it runs in one");
            sandbox.containers.remove(key);
        }
        running.is_some()
    }

    pub fn reboot(&mut self) {
        let created = |state: &ContainerSeenState| matches!(state, ContainerSeenState::Created);
        let used = self.sandboxes.iter().filter(|(_, s)| !s.containers.values().all(created));
        self.gone.extend(used.map(|(attempt, _)| *attempt));
        self.sandboxes.clear();
        self.exits.clear();
    }

    pub fn snapshot(&mut self) -> Snapshot {
        for sandbox in self.sandboxes.values() {
            let ended = sandbox.containers.iter().filter(|(_, state)| is_end(state));
            self.told.extend(ended.map(|(key, _)| key.clone()));
        }
        let sandboxes = self.sandboxes.iter().map(|(attempt, sandbox)| SandboxSeen {
            attempt: *attempt,
            state: sandbox.state,
            ips: vec![address(*attempt)],
            containers: sandbox.containers.iter().map(|(key, state)| seen(key, state)).collect(),
        });
        Snapshot { sandboxes: sandboxes.collect() }
    }
}

fn is_end(state: &ContainerSeenState) -> bool {
    matches!(state, ContainerSeenState::Exited { .. })
}

fn seen(key: &ContainerStartKey, state: &ContainerSeenState) -> ContainerSeen {
    ContainerSeen {
        name: key.name.clone(),
        attempt: key.attempt,
        made: made(key),
        state: state.clone(),
    }
}

pub fn exit(started_at: Tick, finished_at: Tick, status: ExitStatus) -> Exit {
    Exit { status, started_at, finished_at, message: String::new() }
}

pub fn made(key: &ContainerStartKey) -> Made {
    Made {
        container_id: format!("rekindle://{}-{}-{}", key.sandbox, key.name, key.attempt),
        image_id: image_id("any"),
        user: None,
    }
}

fn to_fetch(image: &str) -> ActionOutcome {
    ActionOutcome::ImageToPull { name: in_full(image) }
}

/// Without a tag it is the image tagged `latest`.
fn in_full(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') { image.to_owned() } else { format!("{image}:latest") }
}

fn image_id(image: &str) -> String {
    format!("sha256:{image}")
}

fn address(attempt: SandboxAttempt) -> IpAddr {
    IpAddr::from([10, 88, 0, u8::try_from(attempt.0 % 250).unwrap_or(0) + 2])
}

pub fn key(sandbox: u32, name: &str, attempt: u32) -> ContainerStartKey {
    ContainerStartKey {
        sandbox: SandboxAttempt(sandbox),
        name: ContainerName(name.to_owned()),
        attempt: rekindle_types::ContainerAttempt(attempt),
    }
}

fn probed(verdict: ProbeVerdict, output: &str) -> ActionOutcome {
    ActionOutcome::Probed { verdict, output: output.to_owned() }
}
