//! The scheduler: pods of lower priority end, so that a pod that fits nowhere fits somewhere.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject, WriteOperation};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

/// A pod of so many CPUs and of a priority.
fn asks(name: &str, cpus: u8, priority: i32) -> Value {
    let mut pod = pod(name, json!({"app": name}));
    pod["spec"]["priority"] = json!(priority);
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpus.to_string()}});
    pod
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn found<'w>(world: &'w World, id: &ObjectId) -> &'w HeldPod {
    match &world.api.objects[id] {
        ViewObject::Pod(pod) => pod,
        other => panic!("{other:?}"),
    }
}

fn node_of(world: &World, id: &ObjectId) -> Option<String> {
    found(world, id).node_name.clone()
}

fn nominated(world: &World, id: &ObjectId) -> Option<String> {
    found(world, id).status.as_ref().unwrap().nominated_node_name.clone()
}

/// The names of the pods that were deleted, in order.
fn deleted(world: &World) -> Vec<String> {
    let deleted = world.writes.iter().filter_map(|write| match write {
        WriteOperation::Delete(delete) => Some(delete.id.name.name.clone()),
        _ => None,
    });
    deleted.collect()
}

/// The node of a pod takes it up, and one that was deleted ends.
fn kubelet_starts(world: &mut World, id: &ObjectId, second: u64) {
    world.set_ready(id, "True");
    let started = format!("2026-11-21T12:00:{second:02}Z");
    world.api.change(id, |pod| pod["status"]["startTime"] = json!(started));
}

/// A user deletes what is in the way: both wait for the same room, and there is enough for both of
/// them.
#[test]
fn two_that_found_room_beside_each_other_do_not_take_it_from_each_other_in_turns() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    let old = world.create(asks("old", 4, 0));
    world.settle();
    world.set_ready(&old, "True");
    world.api.user_deletes(&old, DependentPolicy::Default);
    let strong = world.create(asks("strong", 2, 2));
    world.settle();
    let meek = world.create(asks("meek", 2, 1));
    world.settle();
    world.api.change(&id(ResourceKind::Node, "a"), |node| {
        node["metadata"]["labels"] = json!({"more": "1"})
    });
    world.settle();
    let both = [&strong, &meek].map(|pod| nominated(&world, pod));
    assert_eq!(both, [Some("a".to_owned()), Some("a".to_owned())]);
    world.api.pod_ended(&old);
    world.settle();
    assert_eq!([&strong, &meek].map(|pod| node_of(&world, pod)), both);
}

/// Kubernetes documentation, "Pod Priority and Preemption", from the nomination to the binding.
#[test]
fn the_pods_of_lowest_priority_end_with_their_grace_and_the_nominated_pod_takes_their_place() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    let low = world.create(asks("low", 2, 1));
    let middle = world.create(asks("middle", 2, 5));
    world.settle();
    let high = world.create(asks("high", 1, 10));
    world.settle();
    assert_eq!(deleted(&world), ["low"]);
    assert_eq!(nominated(&world, &high).as_deref(), Some("a"));
    let condition = found(&world, &low).status.as_ref().unwrap().conditions.clone().unwrap();
    assert_eq!(condition[0].type_, "DisruptionTarget");
    assert_eq!(condition[0].reason.as_deref(), Some("PreemptionByScheduler"));
    let message = "default-scheduler: preempting to accommodate a higher priority pod";
    assert_eq!(condition[0].message.as_deref(), Some(message));
    let uid = found(&world, &high).metadata.uid.clone().unwrap();
    assert!(world.said().contains(&format!("Preempted: Preempted by pod {uid} on node a")));
    let first = "FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu.";
    assert!(world.said().contains(&first.to_owned()), "{:?}", world.said());
    assert!(found(&world, &low).metadata.deletion_timestamp.is_some(), "it has its grace");

    world.api.add_node("tiny", "500m", "16Gi", "110");
    world.advance(TickDuration::from_secs(400));
    assert_eq!(deleted(&world), ["low"], "those that end are waited for");
    let waits = "FailedScheduling: 0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node.";
    assert!(world.said().contains(&waits.to_owned()), "{:?}", world.said());

    world.kubelet_at(&low);
    world.advance(TickDuration::from_secs(1));
    assert_eq!(node_of(&world, &high).as_deref(), Some("a"));
    assert_eq!(nominated(&world, &high), None);
    assert!(found(&world, &middle).metadata.deletion_timestamp.is_none());
}

