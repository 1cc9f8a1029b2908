//! Whether thresholds are met, and for how long: what the node's pressures are, and what has to be
//! had back.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::Tick;

use super::figures::{ImageFs, Observations};
use super::policy::{EvictionPolicy, Threshold, ThresholdKind, ThresholdScope};
use super::signal::{EvictionSignal, PressureKind};

/// What is remembered between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThresholdWatch {
    /// Since when a threshold is met, by its place in the policy.
    met_since: BTreeMap<usize, Tick>,
    /// Those that pods are evicted for until their minimum is had back.
    unresolved: BTreeSet<usize>,
    /// When a pressure was last seen.
    pressure_seen: BTreeMap<PressureKind, Tick>,
}

/// What follows from a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PressureAssessment {
    /// What the node shows.
    pub(crate) pressures: BTreeSet<PressureKind>,
    /// What has to be had back first, if anything has.
    pub(crate) reclaim: Option<Reclaim>,
}

/// A threshold that pods are evicted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reclaim {
    pub(crate) signal: EvictionSignal,
    pub(crate) kind: ThresholdKind,
    /// What there should be.
    pub(crate) wanted: u64,
    /// What there is.
    pub(crate) available: u64,
}

/// Whether the minimum reclaim counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReclaimBar {
    Threshold,
    WithMinimumReclaim,
}

impl ThresholdWatch {
    /// Takes a look in.
    pub(crate) fn judge(
        &mut self,
        policy: &EvictionPolicy,
        now: Tick,
        seen: &Observations,
    ) -> PressureAssessment {
        let thresholds = || policy.thresholds.iter().enumerate();
        let met: BTreeSet<usize> = thresholds()
            .filter(|(place, threshold)| {
                let unresolved = self.unresolved.contains(place);
                is_met(threshold, seen, ReclaimBar::Threshold)
                    || (unresolved && is_met(threshold, seen, ReclaimBar::WithMinimumReclaim))
            })
            .map(|(place, _)| place)
            .collect();
        self.met_since.retain(|place, _| met.contains(place));
        for place in &met {
            self.met_since.entry(*place).or_insert(now);
            if let Some(threshold) = policy.thresholds.get(*place) {
                self.pressure_seen.insert(threshold.signal.pressure(), now);
            }
        }
        self.pressure_seen
            .retain(|_, last| *last == now || now.since(*last) < policy.transition_period);
        self.unresolved = met
            .into_iter()
            .filter(|place| {
                let since = self.met_since.get(place).copied().unwrap_or(now);
                match policy.thresholds.get(*place).map(|threshold| threshold.kind) {
                    Some(ThresholdKind::Hard) => true,
                    Some(ThresholdKind::Soft { grace }) => now.since(since) >= grace,
                    None => false,
                }
            })
            .collect();
        PressureAssessment {
            pressures: self.pressure_seen.keys().copied().collect(),
            reclaim: self.most_urgent(policy, seen),
        }
    }

    /// Memory before all else, as upstream; hard thresholds stand before soft ones.
    fn most_urgent(&self, policy: &EvictionPolicy, seen: &Observations) -> Option<Reclaim> {
        let due = self.unresolved.iter().filter_map(|place| policy.thresholds.get(*place));
        let threshold = due.min_by_key(|threshold| threshold.signal.pressure())?;
        let observed = seen.by_signal.get(&threshold.signal)?;
        Some(Reclaim {
            signal: threshold.signal,
            kind: threshold.kind,
            wanted: threshold.amount.of(observed.capacity),
            available: observed.available,
        })
    }
}

/// Whether anything is still short, after the node gave up what it could do without: minimum
/// reclaim included, and soft thresholds, too [kubelet `reclaimNodeLevelResources`].
pub(crate) fn is_short(policy: &EvictionPolicy, seen: &Observations) -> bool {
    policy
        .thresholds
        .iter()
        .any(|threshold| is_met(threshold, seen, ReclaimBar::WithMinimumReclaim))
}

fn is_met(threshold: &Threshold, seen: &Observations, bar: ReclaimBar) -> bool {
    match (threshold.place, seen.image_fs) {
        (ThresholdScope::DedicatedImageFs, ImageFs::Shared) => return false,
        (ThresholdScope::DedicatedImageFs, ImageFs::Dedicated)
        | (ThresholdScope::Everywhere, _) => {}
    }
    let Some(observed) = seen.by_signal.get(&threshold.signal) else { return false };
    let wanted = threshold.amount.of(observed.capacity);
    let wanted = match bar {
        ReclaimBar::Threshold => wanted,
        ReclaimBar::WithMinimumReclaim => {
            wanted.saturating_add(threshold.min_reclaim.of(observed.capacity))
        }
    };
    observed.available < wanted
}
