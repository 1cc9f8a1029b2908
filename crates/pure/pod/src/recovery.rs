//! An agent that starts again, or is unsure: what stands in the runtime, the journal and the API's
//! status are put together.
//!
//! | of | counts |
//! |---|---|
//! | which sandbox is current | the newest of journal and runtime |
//! | the number of a container's start | the highest of journal, status and runtime: `restartCount` never falls |
//! | what runs | the runtime alone; what the status shows running and the runtime does not know has vanished (137) |
//! | how containers ended | the runtime for the newest start, else the journal, else the status |
//! | backoff, restarts, the end of the pod | the journal; without it a crash series begins anew |
//!
//! A start of which neither journal nor status tells is in the runtime's records, also when its
//! sandbox has died since: it counts, with the end that is written there or none that is known.
//! Only a power cut can take the records of the last moment with it; that start is made again under
//! the same number, as nothing on the machine tells it from one that was never made. To know it,
//! each start would have to wait for a write that is on the disk.
//!
//! A container that runs is adopted as it is: an agent that starts again restarts nothing. One that
//! was created and not started is started, not taken for dead. If the sandbox is gone and anything
//! ran in it, it is replaced as if it had just died.

use k8s_openapi::api::core::v1::{
    ContainerStateRunning, ContainerStateTerminated, ContainerStatus,
};
use rekindle_types::{
    ContainerAttempt, ContainerName, Exit, ExitStatus, Notice, SandboxAttempt, Tick, TickDuration,
};

use crate::backoff::Task;
use crate::blueprint::Role;
use crate::container::{Container, State};
use crate::containers::ClearanceStep;
use crate::core::{Keep, Lifecycle, PodCore};
use crate::event::{ContainerSeen, ContainerSeenState, Made, SandboxSeenState, Snapshot};
use crate::health::Health;
use crate::journal::{
    EndedContainer, Gate, Halt, HealthRecord, Launched, Readiness, RestartCause, RestartStage,
    Standing,
};
use crate::key::ContainerKey;
use crate::sandbox::{OldSandbox, Remains, SandboxState};
use crate::texts;
use crate::volumes::Volumes;

/// A container of the snapshot with the sandbox that it is in.
#[derive(Clone, Copy)]
struct Found<'a> {
    sandbox: SandboxAttempt,
    seen: &'a ContainerSeen,
}

impl Found<'_> {
    fn key(&self) -> ContainerKey {
        let ContainerSeen { name, attempt, .. } = self.seen;
        ContainerKey { sandbox: self.sandbox, name: name.clone(), attempt: *attempt }
    }

    fn may_live(&self) -> bool {
        match self.seen.state {
            ContainerSeenState::Created | ContainerSeenState::Running { .. } => true,
            ContainerSeenState::Exited { .. } => false,
        }
    }
}

/// What the API's status says of a container.
#[derive(Default)]
struct Told {
    number: ContainerAttempt,
    /// The image of what it shows running.
    image: Option<String>,
    /// It shows it running, since then.
    running_since: Option<Tick>,
    /// The newest end that it shows.
    ended: Option<EndedContainer>,
    /// And the one before.
    before: Option<EndedContainer>,
    /// How what it shows running does.
    health: Option<HealthRecord>,
}

impl PodCore {
    /// What waited in a round that a new sandbox began goes on waiting, as
    /// `begin_round_in_new_sandbox` has it. A restart that is carried out has begun another kind of
    /// round: what it let go, or holds as a whole, is not held here.
    pub(crate) fn hold_what_was_due(&mut self) {
        let round = self.restart.as_ref().map(|restart| (&restart.stage, &restart.cause));
        let may_be_let_go = match round {
            Some((RestartStage::Starting, RestartCause::Rule { .. })) => return,
            Some((RestartStage::Starting, RestartCause::Asked { .. })) => true,
            Some((RestartStage::Stopping { .. } | RestartStage::Cycling { .. }, _)) | None => false,
        };
        for container in &mut self.containers {
            let waits = container.definition.role == Role::Regular
                && container.standing == Standing::Due
                && !(may_be_let_go && container.crash_delay() == TickDuration::ZERO);
            if waits {
                container.hold_by_backoff();
            }
        }
    }

    /// The first snapshot: the core comes to life.
    pub(crate) fn recover_from(&mut self, snapshot: Snapshot) {
        self.recover_sandboxes(&snapshot);
        for place in 0..self.containers.len() {
            let lost = self.recover_container(place, &snapshot);
            if let Some(started_at) = lost {
                self.vanished_unseen(place, started_at);
            }
            self.complain_of_crash_loop(place);
        }
        self.take_up_halt(&snapshot);
        self.open_passed_gates();
        self.clear_strangers(&snapshot);
        self.recover_round(&snapshot);
        self.wake();
    }