#[test]
fn a_pod_that_never_preempts_waits_and_says_so() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.create(asks("low", 4, 1));
    world.settle();
    let mut high = asks("high", 1, 10);
    high["spec"]["preemptionPolicy"] = json!("Never");
    let high = world.create(high);
    world.settle();
    assert_eq!(deleted(&world), [""; 0]);
    assert_eq!(nominated(&world, &high), None);
    let said = "FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.";
    assert!(world.said().contains(&said.to_owned()), "{:?}", world.said());
}

/// As upstream, which asks of a node with and without those that are to come.
#[test]
fn nobody_ends_for_a_pod_that_wants_to_be_near_one_that_is_not_there_yet() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.api.change(&id(ResourceKind::Node, "a"), |node| {
        node["metadata"]["labels"] = json!({"kubernetes.io/hostname": "a"});
    });
    let (first, second) = (world.create(asks("first", 2, 1)), world.create(asks("second", 2, 2)));
    world.settle();
    world.create(asks("friend", 2, 10));
    world.settle();
    assert_eq!(deleted(&world), ["first"]);
    let mut near = asks("near", 2, 10);
    near["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "friend"}}}]}});
    let near = world.create(near);
    world.settle();
    assert_eq!(deleted(&world), ["first"], "its friend may go elsewhere yet");
    world.kubelet_at(&first);
    world.settle();
    assert_eq!(deleted(&world), ["first", "second"], "its friend is there");
    world.kubelet_at(&second);
    world.settle();
    assert_eq!(node_of(&world, &near).as_deref(), Some("a"));
}

#[test]
fn nobody_ends_for_nothing() {
    let selector = json!({"nodeSelector": {"disk": "ssd"}});
    // (the pod that is there, the pod that comes, what more its spec says, why nobody ends)
    for (there, comes, more, why) in [
        (
            asks("a", 4, 10),
            asks("b", 1, 10),
            json!({}),
            "1 No preemption victims found for incoming pod",
        ),
        (
            asks("a", 4, 1),
            asks("b", 5, 10),
            json!({}),
            "1 Preemption is not helpful for scheduling",
        ),
        (asks("a", 4, 1), asks("b", 1, 10), selector, "1 Preemption is not helpful for scheduling"),
    ] {
        let mut world = World::new();
        world.api.add_node("a", "4", "16Gi", "110");
        world.create(there);
        world.settle();
        let mut comes = comes;
        for (key, value) in more.as_object().unwrap() {
            comes["spec"][key] = value.clone();
        }
        let comes = world.create(comes);
        world.settle();
        assert_eq!(deleted(&world), [""; 0]);
        assert_eq!(nominated(&world, &comes), None);
        let end = format!("preemption: 0/1 nodes are available: {why}.");
        assert!(world.said().iter().any(|said| said.ends_with(&end)), "{end}: {:?}", world.said());
    }
    // the pod of higher priority that is there leaves too little room
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.create(asks("strong", 3, 20));
    world.create(asks("weak", 1, 1));
    world.settle();
    world.create(asks("comes", 2, 10));
    world.settle();
    assert_eq!(deleted(&world), [""; 0]);
    let end = "preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert!(world.said().iter().any(|said| said.ends_with(end)), "{:?}", world.said());
}

