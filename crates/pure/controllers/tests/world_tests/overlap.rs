//! Controllers whose selectors match each other's pods: each keeps to its own, and all come to
//! rest. Source: documentation of ReplicaSets, "Non-Template Pod acquisitions": a pod has one
//! controller, and what has one is nobody else's.

use proptest::prelude::*;
use rekindle_controllers::{ObjectId, ResourceKind, pods};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::{deployment, pod, replica_set, template};
use crate::random::{Happening, config, machinery, trouble};
use crate::world::{World, id};

/// The same labels and the same template under another name.
fn twin(mut value: Value) -> Value {
    value["metadata"]["name"] = json!("twin");
    value
}

fn controller(replicas: i32) -> Value {
    json!({
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"app": "web"}, "template": template("web", "one")},
    })
}

/// Two that would like to have the same pods.
fn rivals(pair: usize, sizes: (i32, i32)) -> [Value; 2] {
    match pair {
        0 => [replica_set("web", sizes.0), twin(replica_set("web", sizes.1))],
        1 => [controller(sizes.0), twin(replica_set("web", sizes.1))],
        _ => [deployment("web", sizes.0, "one"), twin(deployment("web", sizes.1, "one"))],
    }
}

/// The pods that belong to an object, by way of its ReplicaSets if it is a Deployment.
fn pods_of(world: &World, owner: &ObjectId) -> usize {
    let uid = world.api.objects[owner].uid();
    let owned_by = |kind: ResourceKind, uid: &str| -> Vec<ObjectId> {
        let of = |id: &ObjectId| {
            let meta = world.api.objects[id].meta();
            meta.owner_references.iter().flatten().any(|owner| owner.uid == uid)
        };
        world.api.ids(kind, "shop").into_iter().filter(of).collect()
    };
    let sets = owned_by(ResourceKind::ReplicaSet, uid);
    let owners = sets.iter().map(|set| world.api.objects[set].uid()).chain([uid]);
    let all = owners.flat_map(|uid| owned_by(ResourceKind::Pod, uid));
    all.filter(|id| world.view.pod(&id.name).is_some_and(|pod| pods::is_active(pod))).count()
}

fn keeps_to_its_own(pair: usize, sizes: (i32, i32), strays: usize, happenings: &[Happening]) {
    let mut world = World::with_node();
    let rivals = rivals(pair, sizes).map(|rival| world.create(rival));
    for n in 0..strays {
        world.create(pod(&format!("stray-{n}"), json!({"app": "web"})));
    }
    for happening in happenings {
        world.happens(happening);
    }
    world.heal();
    let [one, other] = &rivals;
    let kept = (pods_of(&world, one), pods_of(&world, other));
    assert_eq!(kept, (usize::try_from(sizes.0).unwrap(), usize::try_from(sizes.1).unwrap()));
    world.writes.clear();
    world.advance(TickDuration::from_secs(3600));
    assert_eq!(world.writes, [], "who has what he wants writes nothing");
}

#[test]
fn a_pod_that_two_would_have_is_taken_by_one() {
    for pair in 0..2 {
        let mut world = World::with_node();
        let stray = world.create(pod("stray", json!({"app": "web"})));
        for rival in rivals(pair, (1, 1)) {
            world.create(rival);
        }
        world.converge();
        let owners = world.api.objects[&stray].meta().owner_references.clone();
        assert_eq!(owners.unwrap_or_default().len(), 1);
        assert_eq!(world.api.ids(ResourceKind::Pod, "shop").len(), 2);
        assert!(world.api.objects.contains_key(&id(ResourceKind::Pod, "stray")));
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn controllers_with_overlapping_selectors_do_not_fight(
        (pair, sizes, strays) in (0..3usize, (0..4i32, 0..4i32), 0..4usize),
        happenings in prop::collection::vec(prop_oneof![12 => machinery(), 1 => trouble()], 0..200),
    ) {
        keeps_to_its_own(pair, sizes, strays, &happenings);
    }
}
