//! A node: the real pod cores over a fake runtime that takes its time and does what the scenario says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_pod::{
    Action, ActionId, Config, ContainerKey, ContainerSeen, ContainerSeenState, Event, ImageSource,
    Journal, Outcome, PodCore, RestartRequest, SandboxSeen, SandboxSeenState, Snapshot, Verdict,
};
use rekindle_types::{ContainerName, Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};

use crate::behaviour::{Behaviour, Start};

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
    started_twice: Option<ContainerKey>,
    leading_on: BTreeSet<ActionId>,
    unwritten: Option<PodStatus>,
    deletion_grace: Option<i64>,
    pub(crate) address: u32,
    /// Counts the agent's processes: what one of them was promised the next does not hear.
    pub(crate) incarnation: u32,
    /// Restart requests that were told to the core: namespace and name of their objects.
    pub(crate) requests: BTreeMap<String, (String, String)>,
}

/// What follows from an action, and when.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// The runtime answers after this time.
    Answer(TickDuration, ActionId, Outcome),
    /// The container's process ends after this time.
    Ends(TickDuration, ContainerKey, ExitStatus),
    /// This status is to be written.
    Status(Box<PodStatus>),
    /// This event.
    Event(rekindle_pod::PodEvent),
    /// This report of a restart: id, phase, message, time.
    Report(String, rekindle_types::v1alpha1::PodRestartPhase, String, Tick),
    /// The pod is over; its object goes if it is being deleted.
    Finished,
}

impl PodOnNode {
    pub(crate) fn new(now: Tick, pod: Arc<Pod>, node: &str, config: Config, address: u32) -> Self {
        let mut made = Self {
            core: PodCore::new(now, pod.clone(), config.clone()),
            pod,
            node: node.to_owned(),
            journal: None,
            config,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            starts: BTreeSet::new(),
            started_twice: None,
            leading_on: BTreeSet::new(),
            unwritten: None,
            deletion_grace: None,
            address,
            incarnation: 0,
            requests: BTreeMap::new(),
        };
        made.core.handle(now, Event::RuntimeSnapshot(Snapshot::default()));
        made.tell_deletion(now);
        made
    }

    /// The agent's process dies and another one takes the pod up from journal and runtime.
    pub(crate) fn agent_crashes(&mut self, now: Tick) {
        self.incarnation += 1;
        self.leading_on.clear();
        self.unwritten = None;
        self.deletion_grace = None;
        self.requests.clear();
        let (pod, config) = (self.pod.clone(), self.config.clone());
        self.core = match self.journal.clone() {
            Some(journal) => PodCore::recover(now, pod, journal, config),
            None => PodCore::new(now, pod, config),
        };
        self.core.handle(now, Event::RuntimeSnapshot(self.snapshot()));
        self.tell_deletion(now);
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
        let grace = self.deletion_grace.unwrap_or_else(|| spec_grace(&self.pod));
        self.delete(now, grace);
    }

