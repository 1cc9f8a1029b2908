//! Objects for tests.

use serde_json::{Value, json};

pub(crate) fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": template(name, image),
        },
    })
}

pub(crate) fn replica_set(name: &str, replicas: i32) -> Value {
    json!({
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, "one"),
        },
    })
}

pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

pub(crate) fn pod(name: &str, labels: Value) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "one"}]},
    })
}
