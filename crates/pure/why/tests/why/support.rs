//! Pods, events and ledgers to tell of.
#![allow(unreachable_pub, reason = "a module of a test")]

use k8s_openapi::api::core::v1::{Event, Pod};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::RestartLedger;
use rekindle_why::PodEvidence;
use serde_json::{Value, json};

/// 2026-11-21 12:00:00 UTC.
pub const NOW: Tick = Tick::from_secs(1_795_262_400);

/// A pod `web` with one container `app` in this state, placed twenty days ago.
pub fn pod(container: Value) -> Value {
    let mut status = json!({"name": "app", "image": "shop:v1", "imageID": "", "ready": false, "restartCount": 0});
    status.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let ready = if status["ready"] == true { "True" } else { "False" };
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "app", "image": "shop:v1",
            "resources": {"limits": {"memory": "64Mi"}}, "livenessProbe": {"failureThreshold": 3}}]},
        "status": {
            "phase": "Running", "startTime": "2026-11-01T12:00:00Z",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T12:00:00Z"},
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-01T12:00:00Z"}
            ],
            "containerStatuses": [status]
        }
    })
}

pub fn crashed(restarts: u32, exit: Value) -> Value {
    let mut end = json!({"exitCode": 1, "reason": "Error", "startedAt": "2026-11-21T11:57:58Z", "finishedAt": "2026-11-21T11:58:00Z"});
    end.as_object_mut().unwrap().extend(exit.as_object().unwrap().clone());
    pod(json!({
        "restartCount": restarts, "lastState": {"terminated": end},
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app pod=web_shop(u)"}}
    }))
}

pub fn event(reason: &str, container: Option<&str>, message: &str, count: u32) -> Value {
    let field_path = container.map(|name| format!("spec.containers{{{name}}}"));
    json!({
        "metadata": {"name": "web.1"}, "involvedObject": {"name": "web", "fieldPath": field_path},
        "reason": reason, "message": message, "count": count,
        "firstTimestamp": "2026-11-21T11:00:00Z", "lastTimestamp": "2026-11-21T11:57:59Z"
    })
}

pub fn evidence(pod: Value, events: Vec<Value>) -> PodEvidence {
    PodEvidence {
        pod: serde_json::from_value::<Pod>(pod).unwrap(),
        events: events.into_iter().map(|e| serde_json::from_value::<Event>(e).unwrap()).collect(),
        ..PodEvidence::default()
    }
}

pub fn ledger(status: Value) -> RestartLedger {
    serde_json::from_value(json!({
        "metadata": {"name": "web"}, "status": status,
        "spec": {"ladderName": "web", "podName": "web", "podUID": "u"}
    }))
    .unwrap()
}
