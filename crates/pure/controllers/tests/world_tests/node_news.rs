//! What is said of nodes that come and go, in upstream's words (`pkg/controller/nodelifecycle`).

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ClusterView, ResourceKind};
use rekindle_types::{EventSeverity, TickDuration};

use crate::world::{World, id};

const REGISTERED: &str = "RegisteredNode: Registered Node node-1 in Controller";
const REMOVING: &str = "RemovingNode: Removing Node node-1 from Controller";

/// The controllers start anew: nothing is left of what they knew, and they list everything.
fn restart(world: &mut World) {
    world.view = ClusterView::new();
    world.queue.clear();
    world.timers.clear();
    for kind in ResourceKind::ALL {
        world.relist(kind, 0);
    }
    world.settle();
}

fn uid(world: &World) -> String {
    world.api.objects[&id(ResourceKind::Node, "node-1")].uid().to_owned()
}

#[test]
fn a_node_that_registers_and_goes_is_told_of_once() {
    let mut world = World::with_node();
    let first = uid(&world);
    world.advance(TickDuration::from_secs(600));
    world.api.change(&id(ResourceKind::Node, "node-1"), |node| {
        node["metadata"]["labels"] = serde_json::json!({"disk": "fast"});
    });
    world.advance(TickDuration::from_secs(600));
    assert_eq!(world.said(), [REGISTERED]);

    world.api.user_deletes(&id(ResourceKind::Node, "node-1"), DependentPolicy::Background);
    world.settle();
    assert_eq!(world.said(), [REGISTERED, REMOVING]);
    world.api.add_node("node-1", "1", "1Gi", "10");
    world.settle();
    assert_eq!(world.said(), [REGISTERED, REMOVING, REGISTERED]);
    let about: Vec<_> = world.notes.iter().map(|note| note.about.uid.clone()).collect();
    assert_eq!(about, [first.clone(), first, uid(&world)], "each about its own node");
    for note in &world.notes {
        assert_eq!((note.component, note.severity), ("node-controller", EventSeverity::Normal));
        assert_eq!((note.about.api_version.as_str(), note.about.kind), ("v1", "Node"));
    }
}

#[test]
fn a_node_that_took_the_name_of_another_unseen_is_told_of_with_it() {
    let mut world = World::with_node();
    world.settle();
    world.api.user_deletes(&id(ResourceKind::Node, "node-1"), DependentPolicy::Background);
    world.api.add_node("node-1", "1", "1Gi", "10");
    world.relist(ResourceKind::Node, 0);
    world.settle();
    let mut said = world.said();
    said.sort();
    assert_eq!(said, [REGISTERED, REGISTERED, REMOVING]);
}

/// Upstream says of every node that it registered, whenever the controller starts.
#[test]
fn controllers_that_start_tell_of_new_nodes_only() {
    for (age, told) in [(59, vec![REGISTERED]), (61, vec![])] {
        let mut world = World::with_node();
        world.advance(TickDuration::from_secs(age));
        world.notes.clear();
        restart(&mut world);
        restart(&mut world);
        let told: Vec<_> = told.iter().chain(&told).copied().collect();
        assert_eq!(world.said(), told, "a node of {age} s");
    }
}