    /// From now on events count; those that came early are taken in.
    fn wake(&mut self) {
        let before = std::mem::replace(&mut self.lifecycle, Lifecycle::Active);
        let Lifecycle::Recovering { ending, early } = before else { return };
        if let Some(ending) = ending {
            self.lifecycle = Lifecycle::Ending(ending);
        }
        self.status_changed = true;
        self.keep(Keep::Now);
        self.obey_object();
        for event in early {
            self.take_in(event);
        }
    }

    fn recover_sandboxes(&mut self, snapshot: &Snapshot) {
        let seen = &snapshot.sandboxes;
        let newest = seen.iter().map(|sandbox| sandbox.attempt).max();
        self.sandbox.attempt = self.sandbox.attempt.max(newest.unwrap_or_default());
        for sandbox in seen {
            if sandbox.attempt == self.sandbox.attempt {
                self.ips = sandbox.ips.clone();
                self.sandbox.state = match sandbox.state {
                    SandboxSeenState::Ready => SandboxState::Ready,
                    SandboxSeenState::NotReady => SandboxState::Dead {
                        halt: Halt::with_signal(self.now, self.blueprint.grace),
                    },
                };
            } else {
                let ended =
                    |c: &ContainerSeen| matches!(c.state, ContainerSeenState::Exited { .. });
                let remains = if sandbox.containers.iter().all(ended) {
                    Remains::Nothing
                } else {
                    Remains::MaybeProcesses
                };
                let old = OldSandbox { attempt: sandbox.attempt, remains, task: Task::due() };
                self.old_sandboxes.push(old);
            }
        }
    }

    /// Puts together what is known of one container. Since when it ran, if it has vanished.
    fn recover_container(&mut self, place: usize, snapshot: &Snapshot) -> Option<Tick> {
        let name = self.containers[place].definition.name.clone();
        let told = self.told_of(&name);
        let found = all_found(snapshot, &name);
        let newest = found.iter().max_by_key(|f| (f.seen.attempt, f.sandbox)).copied();
        self.take_told(place, &told);
        let container = &mut self.containers[place];
        let seen_number = newest.map_or(ContainerAttempt(0), |f| f.seen.attempt);
        container.number = container.number.max(seen_number);
        for other in &found {
            if newest.is_some_and(|n| n.key() != other.key()) {
                self.clear_found(*other);
            }
        }
        let current = newest.filter(|f| f.seen.attempt == self.containers[place].number);
        match current {
            Some(found) => {
                self.adopt(place, found, told.health);
                let container = &mut self.containers[place];
                if told.image.as_ref().is_some_and(|image| *image != container.definition.image) {
                    container.image.known = None;
                }
                container.started_image = told.image;
                None
            }
            None => {
                let container = &mut self.containers[place];
                container.stopped_with_node = None;
                let told = told.running_since.filter(|_| told.number == container.number);
                told.or(container.may_have_run().then_some(self.now))
            }
        }
    }

    /// What the status says counts where the journal knows less: ends that it missed, and the
    /// number at least. Such an end is followed as if it came now, with the restart that the
    /// journal knows of: it may be the very end that was asked for.
    fn take_told(&mut self, place: usize, told: &Told) {
        let known = self.containers[place].last.as_ref().map(|last| last.attempt);
        if let Some(end) = told.ended.as_ref().filter(|end| known.is_none_or(|n| n < end.attempt)) {
            let follow_up = self.follow_up(place, end.exit.status);
            let (now, container) = (self.now, &mut self.containers[place]);
            container.last = Some(end.clone());
            container.before = told.before.clone().or(container.before.take());
            for end in [&mut container.last, &mut container.before].into_iter().flatten() {
                end.set_seen_at(now);
            }
            container.stand_after(follow_up);
        }
        let container = &mut self.containers[place];
        let after_last = container.last.as_ref().map_or(ContainerAttempt(0), |l| l.attempt.next());
        container.number = container.number.max(told.number).max(after_last);
    }

    fn told_of(&self, name: &ContainerName) -> Told {
        let Some(status) = &self.pod.status else { return Told::default() };
        let lists = [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.ephemeral_container_statuses,
        ];
        let mut statuses = lists.into_iter().flatten().flatten();
        statuses.find(|status| status.name == name.0).map(Told::of).unwrap_or_default()
    }

