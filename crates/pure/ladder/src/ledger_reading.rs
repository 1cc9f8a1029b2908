//! A ledger as it is read: whatever the clock has done since, and whatever a hand has written into
//! it. Who may edit ledgers may mislead the ladder about what was tried; it goes on all the same,
//! asks for nothing that the API would refuse for ever, and keeps no more than it would itself.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{
    GROUP_MEMBERS_MAX, LedgerDecision, LedgerMember, LedgerPhase, MEMBER_MESSAGE_BYTES_MAX,
    RestartLedgerStatus, RestartOutcome, RollbackStatus, Rung, RungAttempts,
};
use rekindle_types::validation::names;

use crate::dry_run;
use crate::explanation::summary_of;

/// Decisions kept.
pub(crate) const DECISIONS_MAX: usize = 32;
/// Bytes of a message or a reason.
const TEXT_BYTES_MAX: usize = 1024;
/// Attempts of a rung that are kept: as many as a ladder may allow.
const ATTEMPTS_MAX: usize = 1_000;
/// Conditions that are kept. The ladder has two.
const CONDITIONS_MAX: usize = 16;

/// The clock may have been set back since the ledger was written: nothing in it was tried, decided
/// or begun later than now. It would otherwise count until the clock has caught up: attempts in
/// their window, decisions in budgets, and no later pod would take the ledger over.
pub fn seen_at(ledger: &RestartLedgerStatus, now: Tick) -> RestartLedgerStatus {
    let RestartLedgerStatus {
        pod_uid,
        revision,
        rung,
        phase,
        message,
        summary,
        next_attempt_at,
        attempts,
        failures_total,
        observed,
        members,
        excused_by,
        stable_since,
        pending_restart,
        failing_pod_uid,
        ladder_uid,
        held_rung,
        held_by,
        in_vain,
        dry_run_since,
        last_run_seconds,
        exhaustion_told_at,
        decisions,
        conditions,
    } = ledger;
    // where all is well nothing is held back
    let is_well = matches!(phase, None | Some(LedgerPhase::Healthy));
    let dry_run_began = dry_run::dry_run_since(ledger).as_ref().map(Tick::from);
    let short = |text: &Option<String>| text.as_deref().map(|text| cut(text).to_owned());
    RestartLedgerStatus {
        pod_uid: short(pod_uid),
        revision: short(revision),
        rung: *rung,
        phase: *phase,
        message: short(message),
        summary: summary.as_deref().map(summary_of),
        next_attempt_at: next_attempt_at.clone(),
        attempts: attempts.as_deref().map(|attempts| attempts_at(attempts, dry_run_began, now)),
        failures_total: *failures_total,
        observed: observed.clone(),
        members: members.as_deref().map(|members| members_at(members, now)),
        excused_by: short(excused_by),
        stable_since: stable_since.as_ref().map(|at| no_later(at, now)),
        pending_restart: pending_restart.clone().filter(|name| is_name(name)),
        failing_pod_uid: short(failing_pod_uid),
        ladder_uid: short(ladder_uid),
        held_rung: held_rung.filter(|_| !is_well),
        held_by: held_by.filter(|_| !is_well),
        in_vain: *in_vain,
        dry_run_since: dry_run_since.as_ref().map(|at| no_later(at, now)),
        last_run_seconds: *last_run_seconds,
        exhaustion_told_at: exhaustion_told_at.clone(),
        decisions: decisions.as_deref().map(|decisions| decisions_at(decisions, now)),
        conditions: conditions.as_deref().map(conditions_of),
    }
}

pub(crate) fn no_later(at: &MicroTime, now: Tick) -> MicroTime {
    Tick::from(at).min(now).to_micro_time()
}

/// The newest of each rung, the oldest first. What was tried above Container before an operator
/// only observed stays before that.
fn attempts_at(
    attempts: &[RungAttempts],
    dry_run_began: Option<Tick>,
    now: Tick,
) -> Vec<RungAttempts> {
    let mut of_rungs: BTreeMap<Rung, Vec<Tick>> = BTreeMap::new();
    for entry in attempts {
        let began = dry_run_began.filter(|_| entry.rung > Rung::Container);
        let seen = |at: Tick| match began.filter(|began| at < *began) {
            Some(began) => at.min(dry_run::last_before(began.min(now))),
            None => at.min(now),
        };
        of_rungs.entry(entry.rung).or_default().extend(entry.at.iter().map(Tick::from).map(seen));
    }
    let newest = |(rung, mut at): (Rung, Vec<Tick>)| {
        at.sort_unstable();
        let surplus = at.len().saturating_sub(ATTEMPTS_MAX);
        let at = at[surplus..].iter().map(|at| at.to_micro_time()).collect();
        RungAttempts { rung, at }
    };
    of_rungs.into_iter().filter(|(_, at)| !at.is_empty()).map(newest).collect()
}

