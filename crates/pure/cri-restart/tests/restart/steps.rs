use rekindle_cri_restart::{NEW_SANDBOX_LATEST, NodeCall, RUNTIME_SILENT_MAX, RestartAction};
use rekindle_types::v1alpha1::PodRestartPhase;
use serde_json::json;

use crate::world::{NodeWorld, pod, request};

#[test]
fn a_pod_is_stopped_and_removed_once_and_done_when_a_new_sandbox_runs_all() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    world.end("app2", 1);
    world.kubelet();
    let action = world.agent();
    assert!(matches!(action, RestartAction::Write(_)), "it is written first: {action:?}");
    assert_eq!(world.message(), "Restarting the whole pod in place");
    let runtime = world.restart.status.as_ref().unwrap().runtime.clone().unwrap();
    assert_eq!(runtime.sandbox_id, "s1");
    let app = &runtime.containers[0];
    assert_eq!(app.last_end.as_ref().map(|end| end.exit_code), Some(1), "{app:?}");
    let RestartAction::Call(NodeCall::StopContainers(plan)) = world.agent() else {
        panic!("containers first")
    };
    let names: Vec<Vec<&str>> = plan
        .waves
        .iter()
        .map(|wave| wave.iter().map(|stop| stop.name.as_str()).collect())
        .collect();
    assert_eq!(names, [vec!["app", "side"], vec!["logs"], vec!["proxy"]]);
    assert_eq!(plan.grace.as_secs(), 5);
    world.settle();
    assert_eq!(world.calls[1..], ["StopSandbox s1", "RemoveSandbox s1"]);
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
    assert_eq!(world.message(), "all containers are running again in a new sandbox");
    let status = world.restart.status.clone().unwrap();
    assert_eq!(status.node_name.as_deref(), Some("n1"));
    assert_eq!(status.steps.len(), 3, "{:?}", status.steps);
    assert_eq!(world.agent(), RestartAction::Leave);
}

#[test]
fn containers_are_stopped_and_the_sandbox_stays() {
    for (spec, stopped) in [
        (json!({"rung": "Containers"}), 4),
        (json!({"rung": "Container"}), 4),
        (json!({"rung": "Container", "containerName": "logs"}), 1),
    ] {
        let mut request = request(spec.clone());
        request.spec.empty_dirs = None;
        let mut world = NodeWorld::new(request, pod(json!({})));
        world.settle();
        assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{spec}: {}", world.message());
        assert_eq!(world.calls.len(), 1, "{spec}: {:?}", world.calls);
        assert_eq!(world.calls[0].split(' ').count() - 1, stopped, "{spec}");
        assert_eq!(world.runtime.sandboxes.len(), 1);
    }
}

#[test]
fn a_network_that_cannot_be_taken_down_ends_the_restart_after_two_tries() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    world.agent();
    world.agent();
    world.errors = vec!["cni: DEL failed".to_owned(), "cni: DEL failed".to_owned()];
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    let tries = world.calls.iter().filter(|call| call.starts_with("StopSandbox")).count();
    assert_eq!(tries, 2, "{:?}", world.calls);
    let message = world.message();
    assert_eq!(message, "failed to stop the sandbox: cni: DEL failed; it was tried 2 times");
}

#[test]
fn what_does_not_end_in_time_is_killed_and_what_cannot_be_killed_is_left_to_the_sandbox() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    world.agent();
    world.errors = vec!["deadline".to_owned(); 4];
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
    let kinds: Vec<&str> = world.calls.iter().filter_map(|call| call.split(' ').next()).collect();
    let expected = ["StopContainers", "StopContainers", "KillContainers", "KillContainers"];
    assert_eq!(kinds[..4], expected);
    assert_eq!(kinds[4..], ["StopSandbox", "RemoveSandbox"]);
}

#[test]
fn a_fast_restart_leaves_no_grace_and_so_runs_no_hook() {
    let mut request = request(json!({"rung": "Containers", "fast": true}));
    request.spec.empty_dirs = None;
    let mut world = NodeWorld::new(request, pod(json!({})));
    world.agent();
    let RestartAction::Call(NodeCall::StopContainers(plan)) = world.agent() else {
        panic!("containers first")
    };
    assert_eq!(plan.grace, rekindle_types::TickDuration::ZERO);
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
}