    /// The start that counts was found: it is what it is.
    fn adopt(&mut self, place: usize, found: Found<'_>, told: Option<HealthRecord>) {
        let in_current = found.sandbox == self.sandbox.attempt;
        let now = self.now;
        let container = &mut self.containers[place];
        let made = found.seen.made.clone();
        match &found.seen.state {
            // The same start is asked for again, which finds it; in a sandbox that was given up it
            // is torn down with that.
            ContainerSeenState::Created => container.stopped_with_node = None,
            ContainerSeenState::Running { started_at, notice } => {
                container.outlives_node_stop(*notice);
                container.image.known = Some(made.image_id.clone());
                container.standing = Standing::Started;
                container.complaint = None;
                let started_at = *started_at;
                let health = container.adopted_health(started_at, now, told);
                container.state = State::Running { made, started_at, health, stop: None };
                if in_current {
                    self.take_up_failure(place, *notice);
                    self.open_gate(place);
                } else {
                    // It is ended with that sandbox, before anything starts.
                    self.container_vanished(place);
                    self.ended_in(place, found.sandbox);
                }
            }
            ContainerSeenState::Exited { exit } => {
                let started_at = exit.started_at;
                let health = container.adopted_health(started_at, now, told);
                container.state = State::Running { made, started_at, health, stop: None };
                self.take_up_failure(place, Notice::Given);
                self.open_gate(place);
                self.container_ended(place, exit.clone());
                self.ended_in(place, found.sandbox);
            }
        }
    }

    /// What was started after a sidecar says that the sidecar let it, whatever was lost since.
    fn open_passed_gates(&mut self) {
        let mut later_began = false;
        for container in self.containers.iter_mut().rev() {
            match container.definition.role {
                Role::Ephemeral => continue, // it waited for nobody
                Role::Sidecar if later_began => container.gate = Gate::Open,
                Role::Sidecar | Role::Init | Role::Regular => {}
            }
            later_began |= container.standing != Standing::Due;
        }
    }

    fn ended_in(&mut self, place: usize, sandbox: SandboxAttempt) {
        if let Some(last) = &mut self.containers[place].last {
            last.sandbox = sandbox;
        }
    }

    /// The status showed it running, and it is nowhere.
    fn vanished_unseen(&mut self, place: usize, started_at: Tick) {
        let status = self.pod.status.clone().unwrap_or_default();
        let container = &mut self.containers[place];
        let name = &container.definition.name.0;
        let lists = [
            status.init_container_statuses,
            status.container_statuses,
            status.ephemeral_container_statuses,
        ];
        let told = lists.into_iter().flatten().flatten().find(|status| status.name == *name);
        let made = told.map_or_else(Made::default, |status| Made {
            container_id: status.container_id.unwrap_or_default(),
            image_id: status.image_id,
            user: None,
        });
        let health = Health::fresh(&container.definition, started_at, self.now);
        container.state = State::Running { made, started_at, health, stop: None };
        self.container_vanished(place);
    }

    fn clear_found(&mut self, found: Found<'_>) {
        if found.sandbox != self.sandbox.attempt {
            return; // it goes with its sandbox
        }
        let step = if found.may_live() { ClearanceStep::Kill } else { ClearanceStep::Remove };
        self.clear(found.key(), step);
    }

    /// Containers that the spec does not have.
    fn clear_strangers(&mut self, snapshot: &Snapshot) {
        for sandbox in &snapshot.sandboxes {
            for seen in &sandbox.containers {
                let found = Found { sandbox: sandbox.attempt, seen };
                if self.place_of(&found.key()).is_none() {
                    self.clear_found(found);
                }
            }
        }
    }

    /// The round goes on where it was, unless its sandbox is gone.
    fn recover_round(&mut self, snapshot: &Snapshot) {
        let stands = self.sandbox.stands();
        let in_current = snapshot.sandboxes.iter().any(|sandbox| {
            sandbox.attempt == self.sandbox.attempt && !sandbox.containers.is_empty()
        });
        if let Volumes::Stale(_) = self.volumes
            && in_current
        {
            // A container was created since the refresh fell due, so it was done.
            self.volumes = Volumes::Unready(Task::due());
        }
        let begun = self.containers.iter().any(|c| c.standing != Standing::Due);
        let goes_on = match &self.lifecycle {
            Lifecycle::Recovering { ending, .. } => {
                ending.is_none() && !self.is_declared_finished()
            }
            Lifecycle::Active => true,
            Lifecycle::Ending(_) | Lifecycle::Finished(_) => false,
        };
        if !stands && begun && goes_on && !self.work_is_done() && !self.initialization_failed() {
            self.emit(texts::sandbox_changed());
            self.sandbox.succeed_dead();
            self.begin_round(crate::container::Round::NewSandbox);
        }
    }

