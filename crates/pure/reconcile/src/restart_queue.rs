//! Serializes the decisions to restart a pod within a namespace: the next one starts when the view
//! shows the one before. Without this, two pods that fail together would both find the same room
//! in their ladder's budget. The same holds for two requests that were held back.
//!
//! Namespaces do not wait for each other. A decision that is being written takes room from the
//! cluster's bucket ([`RestartQueue::granted`]).

use std::collections::{BTreeMap, BTreeSet};

use rekindle_controllers::{NewObject, ViewObject, WriteOperation, WritePlan};
use rekindle_ladder::PendingDecision;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, ReplacementStep};

use crate::work::WorkItem;

/// The decision under way of each namespace.
#[derive(Debug, Default)]
pub(crate) struct RestartQueue {
    taken: BTreeMap<String, QueuedDecision>,
}

/// A decision that is being written.
#[derive(Debug)]
struct QueuedDecision {
    work: WorkItem,
    /// The pod that is restarted.
    pod_name: String,
    /// When it was decided.
    at: Tick,
    /// Those that decide anew when it is over.
    waiting: BTreeSet<WorkItem>,
}

/// Whether a plan may be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanPermission {
    /// It may.
    Given,
    /// Not now: its work is handed back when the turn of another is over.
    Waits,
}

impl RestartQueue {
    /// Asks for a turn, if the plan needs one.
    pub(crate) fn ask(&mut self, work: &WorkItem, plan: &WritePlan, now: Tick) -> PlanPermission {
        let Some(restart) = restart_of(plan) else { return PlanPermission::Given };
        let namespace = work.object().name.namespace;
        let turn = self.taken.entry(namespace).or_insert_with(|| QueuedDecision {
            work: work.clone(),
            pod_name: restart.subject().to_owned(),
            at: now,
            waiting: BTreeSet::new(),
        });
        if turn.work == *work {
            turn.at = now;
            return PlanPermission::Given;
        }
        turn.waiting.insert(work.clone());
        PlanPermission::Waits
    }

    /// The decisions that are being written.
    pub(crate) fn granted(&self) -> Vec<PendingDecision> {
        let granted = self.taken.iter().map(|(namespace, turn)| PendingDecision {
            namespace: namespace.clone(),
            pod_name: turn.pod_name.clone(),
            at: turn.at,
        });
        granted.collect()
    }

    /// The plan of a work is over, and the view shows what it wrote. Answers those that may decide
    /// now.
    pub(crate) fn over(&mut self, work: &WorkItem) -> BTreeSet<WorkItem> {
        let namespace = work.object().name.namespace;
        match self.taken.get(&namespace) {
            Some(turn) if turn.work == *work => {
                self.taken.remove(&namespace).map(|turn| turn.waiting).unwrap_or_default()
            }
            Some(_) | None => BTreeSet::new(),
        }
    }
}

/// The restart that a plan decides on, or begins the eviction of.
fn restart_of(plan: &WritePlan) -> Option<&PodRestart> {
    plan.writes().find_map(|write| match write {
        WriteOperation::Create(NewObject::Object(ViewObject::PodRestart(restart))) => {
            Some(restart.as_ref())
        }
        WriteOperation::UpdateStatus(ViewObject::PodRestart(restart))
            if begins_eviction(restart) =>
        {
            Some(restart.as_ref())
        }
        WriteOperation::Create(_)
        | WriteOperation::TryCreate(_)
        | WriteOperation::Update(_)
        | WriteOperation::UpdateStatus(_)
        | WriteOperation::Patch { .. }
        | WriteOperation::Scale(_)
        | WriteOperation::Delete(_)
        | WriteOperation::DeleteAll { .. }
        | WriteOperation::Bind { .. }
        | WriteOperation::Nominate { .. }
        | WriteOperation::Evict(_)
        | WriteOperation::Finalize(_)
        | WriteOperation::CheckAbsent { .. }
        | WriteOperation::CheckEmpty { .. } => None,
    })
}

/// True of the status that is written before a pod is evicted.
fn begins_eviction(restart: &PodRestart) -> bool {
    let Some(status) = &restart.status else { return false };
    let step = status.replacement.as_ref().map(|replacement| replacement.step);
    status.phase == Some(PodRestartPhase::Running) && step == Some(ReplacementStep::Evicting)
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::NamespacedName;

    use super::*;

    const NOW: Tick = Tick::from_secs(7);

    fn climb(namespace: &str, pod: &str) -> WorkItem {
        WorkItem::Climb(NamespacedName::new(namespace, pod))
    }

    fn restart() -> WritePlan {
        let mut plan = WritePlan::default();
        let mut restart = PodRestart::default();
        restart.spec.pod_name = "1".to_owned();
        plan.then(WriteOperation::Create(restart.into()));
        plan
    }

    #[test]
    fn one_decision_of_a_namespace_at_a_time() {
        let mut queue = RestartQueue::default();
        assert_eq!(queue.ask(&climb("a", "1"), &restart(), NOW), PlanPermission::Given);
        assert_eq!(queue.ask(&climb("a", "2"), &restart(), NOW), PlanPermission::Waits);
        assert_eq!(
            queue.ask(&climb("a", "1"), &restart(), NOW),
            PlanPermission::Given,
            "tried again"
        );
        assert_eq!(
            queue.ask(&climb("b", "1"), &restart(), NOW),
            PlanPermission::Given,
            "another namespace"
        );
        assert_eq!(
            queue.ask(&climb("a", "3"), &WritePlan::default(), NOW),
            PlanPermission::Given,
            "no restart"
        );
        let granted = queue.granted();
        let places = granted.iter().map(|g| (g.namespace.as_str(), g.pod_name.as_str(), g.at));
        assert!(places.eq([("a", "1", NOW), ("b", "1", NOW)]), "{granted:?}");
        assert_eq!(queue.over(&climb("a", "2")), BTreeSet::new(), "it had no turn");
        assert_eq!(queue.over(&climb("a", "1")), BTreeSet::from([climb("a", "2")]));
        assert_eq!(queue.ask(&climb("a", "3"), &restart(), NOW), PlanPermission::Given);
    }
}
