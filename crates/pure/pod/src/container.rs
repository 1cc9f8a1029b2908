//! One container of the pod: its states, the numbers of its starts, and what follows its end.
//!
//! ```text
//!         hold passed, its turn            image here              started
//!  Idle ──────────────────────► Pulling ─────────────► Starting ─────────────► Running
//!   ▲ ▲                            │ failed               │ │ StartError, exit    │ exit
//!   │ └──────── hold, try again ───┴──────────────────────┘ │                     │
//!   └───────────────────────── next number, hold by backoff ◄─────────────────────┘
//! ```
//! A start that is tried again is asked for under the same number, whatever is known of how far the
//! one before came: it finds what stands. An exit of that number says that it ran, in whatever
//! state it is told.
//!
//! Beside the state stands the [`Standing`] in the round: an Idle container that is Done stays so
//! until the next round. Running holds [`Health`], the way to `started` and what the probes say,
//! and [`Stop`], the way to its end.
//!
//! `number` is the number of the start in progress or of the next one. It is raised when a start
//! has ended, never else, so it is the count of ended starts, and `restartCount` of a running
//! container.

use k8s_openapi::api::core::v1::ResourceRequirements;
use rekindle_types::{
    ContainerAttempt, EndedByNode, Exit, ExitStatus, SandboxAttempt, Tick, TickDuration,
};

use crate::backoff::{CrashBackoff, Task};
use crate::blueprint::{Definition, Hook, RestartPolicy, Role};
use crate::event::Made;
use crate::failed_pulls::ImageName;
use crate::health::{Health, HookRun};
use crate::journal::{
    ContainerRecord, EndedContainer, Failing, FailingRecord, Gate, Halt, HealthRecord, NodeStop,
    Standing,
};
use crate::key::{ActionId, ContainerKey};
use crate::resize::Update;
use rekindle_types::restart_rules::{self, RuleAction};

/// One container.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) definition: Definition,
    pub(crate) number: ContainerAttempt,
    pub(crate) standing: Standing,
    pub(crate) state: State,
    /// The newest end.
    pub(crate) last: Option<EndedContainer>,
    /// The end before that.
    pub(crate) before: Option<EndedContainer>,
    pub(crate) crash: CrashBackoff,
    /// Of a sidecar: whether those after it wait for it in this round.
    pub(crate) gate: Gate,
    /// What an earlier agent knew of the health of the start that ran then.
    pub(crate) remembered: Option<HealthRecord>,
    /// Why an earlier agent was ending the start that ran then.
    pub(crate) failing: Option<FailingRecord>,
    /// The start that an earlier agent asked to end before others, and when it is killed.
    pub(crate) kill_by: Option<(ContainerAttempt, Tick)>,
    pub(crate) image: Image,
    /// The image of the start in progress; `None` when an earlier agent started it.
    pub(crate) started_image: Option<String>,
    /// Why it waits, as the status shows it. Kept until it runs, as the kubelet's reason cache
    /// does.
    pub(crate) complaint: Option<Complaint>,
    /// Failures since it ran, for the delay between tries.
    pub(crate) failures: u32,
    /// The resources that its newest start was made with, or was given since.
    pub(crate) in_force: ResourceRequirements,
    /// Its limits are being changed.
    pub(crate) update: Option<Update>,
    /// The words for why its node ends it: what of it failed.
    pub(crate) failed: Option<String>,
    /// The start that a stop of its node asked to end, in the time of an earlier agent.
    pub(crate) stopped_with_node: Option<ContainerAttempt>,
}

/// What a container does.
#[expect(clippy::large_enum_variant, reason = "nearly all run, nearly always")]
#[derive(Debug, PartialEq)]
pub(crate) enum State {
    /// There is no process and none on the way.
    Idle(Hold),
    /// Its image is being made sure of.
    Pulling { step: PullStep },
    /// It is being prepared and started, and since then it is to end with all others.
    Starting { action: ActionId, halted: Option<Tick> },
    /// Its process runs.
    Running { made: Made, started_at: Tick, health: Health, stop: Option<Stop> },
}

/// How an image is made sure of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullStep {
    /// It is looked for on the node.
    Look(ActionId),
    /// It is being pulled.
    Pull(ActionId),
    /// It is on its way for another container of the pod: it is looked for again when that has an
    /// answer.
    Await,
}

