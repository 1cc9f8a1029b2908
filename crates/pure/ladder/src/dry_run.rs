//! Mode observe: what the ladder would do is noted, and counts as an attempt as if it had been done
//! in vain. An operator that acts later does not count it.

use rekindle_types::EventSeverity;
use rekindle_types::reasons::event::LADDER_STEP;
use rekindle_types::v1alpha1::{LedgerPhase, Rung};

use crate::attempts::LedgerAttempts;
use crate::decide::Decider;
use crate::draft::{ConditionStatus, EXHAUSTED};
use crate::explanation::DecisionText;
use crate::policy::RungPolicy;
use crate::{LadderMode, sentence};

impl Decider<'_> {
    /// The restart that an operator which acts would ask for now.
    pub(crate) fn note_restart(&mut self, step: &RungPolicy, why: &DecisionText) {
        let why = why.only_noted();
        self.draft.attempt(step.rung, 1);
        self.draft.ledger.next_attempt_at = None;
        let now = self.situation.now.to_micro_time();
        self.draft.ledger.dry_run_since.get_or_insert(now);
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
