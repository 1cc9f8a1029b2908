//! From what is known of a pod to what is done. The order of the steps is the order of the
//! functions.

use std::borrow::Cow;

use rekindle_diagnosis::{Prognosis, diagnose_wait};
use rekindle_types::digest::fold;
use rekindle_types::name_stem::name_stem;
use rekindle_types::reasons::event::LADDER_STEP;
use rekindle_types::v1alpha1::{HoldReason, LedgerPhase, OnExhausted, RequestEffect, Rung};
use rekindle_types::{EventSeverity, Tick};

use crate::attempts::LedgerAttempts;
use crate::budget::GIVEN_UP_AFTER;
use crate::draft::DecisionDraft;
use crate::explanation::{DecisionText, Phrase};
use crate::failures::{self, CountedFailure, CountingFrom, ExpectedEnds, StartedWhen};
use crate::observation::{FinalPhase, ObservedMember, ObservedPod, PodCourse, PodObject};
use crate::requests::PodRestartRequests;
use crate::sentence::FailureSubject;
use crate::stability;
use crate::{
    LadderAction, LadderMode, LadderSubject, PodRestartPlan, RestartDecision, RestartTarget,
    Situation, group, outcomes, sentence,
};

/// Bytes of the pod's name that go into a PodRestart's name, which may have 253.
const NAME_BYTES_MAX: usize = 200;

/// Decides what is done for a pod. The same situation always gives the same decision. Given back as
/// the next situation's ledger, a decision changes nothing more and says nothing more; a PodRestart
/// is asked for until it is among the situation's restarts.
pub fn decide(situation: &Situation<'_>) -> RestartDecision {
    let view = match situation.subject {
        LadderSubject::Pod(pod) => ObservedPod::from_pod(pod),
        LadderSubject::Group(group) => ObservedPod::from_group(group),
    };
    let mut policy = situation.policy.without(view.impossible);
    match view.shown {
        PodObject::Itself | PodObject::Group => {}
        PodObject::Mirror => policy.to_mut().on_exhausted = OnExhausted::Hold,
    }
    let passed_over = situation.authority.rungs_without_agent(&policy);
    if !passed_over.is_empty() {
        policy = Cow::Owned(policy.without(&passed_over).into_owned());
    }
    let situation = &Situation { policy: &policy, ..*situation };
    let mut draft = DecisionDraft::new(situation.ledger, situation.now);
    outcomes::note(&mut draft.ledger, situation.restarts, situation.now);
    let requests = PodRestartRequests::new(situation.now, &view, situation.restarts);
    let course = view.course;
    let mut decider = Decider { situation, view, requests, draft, passed_over };
    match course {
        PodCourse::Over => {
            decider.note_eviction();
            decider.draft.finish()
        }
        PodCourse::Finished(outcome) => {
            decider.note_eviction();
            decider.note_finish(outcome);
            decider.draft.finish()
        }
        PodCourse::Open => decider.run(),
    }
}

/// What keeps a container from starting.
pub(crate) struct StuckContainer<'a> {
    container: &'a str,
    /// The pod's only container beside those that initialize it or stand by.
    only: Option<&'a str>,
    /// What it does.
    what: Phrase,
    /// Why no restart helps.
    pub(crate) because: String,
    /// Its image cannot be had, and that is settled.
    pub(crate) has_no_image: bool,
}

impl StuckContainer<'_> {
    pub(crate) fn subject(&self) -> FailureSubject<'_> {
        FailureSubject { container: self.container, only: self.only, what: &self.what }
    }
}

/// A decision and what it rests on.
pub(crate) struct Decider<'a> {
    pub(crate) situation: &'a Situation<'a>,
    pub(crate) view: ObservedPod<'a>,
    pub(crate) requests: PodRestartRequests<'a>,
    pub(crate) draft: DecisionDraft,
    /// Rungs of the ladder that the pod's node has no agent for.
    pub(crate) passed_over: Vec<Rung>,
}

