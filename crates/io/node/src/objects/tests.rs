//! Watching what pods refer to, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::sync::Notify;

use super::{ObjectCache, ObjectRef, pod_references};
use crate::testing::World;

fn map(value: &str) -> serde_json::Value {
    json!({ "metadata": { "name": "settings", "namespace": "shop" }, "data": { "a": value } })
}

fn wanted() -> BTreeSet<ObjectRef> {
    [ObjectRef::config_map("shop", "settings")].into()
}

#[test]
fn every_reference_of_a_pod_is_found() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "imagePullSecrets": [{ "name": "secret-pull" }, {}],
            "volumes": [
                { "name": "a", "configMap": { "name": "cm-volume" } },
                { "name": "b", "secret": { "secretName": "secret-volume" } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": { "name": "cm-projected" } }, { "secret": { "name": "secret-projected" } } ] } },
                { "name": "d", "emptyDir": {} },
            ],
            "initContainers": [{ "name": "i", "envFrom": [{ "configMapRef": { "name": "cm-init" } }] }],
            "containers": [{ "name": "c",
                "envFrom": [{ "secretRef": { "name": "secret-all" } }],
                "env": [
                    { "name": "X", "valueFrom": { "configMapKeyRef": { "name": "cm-key", "key": "k" } } },
                    { "name": "Y", "valueFrom": { "secretKeyRef": { "name": "secret-key", "key": "k" } } },
                    { "name": "Z", "value": "plain" },
                ],
            }],
        },
    }))
    .unwrap();
    let found: Vec<String> = pod_references(&pod).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "configmap \"cm-init\"",
            "configmap \"cm-key\"",
            "configmap \"cm-projected\"",
            "configmap \"cm-volume\"",
            "secret \"secret-all\"",
            "secret \"secret-key\"",
            "secret \"secret-projected\"",
            "secret \"secret-pull\"",
            "secret \"secret-volume\"",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_is_watched_once_for_all_its_pods_and_no_longer_than_needed() {
    let world = World::new();
    world.api.create("configmaps", &map("1"));
    let cache = ObjectCache::new(world.api.client());
    let changed = Arc::new(Notify::new());
    let first = cache.subscribe(wanted(), changed.clone());
    let second = cache.subscribe(wanted(), Arc::new(Notify::new()));
    let value = |found: super::FetchedObjects| {
        let map = found.config_map(&ObjectRef::config_map("shop", "settings")).cloned();
        map.and_then(|map| map.data?.get("a").cloned())
    };
    assert_eq!(value(first.fetch_all().await.unwrap()).as_deref(), Some("1"));
    assert_eq!(value(second.fetch_all().await.unwrap()).as_deref(), Some("1"));
    assert_eq!((cache.watched(), world.api.requests("WATCH configmaps") <= 1), (1, true));
    world.api.modify("configmaps", "settings", &json!({ "data": { "a": "2" } }));
    while value(first.fetch_all().await.unwrap()).as_deref() != Some("2") {
        changed.notified().await;
    }
    world.api.remove("configmaps", "settings");
    while value(first.fetch_all().await.unwrap()).is_some() {
        changed.notified().await;
    }
    drop(first);
    assert_eq!(cache.watched(), 1);
    drop(second);
    assert_eq!(cache.watched(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_api_that_does_not_answer_is_said_and_not_taken_for_absence() {
    let world = World::new();
    world.api.fail_next("GET configmaps", 1000);
    let cache = ObjectCache::new(world.api.client());
    let pod = cache.subscribe(wanted(), Arc::new(Notify::new()));
    let error = pod.fetch_all().await.unwrap_err();
    assert_eq!(error.to_string(), "configmap \"settings\": the API server has not answered yet");
}
