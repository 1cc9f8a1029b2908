//! Pods of a node that is not heard of any more are not ready: nobody knows whether they serve.
//! They run on, and when the node is back its agent says how they are.
//!
//! Source: upstream's node lifecycle controller, `MarkPodsNotReady`, with its event.

use k8s_openapi::api::core::v1::PodCondition;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick};
use serde_json::json;

use crate::events::EventNote;
use crate::patches::status_patch;
use crate::plan::PlannedWrite;
use crate::{ClusterView, ResourceKind, ViewObject, WritePlan, pods};

/// `source.component` of the events.
const NAME: &str = "node-controller";

/// Makes every pod of the node that is ready not ready.
pub(super) fn mark(view: &ClusterView, node: &str, now: Tick, plan: &mut WritePlan) {
    let mut steps = Vec::new();
    for pod in view.pods_on(node).filter(pods::is_ready) {
        let about = ViewObject::Pod(pod.clone());
        let message = "Node is not ready".to_owned();
        plan.notes.push(EventNote::new(
            &about,
            EventSeverity::Warning,
            event::NODE_NOT_READY,
            message,
            NAME,
        ));
        let status = json!({"conditions": conditions(pod, now)});
        steps.push(PlannedWrite::from(status_patch(ResourceKind::Pod, &pod.metadata, status)));
    }
    if !steps.is_empty() {
        plan.then_all(steps);
    }
}

fn conditions(pod: &HeldPod, now: Tick) -> Vec<PodCondition> {
    let mut conditions: Vec<PodCondition> =
        pod.status.iter().flat_map(|s| s.conditions.iter().flatten()).cloned().collect();
    for ready in conditions.iter_mut().filter(|condition| condition.type_ == "Ready") {
        ready.status = "False".to_owned();
        ready.last_transition_time = Some(now.to_time());
    }
    conditions
}
