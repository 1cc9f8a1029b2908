//! Graceful node shutdown: pods fail in the order of their priorities, and new ones are refused.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::{ExitStatus, TickDuration};
use serde_json::{Value, json};

use crate::agent::{AgentLauncher, AgentStopMode, NodeHandle};
use crate::shutdown::{CRITICAL_PRIORITY, ShutdownGroup, ShutdownPolicy};
use crate::testing::{World, container, pod};

const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

fn of_priority(name: &str, priority: i32, grace: i64) -> Pod {
    let mut pod = pod(name, vec![container(&format!("{name}-app"))]);
    let spec = pod.spec.as_mut().unwrap();
    spec.priority = Some(priority);
    spec.termination_grace_period_seconds = Some(grace);
    pod
}

async fn agent(world: &World, shutdown: ShutdownPolicy) -> NodeHandle {
    let mut config = world.config();
    config.shutdown = shutdown;
    let runtime = Arc::new(world.machine.connect());
    let network = Arc::new(world.network.clone());
    AgentLauncher::start(config, world.api.client(), runtime, network).await.unwrap()
}

fn groups(groups: &[(i32, u32)]) -> ShutdownPolicy {
    let group = |(priority, seconds): &(i32, u32)| ShutdownGroup {
        priority: *priority,
        shutdown_grace_period_seconds: *seconds,
    };
    ShutdownPolicy::by_priority(groups.iter().map(group).collect())
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

fn place(calls: &[String], call: &str) -> usize {
    calls
        .iter()
        .position(|made| made.starts_with(call))
        .unwrap_or_else(|| panic!("{call}: {calls:?}"))
}

#[tokio::test(start_paused = true)]
async fn pods_end_by_priority_and_critical_ones_last() {
    let world = World::new();
    for (name, priority) in [("dns", CRITICAL_PRIORITY), ("web", 0), ("db", 1000)] {
        world.api.create("pods", &of_priority(name, priority, 30));
    }
    let agent = agent(&world, groups(&[(0, 20), (1000, 10), (CRITICAL_PRIORITY, 5)])).await;
    for name in ["dns", "web", "db"] {
        world.until_running(name).await;
    }
    agent.stop(AgentStopMode::EndPods).await;
    let calls = world.machine.calls();
    let of = |call: &str| place(&calls, call);
    assert!(of("signal web-app") < of("signal db-app"), "{calls:?}");
    assert!(of("signal db-app") < of("signal dns-app"), "{calls:?}");
    for name in ["dns", "web", "db"] {
        let object = world.api.get("pods", name).unwrap();
        let status = &object["status"];
        assert_eq!(status["phase"], "Failed");
        assert_eq!(status["reason"], "Terminated");
        assert_eq!(status["message"], MESSAGE);
        let disruption = condition(&object, "DisruptionTarget");
        assert_eq!(disruption["status"], "True");
        assert_eq!(disruption["reason"], "TerminationByKubelet");
        assert_eq!(disruption["message"], MESSAGE);
    }
    assert!(world.machine.sandboxes().is_empty());
    let node = world.api.get("nodes", "node-a").unwrap();
    let ready = condition(&node, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("KubeletNotReady")));
}

#[tokio::test(start_paused = true)]
async fn a_group_gets_its_period_and_no_more_and_a_pod_no_more_than_it_wants() {
    let world = World::new();
    for (name, priority, grace) in
        [("slow", 0, 600), ("short", 0, 3), ("dns", CRITICAL_PRIORITY, 600)]
    {
        world.api.create("pods", &of_priority(name, priority, grace));
        world.machine.stubborn(&format!("{name}-app"));
    }
    let agent = agent(&world, ShutdownPolicy::of_periods(30, 10)).await;
    for name in ["slow", "short", "dns"] {
        world.until_running(name).await;
    }
    let begin = world.clock.now();
    agent.stop(AgentStopMode::EndPods).await;
    let took = world.clock.now().since(begin).as_secs();
    assert!((30..33).contains(&took), "{took} s");
    let ended = |name: &str| {
        let status = world.status(name);
        let state = status["containerStatuses"][0]["state"]["terminated"].clone();
        (state["exitCode"].as_i64().unwrap(), state["finishedAt"].as_str().unwrap().to_owned())
    };
    let at = |seconds: u64| {
        let tick = begin + TickDuration::from_secs(seconds);
        serde_json::to_value(tick.to_time()).unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!(ended("short"), (137, at(3)));
    assert_eq!(ended("slow"), (137, at(20)));
    assert_eq!(ended("dns"), (137, at(30)));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_meanwhile_is_refused_and_one_that_is_over_stays_as_it_is() {
    let world = World::new();
    let mut done = of_priority("done", 0, 30);
    done.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    world.api.create("pods", &done);
    world.api.create("pods", &of_priority("slow", 0, 60));
    world.machine.stubborn("slow-app");
    let agent = agent(&world, ShutdownPolicy::of_periods(60, 10)).await;
    world.until_running("slow").await;
    world.until_running("done").await;
    world.machine.end("done-app", ExitStatus::Code { code: 0 });
    world
        .api
        .until("done", |api| api.get("pods", "done").unwrap()["status"]["phase"] == "Succeeded")
        .await;
    let stopped = tokio::spawn(agent.stop(AgentStopMode::EndPods));
    world.machine.until("asked to end", |machine| machine.count("signal slow-app") == 1).await;
    world.api.create("pods", &of_priority("late", 0, 30));
    world
        .api
        .until("refused", |api| api.get("pods", "late").unwrap()["status"]["phase"] == "Failed")
        .await;
    let status = world.status("late");
    assert_eq!(status["reason"], "NodeShutdown");
    assert_eq!(
        status["message"],
        "Pod was rejected: Pod was rejected as the node is shutting down."
    );
    assert_eq!(status["containerStatuses"], Value::Null);
    stopped.await.unwrap();
    assert_eq!(world.machine.starts("late-app"), 0);
    assert_eq!(world.status("done")["phase"], "Succeeded");
    assert_eq!(world.status("slow")["reason"], "Terminated");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_leaves_its_pods_shuts_no_node_down() {
    let world = World::new();
    world.api.create("pods", &of_priority("web", 0, 30));
    let agent = agent(&world, ShutdownPolicy::of_periods(30, 10)).await;
    world.until_running("web").await;
    agent.stop(AgentStopMode::LeavePods).await;
    assert_eq!(world.status("web")["phase"], "Running");
    assert_eq!(world.machine.count("signal web-app"), 0);
}
