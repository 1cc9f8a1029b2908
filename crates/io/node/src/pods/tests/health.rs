//! Probes and hooks, through the whole agent.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, Lifecycle, LifecycleHandler, PodCondition, PodReadinessGate, Probe,
    SleepAction,
};
use rekindle_types::ExitStatus;
use serde_json::json;

use super::{events, shown};
use crate::testing::{CommandEnds, World, container, pod};

fn exec(command: &str) -> ExecAction {
    ExecAction { command: Some(command.split(' ').map(str::to_owned).collect()) }
}

fn probe(command: &str, period: i32) -> Probe {
    Probe {
        exec: Some(exec(command)),
        period_seconds: Some(period),
        failure_threshold: Some(1),
        ..Probe::default()
    }
}

fn hook(command: &str) -> LifecycleHandler {
    LifecycleHandler { exec: Some(exec(command)), ..LifecycleHandler::default() }
}

fn with_lifecycle(lifecycle: Lifecycle) -> Container {
    Container { lifecycle: Some(lifecycle), ..container("app") }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_liveness_is_ended_with_its_hook_and_started_again() {
    let world = World::new();
    let app = Container {
        liveness_probe: Some(probe("alive", 5)),
        lifecycle: Some(Lifecycle { pre_stop: Some(hook("drain")), ..Lifecycle::default() }),
        ..container("app")
    };
    world.api.create("pods", &pod("web", vec![app]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.machine.command("alive", CommandEnds::With(1));
    world.machine.until("a second start", |machine| machine.starts("app") == 2).await;
    world.machine.command("alive", CommandEnds::With(0));
    world.api.until("counted", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    let calls = world.machine.calls();
    let place = |call: &str| calls.iter().position(|c| c.starts_with(call)).unwrap();
    assert!(place("exec app drain") < place("signal app"), "{calls:?}");
    world.api.until("told", |_| !events(&world, "Unhealthy").is_empty()).await;
    assert_eq!(events(&world, "Unhealthy"), ["Liveness probe failed: said so"]);
    let killing = "Container app failed liveness probe, will be restarted";
    world.api.until("told", |_| events(&world, "Killing") == [killing]).await;
    let end = &shown(&world, "web", "app")["lastState"]["terminated"];
    let why = "Ended by its node: liveness probe failed (\"said so\")";
    assert!(end["message"].as_str().is_some_and(|message| message.starts_with(why)), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_made_not_ready_while_nobody_heard_of_its_node_is_ready_again() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let is_ready = |world: &World| {
        let status = world.status("web");
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    world.api.until("ready", |_| is_ready(&world)).await;
    let mut conditions = world.status("web")["conditions"].clone();
    for ready in conditions.as_array_mut().unwrap().iter_mut().filter(|c| c["type"] == "Ready") {
        ready["status"] = json!("False");
    }
    world.api.modify("pods", "web", &json!({"status": {"conditions": conditions}}));
    assert!(!is_ready(&world));
    world.api.until("ready again", |_| is_ready(&world)).await;
}

#[tokio::test(start_paused = true)]
async fn readiness_and_started_are_kept_over_a_crash_of_the_agent() {
    let world = World::new();
    let app = Container {
        startup_probe: Some(Probe { failure_threshold: Some(99), ..probe("up", 1) }),
        readiness_probe: Some(probe("ready", 60)),
        ..container("app")
    };
    world.machine.command("up", CommandEnds::With(1));
    world.api.create("pods", &pod("web", vec![app]));
    let agent = world.agent().await;
    world.until_running("web").await;
    assert_eq!(shown(&world, "web", "app")["started"], false);
    world.machine.command("up", CommandEnds::With(0));
    world.api.until("ready", |_| shown(&world, "web", "app")["ready"] == true).await;
    world.crash(agent);
    world.machine.command("up", CommandEnds::With(1));
    world.machine.command("ready", CommandEnds::With(1));
    let history = world.api.history("pods", "web").len();
    let _agent = world.agent().await;
    world.api.until("probed", |_| shown(&world, "web", "app")["ready"] == false).await;
    let passed = world.clock.now().since(rekindle_types::Tick::from_secs(1_760_000_000));
    assert!(passed.as_secs() >= 60, "not before the next tick: {} s", passed.as_secs());
    let later = &world.api.history("pods", "web")[history..];
    for version in later {
        assert_eq!(version["status"]["containerStatuses"][0]["started"], true);
    }
    assert_eq!(world.machine.starts("app"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_hooks_time_is_missing_from_the_grace_period() {
    let world = World::new();
    let sleep =
        LifecycleHandler { sleep: Some(SleepAction { seconds: 4 }), ..LifecycleHandler::default() };
    let lifecycle = Lifecycle { pre_stop: Some(sleep), ..Lifecycle::default() };
    world.machine.stubborn("app");
    world.api.create("pods", &pod("web", vec![with_lifecycle(lifecycle)]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let before = world.clock.now();
    world.api.delete_pod("web", 10);
    world.machine.until("signalled", |machine| machine.count("signal app") == 1).await;
    assert_eq!(world.clock.now().since(before).as_secs(), 4);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(world.clock.now().since(before).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_is_given_up_when_the_grace_is_over() {
    let world = World::new();
    let lifecycle = Lifecycle { pre_stop: Some(hook("drain")), ..Lifecycle::default() };
    world.machine.command("drain", CommandEnds::Never);
    world.api.create("pods", &pod("web", vec![with_lifecycle(lifecycle)]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let before = world.clock.now();
    world.api.delete_pod("web", 6);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(world.clock.now().since(before).as_secs(), 6);
    assert_eq!(world.machine.count("signal app"), 1, "it obeys its signal within the 2 s left");
}

#[tokio::test(start_paused = true)]
async fn a_post_start_hook_that_fails_ends_its_container() {
    let world = World::new();
    let lifecycle = Lifecycle { post_start: Some(hook("warm up")), ..Lifecycle::default() };
    world.machine.command("warm up", CommandEnds::With(3));
    world.api.create("pods", &pod("web", vec![with_lifecycle(lifecycle)]));
    let _agent = world.agent().await;
    world.machine.until("a second start", |machine| machine.starts("app") == 2).await;
    world.machine.command("warm up", CommandEnds::With(0));
    world.api.until("told", |_| !events(&world, "FailedPostStartHook").is_empty()).await;
    assert_eq!(events(&world, "FailedPostStartHook")[0], "PostStartHook failed");
}

/// reliability: an aborted probe task leaks its loop.
#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_container_ends_with_it() {
    let world = World::new();
    let app = Container { liveness_probe: Some(probe("alive", 1)), ..container("app") };
    world.machine.command("alive", CommandEnds::Never);
    world.api.create("pods", &pod("web", vec![app]));
    let _agent = world.agent().await;
    world.machine.until("asked", |machine| machine.count("exec app alive") == 1).await;
    world.machine.end("app", ExitStatus::Code { code: 1 });
    world.machine.command("alive", CommandEnds::With(0));
    world.machine.until("a second start", |machine| machine.starts("app") == 2).await;
    world.machine.until("asked again", |machine| machine.count("exec app alive") == 12).await;
    assert_eq!(world.machine.starts("app"), 2);
    let passed = world.clock.now().since(rekindle_types::Tick::from_secs(1_760_000_000));
    assert!((9..=11).contains(&passed.as_secs()), "one loop a second, not {} s", passed.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_readiness_gate_waits_for_a_condition_that_somebody_else_writes() {
    let world = World::new();
    let mut web = pod("web", vec![container("app")]);
    let gate = PodReadinessGate { condition_type: "shop.test/traffic".to_owned() };
    web.spec.as_mut().unwrap().readiness_gates = Some(vec![gate]);
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    world.until_running("web").await;
    let ready = |world: &World| {
        let status = world.status("web");
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
        ready.unwrap_or_default()
    };
    world.api.until("held", |_| ready(&world)["reason"] == "ReadinessGatesNotReady").await;
    let condition = PodCondition {
        type_: "shop.test/traffic".to_owned(),
        status: "True".to_owned(),
        ..PodCondition::default()
    };
    let mut conditions = world.status("web")["conditions"].clone();
    conditions.as_array_mut().unwrap().push(serde_json::to_value(&condition).unwrap());
    world.api.modify("pods", "web", &json!({ "status": { "conditions": conditions } }));
    world.api.until("ready", |_| ready(&world)["status"] == "True").await;
}
