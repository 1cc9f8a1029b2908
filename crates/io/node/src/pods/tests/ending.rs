//! Ending what an agent that was killed left, without starting anything.

use std::sync::Arc;

use rekindle_types::ExitStatus;
use serde_json::json;

use super::pod_with_scratch;
use crate::agent::{AgentLauncher, AgentStopMode, NodeHandle};
use crate::config::AgentDuty;
use crate::testing::{World, container, pod};

async fn agent_to_end_pods(world: &World) -> NodeHandle {
    let mut config = world.config();
    config.duty = AgentDuty::EndPods;
    let runtime = Arc::new(world.machine.connect());
    let network = Arc::new(world.network.clone());
    AgentLauncher::start(config, world.api.client(), runtime, network).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_ended_gracefully_and_what_does_not_is_not_begun() {
    let world = World::new();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app"), container("side")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    world.crash(agent);
    world.machine.end("side", ExitStatus::Code { code: 1 });
    world.api.create("pods", &pod("late", vec![container("late")]));

    agent_to_end_pods(&world).await.stop(AgentStopMode::EndPods).await;

    let calls = world.machine.calls();
    assert!(world.machine.sandboxes().is_empty(), "{calls:?}");
    assert_eq!(world.machine.count("signal app"), 1, "asked to end before it was: {calls:?}");
    assert_eq!(world.machine.starts("side"), 1, "its restart is for the next agent: {calls:?}");
    assert_eq!(world.machine.starts("late"), 0, "{calls:?}");
    assert!(world.folder.mounts().is_empty());
    assert_eq!(world.status("web")["phase"], "Running", "the pod is not over");

    let _next = world.agent().await;
    world.until_running("web").await;
    world.until_running("late").await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_told_to_end_the_pods_before_it_knows_them_ends_them() {
    let world = World::new();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    world.crash(agent);
    // told at once: the API's list has not come yet
    world.agent().await.stop(AgentStopMode::EndPods).await;
    assert!(world.machine.sandboxes().is_empty(), "{:?}", world.machine.calls());
    assert_eq!(world.machine.count("signal app"), 1);
}

/// Ours refuses such a change; another API may not.
#[tokio::test(start_paused = true)]
async fn a_pod_that_an_api_let_become_a_mirror_ends_with_its_object() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let mirror = json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } });
    world.api.modify("pods", "web", &mirror);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    world.machine.until("nothing is left", |machine| machine.sandboxes().is_empty()).await;
}
