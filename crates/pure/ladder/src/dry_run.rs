//! Mode observe: what the ladder would do is noted, and counts as an attempt as if it had been done
//! in vain. An operator that acts later does not count it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use rekindle_types::reasons::event::LADDER_STEP;
use rekindle_types::v1alpha1::{LedgerDecision, LedgerPhase, RestartLedgerStatus, Rung};
use rekindle_types::{EventSeverity, Tick, TickDuration};

use crate::attempts::LedgerAttempts;
use crate::decide::Decider;
use crate::draft::{ConditionStatus, EXHAUSTED};
use crate::explanation::DecisionText;
use crate::policy::RungPolicy;
use crate::{LadderMode, sentence};

/// The smallest difference between two times of a ledger.
const MOMENT: TickDuration = TickDuration::from_micros(1);

/// Since when attempts above Container were only noted. The decisions say it where the field is
/// missing: the definitions of an API may be older than the operator, and such an API drops it.
pub(crate) fn dry_run_since(ledger: &RestartLedgerStatus) -> Option<MicroTime> {
    ledger.dry_run_since.clone().or_else(|| first_noted(ledger).map(Tick::to_micro_time))
}

/// The first attempt that was noted after the last restart that was asked for. Those that were
/// noted are the newest ones of their rung, also where attempts count from later on than they were
/// decided. What an operator that acts has dropped already is not found again: it says so in a
/// decision of its own.
fn first_noted(ledger: &RestartLedgerStatus) -> Option<Tick> {
    let acts_now = sentence::acts_now().message;
    let acted =
        |decision: &LedgerDecision| decision.pod_restart.is_some() || decision.reason == acts_now;
    let decisions = ledger.decisions.as_deref().unwrap_or_default();
    let since_then = decisions.rsplit(acted).next().unwrap_or_default();
    let mut noted: BTreeMap<Rung, u32> = BTreeMap::new();
    for decision in since_then.iter().filter(|decision| decision.is_dry_run()) {
        let count = decision.rung.map(|rung| noted.entry(rung).or_default());
        count.into_iter().for_each(|count| *count = count.saturating_add(decision.count));
    }
    let attempts = LedgerAttempts::from_ledger(ledger);
    let firsts = noted.into_iter().filter_map(|(rung, count)| attempts.newest(rung, count).min());
    firsts.min()
}

/// The last moment at which an attempt above Container counts as made and not as noted.
pub(crate) fn last_before(since: Tick) -> Tick {
    since - MOMENT
}

impl Decider<'_> {
    /// The restart that an operator which acts would ask for now.
    pub(crate) fn note_restart(&mut self, step: &RungPolicy, why: &DecisionText) {
        let why = why.only_noted();
        if self.draft.ledger.dry_run_since.is_none() {
            self.draft.date_attempts_before_now();
            self.draft.ledger.dry_run_since = Some(self.situation.now.to_micro_time());
        }
        self.draft.attempt(step.rung, 1);
        self.draft.ledger.next_attempt_at = None;
        self.draft.decide(LedgerPhase::Climbing, Some(step.rung), &why);
        self.draft.tell(EventSeverity::Warning, LADDER_STEP, &why);
    }

    /// The ladder acts, and the ledger is one of an operator that observed: what was noted of the
    /// rungs above Container is no attempt. What was tried before that was.
    pub(crate) fn forget_dry_run(&mut self) {
        match self.situation.authority.mode {
            LadderMode::Observe => return,
            LadderMode::Act => {}
        }
        let ledger = &mut self.draft.ledger;
        let Some(since) = ledger.dry_run_since.take() else { return };
        if let Some(attempts) = &mut ledger.attempts {
            for of_rung in attempts.iter_mut().filter(|attempts| attempts.rung > Rung::Container) {
                of_rung.at.retain(|at| *at < since);
            }
            attempts.retain(|attempts| !attempts.at.is_empty());
        }
        ledger.attempts.take_if(|attempts| attempts.is_empty());
        ledger.held_rung = None;
        ledger.rung = LedgerAttempts::from_ledger(ledger).highest();
        ledger.in_vain = ledger.in_vain.min(ledger.rung.filter(|rung| *rung > Rung::Container));
        let why = sentence::acts_now();
        self.draft.condition(
            EXHAUSTED,
            ConditionStatus::False,
            self.situation.policy,
            &why.message,
        );
        self.draft.decide(LedgerPhase::Climbing, None, &why);
    }
}

#[cfg(test)]
mod tests {
    use rekindle_types::v1alpha1::RungAttempts;

    use super::*;

    fn at(secs: u64) -> MicroTime {
        Tick::from_secs(secs).to_micro_time()
    }

    fn decision(secs: u64, rung: Option<Rung>, pod_restart: Option<&str>) -> LedgerDecision {
        LedgerDecision {
            at: at(secs),
            first_at: None,
            rung,
            reason: "exit 1".to_owned(),
            count: 1,
            pod_restart: pod_restart.map(str::to_owned),
            outcome: None,
        }
    }

    /// As an API stores it that does not know the field.
    fn began(attempts: &[u64], decisions: Vec<LedgerDecision>) -> Option<MicroTime> {
        let attempts = attempts.iter().map(|secs| at(*secs)).collect();
        dry_run_since(&RestartLedgerStatus {
            attempts: Some(vec![RungAttempts { rung: Rung::Recreate, at: attempts }]),
            decisions: Some(decisions),
            ..RestartLedgerStatus::default()
        })
    }

    #[test]
    fn notes_count_that_no_operator_has_dropped_and_no_request_follows() {
        let noted = |secs| decision(secs, Some(Rung::Recreate), None);
        let asked = |secs| decision(secs, Some(Rung::Recreate), Some("web-recreate"));
        let left = |secs| decision(secs, Some(Rung::Container), None);
        let repeated = LedgerDecision { first_at: Some(at(20)), count: 2, ..noted(40) };
        // ledgers that are stored have these words
        let dropped = LedgerDecision {
            reason: "the operator acts from now on: what it only noted before is no attempt"
                .to_owned(),
            ..left(50)
        };
        let notes = vec![asked(10), left(15), repeated.clone(), noted(60)];
        assert_eq!(began(&[10, 20, 40, 60], notes), Some(at(20)));
        assert_eq!(began(&[10, 20], vec![noted(10), asked(20)]), None);
        assert_eq!(began(&[10, 20, 30], vec![noted(10), asked(20), noted(30)]), Some(at(30)));
        assert_eq!(began(&[10], vec![asked(10), repeated, dropped.clone()]), None);
        assert_eq!(began(&[60], vec![noted(10), dropped, noted(60)]), Some(at(60)));
        // what was tried may count from later on than it was decided
        assert_eq!(began(&[91, 100], vec![asked(1), noted(10)]), Some(at(100)));
        assert_eq!(began(&[], vec![noted(200)]), None, "its attempt has left the window");
    }
}