impl<'a> Decider<'a> {
    fn run(mut self) -> RestartDecision {
        self.forget_dry_run();
        self.note_revision();
        self.note_agent();
        let is_same_pod = self.take_over_ledger();
        if is_same_pod {
            self.date_late_restart();
        } else {
            self.date_replacement();
        }
        let counted = self.count(is_same_pod);
        // a second group would be refused: what fails while one is under way is answered after it
        let waits =
            self.view.shown == PodObject::Group && self.requests.group_under_way().is_some();
        let (failures, unanswered) =
            if waits { (Vec::new(), counted) } else { (counted, Vec::new()) };
        let stuck = self.stuck();
        let no_sandbox = self.no_sandbox();
        let touched = !failures.is_empty()
            || stuck.is_some()
            || no_sandbox
            || self.requests.waiting().is_some();
        if self.draft.is_blank() && !touched {
            return self.draft.finish();
        }
        self.observe(&unanswered);
        self.note_revision(); // of a ledger that begins here
        self.take_back_withdrawn();
        self.tell_undone();
        self.prune();
        group::note_failures(&mut self.draft, &self.view, &failures, self.situation.now);
        if !failures.is_empty() {
            self.respond(&failures);
        } else if let Some(rung) = self.draft.ledger.held_rung {
            self.retry_held(rung);
        } else if let Some((rung, why)) = self.given_up() {
            self.answer_given_up(rung, &why);
        } else if let Some(stuck) = &stuck {
            self.answer_stuck(stuck);
        } else if no_sandbox {
            self.answer_no_sandbox();
        }
        self.note_held_request();
        self.ask_again();
        self.release_settled();
        self.prune(); // it may go on again
        self.fail_pod();
        if let Some(at) = self.requests.awaited_until() {
            self.draft.wake(at);
        }
        let Situation { now, policy, .. } = *self.situation;
        let undisturbed = self.view.up_since().filter(|_| !self.is_restarting());
        stability::follow(&mut self.draft, &self.view, policy, undisturbed, now);
        self.date_next_attempt();
        self.draft.finish()
    }

    /// Drops what has left the window, unless that stands still.
    fn prune(&mut self) {
        if self.view.has_begun() && !self.window_stands_still() {
            self.draft.prune(self.situation.policy.window);
        }
    }

    /// The ledger may speak of an earlier pod of the same name: its attempts go on, its counts do
    /// not. True when it speaks of this one.
    fn take_over_ledger(&mut self) -> bool {
        let ledger = &mut self.draft.ledger;
        let is_same = ledger.pod_uid.as_deref() == Some(self.view.uid);
        if !is_same {
            ledger.observed = None;
            ledger.members = None;
            ledger.pending_restart = None;
            ledger.held_rung = None;
            ledger.excused_by = None;
            ledger.failing_pod_uid = None;
        }
        if ledger.pending_restart.as_ref().is_some_and(|name| self.requests.contains(name)) {
            ledger.pending_restart = None;
        }
        is_same
    }

