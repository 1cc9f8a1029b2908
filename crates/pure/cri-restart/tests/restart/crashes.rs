use std::collections::BTreeSet;

use proptest::prelude::*;
use rekindle_cri_restart::RuntimeContainer;
use rekindle_types::spared_pods::RESTART_INCLUDES_ANNOTATION;
use rekindle_types::v1alpha1::{MemberTurn, PodRestartPhase};
use serde_json::json;

use crate::world::{NodeWorld, pod, request};

#[derive(Clone, Copy, Debug)]
enum NodeEvent {
    Agent,
    AgentDies,
    AgentDiesBeforeItsWrite,
    Kubelet,
    ContainerDies(usize),
    SandboxDies,
    CallFails,
    OperatorGivesUp,
    GroupStarts,
}

fn node_event() -> impl Strategy<Value = NodeEvent> {
    prop_oneof![
        6 => Just(NodeEvent::Agent),
        2 => Just(NodeEvent::AgentDies),
        1 => Just(NodeEvent::AgentDiesBeforeItsWrite),
        3 => Just(NodeEvent::Kubelet),
        1 => (0..8_usize).prop_map(NodeEvent::ContainerDies),
        1 => Just(NodeEvent::SandboxDies),
        2 => Just(NodeEvent::CallFails),
        1 => Just(NodeEvent::OperatorGivesUp),
        1 => Just(NodeEvent::GroupStarts),
    ]
}

fn happen(world: &mut NodeWorld, event: NodeEvent) {
    match event {
        NodeEvent::Agent => {
            world.agent();
        }
        NodeEvent::AgentDies => world.crash(),
        NodeEvent::AgentDiesBeforeItsWrite => {
            let before = world.restart.status.clone();
            world.agent();
            world.restart.status = match world.next() {
                // a call was made: that cannot be undone, only forgotten
                _ if world.calls.is_empty() => before,
                _ => world.restart.status.clone(),
            };
            world.crash();
        }
        NodeEvent::Kubelet => {
            world.kubelet();
            world.pass(1);
        }
        NodeEvent::ContainerDies(which) => {
            let id = world.runtime.containers.get(which).map(|container| container.id.clone());
            id.into_iter().for_each(|id| world.end(&id, 1));
        }
        NodeEvent::SandboxDies => {
            let id = world.runtime.ready_sandbox().map(|sandbox| sandbox.id.clone());
            id.into_iter().for_each(|id| world.end_sandbox(&id));
        }
        NodeEvent::OperatorGivesUp => {
            if let Some(status) = world.restart.status.as_mut().filter(|s| s.runtime.is_some()) {
                status.phase = Some(PodRestartPhase::Failed);
            }
        }
        NodeEvent::GroupStarts if world.restart.spec.member_of.is_some() => {
            world.turn = MemberTurn::Start;
        }
        NodeEvent::GroupStarts => {}
        NodeEvent::CallFails => world.errors.push("broken".to_owned()),
    }
}

/// What the calls of this kind were about.
fn ended<'a>(world: &'a NodeWorld, call: &str) -> BTreeSet<&'a str> {
    let of = world.calls.iter().filter_map(|text| text.strip_prefix(call));
    of.flat_map(str::split_whitespace).collect()
}

fn world(rung: &str, clears: bool, is_member: bool, is_killed: bool) -> NodeWorld {
    let mut restart = request(json!({"rung": rung}));
    restart.spec.empty_dirs = None;
    restart.spec.member_of = is_member.then(|| "train".to_owned());
    let volumes = json!([{"name": "scratch", "emptyDir": {}}]);
    let mut spec = if clears { json!({"volumes": volumes}) } else { json!({}) };
    if is_killed {
        spec["restartPolicy"] = "OnFailure".into();
        let annotations = restart.metadata.annotations.get_or_insert_default();
        annotations.insert(RESTART_INCLUDES_ANNOTATION.to_owned(), "OnFailure".to_owned());
    }
    NodeWorld::new(restart, pod(spec))
}

