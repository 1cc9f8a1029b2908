//! What was written to each object, to be compared with a run in which nothing went wrong.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::Tick;

/// Statuses of pods that an agent may write more for having died: of what each of its pods wrote
/// last it cannot know that it was written.
const STATUSES_PER_DEATH: u64 = 20;
/// Writes to any other object that it may bring about for that.
const OTHERS_PER_DEATH: u64 = 5;

/// Writes by object, Events aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Statuses of pods.
    pod_statuses: u64,
    /// The moments in which some were written.
    moments: BTreeSet<Tick>,
    /// All else, by the path that was asked for; of what is created that is the path of its kind.
    others: BTreeMap<String, u64>,
}

impl WriteCounts {
    pub(crate) fn note(&mut self, path: &str, now: Tick) {
        if path.contains("/pods/") && path.ends_with("/status") {
            self.pod_statuses += 1;
            self.moments.insert(now);
        } else {
            *self.others.entry(path.to_owned()).or_default() += 1;
        }
    }

    /// What was written more than so many agents that died explain. Pods that do the same in the
    /// same moment are answered with one write to each of what follows from them (a ReplicaSet, a
    /// budget, the endpoints of a Service); an agent that dies moves some of them by milliseconds,
    /// and then it takes one for each moment. So an object may be written once more for each moment
    /// more in which statuses of pods were written, and not more often.
    pub(crate) fn excess_over(&self, plain: &Self, deaths: u64) -> Option<String> {
        let allowed = plain.pod_statuses + STATUSES_PER_DEATH * deaths;
        if self.pod_statuses > allowed {
            return Some(format!(
                "agents that die write {} statuses of pods, and {} are written without it",
                self.pod_statuses, plain.pod_statuses
            ));
        }
        let moments = self.moments.len().saturating_sub(plain.moments.len());
        let more =
            u64::try_from(moments).unwrap_or(u64::MAX).saturating_add(OTHERS_PER_DEATH * deaths);
        self.others.iter().find_map(|(path, count)| {
            let without = plain.others.get(path).copied().unwrap_or(0);
            (*count > without + more).then(|| {
                format!(
                    "agents that die make {count} writes to {path}, and {without} are made without it, \
                     with {moments} moments fewer in which pods changed"
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-x";

    /// The statuses of so many pods are written at each of these moments, and then the slice of
    /// their Service so often.
    fn written(pods: u64, moments: &[u64], slices: u64) -> WriteCounts {
        let mut written = WriteCounts::default();
        for at in moments {
            for pod in 0..pods {
                let path = format!("/api/v1/namespaces/default/pods/web-{pod}/status");
                written.note(&path, Tick::from_secs(*at));
            }
        }
        (0..slices).for_each(|_| written.note(SLICE, Tick::from_secs(0)));
        written
    }

    #[test]
    fn what_follows_from_pods_may_be_written_once_for_each_moment_in_which_they_change() {
        // two pods in lockstep, and one after the other
        let together = written(2, &[0, 20, 40, 60, 80, 100, 120, 140], 8);
        let apart =
            written(1, &[0, 1, 20, 21, 40, 41, 60, 61, 80, 81, 100, 101, 120, 121, 140, 141], 16);
        assert_eq!(apart.excess_over(&together, 1), None);
        let runaway = written(2, &[0, 20, 40, 60, 80, 100, 120, 140], 16);
        assert!(runaway.excess_over(&together, 1).is_some(), "with nothing that explains it");
        assert!(apart.excess_over(&apart, 0).is_none());
    }

    #[test]
    fn statuses_that_are_written_again_and_again_are_no_explanation() {
        let plain = written(1, &[0], 1);
        let moments: Vec<u64> = (0..22).collect();
        assert!(written(1, &moments, 1).excess_over(&plain, 1).is_some());
        assert_eq!(written(1, &moments[..21], 1).excess_over(&plain, 1), None);
    }
}
