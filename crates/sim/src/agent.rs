//! A node: the real pod cores over a fake runtime that takes its time and does what the scenario says.

mod comeback;
mod conduct;
mod ends;
mod forgetful;
mod graces;
mod hooks;
mod pauses;
mod probed;
mod runtime;
mod shown;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_pod::{
    Action, ActionError, ActionId, Config, ContainerKey, Event, Eviction, EvictionCause,
    ImageSource, Journal, Loss, Outcome, PodCore, ResourceDecision, RestartRequest,
    SandboxSeenState, Snapshot, StatusWrite,
};
use rekindle_types::v1alpha1::PodRestartPhase;
use rekindle_types::{Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};

use crate::behaviour::{Behaviours, Origin};
use crate::clocks::Skew;
use crate::faults::{Fate, Faults, Room, error_of};
use crate::known_bugs::KnownBug;
use conduct::End;
use ends::LastEnds;
use graces::Graces;
use hooks::Hooks;
use pauses::Pauses;
use probed::Probed;
use shown::Shown;
pub use tally::Tally;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// What a pod gets at a hard threshold of its node.
const EVICTION_GRACE: TickDuration = TickDuration::from_secs(1);

/// What one container does.
#[derive(Clone, Debug, PartialEq)]
enum Life {
    Created,
    Running { started_at: Tick, behaviour: Option<usize>, end: End },
    Exited(Exit),
}

/// A sandbox that stands.
#[derive(Clone, Debug)]
struct Sandbox {
    ip: IpAddr,
    /// The UID of the pod that it was made for.
    of: String,
    state: SandboxSeenState,
}

/// One pod on a node: its core, what the agent's disk has of it, and what the runtime has of it.
#[derive(Debug)]
pub(crate) struct PodOnNode {
    pub(crate) core: PodCore,
    /// What its agent counts by. Everything in here is in the agent's time, but for the times that the world hands in.
    clock: Skew,
    pub(crate) pod: Arc<Pod>,
    /// What its next status is written on.
    pub(crate) seen: StatusWrite,
    pub(crate) node: String,
    journal: Option<Journal>,
    config: Config,
    sandboxes: BTreeMap<SandboxAttempt, Sandbox>,
    /// The sandbox that was torn down last; only the bug [`KnownBug::SandboxOfNamesake`] finds it again.
    torn_down: Option<(SandboxAttempt, Sandbox)>,
    containers: BTreeMap<ContainerKey, Life>,
    /// Every start that was ever made.
    starts: BTreeSet<ContainerKey>,
    /// Starts that failed.
    failed_starts: BTreeSet<ContainerKey>,
    /// The first promise that did not hold.
    broken: Option<String>,
    /// Containers that got their stop signal.
    signalled: BTreeSet<ContainerKey>,
    graces: Graces,
    hooks: Hooks,
    pauses: Pauses,
    shown: Shown,
    probed: Probed,
    last_ends: LastEnds,
    /// Hooks of containers that hang, which nobody gives up.
    hung: BTreeMap<ActionId, ContainerKey>,
    /// Actions whose answers never come, until the agent starts again.
    unanswered: BTreeSet<ActionId>,
    /// Why there is such a pod.
    pub(crate) origin: Origin,
    /// What was done to it.
    pub(crate) tally: Tally,
    /// Behaviours that chose a start since this was asked last.
    pub(crate) behaviours_used: Vec<usize>,
    /// Those of them that chose a container with a readiness probe.
    pub(crate) behaviours_probed: Vec<usize>,
    leading_on: BTreeSet<ActionId>,
    unwritten: Option<Box<PodStatus>>,
    deletion_grace: Option<i64>,
    ends: Ends,
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

/// Whether the agent knows that the pod is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Untold,
    /// It was told, and nothing was left to be done that had been decided before.
    Told,
}

