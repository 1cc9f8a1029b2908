//! What a ladder's pods take of its budget, and when there is room again.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::v1alpha1::{
    HoldReason, PodRestart, RESTART_GIVEN_UP_AFTER, RestartLedger, RestartLedgerStatus, Rung,
};
use rekindle_types::{Tick, TickDuration};

use crate::recency::within;
use crate::stage::RequestStage;
use crate::{LadderPolicy, LimitUsage, RestartLimits, TokenBucket};

/// Buckets and `perMinute` look back so far.
pub(crate) const MINUTE: TickDuration = TickDuration::from_secs(60);
/// A restart that has not finished after this takes no room any more: its node is gone, or its pod
/// never runs again. It must not hold up the others for ever.
pub(crate) const GIVEN_UP_AFTER: TickDuration = RESTART_GIVEN_UP_AFTER;

/// What other pods of the ladder take of its budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Pods with restarts under way: since when the last of them, the oldest first.
    pub under_way: Vec<Tick>,
    /// When restarts above Container were decided, or went on after they were held back, within the
    /// last minute; the oldest first.
    pub decided: Vec<Tick>,
}

/// Whether a restart may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetState {
    /// It may.
    Free,
    /// `maxConcurrent` restarts are under way. A slot becomes free when one finishes, at the latest
    /// then.
    Concurrent { limit: u32, at_the_latest: Tick },
    /// `perMinute` restarts were decided; the next one may be then.
    Rate { limit: u32, free_at: Tick },
    /// As many pods of the controller as may be are being restarted; at the latest then there is
    /// room.
    Workload { limit: usize, at_the_latest: Tick },
    /// The bucket of the namespace or the cluster is empty; the next token is there then.
    Bucket { scope: BucketScope, bucket: TokenBucket, free_at: Tick },
}

impl BudgetState {
    /// Which budget has no room.
    pub(crate) fn held_by(self) -> HoldReason {
        match self {
            BudgetState::Free | BudgetState::Concurrent { .. } | BudgetState::Rate { .. } => {
                HoldReason::LadderBudget
            }
            BudgetState::Workload { .. } => HoldReason::WorkloadLimit,
            BudgetState::Bucket { scope: BucketScope::Namespace, .. } => HoldReason::NamespaceLimit,
            BudgetState::Bucket { scope: BucketScope::Cluster, .. } => HoldReason::ClusterLimit,
        }
    }
}

/// Whose bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketScope {
    Namespace,
    Cluster,
}

/// Whether the limits over all ladders leave room, for a pod with this ledger.
pub(crate) fn room_in(
    now: Tick,
    limits: &RestartLimits,
    crowd: &LimitUsage,
    own: &RestartLedgerStatus,
) -> BudgetState {
    if let Some(surplus) = crowd.workload.len().checked_sub(limits.per_workload)
        && let Some(oldest_needed) = crowd.workload.get(surplus)
    {
        let at_the_latest = *oldest_needed + GIVEN_UP_AFTER;
        return BudgetState::Workload { limit: limits.per_workload, at_the_latest };
    }
    let of_own = decided_lately(now, own);
    for (scope, bucket, others) in [
        (BucketScope::Namespace, limits.namespace, &crowd.namespace),
        (BucketScope::Cluster, limits.cluster, &crowd.cluster),
    ] {
        let mut all: Vec<Tick> = others.iter().chain(&of_own).copied().collect();
        all.sort_unstable();
        if let Some(free_at) = bucket.free_at(now, &all) {
            return BudgetState::Bucket { scope, bucket, free_at };
        }
    }
    BudgetState::Free
}

/// When restarts above Container were decided within the last minute, as a ledger tells.
pub fn decided_lately(now: Tick, ledger: &RestartLedgerStatus) -> Vec<Tick> {
    decided(ledger).into_iter().filter_map(|at| within(now, at, MINUTE)).collect()
}

/// When restarts above Container were decided, as far back as a ledger tells, the oldest first.
/// Attempts leave it with their window, which may be shorter than a minute, and the decisions stay.
/// An attempt and its decision are one, also when the attempt counts from later on.
pub(crate) fn decided(ledger: &RestartLedgerStatus) -> Vec<Tick> {
    let attempts = ledger.attempts.iter().flatten().filter(|a| a.rung > Rung::Container);
    let attempts = attempts.flat_map(|a| a.at.iter().map(|at| (a.rung, Tick::from(at))));
    let mut attempts: Vec<(Rung, Tick)> = attempts.collect();
    let asked = ledger.asked().filter_map(|d| Some((d.rung?, Tick::from(&d.at))));
    let asked = asked.filter(|(rung, _)| *rung > Rung::Container);
    let mut ticks: Vec<Tick> = Vec::new();
    let mut later: Vec<Rung> = Vec::new();
    for (rung, at) in asked {
        ticks.push(at);
        match attempts.iter().position(|attempt| *attempt == (rung, at)) {
            Some(place) => drop(attempts.swap_remove(place)),
            None => later.push(rung),
        }
    }
    for rung in later {
        if let Some(place) = attempts.iter().position(|attempt| attempt.0 == rung) {
            attempts.swap_remove(place);
        }
    }
    ticks.extend(attempts.into_iter().map(|(_, at)| at));
    ticks.sort_unstable();
    ticks
}