/// In this order: budgets, the highest priority, the sum of priorities, how many, how long they
/// have run, the name.
#[test]
fn pods_end_on_the_node_that_loses_least() {
    // (pods of node a, pods of node b: CPUs, priority, started at second, whether a budget protects
    // it; who ends)
    type There = (u8, i32, u64, bool);
    let cases: [(&[There], &[There], &[&str]); 7] = [
        (&[(4, 1, 0, true)], &[(4, 5, 0, false)], &["b0"]),
        (&[(4, 2, 0, false)], &[(4, 1, 0, false)], &["b0"]),
        (
            &[(2, 2, 0, false), (2, 2, 0, false)],
            &[(2, 2, 0, false), (2, 1, 0, false)],
            &["b0", "b1"],
        ),
        (&[(2, -1, 0, false), (2, -1, 0, false)], &[(4, -1, 0, false)], &["b0"]),
        (&[(4, 1, 10, false)], &[(4, 1, 20, false)], &["b0"]),
        (&[(4, 1, 10, false)], &[(4, 1, 10, false)], &["a0"]),
        (&[(4, 1, 0, true)], &[(4, 1, 10, true)], &["b0"]),
    ];
    for (on_a, on_b, expected) in cases {
        let mut world = World::new();
        for (node, pods) in [("a", on_a), ("b", on_b)] {
            world.api.add_node(node, "4", "16Gi", "110");
            for (index, (cpus, priority, second, protected)) in pods.iter().enumerate() {
                let name = format!("{node}{index}");
                let pod = world.create(on(asks(&name, *cpus, *priority), node));
                kubelet_starts(&mut world, &pod, *second);
                if *protected {
                    world.create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": name},
                        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}}));
                }
            }
        }
        world.settle();
        world.create(asks("comes", 4, 10));
        world.settle();
        assert_eq!(deleted(&world), expected, "{on_a:?} {on_b:?}");
    }
}

#[test]
fn the_pod_whose_end_breaks_a_budget_is_kept_where_another_can_go() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    for name in ["weak", "strong"] {
        let pod = world.create(on(asks(name, 2, if name == "weak" { 1 } else { 5 }), "a"));
        kubelet_starts(&mut world, &pod, 0);
    }
    world.create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "weak"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "weak"}}}}));
    world.settle();
    world.create(asks("comes", 2, 10));
    world.settle();
    assert_eq!(deleted(&world), ["strong"], "the budget outweighs the priority");
}

/// Each end takes from the budget: what is left of it is for the next.
#[test]
fn a_budget_is_used_up_by_the_victims_of_one_node() {
    // (how many pods of node a the budget wants, who ends)
    for (wanted, expected) in [(0, ["a-0", "a-1"]), (1, ["b-0", "b-1"])] {
        let mut world = World::new();
        for (node, priority) in [("a", 1), ("b", 2)] {
            world.api.add_node(node, "4", "16Gi", "110");
            for number in 0..2 {
                let mut pod = on(asks(&format!("{node}-{number}"), 2, priority), node);
                pod["metadata"]["labels"] = json!({"on": node});
                let pod = world.create(pod);
                kubelet_starts(&mut world, &pod, 0);
            }
        }
        world.create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "a"},
            "spec": {"minAvailable": wanted, "selector": {"matchLabels": {"on": "a"}}}}));
        world.settle();
        world.create(asks("comes", 4, 10));
        world.settle();
        assert_eq!(deleted(&world), expected, "of node a {wanted} are wanted");
    }
}

#[test]
fn room_that_is_made_for_one_is_not_given_to_a_weaker_one() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    let low = world.create(asks("low", 4, 1));
    world.settle();
    let high = world.create(asks("high", 4, 10));
    world.settle();
    let weak = world.create(asks("weak", 1, 5));
    world.settle();
    world.kubelet_at(&low);
    // Even if the weaker one is looked at first.
    world.watch_next(ResourceKind::Pod);
    world.queue.clear();
    world.work(&rekindle_controllers::ControllerKey::Schedule(weak.name.clone()), |_| {
        crate::world::Answer::Arrives
    });
    world.work(&rekindle_controllers::ControllerKey::Schedule(high.name.clone()), |_| {
        crate::world::Answer::Arrives
    });
    world.advance(TickDuration::from_secs(20));
    assert_eq!(node_of(&world, &weak), None);
    assert_eq!(node_of(&world, &high).as_deref(), Some("a"));
    // A stronger one takes the nomination away.
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.create(asks("low", 4, 1));
    world.settle();
    let high = world.create(asks("high", 4, 10));
    world.settle();
    assert_eq!(nominated(&world, &high).as_deref(), Some("a"));
    let higher = world.create(asks("higher", 4, 20));
    world.settle();
    assert_eq!(nominated(&world, &higher).as_deref(), Some("a"));
    assert_eq!(nominated(&world, &high), None);
}

