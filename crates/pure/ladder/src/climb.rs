//! Answers to failures: left to the container, climbed, held back, given up.

use rekindle_diagnosis::Prognosis;
use rekindle_types::reasons::event::{LADDER_EXHAUSTED, LADDER_HOLD, LADDER_STEP};
use rekindle_types::v1alpha1::{CarriedOutBy, HoldReason, LedgerPhase, OnExhausted, Rung};
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::attempts::{self, LedgerAttempts};
use crate::budget::{self, BudgetState};
use crate::choice::{NextRung, choose};
use crate::correlation::{self, FailureCorrelation, RungPermission};
use crate::decide::{Decider, StuckContainer};
use crate::draft::{ConditionStatus, EXHAUSTED, NO_AGENT, RECOVERED};
use crate::explanation::DecisionText;
use crate::failures::{CountedFailure, ExpectedEnds, FailedPart, StartedWhen};
use crate::ledger_reading::cut;
use crate::policy::RungPolicy;
use crate::sentence::{self, FailureStory, QuotedOutput};
use crate::{LadderMode, NodeOutage, RevisionPeers, Situation, Trial, limits, stability};

/// A revision whose containers cannot be configured or created is rolled back when the pod is on
/// its node for so long.
const STUCK_FOR: TickDuration = TickDuration::from_secs(60);

/// The failures of one look that a restart may help against.
struct CurableFailures<'f, 'a> {
    /// The one that needs the highest rung; the first of those.
    worst: &'f CountedFailure<'a>,
    from: Rung,
    /// How many there are in all containers.
    count: u32,
}

