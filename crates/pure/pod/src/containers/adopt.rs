//! Containers that an earlier agent left: what stands in the runtime, the journal and the status
//! are put together, and an end that had begun goes on.
//!
//! The deadline of such an end is in the journal before the first signal is sent. The runtime knows
//! which containers were signalled, for as long as their processes live. So no write stands before
//! a signal, and yet no container is killed without notice:
//!
//! | of the newest start the runtime says | |
//! |---|---|
//! | it has notice | it keeps its deadline, as each agent that dies would put its end off otherwise, and is not asked again |
//! | it has none | it has the whole grace from now on, and a hook that had begun is run anew, as in the kubelet |

use rekindle_types::{ContainerAttempt, ContainerName, SandboxAttempt, StopNotice, Tick};

use super::Containers;
use super::container::{ContainerStop, PodContainer, ProcessState, StopStep};
use super::end::EndConsequence;
use super::in_status::{ContainerInStatus, made_in_status};
use super::strays::StrayStep;
use crate::blueprint::RoleInPod;
use crate::context::PodContext;
use crate::event::{ContainerSeen, ContainerSeenState, Snapshot};
use crate::halt::GRACE_MIN;
use crate::health::ContainerHealth;
use crate::journal::{ContainerStanding, Failing, HealthRecord, Readiness, SidecarGate};
use crate::key::ContainerStartKey;
use crate::outbox::Outbox;
use crate::stop_reason::StopReason;
use crate::texts;

/// A container of the snapshot with the sandbox that it is in.
#[derive(Clone, Copy)]
struct FoundContainer<'a> {
    sandbox: SandboxAttempt,
    seen: &'a ContainerSeen,
}

impl FoundContainer<'_> {
    fn key(&self) -> ContainerStartKey {
        let ContainerSeen { name, attempt, .. } = self.seen;
        ContainerStartKey { sandbox: self.sandbox, name: name.clone(), attempt: *attempt }
    }

    fn may_live(&self) -> bool {
        match self.seen.state {
            ContainerSeenState::Created | ContainerSeenState::Running { .. } => true,
            ContainerSeenState::Exited { .. } => false,
        }
    }
}

/// Whether a halt that an earlier agent began leaves a container its whole grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenUpHalt {
    /// All that end have notice.
    AsRecorded,
    /// One was not asked to end yet: it has the whole grace from now on.
    WithGraceAnew,
}

impl Containers {
    /// Puts together what is known of the container at this place.
    pub(crate) fn recover(
        &mut self,
        place: usize,
        snapshot: &Snapshot,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        let name = self.list[place].definition.name.clone();
        let told = ContainerInStatus::in_status(context.desired.api_status(), &name);
        let found = all_found(snapshot, &name);
        let newest = found.iter().max_by_key(|f| (f.seen.attempt, f.sandbox)).copied();
        let container = &mut self.list[place];
        container.take_told(&told, context);
        let seen_number = newest.map_or(ContainerAttempt(0), |f| f.seen.attempt);
        container.number = container.number.max(seen_number);
        for other in &found {
            if newest.is_some_and(|n| n.key() != other.key()) {
                self.clear_found(*other, context.sandboxes.attempt());
            }
        }
        let container = &mut self.list[place];
        let end = match newest.filter(|f| f.seen.attempt == container.number) {
            Some(found) => {
                let end = container.adopt(found, told.health, context, outbox);
                let is_other = |image: &String| *image != container.definition.image;
                if told.image.as_ref().is_some_and(is_other) {
                    container.image.known = None;
                }
                container.started_image = told.image;
                end
            }
            None => container.recover_unfound(&told, context, outbox),
        };
        container.complain_of_crash_loop(context);
        end
    }

    fn clear_found(&mut self, found: FoundContainer<'_>, current: SandboxAttempt) {
        if found.sandbox != current {
            return; // it goes with its sandbox
        }
        let step = if found.may_live() { StrayStep::Kill } else { StrayStep::Remove };
        self.strays.clear(found.key(), step);
    }

