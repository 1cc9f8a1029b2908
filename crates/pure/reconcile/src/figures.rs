//! What ladders do, in figures for a monitoring system. They are read from the changes of
//! RestartLedgers, not from what is about to be written: a decision that is written twice, or not
//! at all, counts as often as it stands in a ledger.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rekindle_controllers::{NamespacedName, ObjectChange, ViewObject};
use rekindle_ladder::has_recovered;
use rekindle_metrics::{Counter, Histogram, MetricFamily, MetricKind, MetricsSource, Text};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{HoldReason, LedgerPhase, RestartLedgerStatus, Rung};

/// Upper bounds in seconds: from a restart that helps at once to an outage of some hours.
const RECOVERY_SECONDS: &[f64] =
    &[1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0];

/// The figures of all ladders since the process began.
#[derive(Debug)]
pub struct LadderFigures {
    attempts: MetricFamily<Counter>,
    failures: AtomicU64,
    recoveries: MetricFamily<LongHistogram>,
    exhausted: Counter,
    holds: MetricFamily<Counter>,
    waits: MetricFamily<LongHistogram>,
}

/// A histogram of what may take hours.
#[derive(Debug)]
struct LongHistogram(Histogram);

impl Default for LongHistogram {
    fn default() -> Self {
        Self(Histogram::new(RECOVERY_SECONDS))
    }
}

impl AsRef<Histogram> for LongHistogram {
    fn as_ref(&self) -> &Histogram {
        &self.0
    }
}

impl Default for LadderFigures {
    fn default() -> Self {
        Self {
            attempts: MetricFamily::new(&["rung"]),
            failures: AtomicU64::default(),
            recoveries: MetricFamily::new(&["rung"]),
            exhausted: Counter::default(),
            holds: MetricFamily::new(&["reason"]),
            waits: MetricFamily::new(&["reason"]),
        }
    }
}

impl MetricsSource for LadderFigures {
    fn write(&self, text: &mut Text) {
        text.single(
            "rekindle_ladder_failures_total",
            MetricKind::Counter,
            "Failures of containers whose pod a ladder selects.",
            self.failures.load(Ordering::Relaxed) as f64,
        );
        self.attempts.write(
            text,
            "rekindle_ladder_attempts_total",
            "Attempts of ladders by rung; of rung Container, failures that were left to the container's own restart.",
        );
        self.recoveries.write(
            text,
            "rekindle_ladder_recovery_seconds",
            "From the first failure until everything ran for good, by the highest rung that was tried. Its count is the successes of that rung.",
        );
        text.single(
            "rekindle_ladder_exhausted_total",
            MetricKind::Counter,
            "Ladders whose rungs were all tried in vain.",
            self.exhausted.get() as f64,
        );
        self.holds.write(
            text,
            "rekindle_ladder_holds_total",
            "Decisions to hold, by what is waited for.",
        );
        self.waits.write(
            text,
            "rekindle_ladder_wait_seconds",
            "How long a restart that was due was held back, by what held it.",
        );
    }
}

/// Follows the ledgers for the figures.
#[derive(Debug)]
pub(crate) struct LedgerFollower {
    figures: Arc<LadderFigures>,
    troubles: BTreeMap<NamespacedName, FailingPod>,
}

/// A pod that fails, as its ledger tells.
#[derive(Clone, Copy, Debug)]
struct FailingPod {
    since: Tick,
    held: Option<(HoldReason, Tick)>,
}

/// How old a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeAge {
    /// It came while this process watched.
    New,
    /// It was there when this process began to watch.
    FromBefore,
}

impl LedgerFollower {
    pub(crate) fn new(figures: Arc<LadderFigures>) -> Self {
        Self { figures, troubles: BTreeMap::new() }
    }

    /// Takes a change of the view in.
    pub(crate) fn follow(&mut self, change: &ObjectChange, age: ChangeAge, now: Tick) {
        let status = |object: Option<&ViewObject>| match object {
            Some(ViewObject::RestartLedger(ledger)) => ledger.status.clone(),
            Some(_) | None => None,
        };
        if !matches!(change.latest(), ViewObject::RestartLedger(_)) {
            return;
        }
        if change.is_removal() {
            self.troubles.remove(&change.id.name);
            return;
        }
        let before = status(change.before.as_ref()).unwrap_or_default();
        let after = status(change.after.as_ref()).unwrap_or_default();
        match age {
            ChangeAge::New => self.count(&change.id.name, &before, &after, now),
            ChangeAge::FromBefore => self.remember(&change.id.name, &after, now),
        }
    }

    /// What was going on when the process began: the rest of it is counted.
    fn remember(&mut self, name: &NamespacedName, ledger: &RestartLedgerStatus, now: Tick) {
        let fails = match ledger.phase {
            Some(LedgerPhase::Climbing | LedgerPhase::Holding | LedgerPhase::Exhausted) => {
                !has_recovered(ledger)
            }
            Some(LedgerPhase::Healthy) | None => false,
        };
        if fails {
            let attempts = ledger.attempts.iter().flatten().flat_map(|a| &a.at).map(Tick::from);
            let since = attempts.min().unwrap_or(now);
            let held = ledger.held_by.map(|by| (by, now));
            self.troubles.insert(name.clone(), FailingPod { since, held });
        }
    }

