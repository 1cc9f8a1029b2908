//! The token in a pod's volume: there before the container, replaced before it ends, for as long as
//! the pod runs.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::events;
use crate::agent::AgentStopMode;
use crate::testing::{World, container, pod, with_volumes};

const REQUESTS: &str = "POST serviceaccounts/token default/robot";

/// A pod with a token that lives for so long, in seconds.
fn pod_with_token(seconds: i64) -> Pod {
    let mut pod = pod("web", vec![container("app")]);
    let spec = pod.spec.as_mut().unwrap();
    spec.service_account_name = Some("robot".to_owned());
    spec.volumes = serde_json::from_value(json!([{
        "name": "identity",
        "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}}]},
    }]))
    .unwrap();
    let app = &mut spec.containers[0];
    app.volume_mounts = serde_json::from_value(
        json!([{"name": "identity", "mountPath": "/var/run/identity", "readOnly": true}]),
    )
    .unwrap();
    pod
}

/// Where on the host the token lies.
fn token_file(world: &World) -> PathBuf {
    let mounts = world.machine.spec("app").mounts;
    let identity = mounts.iter().find(|mount| mount.destination.ends_with("identity"));
    identity.unwrap().source.host_path().unwrap().join("token")
}

/// Until the container reads this token.
async fn until_token(world: &World, wanted: &str) {
    let file = token_file(world);
    let is_so = |_: &_| std::fs::read_to_string(&file).is_ok_and(|token| token == wanted);
    world.api.until(wanted, is_so).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_is_there_before_the_container_and_is_replaced_after_four_fifths_of_its_life() {
    let world = World::new();
    world.api.create("pods", &pod_with_token(600));
    let agent = world.agent().await;
    world.until_running("web").await;
    assert_eq!(std::fs::read_to_string(token_file(&world)).unwrap(), "token-1");
    world.lease_renewals(47).await;
    assert_eq!(world.api.requests(REQUESTS), 1, "470 of its 600 seconds are over");
    until_token(&world, "token-2").await;
    assert_eq!(world.api.requests(REQUESTS), 2, "once at 480 seconds");
    agent.stop(AgentStopMode::EndPods).await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_is_refused_is_tried_again_and_the_old_token_stays() {
    let world = World::new();
    world.api.create("pods", &pod_with_token(600));
    let agent = world.agent().await;
    world.until_running("web").await;
    world.api.fail_next(REQUESTS, 1);
    world.lease_renewals(50).await;
    assert_eq!(world.api.requests(REQUESTS), 2, "one refusal, and no hammering");
    assert_eq!(std::fs::read_to_string(token_file(&world)).unwrap(), "token-1");
    until_token(&world, "token-3").await;
    agent.stop(AgentStopMode::EndPods).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_its_token_does_not_start() {
    let world = World::new();
    world.api.fail_next(REQUESTS, 1);
    world.api.create("pods", &pod_with_token(600));
    let agent = world.agent().await;
    world.until_running("web").await;
    world.api.until("the event", |_| !events(&world, "FailedMount").is_empty()).await;
    let told = &events(&world, "FailedMount")[0];
    assert!(told.contains("failed to fetch token: told to fail"), "{told}");
    assert_eq!(std::fs::read_to_string(token_file(&world)).unwrap(), "token-2");
    agent.stop(AgentStopMode::EndPods).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_to_be_had_keeps_no_other_file_from_being_written() {
    let world = World::new();
    let settings = json!({ "name": "settings", "namespace": "default" });
    world.api.create("configmaps", &json!({ "metadata": settings, "data": { "a": "1" } }));
    let mut pod = pod_with_token(600);
    let settings = json!({ "name": "settings", "configMap": { "name": "settings" } });
    let volumes = pod.spec.as_mut().unwrap().volumes.as_mut().unwrap();
    volumes.push(serde_json::from_value(settings).unwrap());
    let volumes = json!(volumes);
    let pod = with_volumes(pod, volumes);
    world.api.create("pods", &pod);
    let agent = world.agent().await;
    world.until_running("web").await;
    world.api.fail_next(REQUESTS, 1_000);
    world.lease_renewals(61).await;
    world.api.modify("configmaps", "settings", &json!({ "data": { "a": "2" } }));
    let file = token_file(&world).parent().unwrap().with_file_name("settings").join("a");
    world.api.until("new", |_| std::fs::read_to_string(&file).is_ok_and(|text| text == "2")).await;
    let told = &events(&world, "FailedMount")[0];
    assert!(told.contains("for volume \"identity\" : failed to fetch token"), "{told}");
    agent.stop(AgentStopMode::EndPods).await;
}

/// Nobody remembers when the token ends that an agent has asked for which is no more.
#[tokio::test(start_paused = true)]
async fn an_agent_that_finds_a_pod_gives_it_a_token_of_its_own() {
    let world = World::new();
    world.api.create("pods", &pod_with_token(600));
    let agent = world.agent().await;
    world.until_running("web").await;
    world.crash(agent);
    let again = world.agent().await;
    until_token(&world, "token-2").await;
    assert_eq!(world.machine.running(), ["app#0"]);
    again.stop(AgentStopMode::EndPods).await;
}
