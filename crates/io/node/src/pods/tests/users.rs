//! Pods with users of their own: which range of ids each gets, and how long it has it.

use k8s_openapi::api::core::v1::Pod;
use rekindle_runtime::{SandboxUsers, UserRange};
use rekindle_types::v1alpha1::Rung;
use serde_json::json;

use crate::agent::NodeHandle;
use crate::testing::{World, container, pod, restart};
use crate::users::UserIdRanges;

fn with_own_users(name: &str) -> Pod {
    let mut pod = pod(name, vec![container("app")]);
    pod.spec.as_mut().unwrap().host_users = Some(false);
    pod
}

async fn restart_whole(world: &World, request: &str, pod: &str) {
    world.api.create("podrestarts", &restart(request, pod, Rung::Pod));
    let done = |request: serde_json::Value| request["status"]["phase"] == "Succeeded";
    world.api.until("done", |api| api.get("podrestarts", request).is_some_and(done)).await;
    world.until_running(pod).await;
}

async fn agent_with_one_range(world: &World) -> NodeHandle {
    let ids = UserIdRanges::new(None, Some(126 * 65_536)).unwrap();
    world.agent_with(|config| config.user_ids = ids).await
}

/// The range of the pod's only, or newest, sandbox.
fn range(world: &World, pod: &str) -> UserRange {
    match world.machine.users(pod).last() {
        Some(SandboxUsers::Own(range)) => *range,
        other => panic!("{pod} has {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_one_range_as_long_as_it_lives_and_no_other_pod_has() {
    let world = World::new();
    for name in ["one", "two"] {
        world.api.create("pods", &with_own_users(name));
    }
    world.api.create("pods", &pod("plain", vec![container("app")]));
    let agent = world.agent().await;
    for name in ["one", "two", "plain"] {
        world.until_running(name).await;
    }
    let (one, two) = (range(&world, "one"), range(&world, "two"));
    assert_ne!(one.first, two.first);
    assert_eq!(world.machine.users("plain"), [SandboxUsers::Host]);

    restart_whole(&world, "first", "one").await;
    world.crash(agent);
    let agent = world.agent().await;
    restart_whole(&world, "second", "one").await;
    assert_eq!(world.machine.users("one"), [SandboxUsers::Own(one); 3], "in every sandbox");
    assert_eq!(range(&world, "two"), two);

    // what is gone is free, for the next agent too
    world.api.delete_pod("two", 30);
    world.api.until("two is gone", |api| api.get("pods", "two").is_none()).await;
    world.api.create("pods", &with_own_users("three"));
    world.until_running("three").await;
    assert_eq!(range(&world, "three"), two);
    world.crash(agent);
    let _agent = world.agent().await;
    world.api.create("pods", &with_own_users("four"));
    world.until_running("four").await;
    assert!(![one.first, two.first].contains(&range(&world, "four").first));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_finished_needs_no_users_any_more() {
    let world = World::new();
    let mut short = with_own_users("short");
    short.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    short.spec.as_mut().unwrap().containers[0].name = "short".to_owned();
    world.machine.ends_at_once("short", 0);
    world.api.create("pods", &short);
    let _agent = agent_with_one_range(&world).await;
    let over = |pod: serde_json::Value| pod["status"]["phase"] == "Succeeded";
    world.api.until("over", |api| api.get("pods", "short").is_some_and(over)).await;
    world.api.create("pods", &with_own_users("next"));
    world.until_running("next").await;
    assert_eq!(range(&world, "next"), range(&world, "short"));
    assert!(world.api.get("pods", "short").is_some(), "the object is there still");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_free_range_waits_for_one_and_says_so() {
    let world = World::new();
    let _agent = agent_with_one_range(&world).await;
    world.api.create("pods", &with_own_users("one"));
    world.until_running("one").await;
    world.api.create("pods", &with_own_users("two"));
    let said = |event: &serde_json::Value| {
        event["reason"] == json!("FailedCreatePodSandBox")
            && event["message"].as_str().is_some_and(|text| text.contains("given to other pods"))
    };
    world.api.until("it says so", |api| api.list("events").iter().any(said)).await;
    assert!(world.machine.users("two").is_empty());
    world.api.delete_pod("one", 0);
    world.until_running("two").await;
    assert_eq!(range(&world, "two"), range(&world, "one"));
}