    /// A later snapshot: what went unnoticed is taken in. What an action in flight will tell is
    /// left to its answer.
    pub(crate) fn compare_with(&mut self, snapshot: &Snapshot) {
        let current = snapshot.sandboxes.iter().find(|s| s.attempt == self.sandbox.attempt);
        let ready = current.is_some_and(|s| s.state == SandboxSeenState::Ready);
        for place in 0..self.containers.len() {
            let key = self.containers[place].key(self.sandbox.attempt);
            let seen = current.and_then(|sandbox| {
                sandbox.containers.iter().find(|c| c.name == key.name && c.attempt == key.attempt)
            });
            let runs = match self.containers[place].state {
                State::Running { .. } => true,
                State::Idle(_) | State::Pulling { .. } | State::Starting { .. } => false,
            };
            match seen.map(|seen| (seen, &seen.state)) {
                Some((seen, ContainerSeenState::Exited { exit })) => {
                    self.container_exited(&key, seen.made.clone(), exit.clone());
                }
                Some((_, ContainerSeenState::Created | ContainerSeenState::Running { .. })) => {}
                None if runs => self.container_vanished(place),
                None => {}
            }
        }
        if !ready {
            self.sandbox_died(self.sandbox.attempt);
        }
    }
}

fn all_found<'a>(snapshot: &'a Snapshot, name: &ContainerName) -> Vec<Found<'a>> {
    let mut all = Vec::new();
    for sandbox in &snapshot.sandboxes {
        let named = sandbox.containers.iter().filter(|seen| seen.name == *name);
        all.extend(named.map(|seen| Found { sandbox: sandbox.attempt, seen }));
    }
    all
}

impl Told {
    fn of(status: &ContainerStatus) -> Self {
        let number = ContainerAttempt(u32::try_from(status.restart_count).unwrap_or(0));
        let state = status.state.as_ref();
        let running = state.and_then(|state| state.running.as_ref());
        let now = state.and_then(|state| state.terminated.as_ref());
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let of = |end: Option<&ContainerStateTerminated>, number: u32| {
            end.map(|end| ended(end, number, status))
        };
        // The end before the newest start carries the number before it.
        let previous = number.0.checked_sub(1);
        let (ended, before) = match (running, now, previous) {
            (Some(_), _, Some(previous)) => (of(last, previous), None),
            (Some(_), _, None) => (None, None),
            (None, Some(end), Some(previous)) => (of(Some(end), number.0), of(last, previous)),
            (None, Some(end), None) => (of(Some(end), number.0), None),
            (None, None, _) => (of(last, number.0), None),
        };
        let since = |running: &ContainerStateRunning| running.started_at.as_ref().map(Tick::from);
        let running_since = running.map(|running| since(running).unwrap_or_default());
        let image = running.map(|_| status.image.clone());
        let health = running.map(|_| HealthRecord {
            number,
            launched: match status.started {
                Some(true) => Launched::Started,
                Some(false) | None => Launched::Fresh,
            },
            readiness: if status.ready { Readiness::Ready } else { Readiness::Unready },
        });
        Self { number, image, running_since, ended, before, health }
    }
}

impl Container {
    /// By the journal its newest start was made, or may have been where that is the only one.
    fn may_have_run(&self) -> bool {
        let ran = self.remembered.as_ref().is_some_and(|record| record.number == self.number);
        ran || self.started_at_most_once()
    }

    /// How a container does that an earlier agent started: the journal and the status say how far
    /// it was, and the status is newer as to readiness.
    fn adopted_health(
        &mut self,
        started_at: Tick,
        now: Tick,
        told: Option<HealthRecord>,
    ) -> Health {
        let remembered = self.remembered.take();
        let current = |record: &HealthRecord| record.number == self.number;
        let (remembered, told) = (remembered.filter(current), told.filter(current));
        let record = HealthRecord {
            number: self.number,
            launched: remembered
                .into_iter()
                .chain(told)
                .map(|r| r.launched)
                .max()
                .unwrap_or_default(),
            readiness: told.or(remembered).map_or(Readiness::Unready, |record| record.readiness),
        };
        Health::remembered(&self.definition, started_at, now, record)
    }
}

fn ended(end: &ContainerStateTerminated, number: u32, status: &ContainerStatus) -> EndedContainer {
    EndedContainer {
        sandbox: SandboxAttempt(0),
        attempt: ContainerAttempt(number),
        container_id: end.container_id.clone().unwrap_or_default(),
        image_id: status.image_id.clone(),
        exit: Exit {
            status: exit_status(end),
            started_at: end.started_at.as_ref().map(Tick::from).unwrap_or_default(),
            finished_at: end.finished_at.as_ref().map(Tick::from).unwrap_or_default(),
            message: end.message.clone().unwrap_or_default(),
        },
    }
}

/// The way back from what a status shows.
fn exit_status(end: &ContainerStateTerminated) -> ExitStatus {
    let shown = [ExitStatus::OomKilled, ExitStatus::StartError, ExitStatus::Unknown];
    let reason = end.reason.as_deref().unwrap_or_default();
    let special = shown.into_iter().find(|status| status.reason() == reason);
    special.unwrap_or(ExitStatus::Code { code: end.exit_code })
}