impl<'a> Decider<'a> {
    /// Answers new failures.
    pub(crate) fn respond(&mut self, failures: &[CountedFailure<'a>]) {
        let Situation { now, policy, .. } = *self.situation;
        let Some(first) = failures.first() else { return };
        let tried = self.draft.ledger.attempts.clone().unwrap_or_default();
        let all: u32 = failures.iter().map(|failure| failure.count).sum();
        self.draft.ledger.next_attempt_at = None;
        self.draft.ledger.stable_since = None;
        let fails_again = all > 1 || !tried.is_empty();
        let ran = failures.iter().filter_map(|failure| failure.ran).max();
        self.draft.note_last_run(ran.filter(|ran| fails_again && *ran < policy.window));
        let failures_total = &mut self.draft.ledger.failures_total;
        *failures_total = failures_total.saturating_add(u64::from(all));
        self.draft.condition(RECOVERED, ConditionStatus::False, policy, "a container failed again");
        let first_at = LedgerAttempts(&tried).first(Rung::Container);
        let first_at = first_at.filter(|at| self.draft.has_decided_at(*at));
        let not_carried_out = self.not_carried_out().map(|(.., why)| why);
        let not_carried_out = not_carried_out.as_deref();
        let (pod, only) = (self.view.name, self.view.only_container());
        let passed_over = self.passed_over.clone();
        let dry_run_since = self.draft.ledger.dry_run_since.as_ref().map(Tick::from);
        let story = |failure, failures| FailureStory {
            now,
            policy,
            pod,
            only,
            tried: LedgerAttempts(&tried),
            first_at,
            failure,
            failures,
            elsewhere: None,
            node_says: self.situation.peers.node_says.as_deref(),
            given_up: None,
            not_carried_out,
            passed_over: &passed_over,
            dry_run_since,
            quotes: QuotedOutput::Given,
        };
        if self.is_exhausted() {
            let left = sentence::nothing_left(policy, &self.draft.ledger);
            let why = story(first, all).still(&left);
            let noted = dry_run_since.map(|_| why.only_noted());
            self.draft.decide(LedgerPhase::Exhausted, None, noted.as_ref().unwrap_or(&why));
            return;
        }
        let unanswered: Vec<_> = failures.iter().filter(|f| f.answered_by.is_none()).collect();
        let Some(first) = unanswered.first() else {
            if let Some(restart) = first.answered_by {
                let why = story(first, all).on_its_way(restart);
                self.draft.decide(LedgerPhase::Climbing, None, &why);
            }
            return;
        };
        match (curable(&unanswered), first.diagnosis.why_futile()) {
            (Some(curable), _) => {
                self.note_in_vain();
                let story = story(curable.worst, curable.count);
                self.climb(&story, curable.from, curable.count);
            }
            (None, Some(_)) if self.rolls_back_from(first) => {
                if let (Some(step), Some(target)) = (self.rollback_step(), self.situation.rollback)
                {
                    self.restart_or_hold(step, story(first, all).futile_rollback(target));
                }
            }
            (None, Some(because)) => {
                let why = story(first, all).futile(&because);
                self.draft.ledger.held_rung = None;
                self.draft.hold(HoldReason::Futile, &why);
                self.draft.tell(EventSeverity::Warning, LADDER_HOLD, &why);
            }
            (None, None) => {} // of an end that is curable, or of which nothing is known
        }
    }

    /// Failures that a restart from `from` on may help against.
    fn climb(&mut self, story: &FailureStory<'_>, from: Rung, failures: u32) {
        let Situation { now, policy, .. } = *self.situation;
        if self.requests.held().is_some() {
            return; // noted below, in the words of what holds it
        }
        if let Some(name) = self.on_its_way() {
            self.draft.decide(LedgerPhase::Climbing, None, &story.on_its_way(&name));
            return;
        }
        self.draft.condition(
            EXHAUSTED,
            ConditionStatus::False,
            policy,
            "the ladder was edited, or is another one",
        );
        let mut from = from;
        let (mut story, mut common) = (*story, None);
        match correlation::read(self.situation.peers, policy) {
            FailureCorrelation::None => {}
            FailureCorrelation::OfNode(trouble) => {
                from = from.max(Rung::Reschedule);
                story.elsewhere = Some(trouble);
            }
            FailureCorrelation::OfRevision(revision) => common = Some(revision),
        }
        let given_up = self.given_up().map(|(_, why)| why);
        story.given_up = given_up.as_deref();
        if story.given_up.is_some() {
            from = Rung::Rollback;
        }
        let rollback = self.situation.rollback;
        let choice = choose(
            policy,
            LedgerAttempts::from_ledger(&self.draft.ledger),
            rollback,
            from,
            failures,
        );
        self.draft.attempt(Rung::Container, choice.container_attempts);
        let turn = match choice.turn {
            NextRung::None => self.missed_step(from).map_or(NextRung::None, NextRung::Above),
            turn @ (NextRung::Container(_) | NextRung::Above(_)) => turn,
        };
        match turn {
            NextRung::Container(step) => self.leave_to_container(&story.left_to_container(step)),
            NextRung::Above(step) => {
                let settled = stability::is_settled(&self.view, policy, now);
                if let Some(since) = self.view.up_since().filter(|_| settled) {
                    self.draft.decide(LedgerPhase::Climbing, None, &story.runs_again(since));
                    return;
                }
                if let Some(outage) = &self.situation.peers.outage {
                    return self.await_node(step, outage, &story.node_outage(outage));
                }
                let step = match common.map(|common| (common, self.leave(common, step.rung))) {
                    None | Some((_, RungPermission::Given)) => step,
                    Some((common, RungPermission::After(trial))) => {
                        return self.await_trial(step, trial, &story.awaits(common, trial));
                    }
                    Some((common, RungPermission::Refused)) => match self.rollback_step() {
                        Some(rollback) => rollback,
                        None => return self.hold_common(&story.common(common, step.rung)),
                    },
                };
                let number = LedgerAttempts::from_ledger(&self.draft.ledger).count(step.rung) + 1;
                self.restart_or_hold(step, story.restart(step, number, rollback));
            }
            NextRung::None => {
                let left = sentence::nothing_left(policy, &self.draft.ledger);
                self.exhaust(&story.exhausted(&left));
            }
        }
    }

    fn leave_to_container(&mut self, why: &DecisionText) {
        self.draft.ledger.rung = Some(Rung::Container);
        // the ladder was edited: it allows more of Container than when a rung above was due
        self.draft.ledger.held_rung = None;
        self.draft.decide(LedgerPhase::Climbing, Some(Rung::Container), why);
        self.draft.tell(EventSeverity::Normal, LADDER_STEP, why);
    }

    /// The rung Rollback, when it is listed, possible, and not tried yet.
    pub(crate) fn rollback_step(&self) -> Option<&'a RungPolicy> {
        let policy: &'a crate::LadderPolicy = self.situation.policy;
        let step = policy.step(Rung::Rollback)?;
        let is_left =
            LedgerAttempts::from_ledger(&self.draft.ledger).count(Rung::Rollback) < step.attempts;
        self.situation.rollback.filter(|_| is_left).map(|_| step)
    }

