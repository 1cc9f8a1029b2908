//! ReplicaSets, after the API reference of apps/v1 ReplicaSet.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, ViewObject, WriteOperation};
use rekindle_types::TickDuration;
use serde_json::json;

use crate::build::{pod, replica_set};
use crate::world::{World, id};

fn status(world: &World, name: &str) -> k8s_openapi::api::apps::v1::ReplicaSetStatus {
    match &world.api.objects[&id(ResourceKind::ReplicaSet, name)] {
        ViewObject::ReplicaSet(set) => set.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_pods_are_created_in_growing_batches_and_reported() {
    let mut world = World::with_node();
    world.create(replica_set("web", 5));
    world.converge();
    assert_eq!(world.api.pods().len(), 5);
    let status = status(&world, "web");
    assert_eq!(status.replicas, 5);
    assert_eq!(status.ready_replicas, Some(5));
    assert_eq!(status.available_replicas, Some(5));
    assert_eq!(status.fully_labeled_replicas, Some(5));
    assert_eq!(status.terminating_replicas, Some(0));
    assert_eq!(status.observed_generation, Some(1));
    let created = world.said().iter().filter(|s| s.starts_with("SuccessfulCreate: ")).count();
    assert_eq!(created, 5);
    for pod in world.api.pods() {
        let name = pod.metadata.name.as_deref().unwrap();
        assert_eq!(name.len(), "web-".len() + 5, "{name}");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
    }
}

#[test]
fn a_refused_template_costs_one_request_at_a_time_and_shows_in_the_status() {
    let mut world = World::with_node();
    world.api.refuse_creation = Some((ResourceKind::Pod, "quota exceeded".to_owned()));
    world.create(replica_set("web", 100));
    world.advance(TickDuration::from_millis(120));
    let tried = world.writes.iter().filter(|w| matches!(w, WriteOperation::Create(_))).count();
    assert!((1..=4).contains(&tried), "slow start: {tried} tries");
    let conditions = status(&world, "web").conditions.unwrap();
    assert_eq!(conditions[0].type_.as_deref(), Some("ReplicaFailure"));
    assert_eq!(conditions[0].reason.as_deref(), Some("FailedCreate"));
    assert_eq!(conditions[0].message.as_deref(), Some("quota exceeded"));
    assert!(world.said().contains(&"FailedCreate: Error creating: quota exceeded".to_owned()));
    world.api.refuse_creation = None;
    world.converge();
    assert_eq!(world.api.pods().len(), 100);
    assert_eq!(status(&world, "web").conditions, None, "the failure is over");
}

#[test]
fn a_deleted_pod_is_replaced_while_it_terminates() {
    let mut world = World::with_node();
    world.create(replica_set("web", 2));
    world.converge();
    let victim = world.api.ids(ResourceKind::Pod, "shop")[0].clone();
    world.api.user_deletes(&victim, DependentPolicy::Default);
    world.settle();
    assert_eq!(world.api.pods().len(), 3, "two active, one terminating");
    assert_eq!(status(&world, "web").terminating_replicas, Some(1));
    world.converge();
    assert_eq!(world.api.pods().len(), 2);
    assert!(!world.api.objects.contains_key(&victim));
}

#[test]
fn a_name_is_not_given_again_at_once() {
    let mut world = World::new(); // no node: pods are deleted at once
    world.create(replica_set("web", 1));
    world.settle();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let pod = world.api.ids(ResourceKind::Pod, "shop")[0].clone();
        world.api.user_deletes(&pod, DependentPolicy::Default);
        assert!(names.insert(pod.name.name.clone()), "{pod} came twice");
        world.advance(TickDuration::from_secs(60));
    }
}

#[test]
fn a_failed_pod_is_replaced_and_left_to_be_looked_at() {
    let mut world = World::with_node();
    world.create(replica_set("web", 2));
    world.converge();
    let failed = world.api.ids(ResourceKind::Pod, "shop")[0].clone();
    world.api.change(&failed, |pod| pod["status"]["phase"] = json!("Failed"));
    world.advance(TickDuration::from_secs(11));
    world.converge();
    assert_eq!(world.api.pods().len(), 3);
    assert_eq!(status(&world, "web").replicas, 2);
}

#[test]
fn pods_are_adopted_and_let_go_by_their_labels() {
    let mut world = World::with_node();
    let stray = world.create(pod("stray", json!({"app": "web"})));
    let other = world.create(pod("other", json!({"app": "db"})));
    let set = world.create(replica_set("web", 2));
    world.converge();
    assert_eq!(world.api.pods().len(), 3, "the stray is one of the two");
    let uid = world.api.objects[&set].uid().to_owned();
    let owner = |world: &World, id| {
        let object: &ViewObject = &world.api.objects[id];
        object.meta().owner_references.iter().flatten().next().map(|r| r.uid.clone())
    };
    assert_eq!(owner(&world, &stray), Some(uid.clone()));
    assert_eq!(owner(&world, &other), None);
    world.api.change(&stray, |pod| pod["metadata"]["labels"]["app"] = json!("debugged"));
    world.converge();
    assert_eq!(owner(&world, &stray), None);
    assert_eq!(world.api.pods().len(), 4, "it was replaced");
    assert_eq!(status(&world, "web").replicas, 2);
}

#[test]
fn the_least_valuable_pods_go_first() {
    // Each case: what makes the pod of the first name go before the one of the second; upstream's
    // ActivePodsWithRanks.
    type Shape = fn(&mut serde_json::Value);
    let cases: &[(&str, Shape, Shape)] = &[
        ("not bound before bound", |_| {}, |p| p["spec"]["nodeName"] = json!("node-1")),
        ("Pending before Running", |_| {}, |p| p["status"]["phase"] = json!("Running")),
        (
            "not ready before ready",
            |_| {},
            |p| p["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
        ),
        (
            "cheap before dear",
            |p| {
                p["metadata"]["annotations"] =
                    json!({"controller.kubernetes.io/pod-deletion-cost": "-5"});
            },
            |_| {},
        ),
        (
            "ready lately before ready for long",
            |p| {
                p["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
                    "lastTransitionTime": "1970-01-12T13:00:00Z"}]);
            },
            |p| {
                p["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
                    "lastTransitionTime": "1970-01-01T13:00:00Z"}]);
            },
        ),
        (
            "restarted often before restarted never",
            |p| {
                p["status"]["containerStatuses"] = json!([{"name": "main", "image": "", "imageID": "",
                    "ready": true, "restartCount": 7}]);
            },
            |_| {},
        ),
        (
            "young before old",
            |_| {},
            |p| p["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z"),
        ),
    ];
    for (case, goes, stays) in cases {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let mut world = World::new();
            let goes_id = world.create(pod(first, json!({"app": "web"})));
            let stays_id = world.create(pod(second, json!({"app": "web"})));
            world.api.change(&goes_id, goes);
            world.api.change(&stays_id, stays);
            world.create(replica_set("web", 1));
            world.settle();
            let is_there = |id| {
                world
                    .api
                    .objects
                    .get(id)
                    .is_some_and(|o: &ViewObject| o.meta().deletion_timestamp.is_none())
            };
            assert!(!is_there(&goes_id) && is_there(&stays_id), "{case} ({first} should go)");
        }
    }
}

