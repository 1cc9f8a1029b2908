//! What an agent does for one of its pods, as its core asks for it, and what becomes of that.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionId, ActionOutcome, ContainerStartKey, CoreAction,
    CoreEvent, Journal, ResourceDecision, SandboxSeenState,
};
use rekindle_pod_driver::{PodEffect, StatusToWrite};
use rekindle_types::{ExitStatus, SandboxAttempt, Tick, TickDuration};

use super::{ContainerLife, SIGKILL, SimulatedPod, SimulatedSandbox, TimedEffect};
use crate::behaviour::Behaviours;
use crate::faults::{CallFate, DiskSpace, Faults, error_of};
use crate::known_bugs::KnownBug;

/// A call of the runtime that fails takes so long.
pub(super) const FAILS_AFTER: TickDuration = TickDuration::from_millis(5);

impl SimulatedPod {
    /// Carries out all that the driver asks for, until the agent dies of it.
    pub(crate) fn act(
        &mut self,
        now: Tick,
        run: &Behaviours,
        since: Tick,
        faults: &mut Faults,
    ) -> Vec<TimedEffect> {
        let since = now.since(since);
        let now = self.clock.shows(now);
        let mut effects = Vec::new();
        while let Some(asked) = self.driver.poll_effect(now) {
            if self.dies_at(&asked, faults) {
                self.died = true;
                return effects;
            }
            match asked {
                PodEffect::Persist(journal) => self.persist(now, journal, faults),
                PodEffect::Perform(id, action) => {
                    self.perform(now, (id, action), (run, since, faults), &mut effects);
                }
                PodEffect::Advance => {} // every answer takes its time
                PodEffect::RequestResources(request) => {
                    let (ticket, decision) = (request.ticket, ResourceDecision::Granted);
                    self.driver.handle(now, CoreEvent::ResourcesDecided { ticket, decision });
                }
                // a virtual node has no rules of its own
                PodEffect::WithdrawEndpoints => self.driver.endpoints_withdrawn(),
                PodEffect::AdmitEndpoints | PodEffect::ExcludeEndpoints(_) => {}
                PodEffect::Show(status) => {
                    let status = self.said(status, faults.bug);
                    self.check_status(&status);
                }
                PodEffect::WriteStatus(StatusToWrite { status, base }) => {
                    let status = self.said(status, faults.bug);
                    effects.push(TimedEffect::Status(StatusToWrite { status, base }));
                }
                PodEffect::Record(event) => {
                    self.check_event(&event);
                    effects.push(TimedEffect::Event(event));
                }
                PodEffect::ReportRestart(report) => effects.push(TimedEffect::Report(report)),
                PodEffect::Finish => effects.push(TimedEffect::Finished),
            }
        }
        effects
    }

    /// Before it, or between the two halves of a start: the next agent finds what is prepared.
    fn dies_at(&mut self, effect: &PodEffect, faults: &mut Faults) -> bool {
        if matches!(effect, PodEffect::Advance) {
            return false;
        }
        if faults.dies_here(&self.node) {
            return true;
        }
        match effect {
            PodEffect::Perform(_, CoreAction::StartContainer { key, .. })
                if faults.dies_here(&self.node) =>
            {
                self.create(key);
                true
            }
            _ => false,
        }
    }

    /// Has the runtime do something, as its fate wants it and in its time.
    fn perform(
        &mut self,
        now: Tick,
        (id, action): (ActionId, CoreAction),
        (run, since, faults): (&Behaviours, TickDuration, &mut Faults),
        effects: &mut Vec<TimedEffect>,
    ) {
        let fate = faults.fate(&action);
        let asked = self.asks(&action, &faults.pace);
        let before = effects.len();
        if self.stops_halfway(fate, (id, &action), faults, effects).is_continue() {
            self.meet(fate, now, (id, action), (run, since, faults), effects);
        }
        if let Some(asked) = asked {
            self.keep_pace(now, (id, asked), &faults.pace, &mut effects[before..]);
        }
    }