/// What could not be written, because the node had no network or the API refused it.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) status: Option<Box<PodStatus>>,
    pub(crate) reports: Vec<Report>,
    pub(crate) finished: bool,
    /// It is tried again soon, all of it at once.
    pub(crate) is_retried: bool,
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
    pub(crate) fn new(
        (now, clock): (Tick, Skew),
        pod: Arc<Pod>,
        node: &str,
        config: Config,
        address: u32,
    ) -> Self {
        let shown = clock.shows(now);
        let graces = Graces::of(&pod);
        let last_ends = LastEnds::of(&pod);
        let mut made = Self {
            core: PodCore::new(shown, pod.clone(), config.clone()),
            clock,
            seen: StatusWrite::on(&pod),
            pod,
            node: node.to_owned(),
            journal: None,
            config,
            sandboxes: BTreeMap::new(),
            torn_down: None,
            containers: BTreeMap::new(),
            starts: BTreeSet::new(),
            failed_starts: BTreeSet::new(),
            broken: None,
            signalled: BTreeSet::new(),
            graces,
            hooks: Hooks::default(),
            pauses: Pauses::default(),
            shown: Shown::default(),
            probed: Probed::default(),
            last_ends,
            hung: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            origin: Origin::default(),
            tally: Tally::default(),
            behaviours_used: Vec::new(),
            behaviours_probed: Vec::new(),
            leading_on: BTreeSet::new(),
            unwritten: None,
            deletion_grace: None,
            ends: Ends::Untold,
            address,
            incarnation: 0,
            requests: BTreeMap::new(),
            restarts: 0,
            has_vanished: false,
            backlog: Backlog::default(),
            died: false,
        };
        made.core.handle(shown, Event::RuntimeSnapshot(Snapshot::default()));
        made.tell_deletion(shown);
        made
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

    /// How often the runtime could not start it: such an attempt counts as well, unless its agent died before it heard of that and
    /// the next one started it.
    pub(crate) fn failed_starts_of(&self, name: &str) -> usize {
        let of = |keys: &BTreeSet<ContainerKey>| {
            let of_it = keys.iter().filter(|key| key.name.0 == name);
            of_it.map(|key| key.attempt).collect::<BTreeSet<_>>()
        };
        of(&self.failed_starts).difference(&of(&self.starts)).count()
    }

    /// How often its containers' processes were started.
    pub(crate) fn starts(&self) -> usize {
        self.starts.len()
    }

    /// Whether its agent waits for an answer that never comes.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.unanswered.is_empty()
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
            self.graces.forget(&key);
            self.exits(now, key, ExitStatus::Signal { signal: SIGKILL });
        }
        self.core.handle(self.clock.shows(now), Event::SandboxDied { attempt });
    }

    /// Its node cannot keep it.
    pub(crate) fn evicted(&mut self, now: Tick) {
        self.graces.given(EVICTION_GRACE);
        let (cause, grace) = (EvictionCause::NodePressure, EVICTION_GRACE);
        let message = "The node was low on resource: memory.".to_owned();
        let eviction = Eviction { cause, message, grace };
        self.core.handle(self.clock.shows(now), Event::Eviction(eviction));
    }

    /// The runtime finds the sandbox of another pod under this one's name.
    pub(crate) fn inherit(&mut self, other: Self) {
        self.sandboxes.extend(other.torn_down);
    }

    /// What did not hold, beginning with the number of the promise.
    fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(self.told(&what()));
        }
    }

    /// The same with the names of pod and node.
    fn told(&self, what: &str) -> String {
        let (promise, what) = what.split_once(": ").unwrap_or_default();
        let meta = &self.pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let name = meta.name.as_deref().unwrap_or_default();
        format!("{promise}: Pod {namespace}/{name} on {}: {what}", self.node)
    }

    /// The object changed in the API. What it says of the pod's readiness the node says again when it is not so, as the agent's writer of
    /// statuses does: the node lifecycle controller may say that nobody heard of the node when it is back already.
    pub(crate) fn updated(&mut self, now: Tick, pod: Arc<Pod>) -> Option<Box<PodStatus>> {
        let is_news = self.seen.see(&pod);
        let old = std::mem::replace(&mut self.pod, pod.clone());
        if rekindle_pod::concerns_core(&old, &pod) {
            let shown = self.clock.shows(now);
            self.core.handle(shown, Event::SpecChanged(pod.clone()));
            self.tell_deletion(shown);
        }
        // one that waits to be written is newer
        let own = self.core.status();
        let is_other = is_news
            && self.backlog.status.is_none()
            && ready(Some(own)).zip(ready(pod.status.as_ref())).is_some_and(|(own, of)| own != of);
        is_other.then(|| Box::new(own.clone()))
    }

    /// The object is gone from the API.
    pub(crate) fn vanished(&mut self, now: Tick, loss: Loss) {
        self.has_vanished = true;
        let grace = self.deletion_grace.unwrap_or_else(|| graces::of_spec(&self.pod));
        self.delete(self.clock.shows(now), loss.grace_seconds(grace));
    }

    pub(crate) fn restart(&mut self, now: Tick, request: RestartRequest, object: (String, String)) {
        if self.requests.insert(request.id.clone(), object).is_none() {
            request.grace.into_iter().for_each(|grace| self.graces.given(grace));
            let shown = self.clock.shows(now);
            self.pauses.asked(shown, &self.pod, &request);
            self.core.handle(shown, Event::RestartRequested(request));
        }
    }

    fn tell_deletion(&mut self, now: Tick) {
        if self.pod.metadata.deletion_timestamp.is_none() {
            return;
        }
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        let grace = grace.unwrap_or_else(|| graces::of_spec(&self.pod));
        if self.deletion_grace != Some(grace) {
            self.delete(now, grace);
        }
    }

    fn delete(&mut self, now: Tick, grace: i64) {
        self.deletion_grace = Some(grace);
        if !self.waits_for_room() {
            self.ends = Ends::Told;
        }
        let grace = TickDuration::of_field(grace);
        self.graces.given(grace);
        self.core.handle(now, Event::DeleteRequested { grace });
    }

    /// A deadline has come.
    pub(crate) fn timeout(&mut self, now: Tick) {
        self.core.handle_timeout(self.clock.shows(now));
    }

    /// When the next one comes.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.core.poll_timeout().map(|due| self.clock.when(due))
    }

    /// The runtime answers.
    pub(crate) fn answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<Outcome, ActionError>,
    ) {
        self.leading_on.remove(&id);
        self.hooks.answered(id);
        self.probed.answered(id);
        self.core.handle(self.clock.shows(now), Event::ActionResult { id, result });
    }

    /// A process ends, if it still runs, and the agent hears of it as its bug lets it.
    pub(crate) fn process_ends(
        &mut self,
        now: Tick,
        key: ContainerKey,
        status: ExitStatus,
        bug: Option<KnownBug>,
    ) {
        if self.misses_end(&key, bug) {
            self.ended(self.clock.shows(now), &key, status);
            return;
        }
        match bug {
            Some(KnownBug::RuleWhileTerminating) if self.obeys_rule(now, &key, status) => {}
            Some(KnownBug::ProbeLoopLeaked) => {
                self.probed.leak(&key.name);
                self.exits(now, key, status);
            }
            Some(_) | None => self.exits(now, key, status),
        }
    }

    /// A process ends, if it still runs.
    pub(crate) fn exits(&mut self, now: Tick, key: ContainerKey, status: ExitStatus) {
        let shown = self.clock.shows(now);
        let Some(exit) = self.ended(shown, &key, status) else { return };
        self.core.handle(shown, Event::ContainerExited { key, exit });
    }

    fn ended(&mut self, now: Tick, key: &ContainerKey, status: ExitStatus) -> Option<Exit> {
        let life = self.containers.get_mut(key)?;
        let Life::Running { started_at, .. } = *life else { return None };
        let exit = Exit { status, started_at, finished_at: now, message: String::new() };
        *life = Life::Exited(exit.clone());
        self.pauses.ended(now, &self.pod, key, status);
        self.last_ends.note(&key.name, status);
        self.signalled.remove(key);
        if self.deletion_grace.is_none() && pauses::restarts_all(&self.pod, key, status) {
            self.graces.ruled(now);
        }
        let was_killed = status == ExitStatus::Signal { signal: SIGKILL };
        if let Some(early) = self.graces.ended(now, &self.pod, key, was_killed) {
            self.breaks(|| {
                let (had, grace) = (early.had.as_micros() / 1_000, early.grace.as_micros() / 1_000);
                let start = named(key);
                format!("P5: {start} was killed after {had} ms of its grace period of {grace} ms")
            });
        }
        Some(exit)
    }

    /// Carries out all that the core asks for, until the agent dies of it.
    pub(crate) fn act(
        &mut self,
        now: Tick,
        run: &Behaviours,
        since: Tick,
        faults: &mut Faults,
    ) -> Vec<Effect> {
        let since = now.since(since);
        let now = self.clock.shows(now);
        let mut effects = Vec::new();
        if self.waits_for_room() {
            let journal = self.core.journal_again(now);
            self.persist(journal, faults);
        }
        while let Some((id, action)) = self.core.poll_action() {
            if faults.dies_here(&self.node) {
                self.died = true;
                return effects;
            }
            match faults.fate(&action) {
                Fate::Well => self.carry_out(now, id, action, (run, since, faults), &mut effects),
                Fate::Fails => {
                    if let Action::StartContainer { key } = &action {
                        self.failed_starts.insert(key.clone());
                    }
                    if let Action::RunHook { key, hook, limit } = &action {
                        self.hook_begins(id, now, (key.clone(), *hook), *limit);
                    }
                    if let Action::SignalContainer { key } = &action {
                        self.graces.signal(now, key);
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
                Fate::NeverAnswered => {
                    self.unanswered.insert(id);
                    let first = effects.len();
                    self.carry_out(now, id, action, (run, since, faults), &mut effects);
                    let done = effects.split_off(first);
                    effects.extend(
                        done.into_iter().filter(
                            |effect| !matches!(effect, Effect::Answer(_, of, _) if *of == id),
                        ),
                    );
                    self.leading_on.remove(&id);
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
            effects.splice(0..0, status.map(Effect::Status));
        }
        effects
    }

    fn carry_out(
        &mut self,
        now: Tick,
        id: ActionId,
        action: Action,
        (run, since, faults): (&Behaviours, TickDuration, &Faults),
        effects: &mut Vec<Effect>,
    ) {
        let answer =
            |millis, outcome| Effect::Answer(TickDuration::from_millis(millis), id, Ok(outcome));
        match action {
            Action::Persist(journal) => self.persist(*journal, faults),
            Action::MountVolumes | Action::RefreshVolumes => {
                self.leading_on.insert(id);
                effects.push(answer(1, Outcome::Done));
            }
            Action::SetUpSandbox { attempt, refresh: _ } => {
                self.leading_on.insert(id);
                effects.push(answer(40, self.set_up(attempt)));
            }
            Action::TearDownSandbox { attempt } => {
                if faults.bug != Some(KnownBug::SandboxLeaked) {
                    self.tear_down(now, attempt);
                }
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
                effects.extend(self.start(now, id, &key, (run, since, faults)));
            }
            Action::SignalContainer { key } => {
                effects.extend(self.signal(now, key, run, faults));
                effects.push(answer(1, Outcome::Done));
            }
            Action::KillContainer { key } => {
                let runs = matches!(self.containers.get(&key), Some(Life::Running { .. }));
                self.tally.kills += u64::from(runs);
                let killed = ExitStatus::Signal { signal: SIGKILL };
                effects.push(Effect::Ends(TickDuration::from_millis(1), key, killed));
                effects.push(answer(1, Outcome::Done));
            }
            Action::RemoveContainer { key } => {
                self.containers.remove(&key);
                self.hooks.forget(|of| *of == key);
                effects.push(answer(1, Outcome::Done));
            }
            Action::RunProbe { key, probe, timeout } => {
                effects.push(self.probe(now, id, (&key, probe), timeout, (run, faults.bug)));
            }
            Action::RunHook { key, hook, limit } => {
                effects.extend(self.run_hook(now, id, (key, hook), limit, (run, faults)));
            }
            Action::UpdateSandbox { .. } | Action::UpdateContainer { .. } => {
                effects.push(answer(1, Outcome::Done));
            }
            Action::RequestResources(request) => {
                let (ticket, decision) = (request.ticket, ResourceDecision::Granted);
                self.core.handle(now, Event::ResourcesDecided { ticket, decision });
            }
            Action::WriteStatus(status) => {
                let status = self.said(*status, faults.bug);
                self.check_status(&status);
                self.unwritten = Some(Box::new(status));
            }
            Action::EmitEvent(event) => {
                self.check_event(&event);
                effects.push(Effect::Event(event));
            }
            Action::ReportRestart { id, phase, message, at } => {
                effects.push(Effect::Report(Report { id, phase, message, at }));
            }
            Action::Finish => effects.push(Effect::Finished),
        }
    }

    fn persist(&mut self, journal: Journal, faults: &Faults) {
        match faults.room() {
            Room::Enough => {
                self.journal = Some(journal);
                self.core.go_on();
            }
            Room::None => self.core.hold_up(),
        }
    }

    /// Whether it goes on only when its journal can be written.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.core.is_held_up()
    }

    fn set_up(&mut self, attempt: SandboxAttempt) -> Outcome {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(self.address));
        if !self.sandboxes.contains_key(&attempt) {
            let of = self.pod.metadata.uid.clone().unwrap_or_default();
            let state = SandboxSeenState::Ready;
            self.sandboxes.insert(attempt, Sandbox { ip, of, state });
            self.tally.sandboxes += 1;
        }
        self.check_sandbox(attempt);
        Outcome::SandboxReady { ips: vec![ip] }
    }

    /// Nothing of a pod may run in what was made for another (P1).
    fn check_sandbox(&mut self, attempt: SandboxAttempt) {
        let own = self.pod.metadata.uid.as_deref();
        let other = self.sandboxes.get(&attempt).filter(|sandbox| Some(sandbox.of.as_str()) != own);
        if let Some(other) = other.map(|sandbox| sandbox.of.clone()) {
            self.breaks(|| {
                format!(
                    "P1: it uses sandbox {}, which was made for the pod with UID {other}",
                    attempt.0
                )
            });
        }
    }

    /// Takes a sandbox away, and what runs in it.
    fn tear_down(&mut self, now: Tick, attempt: SandboxAttempt) {
        let gone = self.sandboxes.remove(&attempt);
        self.torn_down = gone.map(|gone| (attempt, gone)).or_else(|| self.torn_down.take());
        let inside: Vec<ContainerKey> =
            self.running().filter(|key| key.sandbox == attempt).cloned().collect();
        for key in inside {
            self.ended(now, &key, ExitStatus::Signal { signal: SIGKILL });
            self.pauses.ended_with_sandbox(&key);
        }
        self.containers.retain(|key, _| key.sandbox != attempt);
        self.hooks.forget(|key| key.sandbox == attempt);
    }

    /// What a status says must be so.
    fn check_status(&mut self, status: &PodStatus) {
        let newest = |name: &str| self.newest_start(name).cloned();
        let broken = self.hooks.check_status(&self.pod, status, newest);
        let mut shown = std::mem::take(&mut self.shown);
        let broken = broken.or_else(|| shown.check_status(status, |name| self.running_start(name)));
        self.shown = shown;
        let broken = broken.or_else(|| self.last_ends.check_status(&self.pod, status));
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
    }

    /// And what an event says.
    fn check_event(&mut self, event: &rekindle_pod::PodEvent) {
        let mut probed = std::mem::take(&mut self.probed);
        let broken = probed.check_event(&self.pod, event, |name| self.running_start(name));
        self.probed = probed;
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
    }

    /// What must never be: what was noted, or two starts of a container that run at the same time (P1).
    pub(crate) fn broken_promise(&self) -> Option<String> {
        if let Some(broken) = &self.broken {
            return Some(broken.clone());
        }
        let mut running = BTreeSet::new();
        let double = self.running().find(|key| !running.insert(&key.name));
        double.map(|key| self.told(&format!("P1: container {} runs twice", key.name)))
    }
}

/// What the condition Ready says.
fn ready(status: Option<&PodStatus>) -> Option<&str> {
    let mut conditions = status?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready").map(|ready| ready.status.as_str())
}

/// A start of a container, for people.
fn named(key: &ContainerKey) -> String {
    format!("container {} (start {})", key.name, u64::from(key.attempt.0) + 1)
}
