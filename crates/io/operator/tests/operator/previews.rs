//! What would become of a restart is told from all that its scheduler would look at.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use rekindle_operator::{RestartPreview, preview};
use rekindle_types::v1alpha1::PodRestart;
use serde_json::json;

use crate::world::{World, create};

#[tokio::test]
async fn a_pod_without_a_controller_whose_service_account_is_gone_would_not_be_evicted() {
    let world = World::new().await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(world.client());
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    create(&accounts, json!({"metadata": {"name": "shop"}})).await;
    let containers = json!([{"name": "app", "image": "localhost/demo"}]);
    let spec = json!({"nodeName": "n1", "serviceAccountName": "shop", "containers": containers});
    create(&pods, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let restart: PodRestart = serde_json::from_value(json!({
        "metadata": {"name": "by-hand", "namespace": "default"},
        "spec": {"podName": "web", "rung": "Recreate"},
    }))
    .expect("a PodRestart");
    let parts = world.parts();
    let told = preview(&parts.client, &restart, (parts.clock)()).await.expect("it may be read");
    assert_eq!(told, RestartPreview::Goes);
    accounts.delete("shop", &DeleteParams::default()).await.expect("it is there");
    let told = preview(&parts.client, &restart, (parts.clock)()).await.expect("it may be read");
    let RestartPreview::Waits(why) = &told else { panic!("{told:?}") };
    assert!(
        why.starts_with("the API does not take the pod again: pods \"web\" is forbidden"),
        "{why}"
    );
}

#[tokio::test]
async fn a_pod_that_shuns_the_pods_of_namespaces_with_a_label_has_no_other_node_where_one_is() {
    let world = World::new().await;
    world.add_node("n2").await;
    let labels =
        |key: &str, value: &str| Patch::Merge(json!({"metadata": {"labels": { (key): value }}}));
    let (nodes, namespaces) =
        (Api::<Node>::all(world.client()), Api::<Namespace>::all(world.client()));
    let usual = PatchParams::default();
    for node in ["n1", "n2"] {
        let named = labels("kubernetes.io/hostname", node);
        nodes.patch(node, &usual, &named).await.expect("it is there");
    }
    let loud = labels("team", "loud");
    namespaces.patch("default", &usual, &loud).await.expect("it is there");
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let containers = json!([{"name": "app", "image": "localhost/demo"}]);
    let noisy = json!({
        "metadata": {"name": "noisy", "labels": {"app": "noisy"}},
        "spec": {"nodeName": "n2", "containers": containers},
    });
    create(&pods, noisy).await;
    let shunned = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "noisy"}},
        "namespaceSelector": {"matchLabels": {"team": "loud"}},
    });
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [shunned]}});
    let web = json!({
        "metadata": {
            "name": "web",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "rs", "controller": true}],
        },
        "spec": {"nodeName": "n1", "containers": containers, "affinity": affinity},
    });
    create(&pods, web).await;
    let restart: PodRestart = serde_json::from_value(json!({
        "metadata": {"name": "by-hand", "namespace": "default"},
        "spec": {"podName": "web", "rung": "Reschedule"},
    }))
    .expect("a PodRestart");
    let parts = world.parts();
    let told = preview(&parts.client, &restart, (parts.clock)()).await.expect("it may be read");
    let RestartPreview::Waits(why) = &told else { panic!("{told:?}") };
    assert!(why.contains("no node but n1 can take the pod"), "{why}");
}

#[tokio::test]
async fn a_pod_without_a_controller_on_a_node_that_does_not_answer_would_wait_for_it() {
    let world = World::new().await;
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let containers = json!([{"name": "app", "image": "localhost/demo"}]);
    let spec = json!({"nodeName": "n1", "containers": containers});
    create(&pods, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let nodes = Api::<Node>::all(world.client());
    nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(silent)).await.expect("it is");
    for rung in ["Pod", "Recreate"] {
        let restart: PodRestart = serde_json::from_value(json!({
            "metadata": {"name": "by-hand", "namespace": "default"},
            "spec": {"podName": "web", "rung": rung},
        }))
        .expect("a PodRestart");
        let parts = world.parts();
        let told = preview(&parts.client, &restart, (parts.clock)()).await.expect("it may be read");
        let RestartPreview::Waits(why) = &told else { panic!("{rung}: {told:?}") };
        assert!(why.contains("node n1 is not ready"), "{rung}: {why}");
    }
}
