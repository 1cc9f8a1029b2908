//! A world for a pod core: a driver, a runtime and an API that obey, fail or crash as a test says,
//! and check what the core asks of them. No thread, no clock.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part")]

pub mod build;
pub mod digest;
pub mod rights;
pub mod runtime;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus, ResourceRequirements};
use rekindle_pod::journal::ResizeStanding;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionId, ActionOutcome, ContainerStartKey, CoreAction,
    CoreEvent, CoreOutput, CoreReport, Journal, PodConfig, PodCore, ResourceDecision,
    ResourceRequest, RestartReport, RestartRequest, Snapshot,
};
use rekindle_types::v1alpha1::PodRestartPhase;
use rekindle_types::{Exit, ExitStatus, SandboxAttempt, Tick, TickDuration};
use runtime::Runtime;

/// When every test begins.
pub const START: Tick = Tick::from_secs(1_000_000);

/// Everything around one pod.
pub struct World {
    pub now: Tick,
    pub core: PodCore,
    /// What the node tells the core, also after the agent was killed.
    pub config: PodConfig,
    /// The object as the API has it, with the status that was written last.
    pub pod: Arc<Pod>,
    /// What survives a crash of the agent.
    pub journal: Option<Journal>,
    pub journal_was_lost: bool,
    pub disk: Disk,
    pub runtime: Runtime,
    /// Polled and not carried out yet.
    pub waiting: Vec<(ActionId, CoreAction)>,
    /// What was polled, one line each.
    pub log: Vec<String>,
    pub reports: BTreeMap<String, PodRestartPhase>,
    pub finishes: usize,
    pub telling: Telling,
    /// The object is being deleted: an agent that starts again sees it, and when all is finished it
    /// is gone.
    pub deletion: Option<TickDuration>,
    /// PodRestarts that exist.
    pub requests: BTreeMap<String, RestartRequest>,
    /// What the pod asked its node for last, in this agent's time.
    pub asked: Option<ResourceRequest>,
    /// The resources that an action under way was begun with.
    begun_with: BTreeMap<ActionId, ResourceRequirements>,
    /// Those that each container was made with, or given since.
    pub in_force: BTreeMap<ContainerStartKey, ResourceRequirements>,
    /// The highest restartCount written of each container: it never falls.
    counts: BTreeMap<String, i32>,
    /// Those of the pod when it came.
    rights: PodSpec,
}

impl World {
    pub fn new(pod: Pod) -> Self {
        Self::with_config(pod, config())
    }

    /// On a node that is set up in its own way.
    pub fn with_config(pod: Pod, config: PodConfig) -> Self {
        let rights = rights::rights(&pod);
        let pod = Arc::new(pod);
        Self {
            now: START,
            core: PodCore::new(START, pod.clone(), config.clone()),
            config,
            pod,
            journal: None,
            journal_was_lost: false,
            disk: Disk::HasRoom,
            telling: Telling::All,
            runtime: Runtime::default(),
            waiting: Vec::new(),
            log: Vec::new(),
            reports: BTreeMap::new(),
            finishes: 0,
            deletion: None,
            requests: BTreeMap::new(),
            asked: None,
            begun_with: BTreeMap::new(),
            in_force: BTreeMap::new(),
            counts: BTreeMap::new(),
            rights,
        }
    }

    /// `kubectl debug` adds a container, which may see the processes of another one and mount a
    /// volume.
    pub fn debug(&mut self, name: &str, target: Option<&str>, volume: Option<&str>) {
        let mut pod = Pod::clone(&self.pod);
        build::add_ephemeral(&mut pod, name, target, volume);
        self.pod = Arc::new(pod);
        let pod = self.pod.clone();
        self.tell(CoreEvent::SpecChanged(pod));
    }

    /// The object is gone: nothing more can happen to it.
    pub fn is_gone(&self) -> bool {
        self.finishes > 0 && self.deletion.is_some()
    }