    fn count(
        &mut self,
        name: &NamespacedName,
        before: &RestartLedgerStatus,
        after: &RestartLedgerStatus,
        now: Tick,
    ) {
        let failures = after.failures_total.saturating_sub(before.failures_total);
        self.figures.failures.fetch_add(failures, Ordering::Relaxed);
        for _ in 0..left_since(before, after) {
            self.figures.attempts.of(&[Rung::Container.name()]).raise();
        }
        for rung in asked_since(before, after) {
            self.figures.attempts.of(&[rung.name()]).raise();
        }
        let is_exhausted = |l: &RestartLedgerStatus| l.phase == Some(LedgerPhase::Exhausted);
        if is_exhausted(after) && !is_exhausted(before) {
            self.figures.exhausted.raise();
        }
        if failures > 0 {
            let trouble = FailingPod { since: now, held: None };
            self.troubles.entry(name.clone()).or_insert(trouble);
        }
        self.count_holds(name, before, after, now);
        self.count_recovery(name, before, after, now);
        if after.phase.is_none() {
            self.troubles.remove(name); // the pod is gone, or no ladder selects it any more
        }
    }

    fn count_holds(
        &mut self,
        name: &NamespacedName,
        before: &RestartLedgerStatus,
        after: &RestartLedgerStatus,
        now: Tick,
    ) {
        if before.held_by == after.held_by {
            return;
        }
        if let Some(by) = after.held_by {
            self.figures.holds.of(&[by.name()]).raise();
        }
        let Some(trouble) = self.troubles.get_mut(name) else { return };
        if let Some((by, since)) = trouble.held.take()
            && is_wait(by)
        {
            self.figures.waits.of(&[by.name()]).0.observe(now.since(since));
        }
        trouble.held = after.held_by.map(|by| (by, now));
    }

    fn count_recovery(
        &mut self,
        name: &NamespacedName,
        before: &RestartLedgerStatus,
        after: &RestartLedgerStatus,
        now: Tick,
    ) {
        let is_healthy = |l: &RestartLedgerStatus| l.phase == Some(LedgerPhase::Healthy);
        let recovered = has_recovered(after) && !has_recovered(before);
        let cleared = is_healthy(after) && !is_healthy(before);
        if !recovered && !cleared {
            return;
        }
        let Some(trouble) = self.troubles.remove(name) else { return };
        // what clears a ledger takes its attempts away
        let tried = if cleared { before } else { after };
        let made = tried.attempts.iter().flatten().filter(|attempts| !attempts.at.is_empty());
        let rung = made.map(|attempts| attempts.rung).max().unwrap_or(Rung::Container);
        let has_acted = rung > Rung::Container
            || matches!(before.phase, Some(LedgerPhase::Holding | LedgerPhase::Exhausted));
        if has_acted && !has_recovered(after) {
            return; // it ran without a failure, and was never ready
        }
        let running = after.stable_since.as_ref().or(before.stable_since.as_ref());
        let until = running.map_or(now, Tick::from);
        self.figures.recoveries.of(&[rung.name()]).0.observe(until.since(trouble.since));
    }
}

/// Whether something that is due is held back, and goes on by itself.
fn is_wait(by: HoldReason) -> bool {
    match by {
        HoldReason::Futile | HoldReason::Revision => false,
        HoldReason::Trial
        | HoldReason::LadderBudget
        | HoldReason::WorkloadLimit
        | HoldReason::NamespaceLimit
        | HoldReason::ClusterLimit
        | HoldReason::Eviction
        | HoldReason::Node => true,
    }
}

/// The rungs of the restarts that were asked for meanwhile. Their decisions tell: attempts are
/// dated anew when they waited.
fn asked_since(before: &RestartLedgerStatus, after: &RestartLedgerStatus) -> Vec<Rung> {
    let last = asked(before).map(|(at, _)| at).max();
    let new = asked(after).filter(|(at, _)| last.is_none_or(|last| *at > last));
    new.map(|(_, rung)| rung).collect()
}

fn asked(ledger: &RestartLedgerStatus) -> impl Iterator<Item = (Tick, Rung)> + '_ {
    ledger.asked().filter_map(|decision| Some((Tick::from(&decision.at), decision.rung?)))
}

/// How many failures were left to the container's own restart meanwhile: attempts that are later
/// than those before, and of the time of a decision. Others were dated anew, as all are when a rung
/// is not held back any more.
fn left_since(before: &RestartLedgerStatus, after: &RestartLedgerStatus) -> usize {
    let decisions = after.decisions.as_deref().unwrap_or_default();
    let is_left = decisions.last().is_some_and(|last| last.rung == Some(Rung::Container));
    if before.held_rung.is_some() && after.held_rung.is_none() && !is_left {
        return 0;
    }
    let last = ticks_of_container(before).max();
    let is_decided = |at: &Tick| decisions.iter().any(|decision| Tick::from(&decision.at) == *at);
    ticks_of_container(after)
        .filter(|at| last.is_none_or(|last| *at > last) && is_decided(at))
        .count()
}

fn ticks_of_container(ledger: &RestartLedgerStatus) -> impl Iterator<Item = Tick> + '_ {
    let attempts = ledger.attempts.iter().flatten();
    let of_rung = attempts.filter(|attempts| attempts.rung == Rung::Container);
    of_rung.flat_map(|attempts| &attempts.at).map(Tick::from)
}

#[cfg(test)]
mod tests;