#[test]
fn two_that_come_together_make_room_for_both_and_for_no_more() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    let there: Vec<_> = (0..4).map(|n| world.create(asks(&format!("low-{n}"), 1, 1))).collect();
    world.settle();
    let comes = ["x", "y"].map(|name| world.create(asks(name, 1, 10)));
    world.advance(TickDuration::from_secs(30));
    assert_eq!(deleted(&world).len(), 2, "{:?}", deleted(&world));
    there.iter().for_each(|pod| world.kubelet_at(pod));
    world.advance(TickDuration::from_secs(30));
    for pod in &comes {
        assert_eq!(node_of(&world, pod).as_deref(), Some("a"));
    }
}

/// What a property of preemption is tried on: nodes with the CPUs and priorities of their pods, and
/// the pod that comes.
fn crowded() -> impl Strategy<Value = (Vec<Vec<(u8, i32)>>, u8, i32)> {
    let pods = proptest::collection::vec((1..4u8, 0..6i32), 0..6);
    (proptest::collection::vec(pods, 1..4), 1..9u8, 0..8i32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Only pods of a lower priority end, each of them is needed, the pod fits when they are gone,
    /// and the same happens again.
    #[test]
    fn no_more_than_needed_end_and_none_of_the_same_or_a_higher_priority(
        (nodes, cpus, priority) in crowded(),
    ) {
        let run = || {
            let mut world = World::new();
            let mut there = BTreeMap::new();
            for (number, pods) in nodes.iter().enumerate() {
                let node = format!("n{number}");
                world.api.add_node(&node, "8", "16Gi", "110");
                let mut room = 8;
                for (index, (cpus, priority)) in pods.iter().enumerate() {
                    if *cpus > room {
                        continue;
                    }
                    room -= cpus;
                    let name = format!("{node}-{index}");
                    world.create(on(asks(&name, *cpus, *priority), &node));
                    there.insert(name, (node.clone(), *cpus, *priority));
                }
            }
            world.settle();
            let comes = world.create(asks("comes", cpus, priority));
            world.settle();
            (world, there, comes)
        };
        let (mut world, there, comes) = run();
        let gone = deleted(&world);
        prop_assert_eq!(&gone, &deleted(&run().0), "the same again");
        if gone.is_empty() {
            let has_room = node_of(&world, &comes).is_some();
            let could = nodes.iter().enumerate().any(|(number, _)| {
                let of_node = there.values().filter(|(node, ..)| *node == format!("n{number}"));
                let kept: u8 = of_node.filter(|(.., p)| *p >= priority).map(|(_, c, _)| *c).sum();
                kept + cpus <= 8
            });
            prop_assert!(has_room || !could, "nobody ends although it would help");
            return Ok(());
        }
        let node = nominated(&world, &comes).unwrap();
        let of_node = there.values().filter(|(on, ..)| *on == node);
        let used: u8 = of_node.map(|(_, cpus, _)| *cpus).sum();
        let freed: u8 = gone.iter().map(|name| there[name].1).sum();
        for name in &gone {
            let (on, its_cpus, its_priority) = &there[name];
            prop_assert_eq!(on, &node);
            prop_assert!(*its_priority < priority, "{} is of priority {}", name, its_priority);
            prop_assert!(used - freed + its_cpus + cpus > 8, "{} could have stayed", name);
        }
        for name in &gone {
            world.kubelet_at(&id(ResourceKind::Pod, name));
        }
        world.advance(TickDuration::from_secs(20));
        prop_assert_eq!(node_of(&world, &comes), Some(node));
    }
}