    /// What goes wrong with a start, if it does so in its own way: the container may be prepared
    /// and not run.
    fn stops_halfway(
        &mut self,
        fate: CallFate,
        (id, action): (ActionId, &CoreAction),
        faults: &mut Faults,
        effects: &mut Vec<TimedEffect>,
    ) -> ControlFlow<()> {
        let CoreAction::StartContainer { key, .. } = action else {
            return ControlFlow::Continue(());
        };
        match fate {
            CallFate::Fails => effects.push(self.cannot_start(id, key, faults)),
            // an agent that is not sure whether a process runs looks, and does not guess
            CallFate::DoneButFails => {
                self.create(key);
                effects.push(TimedEffect::Answer(FAILS_AFTER, id, Err(error_of(action))));
            }
            CallFate::NeverAnswered if faults.stops_halfway() => {
                self.unanswered.insert(id);
                self.create(key);
            }
            CallFate::Well | CallFate::NeverAnswered | CallFate::Late(_) => {
                return ControlFlow::Continue(());
            }
        }
        ControlFlow::Break(())
    }

    /// Carries an action out as its fate wants it.
    fn meet(
        &mut self,
        fate: CallFate,
        now: Tick,
        (id, action): (ActionId, CoreAction),
        with: (&Behaviours, TickDuration, &Faults),
        effects: &mut Vec<TimedEffect>,
    ) {
        let error = error_of(&action);
        if fate == CallFate::Fails {
            if let CoreAction::RunHook { key, hook, limit } = &action {
                self.hook_begins(id, now, (key.clone(), *hook), *limit);
            }
            if let CoreAction::SignalContainer { key } = &action {
                self.graces.signal(now, key);
            }
            effects.push(TimedEffect::Answer(FAILS_AFTER, id, Err(error)));
            return;
        }
        let mut done = Vec::new();
        self.carry_out(now, id, action, with, &mut done);
        match fate {
            CallFate::Well | CallFate::Fails => {}
            CallFate::DoneButFails => {
                for effect in &mut done {
                    if let TimedEffect::Answer(_, _, result) = effect {
                        *result = Err(error.clone());
                    }
                }
            }
            CallFate::NeverAnswered => {
                self.unanswered.insert(id);
                done.retain(|effect| !matches!(effect, TimedEffect::Answer(_, of, _) if *of == id));
            }
            CallFate::Late(late) => {
                for effect in &mut done {
                    if let TimedEffect::Answer(after, _, _) = effect {
                        *after = *after + late;
                    }
                }
            }
        }
        effects.append(&mut done);
    }

    pub(super) fn carry_out(
        &mut self,
        now: Tick,
        id: ActionId,
        action: CoreAction,
        (run, since, faults): (&Behaviours, TickDuration, &Faults),
        effects: &mut Vec<TimedEffect>,
    ) {
        let answer = |millis, outcome| {
            TimedEffect::Answer(TickDuration::from_millis(millis), id, Ok(outcome))
        };
        match action {
            CoreAction::MountVolumes | CoreAction::RefreshVolumes => {
                effects.push(answer(1, ActionOutcome::Done));
            }
            CoreAction::SetUpSandbox { attempt } => {
                self.pulls_go_on(now, faults.registry(), faults.bug);
                effects.push(answer(40, self.set_up(attempt)));
            }
            CoreAction::TearDownSandbox { attempt } => {
                if faults.bug != Some(KnownBug::SandboxLeaked) {
                    self.tear_down(now, attempt);
                }
                effects.push(answer(20, ActionOutcome::Done));
            }
            CoreAction::FindImage { image, .. } => {
                effects.push(answer(1, self.look_for_image(&image, faults.registry())));
            }
            CoreAction::PullImage { image, .. } => {
                let (took, fetched) = self.pull_image(now, &image, faults.registry());
                effects.push(TimedEffect::Answer(took, id, fetched));
            }
            CoreAction::StartContainer { key, target: _ }
                if !self.sandboxes.contains_key(&key.sandbox) =>
            {
                let message = format!("sandbox {} does not stand", key.sandbox);
                let gone = ActionError { kind: ActionErrorKind::ContainerCreate, message };
                effects.push(TimedEffect::Answer(TickDuration::from_millis(1), id, Err(gone)));
            }
            CoreAction::StartContainer { key, target: _ } => {
                effects.extend(self.start(now, id, &key, (run, since, faults)));
            }
            CoreAction::SignalContainer { key } => {
                effects.extend(self.signal(now, key, run, faults));
                effects.push(answer(1, ActionOutcome::Done));
            }
            CoreAction::KillContainer { key } => {
                let runs = matches!(self.containers.get(&key), Some(ContainerLife::Running { .. }));
                self.tally.kills += u64::from(runs);
                let killed = ExitStatus::Signal { signal: SIGKILL };
                effects.push(TimedEffect::Ends(TickDuration::from_millis(1), key, killed));
                effects.push(answer(1, ActionOutcome::Done));
            }
            CoreAction::RemoveContainer { key } => {
                self.containers.remove(&key);
                self.hooks.forget(|of| *of == key);
                effects.push(answer(1, ActionOutcome::Done));
            }
            CoreAction::RunProbe { key, probe, timeout } => {
                effects.push(self.probe(now, id, (&key, probe), timeout, (run, faults.bug)));
            }
            CoreAction::RunHook { key, hook, limit } => {
                effects.extend(self.run_hook(now, id, (key, hook), limit, (run, faults)));
            }
            CoreAction::UpdateSandbox { .. } | CoreAction::UpdateContainer { .. } => {
                effects.push(answer(1, ActionOutcome::Done));
            }
        }
    }