    /// Containers that the spec does not have.
    pub(crate) fn clear_strangers(&mut self, snapshot: &Snapshot, current: SandboxAttempt) {
        for sandbox in &snapshot.sandboxes {
            for seen in &sandbox.containers {
                if self.place_of(&seen.name).is_none() {
                    self.clear_found(FoundContainer { sandbox: sandbox.attempt, seen }, current);
                }
            }
        }
    }

    /// What was started after a sidecar says that the sidecar let it, whatever was lost since.
    pub(crate) fn open_passed_gates(&mut self) {
        let mut later_began = false;
        for container in self.list.iter_mut().rev() {
            match container.definition.role {
                RoleInPod::Ephemeral => continue, // it waited for no other
                RoleInPod::Sidecar if later_began => container.gate = SidecarGate::Open,
                RoleInPod::Sidecar | RoleInPod::Init | RoleInPod::Regular => {}
            }
            later_began |= container.standing != ContainerStanding::Due;
        }
    }

    /// Goes on with a halt that the journal tells of.
    pub(crate) fn take_up_halt(
        &mut self,
        snapshot: &Snapshot,
        deadline: Tick,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> TakenUpHalt {
        let targets = context.recorded_targets();
        let reason = match targets {
            Some(_) => StopReason::RestartAsked,
            None => StopReason::Halt,
        };
        let mut taken_up = TakenUpHalt::AsRecorded;
        for container in &mut self.list {
            let is_to_end = match targets {
                Some(targets) => targets
                    .get(&container.definition.name)
                    .is_some_and(|target| !container.runs_later_than(*target)),
                None => context.is_halted(container.definition.role),
            };
            if !is_to_end {
                continue;
            }
            match notice_of(snapshot, &container.key(context.sandboxes.attempt())) {
                Some(StopNotice::Given) => {
                    container.take_up_stop(deadline, reason, context.now, outbox);
                }
                Some(StopNotice::NotGiven) => taken_up = TakenUpHalt::WithGraceAnew,
                None => {}
            }
        }
        taken_up
    }
}

fn all_found<'a>(snapshot: &'a Snapshot, name: &ContainerName) -> Vec<FoundContainer<'a>> {
    let mut all = Vec::new();
    for sandbox in &snapshot.sandboxes {
        let named = sandbox.containers.iter().filter(|seen| seen.name == *name);
        all.extend(named.map(|seen| FoundContainer { sandbox: sandbox.attempt, seen }));
    }
    all
}

/// Of one that runs.
fn notice_of(snapshot: &Snapshot, key: &ContainerStartKey) -> Option<StopNotice> {
    let sandbox = snapshot.sandboxes.iter().find(|sandbox| sandbox.attempt == key.sandbox)?;
    let mut containers = sandbox.containers.iter();
    let seen = containers.find(|seen| seen.name == key.name && seen.attempt == key.attempt)?;
    match seen.state {
        ContainerSeenState::Running { notice, .. } => Some(notice),
        ContainerSeenState::Created | ContainerSeenState::Exited { .. } => None,
    }
}