/// What keeps an idle container from its next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing but its turn.
    None,
    /// It has crashed: the delay of its backoff. When it passes, the next delay is longer.
    Crash { until: Tick },
    /// Something failed before it ran: tried again then.
    Retry { until: Tick },
    /// Its image could not be had: shown as ErrImagePull first, as ImagePullBackOff from `shown_at`
    /// on.
    Image { shown_at: Option<Tick>, until: Tick },
    /// Only another spec can help.
    SpecChange,
}

/// A running container on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) step: StopStep,
    /// When it is killed.
    pub(crate) kill_at: Tick,
    /// Not before then, unless the grace is 0: what is left to it after a hook that used the grace
    /// up.
    pub(crate) not_before: Tick,
    pub(crate) reason: StopReason,
}

/// Why a running container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// All containers are: what follows is decided elsewhere.
    Halt,
    /// A restart of this container was asked for.
    RestartAsked,
    /// Its resources changed, and its policy is that it is restarted for that.
    Resize,
    /// Its image in the spec is another one now.
    ImageChanged,
    /// A restart rule of one container ends all: without preStop.
    RestartRule,
    /// Its startup probe failed too often.
    StartupFailed,
    /// Its liveness probe did.
    LivenessFailed,
    /// Its postStart hook failed.
    PostStartFailed,
}

impl StopReason {
    /// What of the container failed, if that is why.
    pub(crate) fn failing(self) -> Option<Failing> {
        match self {
            Self::StartupFailed => Some(Failing::StartupProbe),
            Self::LivenessFailed => Some(Failing::LivenessProbe),
            Self::PostStartFailed => Some(Failing::PostStartHook),
            Self::Halt
            | Self::RestartAsked
            | Self::Resize
            | Self::ImageChanged
            | Self::RestartRule => None,
        }
    }
}

impl From<Failing> for StopReason {
    fn from(failing: Failing) -> Self {
        match failing {
            Failing::StartupProbe => Self::StartupFailed,
            Failing::LivenessProbe => Self::LivenessFailed,
            Failing::PostStartHook => Self::PostStartFailed,
        }
    }
}

/// How far the end of a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Its preStop hook, which has time until `kill_at`.
    PreStop(HookRun),
    /// A sidecar whose hook has ended: its stop signal comes when later containers have ended.
    AwaitTurn,
    /// Its stop signal.
    Signal(Task),
    /// It was signalled and has time until `kill_at`.
    Grace,
    /// SIGKILL.
    Kill(Task),
    /// It was killed; if no exit is seen by then, once more.
    AwaitExit { again_at: Tick },
}

/// What is known of the image.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// Its id, once it was here in this agent's time.
    pub(crate) known: Option<String>,
    /// Which image is being made sure of: its own, then those of its volumes.
    pub(crate) number: usize,
    /// What that one is called, once the driver has said so.
    pub(crate) name: Option<ImageName>,
    /// Whether they were made sure of for the start to come.
    pub(crate) checked: Checked,
}

/// Whether the images of a start were made sure of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checked {
    #[default]
    No,
    Yes,
}

/// Why a container waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What follows the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Nothing in this round.
    Stay,
    /// Another start, after the delay of its backoff.
    RestartByPolicy,
    /// Another start at once, which is no crash.
    RestartAsAsked,
    /// Its round ends: what follows is decided for all containers together.
    AwaitRound,
    /// It makes all containers start anew, itself after the delay of its backoff.
    RestartAll,
}

impl Container {
    /// As the journal has it, where `granted` are its resources.
    pub(crate) fn restore(
        definition: Definition,
        record: ContainerRecord,
        granted: ResourceRequirements,
        node_stop: NodeStop,
    ) -> Self {
        let mut container = Self {
            definition,
            number: record.number,
            standing: record.standing,
            state: State::Idle(Hold::None),
            last: record.last,
            before: record.before,
            crash: record.crash,
            gate: record.gate,
            remembered: record.health,
            failing: record.failing,
            kill_by: record.kill_by.map(|at| (record.number, at)),
            image: Image::default(),
            started_image: None,
            complaint: None,
            failures: 0,
            in_force: record.in_force.unwrap_or(granted),
            update: None,
            failed: None,
            stopped_with_node: match node_stop {
                NodeStop::Begun => Some(record.number),
                NodeStop::None => record.stopped_with_node,
            },
        };
        if container.standing == Standing::Started {
            container.hold_by_backoff();
        }
        container
    }