    pub(crate) fn restart(&mut self, now: Tick, request: RestartRequest, object: (String, String)) {
        if self.requests.insert(request.id.clone(), object).is_none() {
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
        self.core.handle(now, Event::DeleteRequested { grace });
    }

    /// The runtime answers.
    pub(crate) fn answered(&mut self, now: Tick, id: ActionId, outcome: Outcome) {
        self.leading_on.remove(&id);
        self.core.handle(now, Event::ActionResult { id, result: Ok(outcome) });
    }

    /// A process ends, if it still runs.
    pub(crate) fn exits(&mut self, now: Tick, key: ContainerKey, status: ExitStatus) {
        let Some(life) = self.containers.get_mut(&key) else { return };
        let Life::Running { started_at, .. } = *life else { return };
        let exit = Exit { status, started_at, finished_at: now, message: String::new() };
        *life = Life::Exited(exit.clone());
        self.core.handle(now, Event::ContainerExited { key, exit });
    }

    /// Carries out all that the core asks for.
    pub(crate) fn act(&mut self, now: Tick, run: &[Behaviour], since: Tick) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((id, action)) = self.core.poll_action() {
            let answer =
                |millis, outcome| Effect::Answer(TickDuration::from_millis(millis), id, outcome);
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
                    self.containers.retain(|key, _| key.sandbox != attempt);
                    effects.push(answer(20, Outcome::Done));
                }
                Action::PullImage { image, .. } | Action::FetchImage { image, .. } => {
                    self.leading_on.insert(id);
                    let here = ImageSource::AlreadyPresent;
                    effects
                        .push(answer(1, Outcome::ImagePresent { image_id: image, source: here }));
                }
                Action::CreateContainer { key, target: _ } => {
                    self.leading_on.insert(id);
                    let image_id = self.image(&key.name);
                    self.containers.entry(key.clone()).or_insert(Life::Created);
                    let container_id = container_id(&key);
                    effects.push(answer(
                        1,
                        Outcome::ContainerCreated { container_id, image_id, user: None },
                    ));
                }
                Action::StartContainer { key } => {
                    self.leading_on.insert(id);
                    effects.extend(self.start(now, id, &key, run, since));
                }
                Action::SignalContainer { key } => {
                    let obeys = match self.containers.get(&key) {
                        Some(Life::Running { behaviour, .. }) => !hangs(run, *behaviour),
                        Some(Life::Created | Life::Exited(_)) | None => false,
                    };
                    if obeys {
                        effects.push(Effect::Ends(
                            STOP,
                            key,
                            ExitStatus::Signal { signal: SIGTERM },
                        ));
                    }
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
                    effects.push(self.probe(id, &key, timeout, run))
                }
                Action::UpdateSandbox { .. }
                | Action::UpdateContainer { .. }
                | Action::RunHook { .. } => {
                    effects.push(answer(1, Outcome::Done));
                }
                Action::RequestResources(request) => self.core.handle(
                    now,
                    Event::ResourcesDecided {
                        ticket: request.ticket,
                        decision: rekindle_pod::ResourceDecision::Granted,
                    },
                ),
                Action::WriteStatus(status) => self.unwritten = Some(*status),
                Action::EmitEvent(event) => effects.push(Effect::Event(event)),
                Action::ReportRestart { id, phase, message, at } => {
                    effects.push(Effect::Report(id, phase, message, at));
                }
                Action::Finish => effects.push(Effect::Finished),
            }
        }
        // while something is on its way that brings another status at once, this one would only stand in its way
        if self.leading_on.is_empty() || effects.iter().any(|e| matches!(e, Effect::Finished)) {
            let status = self.unwritten.take();
            effects.splice(0..0, status.map(|status| Effect::Status(Box::new(status))));
        }
        effects
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
                self.started_twice = Some(key.clone());
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
            Effect::Answer(millisecond, id, Outcome::ContainerStarted { started_at: now }),
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
        Effect::Answer(took, id, Outcome::Probed { verdict, output: String::new() })
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
    fn snapshot(&self) -> Snapshot {
        let sandboxes = self.sandboxes.iter().map(|(attempt, ip)| SandboxSeen {
            attempt: *attempt,
            state: SandboxSeenState::Ready,
            ips: vec![*ip],
            containers: self.seen_in(*attempt),
        });
        Snapshot { sandboxes: sandboxes.collect() }
    }

    fn seen_in(&self, sandbox: SandboxAttempt) -> Vec<ContainerSeen> {
        let inside = self.containers.iter().filter(|(key, _)| key.sandbox == sandbox);
        inside
            .map(|(key, life)| ContainerSeen {
                name: key.name.clone(),
                attempt: key.attempt,
                container_id: container_id(key),
                image_id: self.image(&key.name),
                user: None,
                state: match life {
                    Life::Created => ContainerSeenState::Created,
                    Life::Running { started_at, .. } => {
                        ContainerSeenState::Running { started_at: *started_at }
                    }
                    Life::Exited(exit) => ContainerSeenState::Exited { exit: exit.clone() },
                },
            })
            .collect()
    }

    /// What must never be: a start that was made twice, or two starts of a container that run at the same time (P1).
    pub(crate) fn broken_promise(&self) -> Option<String> {
        if let Some(key) = &self.started_twice {
            return Some(format!("P1: {key:?} was started twice"));
        }
        let mut running = BTreeSet::new();
        let mut runs =
            self.containers.iter().filter(|(_, life)| matches!(life, Life::Running { .. }));
        let double = runs.find(|(key, _)| !running.insert(key.name.clone()));
        double.map(|(key, _)| format!("P1: container {} runs twice", key.name))
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