    /// What an agent that starts again finds in the API beside the pod.
    pub fn tell_again(&mut self) {
        if let Some(grace) = self.deletion {
            self.tell(CoreEvent::DeleteRequested { grace });
        }
        let open = |id: &String| self.reports.get(id).is_none_or(|phase| !phase.is_final());
        let requests: Vec<RestartRequest> =
            self.requests.values().filter(|request| open(&request.id)).cloned().collect();
        for request in requests {
            self.tell(CoreEvent::RestartRequested(request));
        }
    }

    /// Hands an event to the core.
    pub fn tell(&mut self, event: CoreEvent) {
        match &event {
            CoreEvent::DeleteRequested { grace } => self.deletion = Some(*grace),
            CoreEvent::NodeStops { .. } => self.telling = Telling::JournalOnly,
            CoreEvent::RestartRequested(request) => {
                self.requests.insert(request.id.clone(), request.clone());
            }
            _ => {}
        }
        self.core.handle(self.now, event);
    }

    pub fn snapshot(&mut self) {
        let snapshot = self.runtime.snapshot();
        self.tell(CoreEvent::RuntimeSnapshot(snapshot));
    }

    /// A snapshot when nothing is in flight, as a driver that is unsure takes one.
    pub fn snapshot_when_quiet(&mut self) {
        self.obey();
        self.snapshot();
    }

    /// The core as an agent makes it that starts again. It waits for a snapshot.
    pub fn crash_agent(&mut self) {
        self.waiting.clear();
        self.asked = None;
        self.telling = Telling::All;
        self.core = match self.journal.clone() {
            Some(journal) => {
                // As a file would give it back.
                let text = serde_json::to_string(&journal).expect("a journal is written");
                let journal = serde_json::from_str(&text).expect("and read");
                PodCore::recover(self.now, self.pod.clone(), journal, self.config.clone())
            }
            None => PodCore::new(self.now, self.pod.clone(), self.config.clone()),
        };
    }

    /// What was granted to a container, as a driver sees it.
    pub fn granted_to(&self, name: &str) -> ResourceRequirements {
        let pod = self.core.granted_pod();
        let spec = pod.spec.as_ref().expect("a spec");
        let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
        // an ephemeral container has none
        let found = all.find(|container| container.name == name);
        found.and_then(|container| container.resources.clone()).unwrap_or_default()
    }

    /// The node decides on what was asked for last.
    pub fn decide(&mut self, decision: ResourceDecision) {
        if let Some(ResourceRequest { ticket, .. }) = self.asked {
            self.tell(CoreEvent::ResourcesDecided { ticket, decision });
        }
    }

    /// Takes the next action. What needs no answer is done at once, the rest waits.
    pub fn poll(&mut self) -> bool {
        if self.core.is_held_up() {
            let journal = CoreReport::Persist(self.core.journal_again(self.now));
            if self.disk == Disk::HasRoom {
                self.core.go_on();
                self.note(journal);
            }
        }
        match self.core.poll_output() {
            None => return false,
            Some(CoreOutput::Report(CoreReport::Persist(_))) if self.disk == Disk::Full => {
                self.core.hold_up();
            }
            Some(CoreOutput::Act(id, action)) => {
                self.log.push(digest::action(&action));
                // what ends a pod needs none
                if !self.core.is_held_up() {
                    self.check_journal(&action);
                }
                self.check_asked_once(&action);
                self.check_rights(&action);
                if let CoreAction::StartContainer { key, .. }
                | CoreAction::UpdateContainer { key } = &action
                {
                    self.begun_with.insert(id, self.granted_to(&key.name.0));
                }
                self.waiting.push((id, action));
            }
            Some(CoreOutput::Report(report)) => self.note(report),
        }
        true
    }

    pub fn poll_all(&mut self) {
        while self.poll() {}
    }

