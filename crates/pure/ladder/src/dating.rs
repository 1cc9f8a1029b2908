//! From when attempts count. What is due may be held back by a budget, and what was decided by a
//! disruption budget, the lack of another node or a node that is silent. The window stands still
//! meanwhile, and goes on with attempts that are as old as when it began to: so nothing that waited
//! for long has left it, and what is carried out late is inside it as long as anything else.
//!
//! | stood still while | goes on |
//! |---|---|
//! | a rung was due and held back | when it is asked for, or since the pod runs, if it settles |
//! | a restart in place waited for its node | when that began it, or it was given up |
//! | the pod was to be replaced | when the pod was made that took its place |

use rekindle_types::v1alpha1::{CarriedOutBy, Rung};
use rekindle_types::{Tick, TickDuration};

use crate::attempts::LedgerAttempts;
use crate::decide::Decider;
use crate::{Situation, stability};

/// What is begun this soon was not held back. Requests tell whole seconds.
const BEGINS_WITHIN: TickDuration = TickDuration::from_secs(2);

impl Decider<'_> {
    /// The ledger spoke of another pod until now: what was to replace that one has been done.
    pub(crate) fn date_replacement(&mut self) {
        let Some((rung, decided, _)) = self.last_asked() else { return };
        let created = self.view.created.filter(|at| *at > decided);
        match rung.carried_out_by() {
            CarriedOutBy::Node => {}
            CarriedOutBy::Operator => {
                created.into_iter().for_each(|at| self.draft.date_attempts_anew(at));
            }
        }
    }

    /// A node has begun what was asked of it long ago, or it was given up before that.
    pub(crate) fn date_late_restart(&mut self) {
        let Some((_, decided, Some(request))) = self.last_asked() else { return };
        let begun = self.requests.begun_in_place(&request);
        let begun = begun.or_else(|| self.requests.over_unbegun(&request));
        // what is told of the future is told by another clock, or one that was set back since
        let late = begun.filter(|at| *at <= self.situation.now);
        let late = late.filter(|at| at.since(decided) > BEGINS_WITHIN);
        late.into_iter().for_each(|at| self.draft.date_attempts_anew(at));
    }

    /// What runs for a while as a rung is held back needs it no more.
    pub(crate) fn release_settled(&mut self) {
        let Situation { now, policy, .. } = *self.situation;
        let undisturbed = self.view.up_since().filter(|_| !self.is_restarting());
        let settled = undisturbed.filter(|_| stability::is_settled(&self.view, policy, now));
        if let Some(since) = settled {
            self.release_held(since.min(now));
        }
    }

    /// No rung is held back any more, since then.
    pub(crate) fn release_held(&mut self, since: Tick) {
        if self.draft.ledger.held_rung.take().is_some() {
            self.draft.date_attempts_anew(since);
        }
    }

    /// The newest attempt, if it asked for a restart and still counts from when it was decided: its
    /// rung, when that was, and the request. A long wait may have more to tell than a ledger keeps:
    /// of the decision then nothing is left but its attempt.
    fn last_asked(&self) -> Option<(Rung, Tick, Option<String>)> {
        let ledger = &self.draft.ledger;
        let attempts = LedgerAttempts::from_ledger(ledger);
        let (rung, request, decided) = match ledger.asked().next_back() {
            Some(asked) => (asked.rung?, asked.pod_restart.clone(), Tick::from(&asked.at)),
            None => (attempts.highest()?, None, attempts.latest()),
        };
        let counts = attempts.last(rung) == Some(decided) && attempts.latest() == decided;
        counts.then_some((rung, decided, request))
    }
}
