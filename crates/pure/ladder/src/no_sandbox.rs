//! A pod that stays without a sandbox. A node says so by the condition PodReadyToStartContainers
//! (KEP-3085), which is False until the volumes are mounted, the sandbox is made and its network is
//! set up. Nothing has ended then, and nothing is waiting for a reason that tells more: it is a
//! state, and it is answered when it has lasted. The node goes on trying by itself, so what may
//! help is a new pod, or another node.
//!
//! Kubelets before 1.35 say it only after the images of the first containers are there: the time
//! must be longer than a pull of an ordinary image.

use rekindle_diagnosis::diagnose_missing_sandbox;
use rekindle_types::v1alpha1::{HoldReason, Rung};
use rekindle_types::{Tick, TickDuration};

use crate::Situation;
use crate::attempts::LedgerAttempts;
use crate::choice::{NextRung, choose};
use crate::correlation::{self, FailureCorrelation, RungPermission};
use crate::decide::Decider;
use crate::explanation::DecisionText;
use crate::failures::{CountedFailure, FailedPart};
use crate::ledger_reading::cut;
use crate::sentence::{self, FailureStory, QuotedOutput};

/// A pod that has had no sandbox for so long gets none on its node.
pub(crate) const NO_SANDBOX_FOR: TickDuration = TickDuration::from_secs(600);

impl Decider<'_> {
    /// Whether the pod has been without a sandbox for long enough, since then and since what was
    /// tried last. It is looked at again when it will have been.
    pub(crate) fn no_sandbox(&mut self) -> bool {
        let Some(since) = self.view.no_sandbox_since else { return false };
        let tried = LedgerAttempts::from_ledger(&self.draft.ledger).latest();
        let due = since.max(tried) + NO_SANDBOX_FOR;
        self.draft.wake(due);
        due <= self.situation.now
    }

    /// A new pod, or another node, as far as the ladder lists them.
    pub(crate) fn answer_no_sandbox(&mut self) {
        if self.is_exhausted() || self.on_its_way().is_some() || self.is_restarting() {
            return;
        }
        let Situation { now, policy, peers, rollback, .. } = *self.situation;
        let diagnosis = diagnose_missing_sandbox();
        let part = FailedPart::Pod;
        let failure =
            CountedFailure { part, member: 0, count: 1, diagnosis, ran: None, answered_by: None };
        let tried = self.draft.ledger.attempts.clone().unwrap_or_default();
        let (mut from, mut elsewhere, mut common) = (Rung::Recreate, None, None);
        match correlation::read(peers, policy) {
            FailureCorrelation::None => {}
            FailureCorrelation::OfNode(trouble) => {
                from = Rung::Reschedule;
                elsewhere = Some(trouble);
            }
            FailureCorrelation::OfRevision(revision) => common = Some(revision),
        }
        let node_says = peers.node_says.as_deref();
        let tried = LedgerAttempts(&tried);
        let failure = &failure;
        let not_carried_out = self.not_carried_out().map(|(.., why)| why);
        let story = FailureStory {
            now,
            policy,
            pod: self.view.name,
            only: self.view.only_container(),
            tried,
            first_at: None, // nothing is said of a container
            failure,
            failures: 1,
            elsewhere,
            node_says,
            given_up: None, // that is answered before
            not_carried_out: not_carried_out.as_deref(),
            passed_over: &[], // nothing in place would help
            dry_run_since: self.draft.ledger.dry_run_since.as_ref().map(Tick::from),
            quotes: QuotedOutput::Given,
        };
        match choose(policy, tried, rollback, from, 0).turn {
            NextRung::Container(step) | NextRung::Above(step) => {
                let refused =
                    common.filter(|common| self.leave(common, step.rung) != RungPermission::Given);
                let step = match (refused, self.rollback_step()) {
                    (None, _) => step,
                    (Some(_), Some(rollback)) => rollback,
                    (Some(common), None) => {
                        return self.hold_once(&story.common_state(common, step.rung));
                    }
                };
                self.draft.ledger.failures_total =
                    self.draft.ledger.failures_total.saturating_add(1);
                let number = tried.count(step.rung) + 1;
                self.restart_or_hold(step, story.restart(step, number, rollback));
            }
            NextRung::None if tried.highest().is_some_and(|rung| rung >= Rung::Recreate) => {
                let left = sentence::nothing_left(policy, &self.draft.ledger);
                self.exhaust(&story.exhausted(&left));
            }
            NextRung::None => {
                self.hold_stuck(&sentence::no_sandbox(&failure.diagnosis.what, node_says));
            }
        }
    }

    /// Said once: it is a state and no event. Nobody tells when the other pods do better.
    fn hold_once(&mut self, why: &DecisionText) {
        self.draft.wake(self.situation.now + NO_SANDBOX_FOR);
        let ledger = &self.draft.ledger;
        let is_told = ledger.message.as_deref() == Some(cut(&why.message))
            && ledger.held_by == Some(HoldReason::Revision);
        if !is_told {
            self.hold_common(why);
        }
    }
}