    fn is_told(&self, report: &CoreReport) -> bool {
        match (self.telling, report) {
            (Telling::All, _)
            | (Telling::JournalOnly, CoreReport::Persist(_) | CoreReport::RequestResources(_)) => {
                true
            }
            (
                Telling::JournalOnly,
                CoreReport::WriteStatus(_)
                | CoreReport::EmitEvent(_)
                | CoreReport::Restart(_)
                | CoreReport::Finish,
            ) => false,
        }
    }

    fn note(&mut self, report: CoreReport) {
        if !self.is_told(&report) {
            return;
        }
        self.log.push(digest::report(&report));
        match report {
            CoreReport::Persist(journal) => self.journal = Some(journal.as_ref().clone()),
            CoreReport::WriteStatus(status) => {
                self.check_counts(&status);
                self.check_phase(&status);
                let mut pod = Pod::clone(&self.pod);
                pod.status = Some(status.as_ref().clone());
                self.pod = Arc::new(pod);
            }
            CoreReport::Restart(RestartReport { id, phase, .. }) => {
                let before = self.reports.insert(id.clone(), phase);
                if let Some(before) = before.filter(|before| before.is_final()) {
                    assert_eq!(before, phase, "the outcome of restart {id} changed");
                }
            }
            CoreReport::Finish => {
                assert!(self.core.is_finished());
                assert!(
                    self.runtime.is_empty(),
                    "finished with something left: {:?}",
                    self.runtime
                );
                self.finishes += 1;
                self.journal = None;
            }
            CoreReport::EmitEvent(_) => {}
            CoreReport::RequestResources(request) => self.asked = Some(*request),
        }
    }

    /// What a start depends on is kept before it is asked for.
    fn check_journal(&self, action: &CoreAction) {
        let journal = self.journal.as_ref().expect("nothing is asked for before the first journal");
        let sandbox = match self.telling {
            Telling::All => journal.sandbox,
            // the next agent may be to begin with another, which what was under way does not know
            Telling::JournalOnly => return,
        };
        match action {
            CoreAction::StartContainer { key, .. } => {
                assert_eq!(sandbox, key.sandbox, "{key:?} is not in the journal");
                let kept = journal.containers.get(&key.name).map(|record| record.number);
                assert_eq!(kept, Some(key.attempt), "{key:?} is not in the journal");
            }
            CoreAction::SetUpSandbox { attempt, .. } => assert_eq!(sandbox, *attempt),
            CoreAction::UpdateSandbox { .. } | CoreAction::UpdateContainer { .. } => {
                let standing = journal.resources.as_ref().map(|resources| resources.standing);
                assert_eq!(
                    standing,
                    Some(ResizeStanding::UnderWay),
                    "the grant is not in the journal"
                );
            }
            _ => {}
        }
    }

    /// What is made, at whatever attempt, is made with the rights that the pod came with (P4).
    fn check_rights(&self, action: &CoreAction) {
        match action {
            CoreAction::SetUpSandbox { .. } | CoreAction::StartContainer { .. } => {
                let now = rights::rights(&self.core.granted_pod());
                assert_eq!(now, self.rights, "{action:?} with other rights than the first");
            }
            _ => {}
        }
    }

    /// At most one execution of a probe or a hook is under way in a container, and only where a
    /// process was started.
    fn check_asked_once(&self, action: &CoreAction) {
        let asked = |action: &CoreAction| match action {
            CoreAction::RunProbe { key, probe, .. } => Some((key.clone(), format!("{probe:?}"))),
            CoreAction::RunHook { key, hook, .. } => Some((key.clone(), format!("{hook:?}"))),
            _ => None,
        };
        let Some(new) = asked(action) else { return };
        let again = self.waiting.iter().any(|(_, waiting)| asked(waiting) == Some(new.clone()));
        assert!(!again, "{action:?} is asked for while it is under way");
        let started = self.runtime.starts.get(&new.0.name.0).copied().unwrap_or_default();
        assert!(started > new.0.attempt.0, "{action:?} is asked for before the start");
    }