proptest! {
    #[test]
    fn a_restart_succeeds_where_nothing_but_agents_fails(
        events in prop::collection::vec(
            prop_oneof![
                5 => Just(NodeEvent::Agent),
                2 => Just(NodeEvent::AgentDies),
                3 => Just(NodeEvent::Kubelet),
            ],
            0..60,
        ),
        (clears, is_member, is_killed, is_crio) in any::<(bool, bool, bool, bool)>(),
    ) {
        let mut world = world("Pod", clears, is_member, is_killed);
        world.is_crio = is_crio;
        // begun: a sandbox that ends before is not its own
        world.agent();
        for event in events {
            happen(&mut world, event);
        }
        world.turn = MemberTurn::Start;
        world.settle();
        prop_assert_eq!(world.phase(), Some(PodRestartPhase::Succeeded), "{}", world.message());
        prop_assert!(!world.is_frozen && world.is_dirty != clears);
    }

    #[test]
    fn no_pod_is_restarted_twice_for_one_request_whatever_dies_between_two_steps(
        events in prop::collection::vec(node_event(), 0..60),
        (rung, clears) in prop_oneof![
            2 => Just(("Pod", false)), 2 => Just(("Pod", true)),
            1 => Just(("Containers", false)), 1 => Just(("Container", false)),
        ],
        (is_member, is_killed, is_crio) in any::<(bool, bool, bool)>(),
    ) {
        let (is_member, is_killed) = (is_member && rung == "Pod", is_killed && rung == "Pod");
        let mut world = world(rung, clears, is_member, is_killed);
        world.is_crio = is_crio;
        for event in events {
            let was_over = world.is_over();
            let calls = world.calls.len();
            happen(&mut world, event);
            let thaws = |call: &String| call.starts_with("ReleasePod");
            let more = &world.calls[calls..];
            prop_assert!(!was_over || more.iter().all(thaws), "a call after the end: {more:?}");
            let began = world.restart.status.as_ref().is_some_and(|s| s.runtime.is_some());
            prop_assert!(world.calls.is_empty() || began, "a call before it was written");
            let stopped = world.restart.status.as_ref().is_some_and(|s| s.stopped_at.is_some());
            if stopped && world.turn == MemberTurn::Stop && !world.is_over() {
                let runs = world.runtime.containers.iter().any(RuntimeContainer::may_run);
                prop_assert!(!runs, "a member runs before its group starts");
            }
        }
        let is_unbegun = world.phase().is_none() && world.turn == MemberTurn::Start;
        if is_unbegun {
            prop_assert!(world.calls.is_empty(), "its group went on without it");
            return Ok(());
        }
        world.errors.clear();
        world.settle();
        // what is left, if a thaw had failed too often
        world.crash();
        world.agent();
        world.agent();
        let begun = world.restart.status.clone().unwrap().runtime;
        let sandboxes: BTreeSet<&str> =
            &ended(&world, "StopSandbox ") | &ended(&world, "RemoveSandbox ");
        let written: BTreeSet<&str> = begun.iter().map(|b| b.sandbox_id.as_str()).collect();
        prop_assert!(sandboxes.is_subset(&written), "{sandboxes:?} of {written:?}");
        prop_assert!(rung == "Pod" || sandboxes.is_empty());
        let containers: BTreeSet<&str> =
            begun.iter().flat_map(|b| &b.containers).filter_map(|c| c.container_id.as_deref()).collect();
        let asked = ended(&world, "StopContainers ");
        prop_assert!(asked.is_subset(&containers) && (asked.is_empty() || !is_killed));
        prop_assert!(!world.is_frozen, "a pod is never left frozen");
        if world.phase() == Some(PodRestartPhase::Succeeded) && rung == "Pod" {
            prop_assert!(world.is_dirty != clears, "it is emptied when it was asked for");
            let old = sandboxes.iter().next().copied().unwrap_or_default();
            prop_assert!(world.runtime.sandbox(old).is_none(), "the old one is gone");
        }
    }
}
