//! What taints do to pods: none is ended earlier than it tolerates (P5), or much later (P2), and
//! none takes the place of another that still runs (P1).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use rekindle_controllers::plan::{DeleteGrace, DeleteWrite};
use rekindle_controllers::{
    ControllerKey, NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation,
};
use rekindle_reconcile::WorkItem;
use rekindle_types::pods::AnyPod;
use rekindle_types::{Tick, TickDuration, taints};

use super::World;
use super::budgets::CheckCoverage;
use super::faults::WatchDelivery;
use crate::known_bugs::KnownBug;

/// The time in a taint has whole seconds, and what was decided in the moment in which a taint went
/// may still be done.
const LEEWAY: TickDuration = TickDuration::from_secs(1);
/// After this a pod that has to go has been deleted, whatever writes were lost.
const OVERDUE: TickDuration = TickDuration::from_secs(120);

/// Since when nodes have the taints that end pods, as the API has shown them.
#[derive(Debug, Default)]
pub(super) struct EvictionTaintHistory {
    by_node: BTreeMap<String, EvictionTaints>,
    /// Until when the controllers could not do what they wanted.
    disturbed: Tick,
}

#[derive(Debug, Default)]
struct EvictionTaints {
    since: BTreeMap<String, Tick>,
    /// When one of them went.
    lifted: Tick,
}

impl EvictionTaintHistory {
    /// A Node is there, or there in another version.
    pub(super) fn note(&mut self, now: Tick, node: &Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let sentence = self.by_node.entry(name).or_default();
        let keys: Vec<&str> = no_execute(node).map(|taint| taint.key.as_str()).collect();
        let before = sentence.since.len();
        sentence.since.retain(|key, _| keys.contains(&key.as_str()));
        if sentence.since.len() < before {
            sentence.lifted = now;
        }
        for key in keys {
            sentence.since.entry(key.to_owned()).or_insert(now);
        }
    }
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    taints::node_taints(node).iter().filter(|taint| taint.effect == taints::NO_EXECUTE)
}

impl World {
    /// A pod was deleted for a taint. The pod is as it was before. One who hears nothing, or whose
    /// clock was set, cannot know better.
    pub(super) fn check_taint_eviction(&mut self, pod: &Pod) {
        if !matches!(self.hearing, WatchDelivery::Well) || !self.clocks.are_right() {
            return;
        }
        let node = AnyPod::node_name(pod);
        let node = node.unwrap_or_default();
        let id = ObjectId::new(ResourceKind::Node, NamespacedName::new("", node));
        if let Some(ViewObject::Node(found)) = self.server.get(&id) {
            // a taint that went in this very moment is not shown yet
            self.sentences.note(self.now, &found);
        }
        let was_lifted = self.sentences.by_node.get(node).map(|sentence| sentence.lifted);
        let was_lifted = was_lifted.is_none_or(|lifted| lifted + LEEWAY >= self.now);
        let is_due = self.end_of_stay(pod, node).is_some_and(|end| end <= self.now + LEEWAY);
        if !is_due && !was_lifted {
            let name = super::name_of(pod);
            self.breaks(&format!(
                "P5: Pod {name} was ended for the taints of {node}, and tolerates them still"
            ));
        }
    }

    /// A node that was lost is about to be back, and these pods are there. Those whose time was
    /// over have been deleted, if somebody could.
    pub(super) fn check_overdue(&mut self, node: &str, there: &[Arc<Pod>]) {
        let is_deaf = !matches!(self.hearing, WatchDelivery::Well);
        let disturbed = self.sentences.disturbed.max(self.full_until);
        if is_deaf || disturbed + OVERDUE > self.now || !self.clocks.are_right() {
            return;
        }
        let overdue = there.iter().find(|pod| {
            pod.metadata.deletion_timestamp.is_none()
                && self.end_of_stay(pod, node).is_some_and(|end| end + OVERDUE < self.now)
        });
        if let Some(pod) = overdue {
            let name = super::name_of(pod);
            self.breaks(&format!(
                "P2: Pod {name} bears the taints of {node} no longer, and is there"
            ));
        }
    }

    /// The controllers could not do what they wanted until now.
    pub(super) fn note_disturbance(&mut self) {
        self.sentences.disturbed = self.now;
    }

    /// When a pod has to go for the taints that its node has; none when it may stay.
    fn end_of_stay(&self, pod: &Pod, node: &str) -> Option<Tick> {
        let id = ObjectId::new(ResourceKind::Node, NamespacedName::new("", node));
        let Some(ViewObject::Node(found)) = self.server.get(&id) else { return None };
        let sentence = self.sentences.by_node.get(node)?;
        let came = pod.metadata.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from);
        let ends = no_execute(&found).filter_map(|taint| {
            let since = sentence.since.get(&taint.key).copied().unwrap_or(self.now).max(came);
            let tolerated = taints::tolerations(pod).iter().find(|t| taints::tolerates(t, taint));
            let Some(toleration) = tolerated else { return Some(since) };
            toleration.toleration_seconds.map(|seconds| since + TickDuration::of_field(seconds))
        });
        ends.min()
    }

    /// A pod has gone a step. No other of its name runs but the newest, and those that somebody
    /// gave up with their nodes.
    pub(super) fn check_names(&mut self, uid: &str) {
        if self.watched == CheckCoverage::Nothing {
            return;
        }
        let Some(pod) = self.pods.get(uid).filter(|pod| pod.running().next().is_some()) else {
            return;
        };
        let name = super::name_of(&pod.pod);
        let newest = self.pods_by_name.get(&name);
        let of_name = self.pods.iter().filter(|(_, other)| {
            other.pod.metadata.name == pod.pod.metadata.name && super::name_of(&other.pod) == name
        });
        let running = of_name.filter(|(_, other)| other.running().next().is_some());
        let running: Vec<&String> = running.map(|(uid, _)| uid).collect();
        let is_wrong = |uid: &&&String| newest != Some(**uid) && !self.keepers.gave_up(uid);
        let found = running.iter().find(is_wrong).filter(|_| running.len() > 1);
        let node = found.map(|uid| self.pods[*uid].node.clone());
        if let Some(node) = node {
            self.breaks(&format!(
                "P1: Pod {name} runs again, and the one before still does on {node}"
            ));
        }
    }

    /// What is written instead, when the bug is switched on that forces what taints end.
    pub(super) fn forced(&self, work: &WorkItem, write: &WriteOperation) -> Option<WriteOperation> {
        let is_on = self.faults.bug == Some(KnownBug::EvictionForced);
        match (work, write) {
            (
                WorkItem::Controller(ControllerKey::TaintEviction(_)),
                WriteOperation::Delete(delete),
            ) if is_on => Some(WriteOperation::Delete(DeleteWrite {
                grace: DeleteGrace::Now,
                ..delete.clone()
            })),
            _ => None,
        }
    }
}

/// The pod that this write deletes for a taint.
pub(super) fn ended_by_taint<'a>(
    work: &WorkItem,
    write: &'a WriteOperation,
) -> Option<&'a ObjectId> {
    match (work, write) {
        (WorkItem::Controller(ControllerKey::TaintEviction(_)), WriteOperation::Delete(delete)) => {
            Some(&delete.id)
        }
        _ => None,
    }
}