    fn count(&self, is_same_pod: bool) -> Vec<CountedFailure<'a>> {
        let Situation { now, policy, .. } = *self.situation;
        let ledger = &self.draft.ledger;
        let first_sight = CountingFrom::FirstSight { now, window: policy.window };
        let since = |pod: &ObservedMember<'_>| match self.view.shown {
            PodObject::Itself | PodObject::Mirror if is_same_pod => {
                CountingFrom::Observed(ledger.observed.as_deref().unwrap_or_default())
            }
            PodObject::Itself | PodObject::Mirror => first_sight,
            PodObject::Group => group::known_member(ledger, pod).map_or(first_sight, |known| {
                CountingFrom::Observed(known.observed.as_deref().unwrap_or_default())
            }),
        };
        failures::count(&self.view, since, &self.requests)
    }

    /// Writes down how far everything was counted, and which running attempts a restart of somebody
    /// else is about to end. That is noted once: when the request is still shown as waiting, its
    /// new containers may be running already.
    /// Of a container with a failure that is not answered yet, nothing further is.
    fn observe(&mut self, unanswered: &[CountedFailure<'_>]) {
        let waiting = self.requests.waiting_in_place(&self.view);
        let name = waiting.and_then(|request| request.metadata.name.clone());
        let created = waiting.and_then(|r| r.metadata.creation_timestamp.as_ref()).map(Tick::from);
        let excuse = match created {
            Some(before) if name != self.draft.ledger.excused_by => {
                self.draft.ledger.excused_by = name;
                let started = StartedWhen::Before(before);
                match waiting.and_then(|request| request.spec.container_name.as_deref()) {
                    Some(container) => ExpectedEnds::RunningOf(container, started),
                    None => ExpectedEnds::Running(started),
                }
            }
            Some(_) | None if self.is_excuse_refused() => ExpectedEnds::Withdrawn,
            Some(_) | None => ExpectedEnds::Nothing,
        };
        let before = self.draft.ledger.members.clone();
        self.observe_with(excuse);
        group::leave_unanswered(&mut self.draft, before.as_deref(), &self.view, unanswered);
    }

    /// A request that was withdrawn did nothing to the pod: it uses up no attempt of its rung and
    /// nothing of the budgets.
    fn take_back_withdrawn(&mut self) {
        let withdrawn: Vec<(&str, &str)> = self.requests.withdrawn().collect();
        for (name, why) in withdrawn {
            self.take_back(name, |rung| sentence::withdrawn(rung, name, why));
        }
    }

    /// What was decided is no attempt, unless that is known already.
    fn take_back(&mut self, name: &str, why: impl FnOnce(Rung) -> DecisionText) {
        let Some(rung) = self.draft.take_back(name) else { return };
        self.draft.ledger.rung = LedgerAttempts::from_ledger(&self.draft.ledger).highest();
        let why = why(rung);
        self.draft.decide(LedgerPhase::Climbing, None, &why);
        self.draft.tell(EventSeverity::Normal, LADDER_STEP, &why);
    }

    /// The ladder's last request, when it was over before anything was done to the pod and counts
    /// as an attempt: its rung, its name, and why.
    pub(crate) fn not_carried_out(&self) -> Option<(Rung, String, String)> {
        let asked = self.draft.ledger.asked().next_back()?;
        match asked.outcome.as_ref()?.effect() {
            RequestEffect::Nothing(why) => {
                Some((asked.rung?, asked.pod_restart.clone()?, why.to_owned()))
            }
            RequestEffect::Done | RequestEffect::TakenBack => None,
        }
    }

    /// Nothing goes on that the ledger's last words tell of. One that was given up for want of a
    /// node is answered at once.
    fn tell_undone(&mut self) {
        let Some((rung, name, why)) = self.not_carried_out() else { return };
        let last = self.draft.ledger.decisions.iter().flatten().next_back();
        let is_last = last.is_some_and(|last| last.pod_restart.as_ref() == Some(&name));
        let outcome = last.and_then(|last| last.outcome.as_ref());
        if is_last && outcome.is_none_or(|outcome| outcome.given_up().is_none()) {
            let why = sentence::over_undone(rung, &name, &why);
            self.draft.decide(LedgerPhase::Climbing, None, &why);
            self.draft.tell(EventSeverity::Warning, LADDER_STEP, &why);
        }
    }

    /// The restart that attempts were excused for will not end them.
    fn is_excuse_refused(&self) -> bool {
        let excused_by = self.draft.ledger.excused_by.as_deref();
        excused_by.is_some_and(|name| self.requests.ended_nothing(name))
    }

    pub(crate) fn observe_with(&mut self, excuse: ExpectedEnds<'_>) {
        let ledger = &mut self.draft.ledger;
        match self.view.shown {
            PodObject::Itself | PodObject::Mirror => {
                let before = ledger.observed.take().unwrap_or_default();
                let containers = self.view.containers.iter();
                ledger.observed = Some(failures::observe(containers, &before, excuse));
            }
            PodObject::Group => {
                ledger.members = Some(group::observe_members(&self.view, ledger, excuse));
            }
        }
        ledger.pod_uid = Some(self.view.uid.to_owned());
    }

    /// The first container that something keeps from starting.
    fn stuck(&self) -> Option<StuckContainer<'a>> {
        self.view.containers.iter().find_map(|container| {
            let waiting = container.waiting?;
            let diagnosis = diagnose_wait(&waiting, container.image)?;
            match diagnosis.prognosis {
                Prognosis::Futile { .. } => Some(StuckContainer {
                    container: container.name,
                    only: self.view.only_container(),
                    because: diagnosis.why_futile()?,
                    what: diagnosis.what,
                    has_no_image: waiting.reason.has_given_up_image(),
                }),
                Prognosis::Helps { .. } | Prognosis::StaysEnded | Prognosis::Unknown => None,
            }
        })
    }

    /// The ladder was exhausted by this pod, and says that it is to fail: asked for until it has.
    fn fail_pod(&mut self) {
        let ledger = &self.draft.ledger;
        let can_fail = match self.view.shown {
            PodObject::Itself => true,
            PodObject::Group => false, // no ladder for groups may ask for it
            PodObject::Mirror => false, // it was asked to by a ladder that did not know better
        };
        let acts = self.situation.authority.mode == LadderMode::Act;
        if acts && can_fail && ledger.failing_pod_uid.as_deref() == Some(self.view.uid) {
            let message = ledger.message.clone().unwrap_or_default();
            self.draft.action = LadderAction::Fail { message };
        }
    }

    /// A restart that was decided and is not in the API: it is asked for until it is seen, or it is
    /// too late for it.
    fn ask_again(&mut self) {
        let Some(name) = self.draft.ledger.pending_restart.clone() else { return };
        let mut decisions = self.draft.ledger.decisions.iter().flatten().rev();
        let decision = decisions
            .find(|decision| decision.pod_restart.as_ref() == Some(&name))
            .filter(|d| self.situation.now.since(Tick::from(&d.at)) < GIVEN_UP_AFTER)
            .and_then(|d| Some((d.rung?, d.reason.clone(), Tick::from(&d.at) + GIVEN_UP_AFTER)));
        let Some((rung, reason, until)) = decision else { return self.forget_pending(&name) };
        let Some(step) = self.situation.policy.step(rung) else {
            self.forget_pending(&name);
            return self.take_back(&name, |rung| sentence::unlisted(rung, &name));
        };
        self.draft.wake(until);
        self.draft.action = LadderAction::Restart(PodRestartPlan {
            name,
            target: self.target(),
            rung: step.rung,
            empty_dirs: step.empty_dirs,
            avoid_node_for: step.avoid_node_for.clone(),
            ladder_name: self.situation.policy.name.clone(),
            reason,
        });
    }

    fn target(&self) -> RestartTarget {
        match self.situation.subject {
            LadderSubject::Pod(_) => RestartTarget::Pod {
                name: self.view.name.to_owned(),
                uid: self.view.uid.to_owned(),
            },
            LadderSubject::Group(group) => RestartTarget::Group {
                selector: group.selector.clone(),
                workload: group.workload.clone(),
            },
        }
    }

    /// It was never made, and will not be: what runs is not ended by it.
    fn forget_pending(&mut self, name: &str) {
        self.draft.ledger.pending_restart = None;
        self.draft.ledger.next_attempt_at = None;
        if self.draft.ledger.excused_by.take_if(|excused_by| excused_by == name).is_some() {
            self.observe_with(ExpectedEnds::Withdrawn);
        }
    }

    /// A name that no request for the pod has. Those that a ledger asked for which was deleted
    /// since have its names; nobody would carry them out again, and the ladder would take them for
    /// its own that are done.
    pub(crate) fn free_name(&self, rung: Rung) -> String {
        let name = restart_name(&self.view, rung, self.draft.ledger.failures_total);
        let mut others = (2..).map(|number: u32| format!("{name}-{number}"));
        let is_taken = self.requests.contains(&name);
        let other = is_taken.then(|| others.find(|other| !self.requests.contains(other))).flatten();
        other.unwrap_or(name)
    }

    pub(crate) fn is_restarting(&self) -> bool {
        self.draft.ledger.pending_restart.is_some() || self.requests.awaited_until().is_some()
    }

    /// A pod that has finished is not restarted, and nothing is due for it. That no restart helps
    /// against how it failed stays told, and so does that every rung was tried.
    fn note_finish(&mut self, outcome: FinalPhase) {
        let ledger = &mut self.draft.ledger;
        ledger.next_attempt_at = None;
        ledger.pending_restart = None;
        ledger.held_rung = None;
        ledger.stable_since = None;
        let stays = match (ledger.phase, outcome) {
            (Some(LedgerPhase::Healthy | LedgerPhase::Exhausted) | None, _) => true,
            (Some(LedgerPhase::Holding), FinalPhase::Failed) => {
                ledger.held_by == Some(HoldReason::Futile)
            }
            (Some(LedgerPhase::Climbing), _)
            | (Some(LedgerPhase::Holding), FinalPhase::Succeeded) => false,
        };
        if !stays {
            ledger.phase = None;
            ledger.rung = None;
            ledger.held_by = None;
            sentence::finished(outcome).write_to(ledger);
        }
    }

    /// While something is down: when the node's own backoff is over, if it says so, else as it was
    /// decided. A time that has come says nothing of what comes next, unless a restart is under way
    /// that was due then.
    fn date_next_attempt(&mut self) {
        if self.is_restarting() && self.requests.held().is_none() {
            return;
        }
        let is_held = self.draft.ledger.held_rung.is_some();
        let next = &mut self.draft.ledger.next_attempt_at;
        match self.view.next_own_restart().filter(|_| !is_held) {
            Some(at) => *next = Some(at.to_micro_time()),
            None if !is_held && self.view.up_since().is_some() => *next = None,
            None => drop(next.take_if(|at| Tick::from(&*at) <= self.situation.now)),
        }
    }

    /// True after every rung was tried, until the window clears it, the ladder is edited, or
    /// another one takes over.
    pub(crate) fn is_exhausted(&self) -> bool {
        let policy = self.situation.policy;
        self.draft.ledger.phase == Some(LedgerPhase::Exhausted)
            && self.draft.condition_generation(crate::draft::EXHAUSTED) == policy.generation
            && self.draft.ledger.ladder_uid == policy.uid
    }
}

/// The same for the same decision: a failure more is counted before nearly each.
fn restart_name(view: &ObservedPod<'_>, rung: Rung, failures_total: u64) -> String {
    let pod = name_stem(view.name, NAME_BYTES_MAX);
    let rung = rung.name().to_ascii_lowercase();
    format!("{pod}-{rung}-{failures_total}-{:06x}", fold(view.uid))
}

#[cfg(test)]
mod tests;
