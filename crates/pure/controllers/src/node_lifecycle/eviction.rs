//! Taints with effect NoExecute end the pods that do not tolerate them, or no longer.
//!
//! ```text
//!  not tolerated ────────────────────────────► deleted now
//!  tolerated, tolerationSeconds: n ──────────► deleted n s after the taint came, or after the pod came to the node
//!  tolerated without a limit ────────────────► stays
//!  the taint goes, or a toleration is added ─► looked at anew: what was due is not any more
//! ```
//! Source: Kubernetes documentation, "Taints and Tolerations", "Taint based Evictions"; the
//! condition and the event are those of upstream's taint-eviction-controller. Nothing is remembered
//! here: the times are those of the objects, so that an engine that is started again does not begin
//! to count anew. Disruption budgets do not hold, as upstream.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration, taints};
use serde_json::json;

use crate::events::EventNote;
use crate::patches::status_patch;
use crate::plan::{DependentPolicy, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    pods,
};

/// `source.component` of the events.
const NAME: &str = "taint-eviction-controller";

/// How long a pod may stay on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TolerationPeriod {
    /// Not at all, or not any longer than until then.
    Until(Tick),
    /// As long as its taints are what they are.
    Unlimited,
}

pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match (&change.before, &change.after) {
        (before, Some(ViewObject::Node(node))) => {
            let was_same = match before {
                Some(ViewObject::Node(before)) => no_execute(before).eq(no_execute(node)),
                _ => no_execute(node).next().is_none(),
            };
            if !was_same {
                let there = view.pods_on(&change.id.name.name);
                keys.extend(there.map(|pod| {
                    ControllerKey::TaintEviction(NamespacedName::from_meta(&pod.metadata))
                }));
            }
        }
        (before, Some(ViewObject::Pod(pod))) => {
            let was_same =
                matches!(before, Some(ViewObject::Pod(before)) if is_placed_alike(before, pod));
            let is_tainted = || node_of(view, pod).is_some_and(|n| no_execute(n).next().is_some());
            if !was_same && is_tainted() {
                keys.insert(ControllerKey::TaintEviction(change.id.name.clone()));
            }
        }
        _ => {}
    }
}

/// What a pod bears may change while it is there.
fn is_placed_alike(before: &HeldPod, after: &HeldPod) -> bool {
    before.node_name == after.node_name && before.has_spec_of(after)
}

pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(pod) = view.pod(name).filter(|pod| !pods::is_terminating(pod)) else { return plan };
    let Some(node) = node_of(view, pod) else { return plan };
    match stay(pod, node) {
        TolerationPeriod::Unlimited => {}
        TolerationPeriod::Until(end) if end > now => plan.look_again(end),
        TolerationPeriod::Until(_) => evict(&ViewObject::Pod(pod.clone()), pod, now, &mut plan),
    }
    plan
}

fn node_of<'a>(view: &'a ClusterView, pod: &HeldPod) -> Option<&'a Node> {
    view.node(pods::node(pod)?).map(std::convert::AsRef::as_ref)
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    taints::node_taints(node).iter().filter(|taint| taint.effect == taints::NO_EXECUTE)
}

/// The shortest stay that the node's taints leave the pod.
fn stay(pod: &HeldPod, node: &Node) -> TolerationPeriod {
    let stays = no_execute(node).map(|taint| stay_under(pod, taint));
    stays.min().unwrap_or(TolerationPeriod::Unlimited)
}

fn stay_under(pod: &HeldPod, taint: &Taint) -> TolerationPeriod {
    // upstream: of several tolerations of one taint the first counts
    let first = taints::tolerations(pod).iter().find(|t| taints::tolerates(t, taint));
    let Some(toleration) = first else { return TolerationPeriod::Until(Tick::ZERO) };
    let Some(seconds) = toleration.toleration_seconds else { return TolerationPeriod::Unlimited };
    let Ok(seconds @ 1..) = u64::try_from(seconds) else {
        return TolerationPeriod::Until(Tick::ZERO);
    };
    match &taint.time_added {
        Some(added) => {
            let since = Tick::from(added).max(came_to_node(pod));
            TolerationPeriod::Until(since + TickDuration::from_secs(seconds))
        }
        // The node's own key is about to write the time; that change brings us here again.
        None => TolerationPeriod::Unlimited,
    }
}

fn came_to_node(pod: &HeldPod) -> Tick {
    let created = || pod.metadata.creation_timestamp.as_ref().map(Tick::from);
    pods::bound_at(pod).or_else(created).unwrap_or(Tick::ZERO)
}

/// Says why in condition DisruptionTarget, then deletes the pod with its own grace.
fn evict(about: &ViewObject, pod: &HeldPod, now: Tick, plan: &mut WritePlan) {
    let id = about.id();
    let message = format!("Marking for deletion Pod {}", id.name);
    plan.notes.push(EventNote::new(
        about,
        EventSeverity::Normal,
        event::TAINT_MANAGER_EVICTION,
        message,
        NAME,
    ));
    let conditions = pods::conditions_with_disruption(
        pod,
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
        now,
    );
    plan.then(status_patch(ResourceKind::Pod, &pod.metadata, json!({"conditions": conditions})));
    plan.then(WriteOperation::delete(about, DependentPolicy::Default));
}
