//! Pods that were bound to the node by somebody who did not ask its labels and taints.

use k8s_openapi::api::core::v1::{Pod, Toleration};
use rekindle_types::{Tick, avoided_nodes};
use serde_json::json;

use crate::agent::AgentStopMode;
use crate::testing::{FakeApi, World, container, pod};

fn asking_for(name: &str, disk: &str) -> Pod {
    let mut pod = pod(name, vec![container(name)]);
    let selector = [("disk".to_owned(), disk.to_owned())].into();
    pod.spec.as_mut().unwrap().node_selector = Some(selector);
    pod
}

async fn until_refused(world: &World, name: &str, reason: &str, why: &str) {
    let failed =
        |api: &FakeApi| api.get("pods", name).is_some_and(|pod| pod["status"]["phase"] == "Failed");
    world.api.until("it is refused", failed).await;
    let status = world.status(name);
    assert_eq!(status["reason"], reason);
    let message = format!("Pod was rejected: Predicate {reason} failed: {why}");
    assert_eq!(status["message"], json!(message));
    assert_eq!(world.machine.starts(name), 0);
}

/// Source: kubelet, `generalFilter`.
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_nodes_labels_exclude_fails_and_one_that_runs_stays_when_they_change() {
    let world = World::new();
    let mut first = world.agent().await;
    first.ready().await;
    let label = |value: &str| {
        world.api.modify("nodes", "node-a", &json!({"metadata": {"labels": {"disk": value}}}));
    };
    world.api.create("pods", &asking_for("early", "ssd"));
    let why = "node(s) didn't match Pod's node affinity/selector";
    until_refused(&world, "early", "NodeAffinity", why).await;
    // not waited for: the node is looked at when a pod asks for a label
    label("ssd");
    world.api.create("pods", &asking_for("fits", "ssd"));
    world.until_running("fits").await;
    label("hdd");
    first.stop(AgentStopMode::LeavePods).await;
    let _next = world.agent().await;
    world.lease_renewals(3).await;
    assert_eq!(world.status("fits")["phase"], "Running");
    assert_eq!(world.machine.starts("fits"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_tolerate_a_taint_with_no_execute_fails() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    let taints = json!([
        {"key": "soft", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoExecute"},
    ]);
    world.api.modify("nodes", "node-a", &json!({"spec": {"taints": taints}}));
    world.lease_renewals(2).await;
    world.api.create("pods", &pod("stranger", vec![container("stranger")]));
    let why = "node(s) had taints that the pod didn't tolerate";
    until_refused(&world, "stranger", "TaintToleration", why).await;
    let mut guest = pod("guest", vec![container("guest")]);
    let toleration = Toleration {
        key: Some("gpu".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    };
    guest.spec.as_mut().unwrap().tolerations = Some(vec![toleration]);
    world.api.create("pods", &guest);
    world.until_running("guest").await;
}

/// The scheduler takes a node that a pod keeps away from rather than none.
#[tokio::test(start_paused = true)]
async fn a_pod_that_keeps_away_from_the_node_for_a_while_runs_when_it_was_placed_there_all_the_same()
 {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    let until = Tick::from_secs(4_000_000_000).to_time();
    let mut moved = pod("moved", vec![container("moved")]);
    avoided_nodes::exclude(&mut moved, &[("node-a".to_owned(), until)].into());
    let mut strict = moved.clone();
    strict.metadata.name = Some("strict".to_owned());
    strict.metadata.annotations = None;
    world.api.create("pods", &moved);
    world.until_running("moved").await;
    world.api.create("pods", &strict);
    let why = "node(s) didn't match Pod's node affinity/selector";
    until_refused(&world, "strict", "NodeAffinity", why).await;
}
