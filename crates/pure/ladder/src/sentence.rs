//! The sentences for a person at 3 a.m.: the cause first, then what is done, then what comes next.
//! Each is said twice, in full and for a glance.
//!
//! | file | sentences of |
//! |---|---|
//! | `story` | containers that failed: what did not help, and what is done now |
//! | `authority` | rungs that have no agent, and an operator that only observes |
//! | `alike` | pods of one revision that fail in the same way |
//! | `waiting` | restarts that a budget holds back |
//! | `requests` | PodRestarts that wait, are given up, or come to nothing |
//! | `outcome` | pods that run again, have finished, or have no ladder any more; ladders with nothing left |

mod alike;
mod authority;
mod outcome;
mod requests;
mod story;
#[cfg(test)]
mod tests;
mod waiting;

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{OnExhausted, Rung};

use crate::attempts::LedgerAttempts;
use crate::explanation::{Phrase, shorten};
use crate::policy::RungPolicy;
use crate::{LadderPolicy, RollbackTarget};

pub(crate) use alike::{after_trial, awaits_trial, held_for_all};
pub(crate) use authority::{NOTHING_DONE, acts_now, agent_came};
pub(crate) use outcome::{
    cleared, finished, gone, nothing_left, other_revision, running, unselected,
};
pub(crate) use requests::{
    exhausted_after, given_up, goes_on, held_request, over_undone, rollback_after, unlisted,
    withdrawn,
};
pub(crate) use story::{
    FailureStory, FailureSubject, QuotedOutput, cannot_start, no_sandbox, stuck_rollback,
};
pub(crate) use waiting::{after_outage, held, held_restart, waits_for_room};

/// After the last rung.
const BACKOFF_GOES_ON: &str = "only the container's own backoff goes on";
/// Characters of a name in a summary.
const NAME_CHARS_MAX: usize = 20;

/// What comes after the last rung.
fn after_the_last(policy: &LadderPolicy) -> Phrase {
    match policy.on_exhausted {
        OnExhausted::Hold => Phrase::new(BACKOFF_GOES_ON, "backoff only"),
        OnExhausted::Fail => Phrase::new("the pod is ended as Failed", "pod Failed"),
    }
}

fn rolling_back(target: &RollbackTarget) -> Phrase {
    let RollbackTarget { deployment, revision } = target;
    Phrase::new(
        format!("rolling Deployment {deployment} back to revision {revision}, which was healthy"),
        format!("rollback to revision {revision}"),
    )
}

/// The attempt of a rung that is made now: `restarting the whole pod (1 of 2)`.
fn attempt(step: &RungPolicy, number: u32) -> Phrase {
    let Phrase { full, brief } = doing(step.rung);
    let of = step.attempts;
    Phrase::new(format!("{full} ({number} of {of})"), format!("{brief} {number} of {of}"))
}

/// What a rung did, and how often of how many times. The ladder may have been edited since, or be
/// another one.
fn done(policy: &LadderPolicy, tried: LedgerAttempts<'_>, rung: Rung) -> String {
    let (doing, used) = (doing(rung).full, tried.count(rung));
    match policy.step(rung).map(|step| step.attempts) {
        Some(of) if used <= of => format!("{doing} ({used} of {of})"),
        Some(of) => format!("{doing} ({used}, of which the ladder lists {of} now)"),
        None => format!("{doing} ({used}, and the ladder does not list it now)"),
    }
}

/// The same of what an operator that observes may only have noted, since then.
fn done_or_noted(
    policy: &LadderPolicy,
    tried: LedgerAttempts<'_>,
    rung: Rung,
    dry_run_since: Option<Tick>,
) -> String {
    let done = done(policy, tried, rung);
    let is_noted = dry_run_since.is_some_and(|since| tried.last(rung) >= Some(since));
    if is_noted { format!("{done} was noted") } else { done }
}

/// As a sentence names what a rung does.
fn doing(rung: Rung) -> Phrase {
    let (full, brief) = match rung {
        Rung::Container => ("restarting the container", "container restart"),
        Rung::Containers => ("restarting all containers", "restart of all containers"),
        Rung::Pod => ("restarting the whole pod", "whole-pod restart"),
        Rung::Recreate => ("replacing the pod by a new one", "new pod"),
        Rung::Reschedule => ("replacing the pod by one on another node", "move to other node"),
        Rung::Rollback => ("rolling back to the revision before", "rollback"),
    };
    Phrase::new(full, brief)
}

/// What a rung is about, in brief: `whole pod next`.
fn object(rung: Rung) -> &'static str {
    match rung {
        Rung::Container => "container",
        Rung::Containers => "all containers",
        Rung::Pod => "whole pod",
        Rung::Recreate => "new pod",
        Rung::Reschedule => "other node",
        Rung::Rollback => "rollback",
    }
}

/// The time of day: `04:11:02 UTC`, in brief `04:11 UTC`.
fn clock(at: Tick) -> Phrase {
    let secs = at.as_micros() / 1_000_000 % 86_400;
    let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
    Phrase::new(
        format!("{hours:02}:{minutes:02}:{seconds:02} UTC"),
        format!("{hours:02}:{minutes:02} UTC"),
    )
}

fn short_name(name: &str) -> String {
    shorten(name, NAME_CHARS_MAX)
}
