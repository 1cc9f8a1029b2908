//! A request that was decided, held back by a disruption budget or the lack of a node, and could go
//! on now: it asks the budgets again. Those that waited for the same thing would otherwise all go
//! on in the moment in which it is there.

use rekindle_types::Tick;
use rekindle_types::v1alpha1::RestartLedgerStatus;

use crate::budget::{self, BudgetState};
use crate::{LadderPolicy, LimitUsage, Occupancy, RestartLimits, limits, sentence};

/// Why a request may not go on yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetExhausted {
    /// By when there is room, as far as that is known.
    pub until: Tick,
    /// Which budget it is, for people; the same words however long it takes.
    pub why: String,
}

/// Whether a request for the pod with this UID may go on; none when it may. `policy` is that of its
/// ladder, if that can be read.
pub fn room_to_go_on(
    now: Tick,
    pod_uid: &str,
    policy: Option<&LadderPolicy>,
    others: &Occupancy,
    crowd: &LimitUsage,
    limits: &RestartLimits,
) -> Option<BudgetExhausted> {
    // its decision has spent its tokens: going on takes new ones
    let own = RestartLedgerStatus::default();
    let of_ladder = policy.map_or(BudgetState::Free, |policy| others.room(now, policy, &own));
    let room = match of_ladder {
        BudgetState::Free => budget::room_in(now, limits, crowd, &own),
        BudgetState::Concurrent { .. }
        | BudgetState::Rate { .. }
        | BudgetState::Workload { .. }
        | BudgetState::Bucket { .. } => of_ladder,
    };
    let until = match room {
        BudgetState::Free => return None,
        BudgetState::Concurrent { at_the_latest, .. }
        | BudgetState::Workload { at_the_latest, .. } => at_the_latest,
        BudgetState::Rate { free_at, .. } => free_at,
        BudgetState::Bucket { bucket, free_at, .. } => {
            free_at + limits::jitter(pod_uid, bucket.interval())
        }
    };
    Some(BudgetExhausted { until, why: sentence::waits_for_room(room) })
}
