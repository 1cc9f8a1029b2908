//! Condition DisruptionTarget of a pod that was to go and did not: after two minutes it is taken
//! back.
//!
//! Whoever sets the condition deletes the pod next; when that did not happen (it died, or was
//! refused), the condition would say for ever that the pod is going. One that the node set stays:
//! it may take any time (upstream's `nonTerminatingPodHasStaleDisruptionCondition`).

use std::collections::BTreeSet;

use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use crate::patches::status_patch;
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    pods,
};

const CONDITION: &str = "DisruptionTarget";
/// The reason of a condition that the node sets.
const BY_THE_NODE: &str = "TerminationByKubelet";
/// How long the condition may stand on a pod that nobody deletes (upstream's
/// `stalePodDisruptionTimeout`).
const STALE_AFTER: TickDuration = TickDuration::from_secs(2 * 60);

/// The pods whose condition may have to be taken back.
pub(crate) fn affected(change: &ObjectChange, keys: &mut BTreeSet<ControllerKey>) {
    if let Some(ViewObject::Pod(pod)) = &change.after
        && stale_at(pod).is_some()
    {
        keys.insert(ControllerKey::StaleDisruption(change.id.name.clone()));
    }
}

/// Takes the condition back when it is old.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(pod) = view.pod(name) else { return plan };
    let Some(at) = stale_at(pod) else { return plan };
    if at > now {
        plan.look_again(at);
        return plan;
    }
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone());
    let all = conditions.iter_mut().flatten();
    for condition in all.filter(|condition| condition.type_ == CONDITION) {
        condition.status = "False".to_owned();
        condition.reason = None;
        condition.message = None;
        condition.last_transition_time = Some(now.to_time());
    }
    plan.then(status_patch(ResourceKind::Pod, &pod.metadata, json!({"conditions": conditions})));
    plan
}

/// When the condition of a pod that nobody deletes is stale; none when it has none, or may keep it.
fn stale_at(pod: &HeldPod) -> Option<Tick> {
    if pods::is_terminating(pod) || pods::is_finished(pod) {
        return None;
    }
    let condition = pods::condition(pod, CONDITION).filter(|condition| {
        condition.status == "True" && condition.reason.as_deref() != Some(BY_THE_NODE)
    })?;
    let since = condition.last_transition_time.as_ref().map_or(Tick::ZERO, Tick::from);
    Some(since + STALE_AFTER)
}
