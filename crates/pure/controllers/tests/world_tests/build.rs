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

pub(crate) fn job(name: &str, spec: Value) -> Value {
    let mut template = template(name, "one");
    template["spec"]["restartPolicy"] = json!("Never");
    let mut value = json!({
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    });
    for (field, setting) in spec.as_object().unwrap() {
        value["spec"][field] = setting.clone();
    }
    value
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
