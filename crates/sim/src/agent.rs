//! A node: the real pod cores over a fake runtime that takes its time and does what the scenario says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_pod::{
    Action, ActionError, ActionId, Config, ContainerKey, ContainerSeen, ContainerSeenState, Event,
    ImageSource, Journal, Outcome, PodCore, ResourceDecision, RestartRequest, SandboxSeen,
    SandboxSeenState, Snapshot, Verdict,
};
use rekindle_types::v1alpha1::PodRestartPhase;
use rekindle_types::{ContainerName, Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};

use crate::behaviour::{Behaviour, Start};
use crate::faults::{Fate, Faults, error_of};
use crate::known_bugs::KnownBug;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// What a well-behaved process takes to end after its stop signal.
const STOP: TickDuration = TickDuration::from_millis(10);

/// What one container does.
#[derive(Clone, Debug, PartialEq)]
enum Life {
    Created,
    Running { started_at: Tick, behaviour: Option<usize> },
    Exited(Exit),
}

/// One pod on a node: its core, what the agent's disk has of it, and what the runtime has of it.
#[derive(Debug)]
pub(crate) struct PodOnNode {
    pub(crate) core: PodCore,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: String,
    journal: Option<Journal>,
    config: Config,
    sandboxes: BTreeMap<SandboxAttempt, IpAddr>,
    containers: BTreeMap<ContainerKey, Life>,
    /// Every start that was ever made.
    starts: BTreeSet<ContainerKey>,
    /// Starts that failed.
    failed_starts: BTreeSet<ContainerKey>,
    /// The first promise that did not hold.
    broken: Option<String>,
    /// Since when containers are asked to end.
    signalled: BTreeMap<ContainerKey, Tick>,
    /// The shortest grace period that anybody gave.
    grace_min: TickDuration,
    /// What each container was allowed when it was made for the first time.
    privileges: BTreeMap<ContainerName, String>,
    leading_on: BTreeSet<ActionId>,
    unwritten: Option<PodStatus>,
    deletion_grace: Option<i64>,
    pub(crate) address: u32,
    /// Counts the agent's processes: what one of them was promised the next does not hear.
    pub(crate) incarnation: u32,
    /// Restart requests that were told to the core: namespace and name of their objects.
    pub(crate) requests: BTreeMap<String, (String, String)>,
    /// The sum of `restartCount` in the newest status.
    pub(crate) restarts: u64,
    /// Its object went without waiting for it.
    pub(crate) has_vanished: bool,
    pub(crate) backlog: Backlog,
    /// The agent died before the core's next action.
    pub(crate) died: bool,
}

/// What could not be written while the node had no network.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) status: Option<Box<PodStatus>>,
    /// The newest status that was to be written, also when it was.
    pub(crate) said: Option<Box<PodStatus>>,
    pub(crate) reports: Vec<Report>,
    pub(crate) finished: bool,
}

/// How a restart request goes.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The UID of the PodRestart.
    pub(crate) id: String,
    pub(crate) phase: PodRestartPhase,
    pub(crate) message: String,
    pub(crate) at: Tick,
}

/// What follows from an action, and when.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// The runtime answers after this time.
    Answer(TickDuration, ActionId, Result<Outcome, ActionError>),
    /// The container's process ends after this time.
    Ends(TickDuration, ContainerKey, ExitStatus),
    /// This status is to be written.
    Status(Box<PodStatus>),
    /// This event.
    Event(rekindle_pod::PodEvent),
    /// This is to be said of a restart request.
    Report(Report),
    /// The pod is over; its object goes if it is being deleted.
    Finished,
}

impl PodOnNode {
    pub(crate) fn new(now: Tick, pod: Arc<Pod>, node: &str, config: Config, address: u32) -> Self {
        let grace = spec_grace(&pod);
        let mut made = Self {
            core: PodCore::new(now, pod.clone(), config.clone()),
            pod,
            node: node.to_owned(),
            journal: None,
            config,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            starts: BTreeSet::new(),
            failed_starts: BTreeSet::new(),
            broken: None,
            signalled: BTreeMap::new(),
            grace_min: TickDuration::from_secs(u64::try_from(grace).unwrap_or(0)),
            privileges: BTreeMap::new(),
            leading_on: BTreeSet::new(),
            unwritten: None,
            deletion_grace: None,
            address,
            incarnation: 0,
            requests: BTreeMap::new(),
            restarts: 0,
            has_vanished: false,
            backlog: Backlog::default(),
            died: false,
        };
        made.core.handle(now, Event::RuntimeSnapshot(Snapshot::default()));
        made.tell_deletion(now);
        made
    }

