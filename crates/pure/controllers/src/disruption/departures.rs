//! When pods were made and asked to go: of which pod an eviction was.
//!
//! A budget's status names evicted pods, and names come again. A pod that is not in the view has
//! gone, or the view does not show it yet; so those that went lately are remembered.

use std::collections::{BTreeMap, VecDeque};

use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};

use super::disrupted::DELETION_TIMEOUT;
use crate::{NamespacedName, ViewObject};

/// How many pods are remembered. Of those before them an eviction is remembered for its two
/// minutes.
const REMEMBERED_MAX: usize = 10_000;

/// The life of a pod, as far as evictions need it. Its times are those of the API, in whole
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodLife {
    made: Tick,
    asked_to_go: Option<Tick>,
}

impl PodLife {
    pub(super) fn of(pod: &HeldPod) -> Self {
        let meta = &pod.metadata;
        let grace = meta.deletion_grace_period_seconds.unwrap_or_default();
        let grace = TickDuration::of_field(grace);
        Self {
            made: meta.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from),
            asked_to_go: meta.deletion_timestamp.as_ref().map(|end| Tick::from(end) - grace),
        }
    }

    /// Whether an eviction at this time was of this pod or a later one of its name, and it does not
    /// show yet.
    pub(super) fn has_yet_to_go(self, evicted_at: Tick) -> bool {
        self.made <= evicted_at && self.asked_to_go.is_none_or(|at| at < evicted_at)
    }
}

/// The pods that left the view in the last two minutes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodDepartures {
    /// Oldest first, with the time at which the view saw it.
    in_order: VecDeque<(Tick, NamespacedName)>,
    /// The last pod of each name.
    last: BTreeMap<NamespacedName, (Tick, PodLife)>,
}

impl PodDepartures {
    /// Looks at a change of the view.
    pub(crate) fn follow(
        &mut self,
        before: Option<&ViewObject>,
        after: Option<&ViewObject>,
        now: Tick,
    ) {
        let (Some(ViewObject::Pod(pod)), None) = (before, after) else { return };
        let is_old = |(at, _): &(Tick, NamespacedName)| *at + DELETION_TIMEOUT < now;
        while self.in_order.len() >= REMEMBERED_MAX || self.in_order.front().is_some_and(is_old) {
            let Some((at, name)) = self.in_order.pop_front() else { break };
            if self.last.get(&name).is_some_and(|(last, _)| *last == at) {
                self.last.remove(&name);
            }
        }
        let name = NamespacedName::from_meta(&pod.metadata);
        let mut life = PodLife::of(pod);
        // one without a grace period goes at once
        life.asked_to_go.get_or_insert(now);
        self.in_order.push_back((now, name.clone()));
        self.last.insert(name, (now, life));
    }

    /// The last pod of this name.
    pub(super) fn last(&self, name: &NamespacedName) -> Option<PodLife> {
        self.last.get(name).map(|(_, life)| *life)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(made: u64, ends: Option<u64>) -> HeldPod {
        let time = |seconds: u64| json!(Tick::from_secs(seconds).to_time());
        let mut meta =
            json!({"name": "web-0", "namespace": "shop", "creationTimestamp": time(made)});
        if let Some(ends) = ends {
            meta["deletionTimestamp"] = time(ends);
            meta["deletionGracePeriodSeconds"] = json!(30);
        }
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    #[test]
    fn an_eviction_is_of_the_pod_that_was_there_at_its_time() {
        let at = Tick::from_secs(1_000);
        for (made, ends, expected, why) in [
            (900, None, true, "it was not seen to go"),
            (1_000, None, true, "within one second either may be meant"),
            (1_001, None, false, "it is a later pod of that name"),
            (900, Some(1_030), false, "it was seen to go with its eviction"),
            (900, Some(1_090), false, "it was deleted after its eviction"),
            (900, Some(1_020), true, "it had gone before, and a later pod was evicted"),
        ] {
            assert_eq!(PodLife::of(&pod(made, ends)).has_yet_to_go(at), expected, "{why}");
        }
    }

    #[test]
    fn pods_that_went_are_remembered_for_two_minutes_by_their_last_life() {
        let mut departures = PodDepartures::default();
        let mut go = |at: u64, gone: HeldPod| {
            departures.follow(Some(&gone.into()), None, Tick::from_secs(at));
            let name = NamespacedName::new("shop", "web-0");
            departures.last(&name).map(|life| life.has_yet_to_go(Tick::from_secs(1_000)))
        };
        assert_eq!(go(990, pod(900, Some(1_010))), Some(true));
        assert_eq!(go(1_005, pod(995, None)), Some(false), "it had no grace period");
        let mut other = pod(900, None);
        other.metadata.name = Some("web-1".to_owned());
        assert_eq!(go(1_115, other.clone()), Some(false), "the earlier life is forgotten alone");
        assert_eq!(go(1_126, other), None);
    }
}
