//! A ledger that is being written: changes that keep it bounded and consistent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::v1alpha1::{
    HoldReason, LedgerDecision, LedgerPhase, RestartLedgerStatus, Rung, RungAttempts,
};
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::attempts::LedgerAttempts;
use crate::explanation::DecisionText;
use crate::ledger_reading::{DECISIONS_MAX, cut, no_later, seen_at};
use crate::{LadderAction, LadderEvent, LadderPolicy, RestartDecision, dry_run};

/// Set while every rung was tried in vain.
pub(crate) const EXHAUSTED: &str = "Exhausted";
/// The reason of [`EXHAUSTED`] while rungs of the ladder were passed over for want of an agent.
pub(crate) const NO_AGENT: &str = "NoAgent";
/// Its reason after an agent came: those rungs may be tried.
pub(crate) const AGENT_CAME: &str = "AgentCame";
/// Set when everything runs again after the ladder acted or waited.
pub(crate) const RECOVERED: &str = "Recovered";

/// A decision in the making.
#[derive(Clone, Debug)]
pub(crate) struct DecisionDraft {
    pub(crate) ledger: RestartLedgerStatus,
    pub(crate) action: LadderAction,
    events: Vec<LadderEvent>,
    again_at: Option<Tick>,
    now: Tick,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionStatus {
    True,
    False,
}

impl DecisionDraft {
    pub(crate) fn new(ledger: Option<&RestartLedgerStatus>, now: Tick) -> Self {
        let dry_run_since = ledger.and_then(dry_run::dry_run_since);
        let mut ledger = ledger.map(|ledger| seen_at(ledger, now)).unwrap_or_default();
        ledger.dry_run_since = dry_run_since.map(|at| no_later(&at, now));
        Self { ledger, action: LadderAction::None, events: Vec::new(), again_at: None, now }
    }

    /// Nothing has ever been written in it.
    pub(crate) fn is_blank(&self) -> bool {
        self.ledger == RestartLedgerStatus::default()
    }

    pub(crate) fn finish(self) -> RestartDecision {
        let DecisionDraft { ledger, action, events, again_at, now } = self;
        // A time that has come is not waited for: what it was for is done.
        RestartDecision { ledger, action, events, again_at: again_at.filter(|at| *at > now) }
    }

    /// To be decided again then, at the latest.
    pub(crate) fn wake(&mut self, at: Tick) {
        if at > self.now {
            self.again_at = Some(self.again_at.map_or(at, |other| other.min(at)));
        }
    }

    /// Drops attempts that have left the window.
    pub(crate) fn prune(&mut self, window: TickDuration) {
        let now = self.now;
        if let Some(attempts) = &mut self.ledger.attempts {
            for rung in attempts.iter_mut() {
                rung.at.retain(|at| now.since(Tick::from(at)) < window);
            }
            attempts.retain(|rung| !rung.at.is_empty());
        }
        self.ledger.attempts.take_if(|attempts| attempts.is_empty());
    }

    /// Notes so many attempts of a rung, made now.
    pub(crate) fn attempt(&mut self, rung: Rung, count: u32) {
        if count == 0 {
            return;
        }
        let attempts = self.ledger.attempts.get_or_insert_default();
        let at = (0..count).map(|_| self.now.to_micro_time());
        match attempts.iter_mut().find(|entry| entry.rung == rung) {
            Some(entry) => entry.at.extend(at),
            None => {
                attempts.push(RungAttempts { rung, at: at.collect() });
                attempts.sort_by_key(|entry| entry.rung);
            }
        }
    }

    /// What was tried above Container was tried before now, also by a clock that was set back
    /// since.
    pub(crate) fn date_attempts_before_now(&mut self) {
        let (now, before) = (self.now, dry_run::last_before(self.now));
        let attempts = self.ledger.attempts.iter_mut().flatten();
        let above = attempts.filter(|entry| entry.rung > Rung::Container);
        for at in above.flat_map(|entry| &mut entry.at).filter(|at| Tick::from(&**at) >= now) {
            *at = before.to_micro_time();
        }
    }

