//! `/pods` and `/runningpods`: the pods of this node.

use k8s_openapi::api::core::v1::Pod;
use rekindle_runtime::{RuntimeContainerState, SandboxSnapshot};
use rekindle_types::ObjectJson;
use serde_json::{Value, json};

use crate::pods::PodIndex;

fn list(items: &[Value]) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

/// The pods that the API gave to this node, with their status as the node knows it.
pub(super) fn known(index: &PodIndex) -> Value {
    let pods = index.all().into_iter().map(|view| {
        let status = view.status.borrow().as_ref().clone();
        let pod = Pod { status: Some(status), ..view.pod.borrow().as_ref().clone() };
        // kind and version are the list's, as in every list
        let mut pod = pod.to_value();
        if let Some(fields) = pod.as_object_mut() {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        pod
    });
    list(&pods.collect::<Vec<_>>())
}

/// What runs, by the runtime alone.
pub(super) fn running(snapshot: &[SandboxSnapshot]) -> Value {
    let pods = snapshot.iter().filter_map(|sandbox| {
        let is_running = |state: &RuntimeContainerState| matches!(state, RuntimeContainerState::Running { .. });
        let running = sandbox.containers.iter().filter(|found| is_running(&found.state));
        let containers: Vec<Value> = running
            .map(
                |found| json!({"name": found.key.name.0, "image": found.created.image_id, "resources": {}}),
            )
            .collect();
        let pod = &sandbox.key.pod;
        (!containers.is_empty()).then(|| {
            json!({
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid.0},
                "spec": {"containers": containers},
                "status": {},
            })
        })
    });
    list(&pods.collect::<Vec<_>>())
}