    /// The spec changed. What was held because of the image may be tried at once with another one.
    pub(crate) fn redefine(&mut self, definition: Definition) {
        if definition.image != self.definition.image {
            self.image = Image::default();
            self.failures = 0;
            match self.state {
                State::Idle(Hold::Retry { .. } | Hold::Image { .. } | Hold::SpecChange) => {
                    self.complaint = None;
                    self.state = State::Idle(Hold::None);
                }
                State::Idle(Hold::None | Hold::Crash { .. })
                | State::Pulling { .. }
                | State::Starting { .. }
                | State::Running { .. } => {}
            }
        }
        self.definition = definition;
    }

    /// As the journal is to have it while all has to end for `halt`.
    pub(crate) fn record(
        &self,
        granted: &ResourceRequirements,
        halt: Option<Halt>,
    ) -> ContainerRecord {
        ContainerRecord {
            number: self.number,
            standing: self.standing,
            last: self.last.clone(),
            before: self.before.clone(),
            crash: self.crash,
            gate: self.gate,
            health: self.health().and_then(|health| health.record(self.number, &self.definition)),
            in_force: Some(&self.in_force).filter(|own| *own != granted).cloned(),
            failing: self.failing_record(),
            kill_by: halt.and_then(|halt| self.killed_before(halt)),
            stopped_with_node: self.stopped_with_node.filter(|number| *number == self.number),
        }
    }

    /// Why it is being ended, when something of it failed.
    fn failing_record(&self) -> Option<FailingRecord> {
        let stop = self.stop()?;
        let (what, words) = stop.reason.failing().zip(self.failed.clone())?;
        Some(FailingRecord { number: self.number, what, words, kill_at: stop.kill_at })
    }

    /// When it is killed, if that is before what ends with it.
    fn killed_before(&self, halt: Halt) -> Option<Tick> {
        let stop = self.stop()?;
        match halt {
            Halt::AtOnce => None,
            Halt::By { deadline, .. } => Some(stop.kill_at).filter(|at| *at < deadline),
        }
    }

    /// How it does, if it runs.
    pub(crate) fn health(&self) -> Option<&Health> {
        match &self.state {
            State::Running { health, .. } => Some(health),
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => None,
        }
    }

    pub(crate) fn key(&self, sandbox: SandboxAttempt) -> ContainerKey {
        ContainerKey { sandbox, name: self.definition.name.clone(), attempt: self.number }
    }

    /// Whether anything was done for it, or is about to be.
    pub(crate) fn has_begun(&self) -> bool {
        self.last.is_some() || self.is_live() || self.is_on_its_way()
    }

    /// A process exists, or an answer that may bring one is awaited: the sandbox cannot be given
    /// up.
    pub(crate) fn is_live(&self) -> bool {
        match self.state {
            State::Idle(_) | State::Pulling { .. } => false,
            State::Starting { .. } | State::Running { .. } => true,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        match &self.state {
            State::Running { stop, .. } => stop.is_none(),
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => false,
        }
    }

    /// On its way to run, image excepted: an answer is awaited that takes no longer than the
    /// runtime needs.
    pub(crate) fn is_on_its_way(&self) -> bool {
        match self.state {
            State::Starting { .. } => true,
            State::Idle(_) | State::Pulling { .. } | State::Running { .. } => false,
        }
    }

    /// It has a postStart hook, and is being started or runs it.
    pub(crate) fn is_in_start_with_hook(&self) -> bool {
        let in_start = match &self.state {
            State::Idle(_) => false,
            State::Running { health, .. } => health.is_in_post_start(),
            State::Pulling { .. } | State::Starting { .. } => true,
        };
        in_start && self.definition.post_start == Hook::Given
    }

    /// Ended in this round with exit code 0, for good.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.standing == Standing::Done && self.last_status().is_some_and(ExitStatus::is_success)
    }

