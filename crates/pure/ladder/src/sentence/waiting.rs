//! A budget holds a restart back, and lets it go on.

use super::{attempt, clock, object};
use crate::Policy;
use crate::budget::{Room, Scope};
use crate::explanation::{Explanation, Phrase};
use crate::policy::Step;

/// A budget holds a restart back that is due.
pub(crate) fn held(policy: &Policy, step: &Step, room: Room, due: Explanation) -> Explanation {
    let ladder = &policy.name;
    let (budget, until) = match room {
        Room::Free => return due,
        Room::Concurrent { limit, .. } => (
            Phrase::new(
                format!("maxConcurrent {limit} of ladder {ladder:?}"),
                format!("maxConcurrent {limit}"),
            ),
            None,
        ),
        Room::Workload { limit, .. } => (
            Phrase::new(
                format!("the limit of {limit} pods of a workload at once"),
                format!("{limit} of workload at once"),
            ),
            None,
        ),
        Room::Bucket { scope, bucket, free_at } => {
            let owner = match scope {
                Scope::Namespace => "namespace",
                Scope::Cluster => "cluster",
            };
            let (burst, per_minute) = (bucket.burst(), bucket.per_minute());
            let limit = format!(
                "the limit of the {owner}, {burst} restarts at once and {per_minute} a minute"
            );
            (Phrase::new(limit, format!("{owner} limit")), Some(free_at))
        }
        Room::Rate { limit, free_at } => (
            Phrase::new(
                format!("perMinute {limit} of ladder {ladder:?}"),
                format!("perMinute {limit}"),
            ),
            Some(free_at),
        ),
    };
    let rung = object(step.rung);
    let brief = &budget.brief;
    due.delayed(&match until.map(clock) {
        Some(until) => Phrase::new(
            format!("waiting until {until}: restart budget is full ({budget})"),
            format!("{rung} at {} ({brief})", until.brief),
        ),
        None => Phrase::new(
            format!(
                "waiting: restart budget is full ({budget}), another pod's restart must end first"
            ),
            format!("{rung} waits ({brief})"),
        ),
    })
}

/// A budget held a restart back, and there is room now.
pub(crate) fn held_restart(step: &Step, number: u32) -> Explanation {
    let why = "there is room in the restart budget";
    let attempt = attempt(step, number);
    Explanation::new(format!("{why}: {attempt}"), "budget has room", &attempt.brief)
}

/// A budget lets a request that was held back not go on yet. The PodRestart says this itself.
pub(crate) fn waits_for_room(room: Room) -> String {
    let which = match room {
        Room::Free => return "it goes on".to_owned(),
        Room::Concurrent { limit, .. } => format!("maxConcurrent {limit} of the ladder"),
        Room::Rate { limit, .. } => format!("perMinute {limit} of the ladder"),
        Room::Workload { limit, .. } => format!("the limit of {limit} pods of a workload at once"),
        Room::Bucket { scope: Scope::Namespace, .. } => "the limit of the namespace".to_owned(),
        Room::Bucket { scope: Scope::Cluster, .. } => "the limit of the cluster".to_owned(),
    };
    format!("waiting: restart budget is full ({which})")
}