impl Occupancy {
    /// From the PodRestarts and the ledgers of the ladder's other pods: ledgers are written before
    /// PodRestarts, so a restart that is decided and not seen yet counts too.
    pub fn new<'a>(
        now: Tick,
        restarts: impl Iterator<Item = &'a PodRestart>,
        ledgers: impl Iterator<Item = &'a RestartLedger>,
    ) -> Self {
        let mut occupancy = Occupancy::default();
        let mut pods = Pods::default();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for restart in restarts {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            seen.extend(restart.metadata.name.as_deref());
            let is_final = phase.is_some_and(|phase| phase.is_final());
            let stage = RequestStage::from_restart(restart);
            let since = stage.takes_room_since(now).filter(|_| !is_final);
            if let Some(since) = since.and_then(|since| within(now, since, GIVEN_UP_AFTER)) {
                pods.note(new_pod_of(restart).map_or(restart.subject(), String::as_str), since);
            }
            occupancy.decided.extend(stage.went_on_at().and_then(|at| within(now, at, MINUTE)));
        }
        for ledger in ledgers {
            let Some(status) = &ledger.status else { continue };
            let since = occupancy.add_decided(now, status).unwrap_or(now);
            let unseen = status.pending_restart.as_deref().is_some_and(|name| !seen.contains(name));
            if let Some(since) = within(now, since, GIVEN_UP_AFTER).filter(|_| unseen) {
                pods.note(&ledger.spec.pod_name, since);
            }
        }
        occupancy.under_way = pods.since();
        occupancy.decided.sort_unstable();
        occupancy
    }

    /// Adds the restarts above Container of a ledger; answers the last of them.
    fn add_decided(&mut self, now: Tick, ledger: &RestartLedgerStatus) -> Option<Tick> {
        let ticks = decided(ledger);
        self.decided.extend(ticks.iter().filter_map(|at| within(now, *at, MINUTE)));
        ticks.last().copied()
    }

    /// Whether one more may begin now, for a pod with this ledger.
    pub(crate) fn room(
        &self,
        now: Tick,
        policy: &LadderPolicy,
        own: &RestartLedgerStatus,
    ) -> BudgetState {
        if let Some(limit) = policy.max_concurrent
            && let Some(surplus) = self.under_way.len().checked_sub(count(limit))
            && let Some(oldest_needed) = self.under_way.get(surplus)
        {
            return BudgetState::Concurrent {
                limit,
                at_the_latest: *oldest_needed + GIVEN_UP_AFTER,
            };
        }
        if let Some(limit) = policy.per_minute {
            let mut all = self.clone();
            all.add_decided(now, own);
            all.decided = all.decided.iter().filter_map(|at| within(now, *at, MINUTE)).collect();
            all.decided.sort_unstable();
            let surplus = all.decided.len().checked_sub(count(limit));
            // The decision that must leave the minute before there is room.
            if let Some(at) = surplus.and_then(|surplus| all.decided.get(surplus)) {
                return BudgetState::Rate { limit, free_at: *at + MINUTE };
            }
        }
        BudgetState::Free
    }
}

/// Pods with restarts under way, by their names. Requests of one pod follow each other, and one
/// that lost its place to the next is not over before that one is: together they take one replica
/// down, until the last of them is over.
#[derive(Debug, Default)]
pub(crate) struct Pods<'a>(BTreeMap<&'a str, Tick>);

impl<'a> Pods<'a> {
    /// A restart of this pod is under way since then.
    pub(crate) fn note(&mut self, pod_name: &'a str, since: Tick) {
        let last = self.0.entry(pod_name).or_insert(since);
        *last = since.max(*last);
    }

    /// Since when the last one of each pod is, the oldest first.
    pub(crate) fn since(self) -> Vec<Tick> {
        let mut since: Vec<Tick> = self.0.into_values().collect();
        since.sort_unstable();
        since
    }
}

/// The pod that has taken the place of the one that a request replaces.
pub(crate) fn new_pod_of(restart: &PodRestart) -> Option<&String> {
    restart.status.as_ref()?.replacement.as_ref()?.new_pod_name.as_ref()
}

fn count(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