    pub(crate) fn last_status(&self) -> Option<ExitStatus> {
        self.last.as_ref().map(|last| last.exit.status)
    }

    /// Whether the next init container, or the regular ones, may start as far as this one is
    /// concerned.
    pub(crate) fn lets_others_start(&self) -> bool {
        match self.definition.role {
            Role::Init => self.has_succeeded(),
            // Once it was started it keeps nobody waiting, even while it restarts.
            Role::Sidecar => match (self.gate, self.standing) {
                (Gate::Open, _) | (_, Standing::Done) => true,
                (Gate::Closed, Standing::Due | Standing::Started) => false,
            },
            Role::Regular | Role::Ephemeral => true,
        }
    }

    /// What rules and policy say of an end.
    pub(crate) fn follow_up(&self, status: ExitStatus) -> FollowUp {
        if self.definition.role == Role::Init && status.is_success() {
            return FollowUp::Stay;
        }
        match restart_rules::first_match(&self.definition.rules, status.code()) {
            Some(RuleAction::Restart) => return FollowUp::RestartByPolicy,
            Some(RuleAction::RestartAllContainers) => return FollowUp::RestartAll,
            None => {}
        }
        match self.definition.policy {
            RestartPolicy::Always => FollowUp::RestartByPolicy,
            RestartPolicy::OnFailure if status.is_success() => FollowUp::Stay,
            RestartPolicy::OnFailure => FollowUp::RestartByPolicy,
            RestartPolicy::Never => FollowUp::Stay,
        }
    }

    /// What follows when a probe has ended it: it is started again unless it never is, whatever its
    /// exit code says.
    pub(crate) fn follow_up_of_probe(&self, status: ExitStatus) -> FollowUp {
        match (self.follow_up(status), self.definition.policy) {
            (FollowUp::Stay, RestartPolicy::Always | RestartPolicy::OnFailure) => {
                FollowUp::RestartByPolicy
            }
            (other, _) => other,
        }
    }

    /// What is told of its end: first why the node brought it about, as long as that is still why.
    pub(crate) fn told_of_end(&mut self, exit: &Exit) -> String {
        let failed = self.failed.take().filter(|_| self.ends_for_failure());
        let message = exit.message.clone();
        match (failed, exit.status) {
            // those have a reason of their own
            (Some(_), ExitStatus::OomKilled | ExitStatus::StartError | ExitStatus::Unknown) => {
                message
            }
            (Some(words), _) if message.is_empty() => words,
            (Some(words), _) => format!("{words}: {message}"),
            (None, _) => EndedByNode::disown(message),
        }
    }

    /// It runs, and is being stopped because something of it failed.
    fn ends_for_failure(&self) -> bool {
        self.stop().is_some_and(|stop| stop.reason.failing().is_some())
    }

    /// Its way to its end, if it is on it.
    fn stop(&self) -> Option<&Stop> {
        match &self.state {
            State::Running { stop, .. } => stop.as_ref(),
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => None,
        }
    }

    /// Its process has ended (or could not be started): the number is used up.
    pub(crate) fn ended(&mut self, sandbox: SandboxAttempt, exit: Exit, follow_up: FollowUp) {
        let made = match std::mem::replace(&mut self.state, State::Idle(Hold::None)) {
            State::Running { made, .. } => made,
            State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => Made::default(),
        };
        self.before = self.last.take();
        self.last = Some(EndedContainer {
            sandbox,
            attempt: self.number,
            container_id: made.container_id,
            image_id: made.image_id,
            exit,
        });
        self.number = self.number.next();
        self.update = None;
        self.complaint = None;
        self.stand_after(follow_up);
    }