    /// The agent's process dies and another one takes the pod up from journal and runtime, and from the object as it finds it.
    pub(crate) fn agent_crashes(&mut self, now: Tick, found: Option<Arc<Pod>>, faults: &Faults) {
        self.incarnation += 1;
        self.leading_on.clear();
        self.unwritten = None;
        self.deletion_grace = None;
        self.requests.clear();
        self.backlog = Backlog::default();
        self.died = false;
        if let Some(found) = found {
            self.pod = found;
        }
        if faults.bug == Some(KnownBug::AgentRestartEndsAll) {
            self.end_all(now);
        }
        let (pod, config) = (self.pod.clone(), self.config.clone());
        self.core = match self.journal.clone() {
            Some(journal) => PodCore::recover(now, pod, journal, config),
            None => PodCore::new(now, pod, config),
        };
        let snapshot = self.snapshot(faults);
        self.core.handle(now, Event::RuntimeSnapshot(snapshot));
        match self.has_vanished {
            true => self.delete(now, spec_grace(&self.pod)),
            false => self.tell_deletion(now),
        }
    }

    fn end_all(&mut self, now: Tick) {
        let running: Vec<ContainerKey> = self.running().cloned().collect();
        for key in running {
            self.breaks(|| format!("P1: an agent that starts again ends {key:?}"));
            self.exits(now, key, ExitStatus::Signal { signal: SIGKILL });
        }
    }