/// No more of them than a group may have, and none that failed later than now.
fn members_at(members: &[LedgerMember], now: Tick) -> Vec<LedgerMember> {
    let kept = members.iter().take(GROUP_MEMBERS_MAX).map(|member| LedgerMember {
        failed_at: member.failed_at.as_ref().map(|at| no_later(at, now)),
        message: member.message.as_deref().map(|message| {
            message[..message.floor_char_boundary(MEMBER_MESSAGE_BYTES_MAX)].to_owned()
        }),
        ..member.clone()
    });
    kept.collect()
}

fn decisions_at(decisions: &[LedgerDecision], now: Tick) -> Vec<LedgerDecision> {
    let surplus = decisions.len().saturating_sub(DECISIONS_MAX);
    let kept = decisions[surplus..].iter().map(|decision| {
        let at = no_later(&decision.at, now);
        let pod_restart = decision.pod_restart.clone().filter(|name| is_name(name));
        let outcome = decision.outcome.as_ref().filter(|_| pod_restart.is_some());
        LedgerDecision {
            first_at: decision.first_at.as_ref().map(|first| no_later(first, now).min(at.clone())),
            at,
            rung: decision.rung,
            reason: cut(&decision.reason).to_owned(),
            count: decision.count.max(1),
            outcome: outcome.map(|outcome| outcome_at(outcome, now)),
            pod_restart,
        }
    });
    kept.collect()
}

/// How a request ended, with texts of no more than a ledger keeps. What replaces a pod is over by
/// the clock that a ladder goes by; what a node restarted, by the node's.
pub(crate) fn outcome_at(outcome: &RestartOutcome, now: Tick) -> RestartOutcome {
    let short = |text: &String| cut(text).to_owned();
    let over = outcome.finished_at.as_ref().map(|at| match outcome.step {
        Some(_) => Tick::from(at).min(now).to_time(),
        None => at.clone(),
    });
    RestartOutcome {
        phase: outcome.phase,
        pod_name: short(&outcome.pod_name),
        rung: outcome.rung,
        message: outcome.message.as_ref().map(short),
        started_at: outcome.started_at.clone(),
        finished_at: over,
        step: outcome.step,
        new_pod_name: outcome.new_pod_name.as_ref().map(short),
        rollback: outcome.rollback.as_ref().map(|rollback| RollbackStatus {
            deployment_name: short(&rollback.deployment_name),
            from_replica_set: short(&rollback.from_replica_set),
            to_replica_set: short(&rollback.to_replica_set),
            to_revision: rollback.to_revision,
        }),
    }
}

/// Its own, and what a later version adds.
fn conditions_of(conditions: &[Condition]) -> Vec<Condition> {
    let kept = conditions.iter().take(CONDITIONS_MAX);
    kept.map(|found| Condition { message: cut(&found.message).to_owned(), ..found.clone() })
        .collect()
}

/// A PodRestart may be called this. Another request would be refused each time that it is made.
fn is_name(name: &str) -> bool {
    names::dns_subdomain(name).is_empty()
}

/// At a letter's border.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_the_future_was_now_and_the_rest_stays() {
        let at = |secs| Tick::from_secs(secs).to_micro_time();
        let decision = |first, last, name: &str| LedgerDecision {
            at: at(last),
            first_at: Some(at(first)),
            rung: Some(Rung::Pod),
            reason: "it failed".to_owned(),
            count: 2,
            pod_restart: Some(name.to_owned()),
            outcome: None,
        };
        let attempts = |secs: &[u64]| {
            let at = secs.iter().map(|secs| at(*secs)).collect();
            Some(vec![RungAttempts { rung: Rung::Pod, at }])
        };
        let ledger = RestartLedgerStatus {
            attempts: attempts(&[7, 99, 5]),
            stable_since: Some(at(99)),
            next_attempt_at: Some(at(99)),
            decisions: Some(vec![decision(4, 5, "web-0-pod-1"), decision(98, 99, "web.0")]),
            ..RestartLedgerStatus::default()
        };
        let seen = seen_at(&ledger, Tick::from_secs(10));
        let expected = RestartLedgerStatus {
            attempts: attempts(&[5, 7, 10]),
            stable_since: Some(at(10)),
            decisions: Some(vec![decision(4, 5, "web-0-pod-1"), decision(10, 10, "web.0")]),
            ..ledger
        };
        assert_eq!(seen, expected);
        assert_eq!(seen_at(&seen, Tick::from_secs(10)), seen);
    }
}
