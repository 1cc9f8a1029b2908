//! What the controller remembers of each autoscaler: what it recommended lately, for the
//! stabilisation windows, and by how much it scaled, for the policies. A new leader begins anew, as
//! upstream's controller does after a restart.

use std::collections::BTreeMap;

use rekindle_types::{Tick, TickDuration};

use crate::ViewObject;

/// Nothing is remembered for longer: the longest stabilisation window, which is longer than the
/// longest period of a policy.
const KEPT: TickDuration = TickDuration::from_secs(3_600);
/// Of one autoscaler no more is remembered: four times what a reading every 15 s makes in an hour.
const ENTRIES_MAX: usize = 960;

/// What one look at an autoscaler recommended, before stabilisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRecommendation {
    /// The UID of the autoscaler.
    pub autoscaler: String,
    /// The replicas that the target had.
    pub current: i32,
    /// The replicas that the metrics ask for.
    pub recommended: i32,
    /// When.
    pub at: Tick,
}

/// Of one autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScalingHistory {
    /// Recommendations, oldest first.
    pub(super) recommendations: Vec<(Tick, i32)>,
    /// By how many replicas it scaled, oldest first; negative for down.
    pub(super) changes: Vec<(Tick, i32)>,
}

impl ScalingHistory {
    /// Notes a recommendation. Before the first one stands what the target had: a controller that
    /// has just started must not scale down at once.
    pub(super) fn recommend(&mut self, current: i32, recommended: i32, at: Tick) {
        if self.recommendations.is_empty() {
            self.recommendations.push((at, current));
        }
        add(&mut self.recommendations, (at, recommended));
    }

    /// When it last scaled, as far as that is remembered.
    pub(crate) fn last_change(&self) -> Option<Tick> {
        self.changes.last().map(|(at, _)| *at)
    }
}

/// Adds an entry, and drops what is too old or too much.
fn add(entries: &mut Vec<(Tick, i32)>, entry: (Tick, i32)) {
    entries.retain(|(at, _)| entry.0.since(*at) <= KEPT);
    if entries.len() >= ENTRIES_MAX {
        entries.remove(0);
    }
    entries.push(entry);
}

/// Of all autoscalers, by UID.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScalingHistories(BTreeMap<String, ScalingHistory>);

impl ScalingHistories {
    /// An object came, changed or went. Nothing is remembered of an autoscaler that is gone.
    pub(crate) fn follow(&mut self, before: Option<&ViewObject>, after: Option<&ViewObject>) {
        if let Some(before @ ViewObject::HorizontalPodAutoscaler(_)) = before
            && after.is_none_or(|after| after.uid() != before.uid())
        {
            self.0.remove(before.uid());
        }
    }

    /// What is remembered of one.
    pub(crate) fn get(&self, uid: &str) -> ScalingHistory {
        self.0.get(uid).cloned().unwrap_or_default()
    }

    /// Notes a recommendation.
    pub(crate) fn recommend(&mut self, of: &ReplicaRecommendation) {
        let history = self.0.entry(of.autoscaler.clone()).or_default();
        history.recommend(of.current, of.recommended, of.at);
    }

    /// The target was scaled by so many.
    pub(crate) fn scaled(&mut self, autoscaler: &str, change: i32, at: Tick) {
        let history = self.0.entry(autoscaler.to_owned()).or_default();
        add(&mut history.changes, (at, change));
    }
}
