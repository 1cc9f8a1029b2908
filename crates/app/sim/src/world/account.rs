//! What there is to tell of a run.

use std::collections::BTreeMap;

use rekindle_controllers::{NamespacedName, ResourceKind, ViewObject};
use rekindle_types::pods::is_ready;
use rekindle_types::v1alpha1::Rung;

use super::World;
use crate::pace::RuntimePace;
use crate::server::RequestFigures;
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::written::WriteCounts;

impl World {
    /// How many things came up by themselves so far: what a run costs.
    pub const fn happened(&self) -> u64 {
        self.happened
    }

    /// How many times containers were started again.
    pub fn restarts(&self) -> u64 {
        self.restarts_total
    }

    /// The same by pod and its UID.
    pub const fn restarts_by_pod(&self) -> &BTreeMap<(NamespacedName, String), u64> {
        &self.restarts
    }

    /// How many PodRestarts there were of each rung, by what became of them: a phase, or Pending.
    pub fn rungs(&self) -> BTreeMap<Rung, BTreeMap<String, u64>> {
        let mut counted: BTreeMap<Rung, BTreeMap<String, u64>> = BTreeMap::new();
        for (rung, phase) in self.rungs.values() {
            let phase = phase.map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"));
            *counted.entry(*rung).or_default().entry(phase).or_default() += 1;
        }
        counted
    }

    /// Behaviours that chose no start of a container, by their numbers.
    pub fn unused_behaviours(&self) -> Vec<usize> {
        (0..self.behaviours.all.len())
            .filter(|index| !self.behaviours_used.contains(index))
            .collect()
    }

    /// Behaviours that say when containers are ready, and chose none that has a readiness probe, by
    /// their numbers.
    pub fn unseen_readiness(&self) -> Vec<usize> {
        let used = self.behaviours_used.difference(&self.behaviours_probed).copied();
        used.filter(|index| self.behaviours.all[*index].concerns_readiness()).collect()
    }

    /// Ladders that selected no pod so far.
    pub fn idle_ladders(&self) -> Vec<String> {
        self.selected.idle()
    }

    /// What happened when.
    pub const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// From now on writes are counted by object.
    pub(crate) fn count_by_object(&self) {
        self.server.count_by_object();
    }

    /// What was written to each object since then.
    pub(crate) fn written(&self) -> WriteCounts {
        self.server.written()
    }

    /// How long the runtime took.
    pub(crate) const fn pace(&self) -> &RuntimePace {
        &self.faults.pace
    }

    /// What was asked of the API.
    pub fn figures(&self) -> RequestFigures {
        self.server.figures()
    }

    /// What happened.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The first promise that did not hold.
    pub fn broken_promise(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// All pods, and those of them that are Ready.
    pub fn readiness(&self) -> (usize, usize) {
        let pods = self.planner.view().of_kind(ResourceKind::Pod).map(|(_, object)| object);
        pods.fold((0, 0), |(all, ready), object| match object {
            ViewObject::Pod(pod) => (all + 1, ready + usize::from(is_ready(pod))),
            _ => (all, ready),
        })
    }
}