#[test]
fn min_ready_seconds_delays_availability_without_polling() {
    let mut world = World::with_node();
    let mut set = replica_set("web", 1);
    set["spec"]["minReadySeconds"] = json!(30);
    world.create(set);
    world.settle();
    world.kubelet();
    world.settle();
    assert_eq!(status(&world, "web").ready_replicas, Some(1));
    assert_eq!(status(&world, "web").available_replicas, None);
    world.advance(TickDuration::from_secs(29));
    assert_eq!(status(&world, "web").available_replicas, None);
    world.advance(TickDuration::from_secs(1));
    assert_eq!(status(&world, "web").available_replicas, Some(1));
}

/// The node says so of every pod that has not ended.
fn refuse_all(world: &mut World, reason: &str) {
    for pod in world.api.ids(ResourceKind::Pod, "shop") {
        world.api.change(&pod, |pod| {
            if pod["status"]["phase"] != json!("Failed") {
                pod["status"] = json!({"phase": "Failed", "reason": reason});
            }
        });
    }
    world.settle();
}

/// Upstream makes them in a circle: kubernetes/kubernetes#72593.
#[test]
fn pods_that_their_node_refuses_for_what_they_ask_for_are_made_after_ever_longer_pauses() {
    for reason in ["SysctlForbidden", "NodeAffinity", "TaintToleration"] {
        let mut world = World::new();
        world.create(replica_set("web", 1));
        world.settle();
        for (count, pause) in [(1, 10), (2, 20), (3, 40)] {
            refuse_all(&mut world, reason);
            world.advance(TickDuration::from_secs(pause - 5));
            assert_eq!(world.api.pods().len(), count, "{reason}: not before {pause} s");
            world.advance(TickDuration::from_secs(6));
            assert_eq!(world.api.pods().len(), count + 1, "{reason}");
        }
    }
}