    /// Where it stands after an end that this follows.
    pub(crate) fn stand_after(&mut self, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Stay => self.standing = Standing::Done,
            FollowUp::RestartByPolicy | FollowUp::RestartAll => {
                self.standing = Standing::Started;
                self.hold_by_backoff();
            }
            FollowUp::RestartAsAsked | FollowUp::AwaitRound => self.standing = Standing::Started,
        }
    }

    /// It is not started again, as the pod ends: what it shows is its last end, if it has one.
    pub(crate) fn give_up(&mut self) {
        match self.state {
            State::Idle(_) if self.last.is_some() => {
                self.standing = Standing::Done;
                self.complaint = None;
            }
            State::Idle(_)
            | State::Pulling { .. }
            | State::Starting { .. }
            | State::Running { .. } => {}
        }
    }

    /// Nothing of the pod is left: what was made of it and never ran is gone, too.
    pub(crate) fn conclude(&mut self) {
        self.state = State::Idle(Hold::None);
        self.give_up();
    }

    /// Holds it for the delay of its backoff, counted from its end.
    pub(crate) fn hold_by_backoff(&mut self) {
        let until = match &self.last {
            Some(last) if !self.crash.has_decided(self.number) => {
                last.exit.finished_at + self.crash_delay()
            }
            Some(_) | None => return,
        };
        self.state = State::Idle(Hold::Crash { until });
    }

    /// What the next restart waits, from its last end on.
    pub(crate) fn crash_delay(&self) -> TickDuration {
        match &self.last {
            Some(last) => self.crash.delay_after(last.exit.finished_at),
            None => TickDuration::ZERO,
        }
    }

    /// A new round begins: what ended is to be started again, and what never ran still is.
    /// `max` is the longest delay of the node's backoff.
    pub(crate) fn begin_round(&mut self, round: Round, now: Tick, max: TickDuration) {
        if self.definition.role == Role::Ephemeral {
            return; // see `ephemeral`
        }
        self.gate = Gate::Closed;
        self.image.checked = Checked::No;
        match round {
            Round::Afresh => {
                self.standing = Standing::Due;
                self.crash.clear();
                self.let_go();
            }
            Round::GoesOn => {
                self.standing = Standing::Due;
                self.decide_ahead(now, max);
                self.let_go();
            }
            Round::ByRule => {
                self.standing = Standing::Due;
                self.let_go_unless_its_image_is_missing();
            }
            Round::NewSandbox => self.begin_round_in_new_sandbox(),
        }
    }

    /// The next start is decided now, so that an agent that is killed before it was made does not
    /// hold it for the backoff again. A delay that is cut short by it is made up for by the next
    /// one.
    fn decide_ahead(&mut self, now: Tick, max: TickDuration) {
        let Some(last) = &self.last else { return };
        self.crash.restart_decided(self.number, now, last.exit.finished_at, max);
        if self.is_held_by_backoff() {
            self.crash.lengthen(max);
        }
    }

    /// As the kubelet does: containers that need not run again stay ended, the others keep their
    /// backoff; init containers are forgotten by it and start at once.
    fn begin_round_in_new_sandbox(&mut self) {
        let stays = match self.definition.role {
            Role::Regular | Role::Ephemeral => self.standing == Standing::Done,
            Role::Init | Role::Sidecar => false,
        };
        if stays {
            self.complaint = None;
            return;
        }
        self.standing = Standing::Due;
        match self.state {
            // The answer is as good for this sandbox.
            State::Pulling { .. } => {}
            State::Idle(_) | State::Starting { .. } | State::Running { .. } => {
                self.let_go_unless_its_image_is_missing()
            }
        }
        if self.definition.role == Role::Regular {
            self.hold_by_backoff();
        }
    }

    /// Nothing but its turn keeps it from its next start.
    fn let_go(&mut self) {
        self.complaint = None;
        self.state = State::Idle(Hold::None);
    }

    /// The back-off of an image is that of the pod and the image (kubelet: image manager,
    /// `EnsureImageExists`): a new sandbox brings no image nearer.
    fn let_go_unless_its_image_is_missing(&mut self) {
        match self.state {
            State::Idle(Hold::Image { .. }) => {}
            State::Idle(
                Hold::None | Hold::Crash { .. } | Hold::Retry { .. } | Hold::SpecChange,
            )
            | State::Pulling { .. }
            | State::Starting { .. }
            | State::Running { .. } => self.let_go(),
        }
    }
}

/// Why a round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Somebody asked for it: every container runs again, at once, and its backoff series is over.
    Afresh,
    /// A ladder asked for it: every container runs again, at once, and the backoff series go on.
    GoesOn,
    /// A restart rule says so: every container runs again, and the backoff series go on.
    ByRule,
    /// The sandbox died.
    NewSandbox,
}