    fn persist(&mut self, now: Tick, journal: Arc<Journal>, faults: &Faults) {
        match faults.room() {
            DiskSpace::Enough if faults.bug == Some(KnownBug::JournalClaimed) => {
                self.driver.journal_written();
            }
            DiskSpace::Enough => {
                self.journal = Some(journal);
                self.driver.journal_written();
            }
            DiskSpace::None => {
                self.driver.journal_failed(now);
            }
        }
    }

    /// Whether it goes on only when its journal can be written.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.driver.is_held_up()
    }

    pub(super) fn set_up(&mut self, attempt: SandboxAttempt) -> ActionOutcome {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(self.address));
        if !self.sandboxes.contains_key(&attempt) {
            let of = self.pod.metadata.uid.clone().unwrap_or_default();
            let state = SandboxSeenState::Ready;
            self.sandboxes.insert(attempt, SimulatedSandbox { ip, of, state });
            self.tally.sandboxes += 1;
        }
        self.check_sandbox(attempt);
        ActionOutcome::SandboxReady { ips: vec![ip] }
    }

    /// Nothing of a pod may run in what was made for another (P1).
    pub(super) fn check_sandbox(&mut self, attempt: SandboxAttempt) {
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
    pub(super) fn tear_down(&mut self, now: Tick, attempt: SandboxAttempt) {
        let gone = self.sandboxes.remove(&attempt);
        self.torn_down = gone.map(|gone| (attempt, gone)).or_else(|| self.torn_down.take());
        let inside: Vec<ContainerStartKey> =
            self.running().filter(|key| key.sandbox == attempt).cloned().collect();
        for key in inside {
            self.ended(now, &key, ExitStatus::Signal { signal: SIGKILL });
            self.pauses.ended_with_sandbox(&key);
        }
        self.containers.retain(|key, _| key.sandbox != attempt);
        self.hooks.forget(|key| key.sandbox == attempt);
    }

    /// What a status says must be so.
    pub(super) fn check_status(&mut self, status: &PodStatus) {
        let newest = |name: &str| self.newest_start(name).cloned();
        let broken = self.hooks.check_status(&self.pod, status, newest);
        let mut shown = std::mem::take(&mut self.shown);
        let broken = broken.or_else(|| shown.check_status(status, |name| self.running_start(name)));
        self.shown = shown;
        let broken = broken.or_else(|| self.last_ends.check_status(&self.pod, status));
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
    }

    /// And what an event says.
    pub(super) fn check_event(&mut self, event: &rekindle_pod::PodEvent) {
        let mut probed = std::mem::take(&mut self.probed);
        let broken = probed.check_event(&self.pod, event, |name| self.running_start(name));
        self.probed = probed;
        broken.into_iter().for_each(|broken| self.breaks(|| broken));
    }
}