impl PodContainer {
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
    ) -> ContainerHealth {
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
        ContainerHealth::remembered(&self.definition, started_at, now, record)
    }

    /// What the status says counts where the journal knows less: ends that it missed, and the
    /// number at least. Such an end is followed as if it came now, with the restart that the
    /// journal knows of: it may be the very end that was asked for.
    fn take_told(&mut self, told: &ContainerInStatus, context: &PodContext<'_>) {
        let known = self.last.as_ref().map(|last| last.attempt);
        if let Some(end) = told.ended.as_ref().filter(|end| known.is_none_or(|n| n < end.attempt)) {
            let follow_up = self.follow_up_in(context, end.exit.status);
            self.last = Some(end.clone());
            self.before = told.before.clone().or(self.before.take());
            for end in [&mut self.last, &mut self.before].into_iter().flatten() {
                end.set_seen_at(context.now);
            }
            self.stand_after(follow_up);
        }
        let after_last = self.last.as_ref().map_or(ContainerAttempt(0), |l| l.attempt.next());
        self.number = self.number.max(told.number).max(after_last);
    }

    /// The start that counts was found: it is what it is.
    fn adopt(
        &mut self,
        found: FoundContainer<'_>,
        told: Option<HealthRecord>,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        let now = context.now;
        let made = found.seen.made.clone();
        let end = match &found.seen.state {
            // The same start is asked for again, which finds it; in a sandbox that was given up it
            // is torn down with that.
            ContainerSeenState::Created => {
                self.stopped_with_node = None;
                return EndConsequence::None;
            }
            ContainerSeenState::Running { started_at, notice } => {
                self.outlives_node_stop(*notice);
                self.image.known = Some(made.image_id.clone());
                self.standing = ContainerStanding::Started;
                self.complaint = None;
                let started_at = *started_at;
                let health = self.adopted_health(started_at, now, told);
                self.state = ProcessState::Running { made, started_at, health, stop: None };
                if found.sandbox == context.sandboxes.attempt() {
                    self.take_up_failure(*notice, context);
                    self.open_gate();
                    return EndConsequence::None;
                }
                // It is ended with that sandbox, before anything starts.
                self.vanish(context, outbox)
            }
            ContainerSeenState::Exited { exit } => {
                let started_at = exit.started_at;
                let health = self.adopted_health(started_at, now, told);
                self.state = ProcessState::Running { made, started_at, health, stop: None };
                self.take_up_failure(StopNotice::Given, context);
                self.open_gate();
                self.end(context, exit.clone(), outbox)
            }
        };
        if let Some(last) = &mut self.last {
            last.sandbox = found.sandbox;
        }
        end
    }

    /// The runtime does not know the start that counts. If it ran, it has vanished.
    fn recover_unfound(
        &mut self,
        told: &ContainerInStatus,
        context: &PodContext<'_>,
        outbox: &mut Outbox,
    ) -> EndConsequence {
        self.stopped_with_node = None;
        let shown = told.running_since.filter(|_| told.number == self.number);
        let ran_since = shown.or(self.may_have_run().then_some(context.now));
        let Some(started_at) = ran_since else { return EndConsequence::None };
        let made = made_in_status(context.desired.api_status(), &self.definition.name);
        self.runs(made, started_at, context.now);
        self.vanish(context, outbox)
    }

    /// It was being ended because something of it failed: so it is now. With notice it keeps its
    /// time, else it has its whole grace.
    fn take_up_failure(&mut self, notice: StopNotice, context: &PodContext<'_>) {
        let (now, grace) = (context.now, context.desired.grace());
        let Some(record) = self.failing.take().filter(|r| r.number == self.number) else {
            return;
        };
        let probes = &self.definition.probes;
        let own = match record.what {
            Failing::StartupProbe => probes.startup.as_ref().and_then(|rules| rules.grace),
            Failing::LivenessProbe => probes.liveness.as_ref().and_then(|rules| rules.grace),
            Failing::PostStartHook => None,
        };
        let latest = now + own.unwrap_or(grace);
        self.failed = Some(record.words);
        match (notice, &mut self.state) {
            (StopNotice::Given, ProcessState::Running { stop, .. }) => {
                let kill_at = record.kill_at.min(latest).max(now + GRACE_MIN);
                let reason = record.what.into();
                let step = StopStep::Grace;
                *stop = Some(ContainerStop { step, kill_at, not_before: Tick::ZERO, reason });
            }
            (StopNotice::Given | StopNotice::NotGiven, _) => {
                self.set_stop(latest, record.what.into(), context);
            }
        }
    }

    /// It has notice: it is killed by the deadline of all, or by one of its own.
    fn take_up_stop(&mut self, deadline: Tick, reason: StopReason, now: Tick, outbox: &mut Outbox) {
        let least = now + GRACE_MIN;
        let own = self.kill_by.take().filter(|(number, _)| *number == self.number);
        let kill_at = own.map_or(deadline, |(_, own)| own.min(deadline)).max(least);
        // one that is ended because something of it failed keeps its own reason
        if let ProcessState::Running { stop: stop @ None, .. } = &mut self.state {
            let step = StopStep::Grace;
            *stop = Some(ContainerStop { step, kill_at, not_before: Tick::ZERO, reason });
            outbox.emit(texts::killing(&self.definition, reason));
        }
    }
}