    /// A pod comes to a final phase by its node when nothing of it runs: others take its place
    /// then.
    fn check_phase(&self, status: &PodStatus) {
        let is_final =
            |status: &PodStatus| matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
        let was_final = self.pod.status.as_ref().is_some_and(is_final);
        let running = self.runtime.known_to_run();
        assert!(was_final || !is_final(status) || running.is_empty(), "{running:?} run on");
    }

    fn check_counts(&mut self, status: &PodStatus) {
        for container in digest::lists(status).into_iter().flatten().flatten() {
            let highest = self.counts.entry(container.name.clone()).or_default();
            assert!(container.restart_count >= *highest, "restartCount of {} fell", container.name);
            *highest = container.restart_count;
        }
    }

    /// Carries out the waiting action at this place, as a runtime does that works.
    pub fn carry_out(&mut self, place: usize) {
        let (id, action) = self.waiting.remove(place);
        let outcome = self.runtime.carry_out(self.now, &action);
        if let CoreAction::StartContainer { key, .. } | CoreAction::UpdateContainer { key } =
            &action
            && let (Some(resources), Ok(_)) = (self.begun_with.remove(&id), &outcome)
        {
            self.in_force.insert(key.clone(), resources);
        }
        let result = outcome.map_err(|kind| error(kind, "does not exist"));
        self.answer(id, result);
    }

    /// The same, and nobody is told.
    pub fn carry_out_unanswered(&mut self, place: usize) {
        let (_, action) = self.waiting.remove(place);
        let carried_out = self.runtime.carry_out(self.now, &action);
        assert!(carried_out.is_ok(), "it cannot be done");
    }

    /// Carries out the waiting setup at this place; the sandbox dies, and then comes the answer.
    pub fn sandbox_dies_in_setup(&mut self, place: usize) {
        let (id, action) = self.waiting.remove(place);
        let result = self.runtime.carry_out(self.now, &action);
        self.sandbox_dies(Processes::DieToo);
        self.answer(id, result.map_err(|kind| error(kind, "does not exist")));
    }

    /// Lets the waiting action at this place fail. It has had no effect.
    pub fn fail(&mut self, place: usize, kind: ActionErrorKind, message: &str) {
        let (id, action) = self.waiting.remove(place);
        let error = error(kind, message);
        let result = match &action {
            CoreAction::StartContainer { key, .. } if kind == ActionErrorKind::ContainerStart => {
                self.runtime.start_failed(self.now, key);
                Ok(ActionOutcome::ContainerMade { made: runtime::made(key), start: Err(error) })
            }
            _ => Err(error),
        };
        self.answer(id, result);
    }

    /// The waiting start at this place comes as far as a container that is prepared, and its answer
    /// says that nobody knows of more.
    pub fn start_halfway(&mut self, place: usize, message: &str) {
        let (id, action) = self.waiting.remove(place);
        let CoreAction::StartContainer { key, target } = &action else {
            panic!("{action:?} is no start")
        };
        let made = runtime::made(key);
        let start = Err(error(ActionErrorKind::Other, message));
        let prepared = self.runtime.create(key, target.as_ref());
        self.begun_with.remove(&id);
        let result = prepared.map(|()| ActionOutcome::ContainerMade { made, start });
        self.answer(id, result.map_err(|kind| error(kind, "does not exist")));
    }

    /// Carries out the waiting start at this place; the answer says that the container is prepared,
    /// and that nobody knows of more.
    pub fn start_unclear(&mut self, place: usize, message: &str) {
        let (id, action) = self.waiting.remove(place);
        let CoreAction::StartContainer { key, .. } = &action else {
            panic!("{action:?} is no start")
        };
        let result =
            self.runtime.carry_out(self.now, &action).map(|_| ActionOutcome::ContainerMade {
                made: runtime::made(key),
                start: Err(error(ActionErrorKind::Other, message)),
            });
        self.begun_with.remove(&id);
        self.answer(id, result.map_err(|kind| error(kind, "does not exist")));
    }

