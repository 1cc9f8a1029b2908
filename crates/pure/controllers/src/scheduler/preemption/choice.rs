//! On which node pods have to go [kube-scheduler, preemption]: where the fewest budgets are broken,
//! then where the most important victim has the lowest priority, then where the priorities come to
//! the least together, then where the fewest go, then where the most important ones have run for
//! the shortest time, then the first by name.

use std::cmp::Reverse;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;

use super::victims::{PreemptionVictims, started};
use crate::scheduler::priority;

/// What is compared, the least first.
type Loss = (usize, i32, i64, usize, Reverse<Tick>);

/// The candidate that loses least; they are in the order of their nodes' names.
pub(super) fn best(candidates: Vec<PreemptionVictims<'_>>) -> Option<PreemptionVictims<'_>> {
    candidates.into_iter().min_by_key(loss)
}

fn loss(victims: &PreemptionVictims<'_>) -> Loss {
    let highest = victims.pods.first().map_or(i32::MIN, |pod| priority(pod));
    // Each counts for something, so that fewer pods of a negative priority are fewer.
    let each = |pod: &HeldPod| i64::from(priority(pod)) - i64::from(i32::MIN);
    let sum = victims.pods.iter().map(|pod| each(pod)).sum();
    let of_highest = victims.pods.iter().filter(|pod| priority(pod) == highest);
    let oldest = of_highest.map(|pod| started(pod)).min().unwrap_or(Tick::ZERO);
    (victims.violations, highest, sum, victims.pods.len(), Reverse(oldest))
}