    /// The window stood still until then: all attempts are as much later as it takes the newest to
    /// be of that time.
    pub(crate) fn date_attempts_anew(&mut self, until: Tick) {
        if self.ledger.attempts.is_none() {
            return;
        }
        // who tells it may have another clock
        let stood_still =
            until.min(self.now).since(LedgerAttempts::from_ledger(&self.ledger).latest());
        let attempts = self.ledger.attempts.iter_mut().flatten().flat_map(|entry| &mut entry.at);
        for at in attempts.chain(&mut self.ledger.dry_run_since) {
            *at = (Tick::from(&*at) + stood_still).min(self.now).to_micro_time();
        }
    }

    /// Whether something was decided at this time, as far as is remembered.
    pub(crate) fn has_decided_at(&self, at: Tick) -> bool {
        let decisions = self.ledger.decisions.iter().flatten();
        let mut times =
            decisions.flat_map(|decision| decision.first_at.iter().chain([&decision.at]));
        times.any(|time| Tick::from(time) == at)
    }

    /// How long what failed now had been running.
    pub(crate) fn note_last_run(&mut self, ran: Option<TickDuration>) {
        let seconds = ran.map(TickDuration::as_secs);
        self.ledger.last_run_seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
    }

    /// The attempt that asked for this PodRestart was none, and its decision is none for a rung.
    /// Answers its rung, the first time. The last attempt may count from later on than its
    /// decision.
    pub(crate) fn take_back(&mut self, pod_restart: &str) -> Option<Rung> {
        let last_asked = self.ledger.asked().next_back().and_then(|d| d.pod_restart.as_deref());
        let is_last = last_asked == Some(pod_restart);
        let mut decisions = self.ledger.decisions.iter_mut().flatten();
        let decision = decisions.find(|d| d.pod_restart.as_deref() == Some(pod_restart))?;
        let (rung, at) = (decision.rung.take()?, decision.at.clone());
        let attempts = self.ledger.attempts.as_mut()?;
        let of_rung = attempts.iter_mut().find(|entry| entry.rung == rung)?;
        let newest = (0..of_rung.at.len()).max_by_key(|place| Tick::from(&of_rung.at[*place]));
        let place = of_rung.at.iter().position(|attempt| *attempt == at);
        let place = place.or(newest.filter(|_| is_last))?;
        of_rung.at.remove(place);
        attempts.retain(|entry| !entry.at.is_empty());
        self.ledger.attempts.take_if(|attempts| attempts.is_empty());
        Some(rung)
    }

    /// What the ladder does now, and why. The same decision again only raises its count.
    pub(crate) fn decide(&mut self, phase: LedgerPhase, rung: Option<Rung>, why: &DecisionText) {
        let reason = cut(&why.message).to_owned();
        self.ledger.held_by = None;
        self.ledger.phase = Some(phase);
        why.write_to(&mut self.ledger);
        let at = self.now.to_micro_time();
        let decisions = self.ledger.decisions.get_or_insert_default();
        match decisions.last_mut() {
            Some(last)
                if last.rung == rung && last.reason == reason && last.pod_restart.is_none() =>
            {
                let before = std::mem::replace(&mut last.at, at);
                last.first_at.get_or_insert(before);
                last.count = last.count.saturating_add(1);
            }
            Some(_) | None => {
                decisions.push(LedgerDecision {
                    at,
                    first_at: None,
                    rung,
                    reason,
                    count: 1,
                    pod_restart: None,
                    outcome: None,
                });
            }
        }
        let surplus = decisions.len().saturating_sub(DECISIONS_MAX);
        decisions.drain(..surplus);
    }

    /// The ladder waits, for this and because of that.
    pub(crate) fn hold(&mut self, by: HoldReason, why: &DecisionText) {
        self.decide(LedgerPhase::Holding, None, why);
        self.ledger.held_by = Some(by);
    }

    /// The decision just noted asks for this PodRestart.
    pub(crate) fn ask_for(&mut self, pod_restart: &str) {
        if let Some(last) = self.ledger.decisions.iter_mut().flatten().last() {
            last.pod_restart = Some(pod_restart.to_owned());
        }
        self.ledger.pending_restart = Some(pod_restart.to_owned());
    }

