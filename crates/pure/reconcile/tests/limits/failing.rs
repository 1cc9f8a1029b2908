//! Pods that fail together.

use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::ViewObject;
use rekindle_types::Tick;
use serde_json::{Value, json};

/// When they fail.
pub(crate) const BEGIN: Tick = Tick::from_secs(1_800_000_000);

/// The object behind a literal.
pub(crate) fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of the kind")
}

/// One of them.
pub(crate) fn failing_pod(namespace: &str, number: usize) -> ViewObject {
    let at = BEGIN.to_time();
    let pod: Pod = typed(json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": namespace, "uid": format!("{namespace}-{number}"),
            "resourceVersion": "1", "labels": {"app": "web"}, "creationTimestamp": at,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]},
        "status": {
            "phase": "Running", "startTime": at,
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at, "startedAt": at}},
            }],
        },
    }));
    ViewObject::from(pod)
}