    /// Whether a rung may be taken while most replicas fail alike. What this pod has tried itself
    /// need not be in the view yet; of Rollback its attempts alone say how often.
    pub(crate) fn leave<'p>(&self, common: &'p RevisionPeers, rung: Rung) -> RungPermission<'p> {
        let in_vain = rung != Rung::Rollback
            && self.draft.ledger.in_vain.is_some_and(|in_vain| in_vain >= rung);
        match common.leave(rung) {
            RungPermission::Given
                if in_vain && common.helped.is_none_or(|helped| helped < rung) =>
            {
                RungPermission::Refused
            }
            leave
            @ (RungPermission::Given | RungPermission::After(_) | RungPermission::Refused) => leave,
        }
    }

    /// A container failed again after a rung above Container was carried out.
    fn note_in_vain(&mut self) {
        let ledger = &self.draft.ledger;
        let Some(rung) =
            LedgerAttempts::from_ledger(ledger).highest().filter(|rung| *rung > Rung::Container)
        else {
            return;
        };
        if attempts::last_untried(ledger).is_none() && self.on_its_way().is_none() {
            self.draft.ledger.in_vain = self.draft.ledger.in_vain.max(Some(rung));
        }
    }

    /// Most replicas fail alike, and the rung is being tried on one of them.
    fn await_trial(&mut self, step: &RungPolicy, trial: &Trial, why: &DecisionText) {
        self.draft.ledger.rung = Some(step.rung);
        self.draft.ledger.held_rung = Some(step.rung);
        self.draft.hold(HoldReason::Trial, why);
        self.draft.tell(EventSeverity::Warning, LADDER_HOLD, why);
        self.draft.wake(trial.over_at);
    }

    /// Most pods of the node ended together.
    fn await_node(&mut self, step: &RungPolicy, outage: &NodeOutage, why: &DecisionText) {
        self.draft.ledger.rung = Some(step.rung);
        self.draft.ledger.held_rung = Some(step.rung);
        self.draft.hold(HoldReason::Node, why);
        self.draft.tell(EventSeverity::Warning, LADDER_HOLD, why);
        self.draft.wake(outage.over_at);
    }

    /// Most replicas fail alike: restarting one after the other would not help, and make it worse.
    pub(crate) fn hold_common(&mut self, why: &DecisionText) {
        self.draft.ledger.held_rung = None;
        self.draft.hold(HoldReason::Revision, why);
        self.draft.tell(EventSeverity::Warning, LADDER_HOLD, why);
    }

    pub(crate) fn exhaust(&mut self, why: &DecisionText) {
        let Situation { policy, authority, .. } = *self.situation;
        let noted = match authority.mode {
            LadderMode::Act => None,
            LadderMode::Observe => Some(why.only_noted()),
        };
        let why = noted.as_ref().unwrap_or(why);
        match (policy.on_exhausted, authority.mode) {
            (OnExhausted::Hold, _) | (OnExhausted::Fail, LadderMode::Observe) => {}
            (OnExhausted::Fail, LadderMode::Act) => {
                self.draft.ledger.failing_pod_uid = Some(self.view.uid.to_owned());
            }
        }
        self.draft.ledger.held_rung = None;
        self.draft.decide(LedgerPhase::Exhausted, None, why);
        let reason = if self.waits_for_agent() { NO_AGENT } else { EXHAUSTED };
        self.draft.condition_because(
            EXHAUSTED,
            ConditionStatus::True,
            reason,
            self.situation.policy,
            &why.message,
        );
        self.draft.ledger.ladder_uid.clone_from(&self.situation.policy.uid);
        self.draft.tell(EventSeverity::Warning, LADDER_EXHAUSTED, why);
    }

    /// A restart that is decided and that nobody has taken up yet: it comes before anything else.
    pub(crate) fn on_its_way(&self) -> Option<String> {
        let open = self.requests.waiting().or(self.requests.replacing());
        let open = open.or(self.requests.group_under_way());
        let waiting = open.and_then(|r| r.metadata.name.clone());
        self.draft.ledger.pending_restart.clone().or(waiting)
    }

    /// The rung's turn has come: now, or when the budget allows it.
    pub(crate) fn restart_or_hold(&mut self, step: &RungPolicy, why: DecisionText) {
        self.draft.ledger.rung = Some(step.rung);
        let room = self.room();
        match room {
            BudgetState::Free => self.restart(step, &why),
            BudgetState::Concurrent { .. }
            | BudgetState::Rate { .. }
            | BudgetState::Workload { .. }
            | BudgetState::Bucket { .. } => {
                let why = sentence::held(self.situation.policy, step, room, why);
                self.draft.ledger.held_rung = Some(step.rung);
                self.draft.hold(room.held_by(), &why);
                self.draft.tell(EventSeverity::Warning, LADDER_HOLD, &why);
            }
        }
    }

    /// Asks the budget, and notes when to ask again.
    fn room(&mut self) -> BudgetState {
        let Situation { now, policy, others, .. } = *self.situation;
        let mut room = others.room(now, policy, &self.draft.ledger);
        if room == BudgetState::Free {
            let Situation { limits, crowd, .. } = *self.situation;
            room = budget::room_in(now, limits, crowd, &self.draft.ledger);
        }
        match &mut room {
            BudgetState::Free => {}
            BudgetState::Concurrent { at_the_latest, .. }
            | BudgetState::Workload { at_the_latest, .. } => {
                // When another restart ends is not known.
                self.draft.ledger.next_attempt_at = None;
                self.draft.wake(*at_the_latest);
            }
            BudgetState::Bucket { bucket, free_at, .. } => {
                *free_at = *free_at + limits::jitter(self.view.uid, bucket.interval());
                self.draft.ledger.next_attempt_at = Some(free_at.to_micro_time());
                self.draft.wake(*free_at);
            }
            BudgetState::Rate { free_at, .. } => {
                self.draft.ledger.next_attempt_at = Some(free_at.to_micro_time());
                self.draft.wake(*free_at);
            }
        }
        room
    }

    fn restart(&mut self, step: &RungPolicy, why: &DecisionText) {
        self.release_held(self.situation.now);
        match self.situation.authority.mode {
            LadderMode::Act => {}
            LadderMode::Observe => return self.note_restart(step, why),
        }
        let name = self.free_name(step.rung);
        self.draft.attempt(step.rung, 1);
        self.draft.ledger.next_attempt_at = Some(self.situation.now.to_micro_time());
        self.draft.decide(LedgerPhase::Climbing, Some(step.rung), why);
        self.draft.ask_for(&name);
        self.draft.tell(EventSeverity::Warning, LADDER_STEP, why);
        match step.rung.carried_out_by() {
            CarriedOutBy::Node => {
                self.draft.ledger.excused_by = Some(name);
                self.observe_with(ExpectedEnds::Running(StartedWhen::AnyTime));
            }
            CarriedOutBy::Operator => {}
        }
    }

    /// Nothing failed since, and a budget held a restart back: is there room now?
    pub(crate) fn retry_held(&mut self, rung: Rung) {
        let number = LedgerAttempts::from_ledger(&self.draft.ledger).count(rung) + 1;
        let is_possible = rung != Rung::Rollback || self.situation.rollback.is_some();
        let step = self.situation.policy.step(rung).filter(|step| number <= step.attempts);
        let Some(step) = step.filter(|_| is_possible) else {
            // The ladder was edited meanwhile, or the revision to go back to is gone: the next
            // failure is answered as it is now.
            self.draft.ledger.held_rung = None;
            return;
        };
        // What runs just now is not disturbed: it fails again, and is answered then, or it settles,
        // and needs nothing.
        if self.on_its_way().is_some() || self.view.up_since().is_some() {
            return;
        }
        // Somebody restarts it since, and nothing has failed after that: what comes of it is waited
        // for.
        let held_at = self.draft.ledger.decisions.iter().flatten().next_back();
        if held_at.is_some_and(|held| self.requests.is_begun_since(Tick::from(&held.at))) {
            return;
        }
        if let Some(outage) = &self.situation.peers.outage {
            return self.draft.wake(outage.over_at);
        }
        let held_by = self.draft.ledger.held_by;
        let was_trial = held_by == Some(HoldReason::Trial);
        if let FailureCorrelation::OfRevision(common) =
            correlation::read(self.situation.peers, self.situation.policy)
        {
            match self.leave(common, rung) {
                RungPermission::Given => {}
                RungPermission::After(trial) => {
                    self.draft.wake(trial.over_at);
                    if !was_trial {
                        let why = sentence::awaits_trial(common, trial, self.view.name);
                        self.await_trial(step, trial, &why);
                    }
                    return;
                }
                RungPermission::Refused => {
                    return self.hold_common(&sentence::held_for_all(common, rung));
                }
            }
        }
        match self.room() {
            BudgetState::Free if was_trial => {
                self.restart(step, &sentence::after_trial(self.situation.peers, step, number));
            }
            BudgetState::Free if held_by == Some(HoldReason::Node) => {
                self.restart(step, &sentence::after_outage(step, number));
            }
            BudgetState::Free => self.restart(step, &sentence::held_restart(step, number)),
            BudgetState::Concurrent { .. }
            | BudgetState::Rate { .. }
            | BudgetState::Workload { .. }
            | BudgetState::Bucket { .. } => {}
        }
    }

    /// Something keeps a container from starting. A new revision is rolled back for that, when the
    /// ladder lists it: at once when its image cannot be had, for anything else when it lasts and
    /// most of its pods fail so.
    pub(crate) fn answer_stuck(&mut self, stuck: &StuckContainer) {
        if self.on_its_way().is_some() {
            return;
        }
        let is_of_revision =
            stuck.has_no_image || (self.most_fail_alike() && self.is_stuck_for_long());
        let rollback = self.rollback_step().filter(|_| is_of_revision && !self.is_exhausted());
        match (rollback, self.situation.rollback) {
            (Some(step), Some(target)) => {
                self.restart_or_hold(step, sentence::stuck_rollback(stuck.subject(), target));
            }
            (Some(_) | None, _) => {
                self.hold_stuck(&sentence::cannot_start(stuck.subject(), &stuck.because))
            }
        }
    }

    /// Whether what no restart helps against is the new revision's: most of its pods fail so, and
    /// this one for the second time.
    fn rolls_back_from(&self, failure: &CountedFailure<'_>) -> bool {
        let again = self.view.containers.iter().any(|container| {
            failure.part == FailedPart::Container(container.name) && container.ended > 1
        });
        again
            && self.most_fail_alike()
            && self.rollback_step().is_some()
            && self.on_its_way().is_none()
    }

    fn most_fail_alike(&self) -> bool {
        let RevisionPeers { failing_alike, replicas, .. } = self.situation.peers;
        failing_alike * 2 > *replicas
    }

    /// What a container refers to may be created a moment after it.
    fn is_stuck_for_long(&mut self) -> bool {
        let Some(since) = self.view.since() else { return false };
        let due = since + STUCK_FOR;
        self.draft.wake(due);
        due <= self.situation.now
    }

    /// Said once: what keeps a container from starting is a state and no event.
    pub(crate) fn hold_stuck(&mut self, why: &DecisionText) {
        let is_new = self.draft.ledger.message.as_deref() != Some(cut(&why.message));
        if is_new && !self.is_exhausted() {
            self.draft.hold(HoldReason::Futile, why);
            self.draft.tell(EventSeverity::Warning, LADDER_HOLD, why);
        }
    }
}

fn curable<'f, 'a>(failures: &[&'f CountedFailure<'a>]) -> Option<CurableFailures<'f, 'a>> {
    let mut curable: Option<CurableFailures<'f, 'a>> = None;
    for failure in failures {
        let Prognosis::Helps { from } = failure.diagnosis.prognosis else { continue };
        match &mut curable {
            None => curable = Some(CurableFailures { worst: failure, from, count: failure.count }),
            Some(others) => {
                others.count = others.count.saturating_add(failure.count);
                if from > others.from {
                    (others.worst, others.from) = (failure, from);
                }
            }
        }
    }
    curable
}
