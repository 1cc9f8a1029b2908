//! Pods that are frozen between two sandboxes: `emptyDirs: Clear` of rung Pod.

use rekindle_cri_restart::{FreezeSupport, NodeCall, RestartAction, frozen_for_nothing};
use rekindle_types::spared_pods::RESTART_INCLUDES_ANNOTATION;
use rekindle_types::v1alpha1::{EmptyDirPolicy, PodFreezeStep, PodRestart, PodRestartPhase};
use serde_json::{Value, json};

use crate::world::{CGROUP, NodeWorld, pod, request};

fn volumes() -> Value {
    json!([{"name": "scratch", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": "/srv"}}])
}

/// A pod with such volumes, and a request that does not say to keep them.
fn world() -> NodeWorld {
    let mut request = request(json!({}));
    request.spec.empty_dirs = None;
    NodeWorld::new(request, pod(json!({"volumes": volumes()})))
}

pub fn step(world: &NodeWorld) -> Option<PodFreezeStep> {
    let runtime = world.restart.status.as_ref()?.runtime.as_ref()?;
    runtime.freeze.as_ref().map(|freeze| freeze.step)
}

/// The agent works until it has made the call that begins so.
pub fn until_call(world: &mut NodeWorld, call: &str) {
    for _ in 0..100 {
        if world.calls.last().is_some_and(|last| last.starts_with(call)) {
            return;
        }
        world.agent();
    }
    panic!("no {call} in {:?}", world.calls);
}

#[test]
fn volumes_are_emptied_between_the_sandboxes_while_the_pod_is_frozen() {
    let mut world = world();
    until_call(&mut world, "ClearEmptyDirs");
    assert!(world.is_frozen);
    assert_eq!(step(&world), Some(PodFreezeStep::Held), "it is written when it is done");
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
    let held = format!("HoldPod {CGROUP}");
    let released = format!("ReleasePod {CGROUP}");
    assert_eq!(
        world.calls[1..],
        [&held, "StopSandbox s1", "ClearEmptyDirs scratch fast", "RemoveSandbox s1", &released]
    );
    assert_eq!(step(&world), Some(PodFreezeStep::Released));
    let steps = &world.restart.status.as_ref().unwrap().steps;
    let said: Vec<&str> = steps.iter().map(|step| step.message.as_str()).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[1], "the emptyDir volumes are empty");
    assert_eq!(world.agent(), RestartAction::Leave);
}

#[test]
fn what_runs_in_a_frozen_pod_is_killed_before_a_runtime_asks_it_to_end() {
    // the kubelet starts a container once more while no agent runs
    let mut started_again = world();
    until_call(&mut started_again, "StopContainers");
    started_again.crash();
    started_again.kubelet();
    for mut world in [on_failure(false), started_again] {
        world.is_crio = true;
        world.settle();
        assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
        let said = |call: &&String| call.starts_with("KillContainers");
        assert_eq!(world.calls.iter().filter(said).count(), 1, "{:?}", world.calls);
    }
}

#[test]
fn it_is_refused_where_the_agent_cannot_and_the_message_names_what_is_missing() {
    let mut blind = world();
    blind.support = FreezeSupport::FreezesPods;
    let mut shared = world();
    shared.runtime.cgroup = None;
    for (mut world, expected) in [
        (blind, "set emptyDirs: Keep, or the chart's value agent.clearEmptyDirs"),
        (shared, "shows no cgroup (v2) of pod web alone"),
    ] {
        world.agent();
        assert_eq!(world.phase(), Some(PodRestartPhase::Refused));
        assert!(world.message().contains(expected), "{}", world.message());
        assert_eq!(world.agent(), RestartAction::Leave);
        assert_eq!(world.calls, [""; 0]);
    }
}

#[test]
fn an_agent_that_was_killed_empties_again_only_what_is_not_noted_as_empty() {
    for (killed_after, cleared) in [("HoldPod", 1), ("ClearEmptyDirs", 2), ("ReleasePod", 1)] {
        let mut world = world();
        until_call(&mut world, killed_after);
        world.crash();
        world.settle();
        assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
        let of = world.calls.iter().filter(|call| call.starts_with("ClearEmptyDirs"));
        assert_eq!(of.count(), cleared, "{killed_after}: {:?}", world.calls);
        assert!(!world.is_dirty && !world.is_frozen);
    }
}

#[test]
fn what_runs_already_keeps_its_volumes() {
    // the machine has started again, and the kubelet was first
    let mut world = world();
    until_call(&mut world, "StopContainers");
    world.end_sandbox("s1");
    world.kubelet();
    world.crash();
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    assert!(world.message().contains("it is left as it is, with its volumes"));
    assert!(world.is_dirty && !world.is_frozen);
}

#[test]
fn a_restart_that_fails_thaws_the_pod_first() {
    let mut world = world();
    until_call(&mut world, "StopSandbox");
    world.errors = vec!["read-only file system".to_owned(); 2];
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    let message = world.message();
    assert!(message.contains("failed to empty the emptyDir volumes: read-only"), "{message}");
    assert!(!world.is_frozen);
    assert_eq!(step(&world), Some(PodFreezeStep::Released));
}

#[test]
fn what_the_operator_has_ended_is_thawed_by_the_agent_that_finds_it() {
    let mut world = world();
    until_call(&mut world, "HoldPod");
    world.crash();
    let status = world.restart.status.as_mut().unwrap();
    status.phase = Some(PodRestartPhase::Failed);
    status.message = Some("too late".to_owned());
    assert_eq!(world.agent(), RestartAction::Call(NodeCall::ReleasePod(CGROUP.to_owned())));
    world.agent();
    assert_eq!(step(&world), Some(PodFreezeStep::Released));
    assert_eq!(world.message(), "too late");
    assert_eq!(world.agent(), RestartAction::Leave);
}

#[test]
fn a_pod_that_cannot_be_thawed_is_named_and_tried_again_by_the_next_agent() {
    let mut world = world();
    until_call(&mut world, "ClearEmptyDirs");
    // the removal in the frozen pod, and each thaw
    world.errors = vec!["permission denied".to_owned(); 6];
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    assert!(world.message().ends_with("podu1 may still be frozen"), "{}", world.message());
    assert!(world.is_frozen);
    assert_eq!(world.agent(), RestartAction::Leave, "not for ever");
    world.crash();
    world.agent();
    assert!(!world.is_frozen);
}

#[test]
fn a_cgroup_that_is_not_the_pods_is_never_touched() {
    let mut world = world();
    world.agent();
    let runtime = world.restart.status.as_mut().unwrap().runtime.as_mut().unwrap();
    runtime.freeze.as_mut().unwrap().cgroup = "system.slice".to_owned();
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    let touches = |call: &&String| call.contains("system.slice");
    assert_eq!(world.calls.iter().find(touches), None);
}

#[test]
fn what_was_frozen_is_left_where_a_request_names_it_or_the_pod_is_of_another_node() {
    let mut world = world();
    until_call(&mut world, "HoldPod");
    let frozen = || vec![CGROUP.to_owned(), "kubepods/burstable/podu2".to_owned()];
    let pods = [world.pod.clone()];
    let left = |restarts: &[PodRestart]| frozen_for_nothing(frozen(), pods.iter(), restarts.iter());
    assert_eq!(left(std::slice::from_ref(&world.restart)), [""; 0], "it goes on with it");
    assert_eq!(left(&[]), [CGROUP], "the request was deleted");
    // one that was let go names none
    world.settle();
    assert_eq!(left(&[world.restart]), [CGROUP]);
}

/// A pod that runs until its containers end with 0, and a request that names it.
fn on_failure(clears: bool) -> NodeWorld {
    let mut request = request(json!({}));
    request.spec.empty_dirs = (!clears).then_some(EmptyDirPolicy::Keep);
    let annotations = request.metadata.annotations.get_or_insert_default();
    annotations.insert(RESTART_INCLUDES_ANNOTATION.to_owned(), "OnFailure".to_owned());
    NodeWorld::new(request, pod(json!({"restartPolicy": "OnFailure", "volumes": volumes()})))
}

#[test]
fn a_pod_that_would_count_as_finished_is_killed_while_it_is_frozen() {
    for clears in [false, true] {
        let mut world = on_failure(clears);
        let held = format!("HoldPod {CGROUP}");
        until_call(&mut world, "StopSandbox");
        let killed = "KillContainers app2 side3 proxy4 logs5";
        assert_eq!(world.calls, [&held, killed, "StopSandbox s1"], "none is asked to end");
        let ends = world.runtime.containers.iter().map(|c| c.end.as_ref().unwrap().exit_code);
        assert!({ ends }.all(|code| code == 137));
        world.crash();
        world.settle();
        assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
        assert_eq!(world.is_dirty, !clears);
        let steps = &world.restart.status.as_ref().unwrap().steps;
        let expected = if clears {
            "the emptyDir volumes are empty"
        } else {
            "everything was killed in the frozen pod"
        };
        assert_eq!(steps[1].message, expected);
    }
    let mut blind = on_failure(false);
    blind.support = FreezeSupport::Nothing;
    blind.agent();
    let expected = "a pod with restartPolicy OnFailure is killed frozen, and the agent does not see cgroups: set the chart's value agent.freezePods";
    assert_eq!(blind.message(), expected);
}