#[test]
fn failed_stops_of_containers_use_up_no_try_of_the_sandbox() {
    for (stops_failed, expected) in
        [(1, PodRestartPhase::Succeeded), (2, PodRestartPhase::Succeeded)]
    {
        let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
        world.agent();
        for _ in 0..stops_failed {
            world.errors.push("deadline".to_owned());
            world.agent();
            world.pass(1);
        }
        // they end by themselves, late
        let all: Vec<String> = world.runtime.containers.iter().map(|c| c.id.clone()).collect();
        all.iter().for_each(|id| world.end(id, 0));
        world.errors.push("cni: DEL failed".to_owned());
        world.settle();
        assert_eq!(world.phase(), Some(expected), "{stops_failed}: {}", world.message());
        let tries = world.calls.iter().filter(|call| call.starts_with("StopSandbox")).count();
        assert_eq!(tries, 2, "{:?}", world.calls);
    }
}

#[test]
fn a_container_that_is_just_starting_holds_the_removal_up_and_does_not_end_the_restart() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    while world.calls.last().is_none_or(|call| !call.starts_with("StopSandbox")) {
        world.agent();
    }
    world.errors = vec!["container is in starting state".to_owned(); 4];
    world.agent();
    let paused = world.agent();
    assert!(matches!(paused, RestartAction::Wait(_)), "not at once: {paused:?}");
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
    let tries = world.calls.iter().filter(|call| call.starts_with("RemoveSandbox")).count();
    assert_eq!(tries, 5, "{:?}", world.calls);
}

#[test]
fn containers_that_do_not_stop_end_with_the_sandbox_or_fail_the_restart() {
    for (rung, phase) in
        [("Pod", PodRestartPhase::Succeeded), ("Containers", PodRestartPhase::Failed)]
    {
        let mut request = request(json!({"rung": rung}));
        request.spec.empty_dirs = None;
        let mut world = NodeWorld::new(request, pod(json!({})));
        world.agent();
        world.errors = vec!["deadline".to_owned(), "deadline".to_owned()];
        world.settle();
        assert_eq!(world.phase(), Some(phase), "{rung}: {}", world.message());
    }
}

#[test]
fn a_runtime_that_gives_no_answer_is_given_up_after_a_minute() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    world.is_silent = true;
    world.settle();
    assert!(world.now.since(rekindle_types::Tick::from_secs(100)) >= RUNTIME_SILENT_MAX);
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    let message = "nothing was done: failed to ask the runtime: no answer for 1m";
    assert_eq!(world.message(), message);
    let status = world.restart.status.as_ref().unwrap();
    assert_eq!(status.started_at, None, "it counts as not begun");

    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    world.agent();
    world.is_silent = true;
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    assert_eq!(world.calls, [""; 0]);
}

#[test]
fn a_kubelet_that_makes_no_sandbox_fails_the_restart_and_the_reserved_name_is_told() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
    while !matches!(world.agent(), RestartAction::Wait(_)) {}
    world.now = world.now + NEW_SANDBOX_LATEST;
    world.agent();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    assert!(world.message().contains("has begun no new one within 2m"), "{}", world.message());
    assert!(world.message().contains("failed to reserve sandbox name"), "{}", world.message());
}

#[test]
fn a_pod_that_never_runs_whole_again_is_given_up_at_the_deadline() {
    let mut world = NodeWorld::new(request(json!({"deadlineSeconds": 30})), pod(json!({})));
    while !matches!(world.agent(), RestartAction::Wait(_)) {}
    world.kubelet();
    let running = world.runtime.containers[0].id.clone();
    world.end(&running, 1);
    world.pass(30);
    world.agent();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    assert!(world.message().contains("within its deadline of 30s"), "{}", world.message());
}

#[test]
fn a_pod_that_goes_or_is_another_one_ends_what_was_begun() {
    for change in [json!({"uid": "u2"}), json!({"deletionTimestamp": "1970-01-01T00:01:41Z"})] {
        let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
        world.agent();
        let mut pod = serde_json::to_value(&world.pod).unwrap();
        for (key, value) in change.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        world.pod = serde_json::from_value(pod).unwrap();
        world.agent();
        assert_eq!(world.phase(), Some(PodRestartPhase::Failed), "{change}");
        assert_eq!(world.calls, [""; 0], "{change}");
        let of = world.restart.status.as_ref().unwrap().pod_uid.as_deref();
        assert_eq!(of, Some("u1"), "{change}");
    }
}

#[test]
fn what_another_node_or_an_engine_has_begun_is_left_alone() {
    for status in [
        json!({"phase": "Running", "nodeName": "n2", "podUID": "u1",
        "runtime": {"sandboxID": "s1"}}),
        json!({"phase": "Running"}),
    ] {
        let mut restart = request(json!({}));
        restart.status = serde_json::from_value(status).unwrap();
        let mut world = NodeWorld::new(restart, pod(json!({})));
        assert_eq!(world.next(), RestartAction::Leave);
    }
    let mut world = NodeWorld::new(request(json!({})), pod(json!({"nodeName": "n2"})));
    assert_eq!(world.next(), RestartAction::Leave, "its pod is on another node");
}