    pub fn answer(&mut self, id: ActionId, result: Result<ActionOutcome, ActionError>) {
        self.tell(CoreEvent::ActionResult { id, result });
    }

    /// Carries out all that is asked for, oldest first, until nothing more is.
    pub fn obey(&mut self) {
        self.poll_all();
        let mut steps = 0;
        while let Some(place) = self.waiting.iter().position(|(_, a)| !self.runtime.hangs(a)) {
            self.carry_out(place);
            self.report_exits();
            self.poll_all();
            steps += 1;
            assert!(steps < 10_000, "the core asks without end: {:#?}", &self.log[9_900..]);
        }
    }

    /// Tells the core of containers that the runtime has seen end.
    pub fn report_exits(&mut self) {
        for (key, exit) in self.runtime.tell_exits() {
            self.tell(CoreEvent::ContainerExited { made: runtime::made(&key), key, exit });
        }
    }

    /// A process ends by itself. False when it does not run.
    pub fn exit(&mut self, name: &str, status: ExitStatus) -> bool {
        let ended = self.runtime.exit(self.now, name, status);
        self.report_exits();
        ended
    }

    /// Moves the time on, with a stop at each deadline of the core. `obey` is done at each.
    pub fn advance(&mut self, span: TickDuration) {
        let until = self.now + span;
        let mut stops = 0;
        while let Some(deadline) = self.core.poll_timeout().filter(|deadline| *deadline <= until) {
            assert!(deadline > self.now, "the core wants to be woken in the past");
            self.now = deadline;
            self.core.handle_timeout(self.now);
            self.obey();
            stops += 1;
            assert!(stops < 10_000, "the core wants to be woken without end");
        }
        self.now = until;
        self.core.handle_timeout(self.now);
        self.obey();
    }

    /// Jumps to the next deadline.
    pub fn wake(&mut self) -> bool {
        let Some(deadline) = self.core.poll_timeout() else { return false };
        assert!(deadline > self.now, "the core wants to be woken in the past");
        self.now = deadline;
        self.core.handle_timeout(self.now);
        true
    }

    /// The sandbox dies; its processes with it or not.
    pub fn sandbox_dies(&mut self, processes: Processes) {
        if let Some(attempt) = self.runtime.sandbox_dies(self.now, processes) {
            self.tell(CoreEvent::SandboxDied { attempt });
        }
    }

    pub fn phase(&self) -> String {
        let status = self.pod.status.as_ref();
        status.and_then(|status| status.phase.clone()).unwrap_or_default()
    }

    /// The machine restarts: nothing is left of the runtime, and the agent starts again.
    pub fn reboot(&mut self) {
        self.runtime.reboot();
        self.crash_agent();
    }

    /// A container exit that carries a key of this sandbox attempt.
    pub fn late_exit(&mut self, key: ContainerStartKey) {
        let exit = Exit {
            status: ExitStatus::Code { code: 1 },
            started_at: self.now,
            finished_at: self.now,
            message: String::new(),
        };
        self.tell(CoreEvent::ContainerExited { made: runtime::made(&key), key, exit });
    }
}

/// What of that which a core tells is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    All,
    /// The node stops: nothing tells the API that the pod is over.
    JournalOnly,
}

/// Where the journal is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    HasRoom,
    Full,
}

/// What becomes of the processes of a sandbox that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    DieToo,
    LiveOn,
}

pub fn config() -> PodConfig {
    let host: IpAddr = "192.0.2.10".parse().expect("an address");
    PodConfig { host_ips: vec![host], ..PodConfig::default() }
}

pub fn error(kind: ActionErrorKind, message: &str) -> ActionError {
    ActionError { kind, message: message.to_owned() }
}

pub fn empty_snapshot() -> CoreEvent {
    CoreEvent::RuntimeSnapshot(Snapshot::default())
}

pub fn sandbox(attempt: u32) -> SandboxAttempt {
    SandboxAttempt(attempt)
}
