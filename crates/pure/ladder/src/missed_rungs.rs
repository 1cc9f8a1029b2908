//! Rungs that were passed over for want of an agent on the pod's node. A ladder that was exhausted
//! without them goes on when an agent comes.
//!
//! ```text
//!   exhausted, reason NoAgent --an agent comes--> not exhausted, reason AgentCame
//!   nothing is left above -----------------------> a rung in place that was missed, if any
//! ```

use rekindle_types::v1alpha1::{LedgerPhase, Rung};

use crate::attempts::LedgerAttempts;
use crate::authority::{InPlaceSupport, needs_agent};
use crate::decide::Decider;
use crate::draft::{AGENT_CAME, ConditionStatus, EXHAUSTED, NO_AGENT};
use crate::policy::RungPolicy;
use crate::sentence;

impl<'a> Decider<'a> {
    /// Whether rungs are passed over that an agent would carry out.
    pub(crate) fn waits_for_agent(&self) -> bool {
        match self.situation.authority.in_place {
            InPlaceSupport::NoAgent => !self.passed_over.is_empty(),
            InPlaceSupport::Available | InPlaceSupport::WholePods => false,
        }
    }

    /// An agent came after the ladder was exhausted without one.
    pub(crate) fn note_agent(&mut self) {
        let is_exhausted = self.draft.ledger.phase == Some(LedgerPhase::Exhausted)
            && self.draft.has_condition(EXHAUSTED)
            && self.draft.condition_reason(EXHAUSTED) == Some(NO_AGENT);
        if !is_exhausted || self.waits_for_agent() {
            return;
        }
        let why = sentence::agent_came();
        self.draft.condition_because(
            EXHAUSTED,
            ConditionStatus::False,
            AGENT_CAME,
            self.situation.policy,
            &why.message,
        );
        self.draft.ledger.failing_pod_uid = None;
        self.draft.decide(LedgerPhase::Climbing, None, &why);
    }

    /// The lowest rung in place that was passed over and has attempts left, where nothing is left
    /// above what was tried. It is no lower than `from`: below that no restart helps.
    pub(crate) fn missed_step(&self, from: Rung) -> Option<&'a RungPolicy> {
        if self.draft.condition_reason(EXHAUSTED) != Some(AGENT_CAME) {
            return None;
        }
        let policy: &'a crate::LadderPolicy = self.situation.policy;
        let tried = LedgerAttempts::from_ledger(&self.draft.ledger);
        let mut steps = policy.steps.iter().filter(|step| step.rung >= from);
        steps.find(|step| needs_agent(step.rung) && tried.count(step.rung) < step.attempts)
    }
}
