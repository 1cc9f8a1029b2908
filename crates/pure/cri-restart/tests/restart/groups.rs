//! Members of a group: a pod that has stopped waits, frozen, until its group starts.

use rekindle_cri_restart::{FreezeSupport, RestartAction, RuntimeContainer};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{MemberTurn, PodFreezeStep, PodRestartPhase};
use serde_json::json;

use crate::freeze::{step, until_call};
use crate::world::{CGROUP, NodeWorld, pod, request};

fn member() -> NodeWorld {
    NodeWorld::new(request(json!({"memberOf": "train"})), pod(json!({})))
}

/// The agent works until it waits.
fn until_it_waits(world: &mut NodeWorld) -> Tick {
    for _ in 0..100 {
        if let RestartAction::Wait(until) = world.agent() {
            return until;
        }
    }
    panic!("it never waits: {:?}", world.calls);
}

fn runs(world: &NodeWorld) -> bool {
    world.runtime.containers.iter().any(RuntimeContainer::may_run)
}

#[test]
fn a_member_stops_and_waits_frozen_until_its_group_starts() {
    let mut world = member();
    let until = until_it_waits(&mut world);
    assert_eq!(until, Tick::from_secs(100 + 600 + 5), "its own deadline");
    let hold = format!("HoldPod {CGROUP}");
    assert_eq!(world.calls[1..], [hold.as_str(), "StopSandbox s1", "RemoveSandbox s1"]);
    let status = world.restart.status.clone().unwrap();
    assert_eq!(status.stopped_at, Some(Tick::from_secs(100).to_time()));
    assert_eq!(step(&world), Some(PodFreezeStep::Stopped));
    for _ in 0..10 {
        world.kubelet();
        world.pass(10);
        assert_eq!(world.agent(), RestartAction::Wait(until));
        assert!(world.is_frozen && !runs(&world), "the kubelet starts nothing");
    }
    // its group goes on, also under an agent that has forgotten what it did
    world.crash();
    world.turn = MemberTurn::Start;
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
    assert!(!world.is_frozen && world.is_dirty);
    assert_eq!(step(&world), Some(PodFreezeStep::Released));
    let steps = &world.restart.status.as_ref().unwrap().steps;
    let said: Vec<&str> = steps.iter().map(|step| step.message.as_str()).collect();
    assert_eq!(said[1], "everything has ended: the pod waits, frozen, for the others of its group");
    assert_eq!(world.restart.status.as_ref().unwrap().stopped_at, status.stopped_at);
}

#[test]
fn a_sandbox_that_cannot_be_removed_while_its_pod_is_frozen_is_removed_after_the_thaw() {
    let mut world = member();
    until_call(&mut world, "StopSandbox");
    let stuck = "container app is starting";
    world.errors.push(stuck.to_owned());
    until_it_waits(&mut world);
    assert!(world.is_frozen && world.runtime.sandbox("s1").is_some());
    for _ in 0..10 {
        world.pass(10);
        assert!(matches!(world.agent(), RestartAction::Wait(_)), "it holds until its group starts");
    }
    world.turn = MemberTurn::Start;
    world.settle();
    let release = format!("ReleasePod {CGROUP}");
    let end = ["RemoveSandbox s1", release.as_str(), "RemoveSandbox s1"];
    assert_eq!(world.calls[world.calls.len() - 3..], end);
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
}

#[test]
fn a_member_is_not_begun_before_its_group_is_complete_nor_when_it_is_over() {
    for turn in [MemberTurn::Wait, MemberTurn::Start] {
        let mut world = member();
        world.turn = turn;
        assert_eq!(world.agent(), RestartAction::Leave, "{turn:?}");
        assert_eq!(world.phase(), None);
    }
}

#[test]
fn a_member_that_hears_nothing_of_its_group_goes_on_at_its_own_deadline() {
    let mut world = member();
    until_it_waits(&mut world);
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    let expected = "group train had not stopped within the deadline of 10m5s";
    assert_eq!(world.message(), expected);
    assert!(!world.is_frozen, "the kubelet starts it again");
}

#[test]
fn a_member_may_have_its_volumes_emptied_before_it_waits() {
    let mut world = member();
    world.restart.spec.empty_dirs = None;
    world.pod = pod(json!({"volumes": [{"name": "scratch", "emptyDir": {}}]}));
    until_call(&mut world, "ClearEmptyDirs");
    until_it_waits(&mut world);
    assert!(!world.is_dirty && world.is_frozen);
    world.turn = MemberTurn::Start;
    world.settle();
    assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
}

#[test]
fn an_agent_that_cannot_freeze_its_pod_refuses_a_member() {
    let mut blind = member();
    blind.support = FreezeSupport::Nothing;
    let mut shared = member();
    shared.runtime.cgroup = None;
    let mut same_sandbox = member();
    same_sandbox.restart.spec.rung = Some(rekindle_types::v1alpha1::Rung::Containers);
    for (mut world, expected) in [
        (blind, "set the chart's value agent.freezePods"),
        (shared, "shows no cgroup (v2) of pod web alone"),
        (same_sandbox, "ask for rung Pod"),
    ] {
        world.agent();
        assert_eq!(world.phase(), Some(PodRestartPhase::Refused), "{expected}");
        assert!(world.message().contains(expected), "{}", world.message());
        assert_eq!(world.calls, [""; 0]);
    }
}
