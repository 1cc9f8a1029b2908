//! What the controllers ask of a pod.

use k8s_openapi::api::core::v1::PodCondition;
use rekindle_types::held::HeldPod;
use rekindle_types::pods::AnyPod;
pub use rekindle_types::pods::{affinity, condition, is_finished, is_ready, phase};
use rekindle_types::{Tick, TickDuration};

/// True when it is being deleted.
pub fn is_terminating(pod: &HeldPod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// True when a ReplicaSet counts it: neither finished nor being deleted.
pub fn is_active(pod: &HeldPod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// The node it is bound to, if any.
pub fn node(pod: &impl AnyPod) -> Option<&str> {
    pod.node_name()
}

/// The node where others end so that it has room, if any.
pub fn nominated_node(pod: &HeldPod) -> Option<&str> {
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    nominated.filter(|node| !node.is_empty())
}

/// Condition type that says why a pod is ended from outside (KEP-3329).
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The pod's conditions with `DisruptionTarget` as it is now: `reason` is the machine's word,
/// `message` the reader's.
pub fn conditions_with_disruption(
    pod: &HeldPod,
    reason: &str,
    message: &str,
    now: Tick,
) -> Vec<PodCondition> {
    let seen = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut conditions: Vec<_> = seen.filter(|c| c.type_ != DISRUPTION_TARGET).cloned().collect();
    conditions.push(PodCondition {
        type_: DISRUPTION_TARGET.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(now.to_time()),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    });
    conditions
}

/// Whether a pod counts as available: ready for at least `minReadySeconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodAvailability {
    /// It does.
    Available,
    /// It is ready, and will count from then on.
    From(Tick),
    /// It is not ready.
    NotReady,
}

/// Whether it counts as available at `now`.
pub fn availability(pod: &HeldPod, min_ready: TickDuration, now: Tick) -> PodAvailability {
    let Some(ready) = condition(pod, "Ready").filter(|c| c.status == "True") else {
        return PodAvailability::NotReady;
    };
    if min_ready == TickDuration::ZERO {
        return PodAvailability::Available;
    }
    let from = ready_since(pod, ready, now) + min_ready;
    if from <= now { PodAvailability::Available } else { PodAvailability::From(from) }
}

/// When it became ready; never later than now. Where its node's clock is ahead of ours, what the
/// pod took to become ready, which is told by that clock alone, is counted from its binding, which
/// is told by ours.
fn ready_since(pod: &HeldPod, ready: &PodCondition, now: Tick) -> Tick {
    let said = ready.last_transition_time.as_ref().map_or(now, Tick::from);
    if said <= now {
        return said;
    }
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    match (bound_at(pod), started) {
        (Some(bound), Some(started)) => (bound + said.since(Tick::from(started))).min(now),
        (Some(_) | None, _) => now,
    }
}

/// When it was bound to its node, as the API says.
pub(crate) fn bound_at(pod: &HeldPod) -> Option<Tick> {
    condition(pod, "PodScheduled")
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(Tick::from)
}

/// The highest restart count of its containers.
pub fn restarts(pod: &HeldPod) -> i32 {
    pod.status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
        .map(|container| container.restart_count)
        .max()
        .unwrap_or(0)
}

/// True when its place depends on other pods.
pub(crate) fn looks_at_others(pod: &HeldPod) -> bool {
    has_affinity_to_pods(pod) || has_spread_constraints(pod)
}

/// True when the pod must be near others or away from them.
pub(crate) fn has_affinity_to_pods(pod: &HeldPod) -> bool {
    affinity(pod).is_some_and(|a| a.pod_affinity.is_some() || a.pod_anti_affinity.is_some())
}

/// True when the pod asks to be spread.
fn has_spread_constraints(pod: &HeldPod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| !spec.topology_spread_constraints.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ready_pod_counts_as_available_after_its_time_whatever_the_clock_of_its_node() {
        // (when it was bound by our clock; started and ready by the node's; from when on it is
        // available at 100 s, with 30 s)
        let at = |seconds: u64| Tick::from_secs(seconds).to_time();
        for (bound, started, ready, expected) in [
            (Some(50), Some(50), 60, None),
            (Some(50), Some(50), 80, Some(110)),
            (None, None, 80, Some(110)),
            // an hour ahead: it took 10 s, and 40 s
            (Some(50), Some(3650), 3660, None),
            (Some(50), Some(3650), 3690, Some(120)),
            // by what it says it would not even be ready yet
            (Some(90), Some(3650), 3690, Some(130)),
            (None, Some(3650), 3690, Some(130)),
            (Some(50), None, 3690, Some(130)),
        ] {
            let scheduled = bound.map(|bound| json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}));
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(ready)});
            let conditions: Vec<_> = scheduled.into_iter().chain([ready.clone()]).collect();
            let status = json!({"startTime": started.map(at), "conditions": conditions});
            let pod: HeldPod =
                serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
            let expected = expected.map_or(PodAvailability::Available, |secs| {
                PodAvailability::From(Tick::from_secs(secs))
            });
            let found = availability(&pod, TickDuration::from_secs(30), Tick::from_secs(100));
            assert_eq!(found, expected, "{bound:?} {started:?} {ready}");
        }
    }
}
