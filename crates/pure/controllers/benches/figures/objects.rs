//! What is measured with: nodes, workloads and pods as they usually are.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rekindle_types::held::HeldPod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{PODS, REPLICAS};

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn node(number: usize) -> Node {
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"});
    read(json!({
        "metadata": {"name": format!("node-{number:04}"), "uid": format!("node-{number}"),
            "resourceVersion": "1", "labels": {"kubernetes.io/hostname": format!("node-{number:04}"),
            "kubernetes.io/os": "linux", "zone": format!("zone-{}", number % 3),
            "topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
        "status": {"allocatable": room, "capacity": room,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["example.com/shop/web:1.2.3"], "sizeBytes": 104_857_600}]},
    }))
}

pub(crate) fn replica_set(number: usize) -> ReplicaSet {
    let app = format!("web-{number}");
    read(json!({
        "metadata": {"name": app, "namespace": "shop", "uid": app, "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "web", "image": "example.com/shop/web:1.2.3"}]}}},
    }))
}

/// A DaemonSet with a pod on every node.
pub(crate) fn daemon_set() -> DaemonSet {
    read(json!({
        "metadata": {"name": "agent", "namespace": "shop", "uid": "agent", "resourceVersion": "1", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
    }))
}

/// A StatefulSet of so many pods.
pub(crate) fn stateful_set(replicas: usize) -> StatefulSet {
    read(json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": "db", "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "podManagementPolicy": "Parallel", "template": template("db")},
    }))
}

/// An indexed Job of so many pods, all at once.
pub(crate) fn job(pods: usize) -> Job {
    let mut template = template("crunch");
    template["spec"]["restartPolicy"] = json!("Never");
    read(json!({
        "metadata": {"name": "crunch", "namespace": "shop", "uid": "crunch", "resourceVersion": "1", "generation": 1},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed",
            "selector": {"matchLabels": {"app": "crunch"}}, "template": template},
    }))
}

/// Makes a pod one that a Job counts.
pub(crate) fn track(pod: &mut HeldPod, index: usize) {
    let index = index.to_string();
    let meta = &mut pod.metadata;
    meta.finalizers = Some(vec!["batch.kubernetes.io/job-tracking".to_owned()]);
    meta.annotations =
        Some([("batch.kubernetes.io/job-completion-index".to_owned(), index)].into());
}

/// A Deployment of so many pods with its ReplicaSet.
pub(crate) fn deployment(pods: usize) -> (Deployment, ReplicaSet) {
    let mut labelled = template("web");
    labelled["metadata"]["labels"]["pod-template-hash"] = json!("5d4f8c7b9");
    let deployment = read(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "deployment-web", "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")},
    }));
    let set = read(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "web", "resourceVersion": "1", "generation": 1,
            "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                "uid": "deployment-web", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"replicas": pods, "template": labelled,
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": "5d4f8c7b9"}}},
    }));
    (deployment, set)
}

/// A Service of an app's pods.
pub(crate) fn service(app: &str) -> Service {
    read(json!({
        "metadata": {"name": app, "namespace": "shop", "uid": format!("service-{app}"), "resourceVersion": "1"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10", "selector": {"app": app},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    }))
}

/// A budget of an app's pods.
pub(crate) fn budget(app: &str) -> PodDisruptionBudget {
    read(json!({
        "metadata": {"name": app, "namespace": "shop", "uid": format!("budget-{app}"), "resourceVersion": "1", "generation": 1},
        "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": app}}},
    }))
}

fn template(app: &str) -> Value {
    let container = json!({"name": "main", "image": "example.com/shop/web:1.2.3"});
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}})
}

/// Whose a pod is, what it is called, and how it is marked.
pub(crate) struct Member {
    pub(crate) kind: &'static str,
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) labels: Value,
}

/// A pod of a ReplicaSet, which are taken in turns.
pub(crate) fn replica(number: usize) -> Member {
    let app = format!("web-{}", number % (PODS / REPLICAS));
    Member {
        kind: "ReplicaSet",
        name: format!("{app}-{}", number / (PODS / REPLICAS)),
        labels: json!({"app": app.as_str(), "pod-template-hash": "5d4f8c7b9"}),
        owner: app,
    }
}

/// A pod as a workload's usually is: two containers, a probe, environment, a token, a status.
pub(crate) fn pod(member: &Member, node: Option<usize>) -> Value {
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}});
    let container = |name: &str| {
        json!({"name": name, "image": "example.com/shop/web:1.2.3", "imagePullPolicy": "IfNotPresent",
            "resources": resources, "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-west"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "token", "readOnly": true,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]})
    };
    let mut value = json!({
        "metadata": {"name": member.name, "namespace": "shop",
            "uid": format!("pod-{}", member.name), "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T12:00:00Z", "labels": member.labels,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": member.kind, "name": member.owner,
                "uid": member.owner, "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [container("web"), container("proxy")], "restartPolicy": "Always",
            "serviceAccountName": "default", "schedulerName": "default-scheduler", "priority": 0,
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "volumes": [{"name": "token", "emptyDir": {}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300}]},
        "status": {"phase": "Pending"},
    });
    if let Some(node) = node {
        value["spec"]["nodeName"] = json!(format!("node-{node:04}"));
        value["status"] = running(member);
    }
    value
}

fn running(member: &Member) -> Value {
    let status = |name: &str| {
        json!({"name": name, "ready": true, "started": true, "restartCount": 0,
            "image": "example.com/shop/web:1.2.3", "imageID": "example.com/shop/web@sha256:0123",
            "containerID": format!("rekindle://{}-{name}", member.name),
            "state": {"running": {"startedAt": "2026-11-21T12:00:00Z"}}})
    };
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"});
    json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "qosClass": "Burstable",
        "conditions": [condition("Ready"), condition("ContainersReady"),
            condition("Initialized"), condition("PodScheduled")],
        "containerStatuses": [status("web"), status("proxy")]})
}

/// The pod of that.
pub(crate) fn typed(member: &Member, node: Option<usize>) -> HeldPod {
    read(pod(member, node))
}