    pub(crate) fn tell(
        &mut self,
        severity: EventSeverity,
        reason: &'static str,
        why: &DecisionText,
    ) {
        let (ledger, rung) = (&self.ledger, self.ledger.rung.unwrap_or(Rung::Container));
        let kind = ledger.held_by.map_or(rung.name(), HoldReason::name);
        let message = cut(&why.message).to_owned();
        self.events.push(LadderEvent { severity, reason, message, kind });
    }

    pub(crate) fn has_condition(&self, type_: &str) -> bool {
        let mut conditions = self.ledger.conditions.iter().flatten();
        conditions.any(|c| c.type_ == type_ && c.status == "True")
    }

    /// The generation of the ladder that a condition speaks of.
    pub(crate) fn condition_generation(&self, type_: &str) -> Option<i64> {
        self.condition_of(type_)?.observed_generation
    }

    /// Since when a condition has held, or has not.
    pub(crate) fn condition_since(&self, type_: &str) -> Option<Tick> {
        self.condition_of(type_).map(|condition| Tick::from(&condition.last_transition_time))
    }

    /// Why a condition holds, or does not.
    pub(crate) fn condition_reason(&self, type_: &str) -> Option<&str> {
        self.condition_of(type_).map(|condition| condition.reason.as_str())
    }

    fn condition_of(&self, type_: &str) -> Option<&Condition> {
        self.ledger.conditions.iter().flatten().find(|c| c.type_ == type_)
    }

    /// Sets a condition; one that never held is not noted as not holding.
    pub(crate) fn condition(
        &mut self,
        type_: &str,
        holds: ConditionStatus,
        policy: &LadderPolicy,
        message: &str,
    ) {
        let reason = match holds {
            ConditionStatus::True => type_,
            ConditionStatus::False => "Over",
        };
        self.condition_because(type_, holds, reason, policy, message);
    }

    /// The same, for a reason of its own.
    pub(crate) fn condition_because(
        &mut self,
        type_: &str,
        holds: ConditionStatus,
        reason: &str,
        policy: &LadderPolicy,
        message: &str,
    ) {
        let status = match holds {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
        };
        let conditions = self.ledger.conditions.get_or_insert_default();
        let old = conditions.iter_mut().find(|c| c.type_ == type_);
        match (old, holds) {
            (Some(old), _) if old.status == status => {}
            (None, ConditionStatus::False) => {}
            (old, ConditionStatus::True | ConditionStatus::False) => {
                let condition = Condition {
                    last_transition_time: self.now.to_time(),
                    message: cut(message).to_owned(),
                    observed_generation: policy.generation,
                    reason: reason.to_owned(),
                    status: status.to_owned(),
                    type_: type_.to_owned(),
                };
                match old {
                    Some(old) => *old = condition,
                    None => conditions.push(condition),
                }
            }
        }
        self.ledger.conditions.take_if(|conditions| conditions.is_empty());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests {
    use super::*;

    #[test]
    fn the_same_decision_again_keeps_when_it_was_taken_first() {
        let mut ledger = None;
        let at = |secs| Tick::from_secs(secs).to_micro_time();
        for secs in [10, 20, 40] {
            let mut draft = DecisionDraft::new(ledger.as_ref(), Tick::from_secs(secs));
            draft.hold(HoldReason::Futile, &DecisionText::new("it holds", "exit 1", "holding"));
            ledger = Some(draft.ledger);
        }
        let mut draft = DecisionDraft::new(ledger.as_ref(), Tick::from_secs(50));
        let climbs = DecisionText::new("it climbs", "exit 1", "whole pod");
        draft.decide(LedgerPhase::Climbing, Some(Rung::Pod), &climbs);
        let decisions = draft.ledger.decisions.unwrap();
        let told: Vec<_> = decisions.into_iter().map(|d| (d.first_at, d.at, d.count)).collect();
        assert_eq!(told, [(Some(at(10)), at(40), 3), (None, at(50), 1)]);
    }
}