    /// What runs.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ContainerKey> {
        let runs = self.containers.iter().filter(|(_, life)| matches!(life, Life::Running { .. }));
        runs.map(|(key, _)| key)
    }

    /// How often each container's process was started, whether or not it is still known.
    pub(crate) fn starts_of(&self, name: &str) -> usize {
        self.starts.iter().filter(|key| key.name.0 == name).count()
    }

    /// How often the runtime could not start it: such an attempt counts as well.
    pub(crate) fn failed_starts_of(&self, name: &str) -> usize {
        self.failed_starts.iter().filter(|key| key.name.0 == name).count()
    }

    /// How often its containers' processes were started.
    pub(crate) fn starts(&self) -> usize {
        self.starts.len()
    }

    /// The sandboxes that stand.
    pub(crate) fn sandboxes(&self) -> impl Iterator<Item = SandboxAttempt> {
        self.sandboxes.keys().copied()
    }

    /// The sandbox dies with all in it.
    pub(crate) fn sandbox_dies(&mut self, now: Tick, attempt: SandboxAttempt) {
        if self.sandboxes.remove(&attempt).is_none() {
            return;
        }
        let inside: Vec<ContainerKey> =
            self.running().filter(|key| key.sandbox == attempt).cloned().collect();
        for key in inside {
            self.signalled.remove(&key);
            self.exits(now, key, ExitStatus::Signal { signal: SIGKILL });
        }
        self.core.handle(now, Event::SandboxDied { attempt });
    }

    /// Takes over what is left of another pod.
    pub(crate) fn inherit(&mut self, now: Tick, other: Self) {
        (self.sandboxes, self.containers) = (other.sandboxes, other.containers);
        self.starts = other.starts;
        let snapshot = self.snapshot(&Faults::none());
        self.core.handle(now, Event::RuntimeSnapshot(snapshot));
        if !self.sandboxes.is_empty() {
            self.breaks(|| "P1: a new pod has the sandbox of another one".to_owned());
        }
    }

    fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    /// The object changed in the API.
    pub(crate) fn updated(&mut self, now: Tick, pod: Arc<Pod>) {
        let old = std::mem::replace(&mut self.pod, pod.clone());
        if rekindle_pod::concerns_core(&old, &pod) {
            self.core.handle(now, Event::SpecChanged(pod));
            self.tell_deletion(now);
        }
    }

    /// The object is gone from the API.
    pub(crate) fn vanished(&mut self, now: Tick) {
        self.has_vanished = true;
        let grace = self.deletion_grace.unwrap_or_else(|| spec_grace(&self.pod));
        self.delete(now, grace);
    }

    pub(crate) fn restart(&mut self, now: Tick, request: RestartRequest, object: (String, String)) {
        if self.requests.insert(request.id.clone(), object).is_none() {
            self.grace_min =
                request.grace.map_or(self.grace_min, |grace| grace.min(self.grace_min));
            self.core.handle(now, Event::RestartRequested(request));
        }
    }

    fn tell_deletion(&mut self, now: Tick) {
        if self.pod.metadata.deletion_timestamp.is_none() {
            return;
        }
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        let grace = grace.unwrap_or_else(|| spec_grace(&self.pod));
        if self.deletion_grace != Some(grace) {
            self.delete(now, grace);
        }
    }

    fn delete(&mut self, now: Tick, grace: i64) {
        self.deletion_grace = Some(grace);
        let grace = TickDuration::from_secs(u64::try_from(grace).unwrap_or(0));
        self.grace_min = self.grace_min.min(grace);
        self.core.handle(now, Event::DeleteRequested { grace });
    }

    /// The runtime answers.
    pub(crate) fn answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        self.leading_on.remove(&id);
        self.core.handle(now, Event::ActionResult { id, result });
    }

    /// A process ends, if it still runs.
    pub(crate) fn exits(&mut self, now: Tick, key: ContainerKey, status: ExitStatus) {
        let Some(exit) = self.ended(now, &key, status) else { return };
        self.core.handle(now, Event::ContainerExited { key, exit });
    }

    /// The same, and nobody hears of it.
    pub(crate) fn exits_unheard(&mut self, now: Tick, key: &ContainerKey, status: ExitStatus) {
        self.ended(now, key, status);
    }

    fn ended(&mut self, now: Tick, key: &ContainerKey, status: ExitStatus) -> Option<Exit> {
        let life = self.containers.get_mut(key)?;
        let Life::Running { started_at, .. } = *life else { return None };
        let exit = Exit { status, started_at, finished_at: now, message: String::new() };
        *life = Life::Exited(exit.clone());
        let killed = status == ExitStatus::Signal { signal: SIGKILL };
        let signalled = self.signalled.remove(key);
        if let Some(since) = signalled.filter(|since| killed && now.since(*since) < self.grace_min)
        {
            let (had, grace) = (now.since(since), self.grace_min);
            self.breaks(|| {
                let (had, grace) = (had.as_micros() / 1_000, grace.as_micros() / 1_000);
                format!("P5: {key:?} was killed after {had} ms of its grace period of {grace} ms")
            });
        }
        Some(exit)
    }

    /// Carries out all that the core asks for, until the agent dies of it.
    pub(crate) fn act(
        &mut self,
        now: Tick,
        run: &[Behaviour],
        since: Tick,
        faults: &mut Faults,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((id, action)) = self.core.poll_action() {
            if faults.dies_here() {
                self.died = true;
                return effects;
            }
            match faults.fate(&action) {
                Fate::Well => self.carry_out(now, id, action, (run, since, faults), &mut effects),
                Fate::Fails => {
                    if let Action::StartContainer { key } = &action {
                        self.failed_starts.insert(key.clone());
                    }
                    let error = Err(error_of(&action));
                    effects.push(Effect::Answer(TickDuration::from_millis(5), id, error));
                }
                Fate::DoneButFails => {
                    let (error, first) = (error_of(&action), effects.len());
                    self.leading_on.remove(&id);
                    self.carry_out(now, id, action, (run, since, faults), &mut effects);
                    for effect in &mut effects[first..] {
                        if let Effect::Answer(_, _, result) = effect {
                            *result = Err(error.clone());
                        }
                    }
                }
                Fate::Late(late) => {
                    let first = effects.len();
                    self.carry_out(now, id, action, (run, since, faults), &mut effects);
                    for effect in &mut effects[first..] {
                        if let Effect::Answer(after, _, _) = effect {
                            *after = *after + late;
                        }
                    }
                }
            }
        }
        // while something is on its way that brings another status at once, this one would only stand in its way
        if self.leading_on.is_empty() || effects.iter().any(|e| matches!(e, Effect::Finished)) {
            let status = self.unwritten.take();
            effects.splice(0..0, status.map(|status| Effect::Status(Box::new(status))));
        }
        effects
    }

    fn carry_out(
        &mut self,
        now: Tick,
        id: ActionId,
        action: Action,
        (run, since, faults): (&[Behaviour], Tick, &Faults),
        effects: &mut Vec<Effect>,
    ) {
        let answer =
            |millis, outcome| Effect::Answer(TickDuration::from_millis(millis), id, Ok(outcome));
        match action {
            Action::Persist(journal) => self.journal = Some(*journal),
            Action::MountVolumes | Action::RefreshVolumes => {
                self.leading_on.insert(id);
                effects.push(answer(1, Outcome::Done));
            }
            Action::SetUpSandbox { attempt, refresh: _ } => {
                self.leading_on.insert(id);
                let ip = IpAddr::V4(Ipv4Addr::from_bits(self.address));
                self.sandboxes.insert(attempt, ip);
                effects.push(answer(40, Outcome::SandboxReady { ips: vec![ip] }));
            }
            Action::TearDownSandbox { attempt } => {
                self.sandboxes.remove(&attempt);
                let inside: Vec<ContainerKey> =
                    self.running().filter(|key| key.sandbox == attempt).cloned().collect();
                for key in inside {
                    self.ended(now, &key, ExitStatus::Signal { signal: SIGKILL });
                }
                self.containers.retain(|key, _| key.sandbox != attempt);
                effects.push(answer(20, Outcome::Done));
            }
            Action::PullImage { image, .. } | Action::FetchImage { image, .. } => {
                self.leading_on.insert(id);
                let here = ImageSource::AlreadyPresent;
                effects.push(answer(1, Outcome::ImagePresent { image_id: image, source: here }));
            }
            Action::CreateContainer { key, target: _ } => {
                self.leading_on.insert(id);
                effects.push(answer(1, self.create(key)));
            }
            Action::StartContainer { key } => {
                self.leading_on.insert(id);
                effects.extend(self.start(now, id, &key, run, since));
            }
            Action::SignalContainer { key } => {
                effects.extend(self.signal(now, key, run, faults));
                effects.push(answer(1, Outcome::Done));
            }
            Action::KillContainer { key } => {
                let killed = ExitStatus::Signal { signal: SIGKILL };
                effects.push(Effect::Ends(TickDuration::from_millis(1), key, killed));
                effects.push(answer(1, Outcome::Done));
            }
            Action::RemoveContainer { key } => {
                self.containers.remove(&key);
                effects.push(answer(1, Outcome::Done));
            }
            Action::RunProbe { key, timeout, .. } => {
                effects.push(self.probe(id, &key, timeout, run));
            }
            Action::UpdateSandbox { .. }
            | Action::UpdateContainer { .. }
            | Action::RunHook { .. } => effects.push(answer(1, Outcome::Done)),
            Action::RequestResources(request) => {
                let (ticket, decision) = (request.ticket, ResourceDecision::Granted);
                self.core.handle(now, Event::ResourcesDecided { ticket, decision });
            }
            Action::WriteStatus(status) => self.unwritten = Some(*status),
            Action::EmitEvent(event) => effects.push(Effect::Event(event)),
            Action::ReportRestart { id, phase, message, at } => {
                effects.push(Effect::Report(Report { id, phase, message, at }));
            }
            Action::Finish => effects.push(Effect::Finished),
        }
    }

    fn create(&mut self, key: ContainerKey) -> Outcome {
        let allowed = self.privileges_of(&key.name);
        let before = self.privileges.entry(key.name.clone()).or_insert_with(|| allowed.clone());
        if *before != allowed {
            let text = format!("P4: {key:?} may do {allowed}, and before it {before}");
            self.breaks(|| text);
        }
        let (container_id, image_id) = (container_id(&key), self.image(&key.name));
        self.containers.entry(key).or_insert(Life::Created);
        Outcome::ContainerCreated { container_id, image_id, user: None }
    }

    /// What the spec allows a container.
    fn privileges_of(&self, name: &ContainerName) -> String {
        let spec = self.pod.spec.as_ref();
        let all = spec
            .into_iter()
            .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        let container = all.into_iter().find(|container| container.name == name.0);
        let container = container.and_then(|container| container.security_context.as_ref());
        let of_pod = spec.and_then(|spec| spec.security_context.as_ref());
        format!("{container:?} {of_pod:?}")
    }

    fn signal(
        &mut self,
        now: Tick,
        key: ContainerKey,
        run: &[Behaviour],
        faults: &Faults,
    ) -> Option<Effect> {
        let Some(Life::Running { behaviour, .. }) = self.containers.get(&key) else { return None };
        let obeys = !hangs(run, *behaviour);
        self.signalled.entry(key.clone()).or_insert(now);
        match (obeys, faults.bug) {
            (true, _) => Some(Effect::Ends(STOP, key, ExitStatus::Signal { signal: SIGTERM })),
            (false, Some(KnownBug::GraceCutShort)) => {
                Some(Effect::Ends(STOP, key, ExitStatus::Signal { signal: SIGKILL }))
            }
            (false, _) => None,
        }
    }

    fn start(
        &mut self,
        now: Tick,
        id: ActionId,
        key: &ContainerKey,
        run: &[Behaviour],
        since: Tick,
    ) -> Vec<Effect> {
        let (pod, image) = (self.pod.clone(), self.image(&key.name));
        let start = Start {
            pod: &pod,
            node: &self.node,
            container: &key.name.0,
            image: &image,
            sandbox: key.sandbox,
            attempt: key.attempt.0,
            time: now.since(since),
        };
        let behaviour = run.iter().position(|behaviour| behaviour.chooses(&start));
        let mut effects = Vec::new();
        if self.containers.get(key) == Some(&Life::Created) {
            self.containers.insert(key.clone(), Life::Running { started_at: now, behaviour });
            if !self.starts.insert(key.clone()) {
                self.breaks(|| format!("P1: {key:?} was started twice"));
            }
            let exits = behaviour.and_then(|index| run[index].exits.as_ref());
            effects.extend(exits.map(|exits| {
                let after = exits.after + TickDuration::from_millis(1);
                Effect::Ends(after, key.clone(), exits.status())
            }));
        }
        let millisecond = TickDuration::from_millis(1);
        effects.insert(
            0,
            Effect::Answer(millisecond, id, Ok(Outcome::ContainerStarted { started_at: now })),
        );
        effects
    }

    fn probe(
        &self,
        id: ActionId,
        key: &ContainerKey,
        timeout: TickDuration,
        run: &[Behaviour],
    ) -> Effect {
        let behaviour = match self.containers.get(key) {
            Some(Life::Running { behaviour, .. }) => *behaviour,
            Some(Life::Created | Life::Exited(_)) | None => None,
        };
        let (verdict, took) = match hangs(run, behaviour) {
            true => (Verdict::Failure, timeout),
            false => (Verdict::Success, TickDuration::from_millis(1)),
        };
        Effect::Answer(took, id, Ok(Outcome::Probed { verdict, output: String::new() }))
    }

    fn image(&self, container: &ContainerName) -> String {
        let spec = self.pod.spec.as_ref();
        let all = spec
            .into_iter()
            .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        let mut of_that_name = all.filter(|found| found.name == container.0);
        of_that_name.next().and_then(|found| found.image.clone()).unwrap_or_default()
    }

    /// What stands in the runtime.
    fn snapshot(&self, faults: &Faults) -> Snapshot {
        let sandboxes = self.sandboxes.iter().map(|(attempt, ip)| SandboxSeen {
            attempt: *attempt,
            state: SandboxSeenState::Ready,
            ips: vec![*ip],
            containers: self.seen_in(*attempt, faults),
        });
        Snapshot { sandboxes: sandboxes.collect() }
    }

    fn seen_in(&self, sandbox: SandboxAttempt, faults: &Faults) -> Vec<ContainerSeen> {
        let inside = self.containers.iter().filter(|(key, _)| key.sandbox == sandbox);
        inside
            .map(|(key, life)| ContainerSeen {
                name: key.name.clone(),
                attempt: key.attempt,
                container_id: container_id(key),
                image_id: self.image(&key.name),
                user: None,
                state: match life {
                    Life::Created => match faults.bug {
                        Some(KnownBug::CreatedTakenForDead) => {
                            ContainerSeenState::Exited { exit: lost() }
                        }
                        Some(_) | None => ContainerSeenState::Created,
                    },
                    Life::Running { started_at, .. } => {
                        ContainerSeenState::Running { started_at: *started_at }
                    }
                    Life::Exited(exit) => ContainerSeenState::Exited { exit: exit.clone() },
                },
            })
            .collect()
    }

    /// What must never be: what was noted, or two starts of a container that run at the same time (P1).
    pub(crate) fn broken_promise(&self) -> Option<String> {
        if let Some(broken) = &self.broken {
            return Some(broken.clone());
        }
        let mut running = BTreeSet::new();
        let double = self.running().find(|key| !running.insert(&key.name));
        double.map(|key| format!("P1: container {} runs twice", key.name))
    }
}

/// The end of a container of which nothing else is known.
fn lost() -> Exit {
    Exit {
        status: ExitStatus::Signal { signal: SIGKILL },
        started_at: Tick::ZERO,
        finished_at: Tick::ZERO,
        message: String::new(),
    }
}

fn hangs(run: &[Behaviour], behaviour: Option<usize>) -> bool {
    behaviour.is_some_and(|index| run[index].hangs)
}

fn container_id(key: &ContainerKey) -> String {
    format!("rekindle://{:08x}{:08x}-{}", key.sandbox.0, key.attempt.0, key.name)
}

fn spec_grace(pod: &Pod) -> i64 {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30)
}
