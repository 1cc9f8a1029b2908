//! A request that replaces the pod and is held back: by a disruption budget for as long as that
//! likes, by the lack of another node until it is given up.
//!
//! ```text
//!   asked for ──► held ──► evicting ──► the new pod
//!                  │ └───► withdrawn: the pod is well again
//!                  └─────► given up ──► the next rung, or Exhausted
//! ```

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{HoldReason, LedgerPhase, Rung};

use crate::attempts::LedgerAttempts;
use crate::choice::{NextRung, choose};
use crate::decide::Decider;
use crate::draft::EXHAUSTED;
use crate::ledger_reading::cut;
use crate::{Situation, sentence};

/// An attempt that was given up without having been begun.
struct AbandonedAttempt {
    rung: Rung,
    /// The request.
    name: String,
    /// When it was over.
    finished: Tick,
    why: String,
}

impl Decider<'_> {
    /// A budget or the lack of another node holds the pod's replacement back: said in the ledger;
    /// the event is the request's.
    pub(crate) fn note_held_request(&mut self) {
        if let Some((request, why)) = self.requests.held() {
            let why = sentence::held_request(request, why);
            if self.draft.ledger.message.as_deref() != Some(cut(&why.message)) {
                self.draft.hold(HoldReason::Eviction, &why);
            }
        } else if self.requests.replacing().is_none() {
            // an eviction that is asked for and not carried out yet is mostly refused again
            self.note_eviction();
        }
    }

    /// What was held back has gone on, or is over: the pod terminates, or is the new one.
    pub(crate) fn note_eviction(&mut self) {
        let is_held = self.draft.ledger.held_by == Some(HoldReason::Eviction);
        if !is_held || self.requests.held().is_some() {
            return;
        }
        let request = self.requests.replacing();
        let request = request.and_then(|r| Some((r.spec.rung(), r.metadata.name.as_deref()?)));
        let why = match self.given_up() {
            Some((rung, why)) => sentence::given_up(rung, &why),
            None => sentence::goes_on(request),
        };
        self.draft.decide(LedgerPhase::Climbing, None, &why);
    }

    /// Whether the window stands still: a rung that is due may be held back for longer than that,
    /// and so may a request. What was tried counts when it goes on, or is given up. What is said of
    /// an exhausted ladder says it with its attempts, as long as the request is kept.
    pub(crate) fn window_stands_still(&self) -> bool {
        let is_kept = |name: String| self.requests.contains(&name);
        self.draft.ledger.held_rung.is_some()
            || self.is_restarting()
            || self.requests.is_unbegun()
            || self.given_up().is_some()
            || (self.is_exhausted() && self.last_given_up().is_some_and(|last| is_kept(last.name)))
    }

    /// The rung whose attempt was given up without having been begun, and why; none once that is
    /// answered.
    pub(crate) fn given_up(&self) -> Option<(Rung, String)> {
        let AbandonedAttempt { rung, finished, why, .. } = self.last_given_up()?;
        let is_answered = self.draft.condition_since(EXHAUSTED).is_some_and(|at| at >= finished);
        (!is_answered).then_some((rung, why))
    }

    /// The last attempt, if it was given up. A ledger that was cleared meanwhile has none.
    fn last_given_up(&self) -> Option<AbandonedAttempt> {
        let ledger = &self.draft.ledger;
        let asked = ledger.asked().next_back()?;
        let (rung, outcome) = (asked.rung?, asked.outcome.as_ref()?);
        let why = outcome.given_up()?.to_owned();
        let finished = Tick::from(outcome.finished_at.as_ref()?);
        let counts = LedgerAttempts::from_ledger(ledger).last(rung) == Some(Tick::from(&asked.at));
        let name = asked.pod_restart.clone().filter(|_| counts)?;
        Some(AbandonedAttempt { rung, name, finished, why })
    }

    /// No other node could take the pod: on with the next rung, or the end. What runs just now is
    /// left alone: it fails again, and is answered then, or it settles.
    pub(crate) fn answer_given_up(&mut self, rung: Rung, why: &str) {
        if self.on_its_way().is_some() || self.view.up_since().is_some() {
            return;
        }
        let Situation { policy, rollback, .. } = *self.situation;
        let turn = choose(
            policy,
            LedgerAttempts::from_ledger(&self.draft.ledger),
            rollback,
            Rung::Rollback,
            0,
        )
        .turn;
        match (turn, rollback) {
            (NextRung::Container(step) | NextRung::Above(step), Some(target)) => {
                self.restart_or_hold(step, sentence::rollback_after(rung, why, target));
            }
            (NextRung::Container(_) | NextRung::Above(_) | NextRung::None, _) => {
                let left = sentence::nothing_left(policy, &self.draft.ledger);
                self.exhaust(&sentence::exhausted_after(rung, why, policy, &left));
            }
        }
    }
}
