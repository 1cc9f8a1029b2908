//! A `kube::Client` on the in-process service: how node and operator talk to the API.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{
    DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, Client};
use rekindle_api_server::SystemClock;
use rekindle_kinds::identity::UserInfo;
use rekindle_types::v1alpha1::RestartLadder;
use serde_json::json;

use crate::memory_front;
use crate::objects::{deployment, pod};

fn client() -> Client {
    let api = rekindle_api::Api::new(memory_front::api_parts());
    let front = memory_front::front(api, &SystemClock::start());
    Client::new(front.in_process_service(UserInfo::internal("system:test")), "default")
}

#[tokio::test]
async fn objects_of_all_sorts_go_in_and_out() {
    let client = client();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "37");
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let web: Deployment = serde_json::from_value(deployment("web")).unwrap();
    let made = deployments.create(&PostParams::default(), &web).await.unwrap();
    assert_eq!(made.spec.progress_deadline_seconds, Some(600));
    let scale = deployments.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    let patch = Patch::Merge(json!({"status": {"replicas": 1}}));
    let patched = deployments.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.status.unwrap().replicas, Some(1));

    let ladders: Api<RestartLadder> = Api::default_namespaced(client.clone());
    let ladder = json!({"metadata": {"name": "l"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "rungs": [{"rung": "Pod"}]}});
    ladders.create(&PostParams::default(), &serde_json::from_value(ladder).unwrap()).await.unwrap();
    assert_eq!(ladders.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let metadata = ladders.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items[0].metadata.name.as_deref(), Some("l"));

    let missing: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(missing.get_opt("nosuch").await.unwrap().is_none());
    let error = missing.get("nosuch").await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
}

#[tokio::test]
async fn a_pod_is_watched_bound_and_deleted() {
    let client = client();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let from = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = pods.watch(&WatchParams::default(), &from).await.unwrap().boxed();
    pods.create(&PostParams::default(), &serde_json::from_value(pod("p")).unwrap()).await.unwrap();
    let binding: Binding = serde_json::from_value(
        json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
    )
    .unwrap();
    let _: serde_json::Value =
        pods.create_subresource("binding", "p", &PostParams::default(), &binding).await.unwrap();
    pods.delete("p", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .expect("it has grace on a node");
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(match watch.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(pod) => format!("added {}", pod.metadata.name.unwrap()),
            WatchEvent::Modified(pod) => {
                format!("modified, going: {}", pod.metadata.deletion_timestamp.is_some())
            }
            WatchEvent::Deleted(pod) => {
                format!("deleted from {}", pod.spec.unwrap().node_name.unwrap())
            }
            other => format!("{other:?}"),
        });
    }
    assert_eq!(
        seen,
        ["added p", "modified, going: false", "modified, going: true", "deleted from n"]
    );
}

#[tokio::test]
async fn a_pod_is_evicted_as_far_as_its_budget_lets_it() {
    let client = client();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let mut web = pod("web");
    web["metadata"]["labels"] = json!({"app": "web"});
    pods.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("web", &PatchParams::default(), &running).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client);
    let budget = json!({"metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    let seen = Patch::Merge(json!({"status": {"observedGeneration": 1}}));
    budgets.patch_status("web", &PatchParams::default(), &seen).await.unwrap();
    let refused = pods.evict("web", &EvictParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.details.unwrap().causes[0].reason, "DisruptionBudget");
    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    assert!(pods.evict("web", &EvictParams::default()).await.unwrap().is_success());
    assert!(pods.get_opt("web").await.unwrap().is_none(), "it was on no node");
}
