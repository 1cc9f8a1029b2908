//! Deletion of a namespace with everything in it.

use rekindle_controllers::plan::Propagation;
use rekindle_controllers::{Kind, Object, Write};
use serde_json::json;

use crate::build::{deployment, pod};
use crate::world::{World, id};

#[test]
fn everything_in_it_goes_then_the_namespace() {
    let mut world = World::with_node();
    world.create(deployment("web", 3, "one"));
    world.create(pod("naked", json!({})));
    for kind in ["ConfigMap", "Secret", "Service", "ServiceAccount", "Lease"] {
        world.create(json!({"kind": kind, "metadata": {"name": "thing"}}));
    }
    world.converge();
    let namespace = id(Kind::Namespace, "shop");
    world.api.user_deletes(&namespace, Propagation::Background);
    world.settle();
    let Object::Namespace(going) = &world.api.objects[&namespace] else { panic!() };
    let conditions = going.status.as_ref().unwrap().conditions.as_ref().unwrap();
    assert_eq!(
        conditions[0].message.as_deref(),
        Some("Some resources are remaining: pods. has 4 resource instances"),
        "pods get their grace, everything else is gone"
    );
    world.converge();
    assert!(!world.api.objects.contains_key(&namespace));
    assert!(world.api.objects.keys().all(|id| id.name.namespace != "shop"));
}

#[test]
fn an_object_with_a_finalizer_holds_the_namespace() {
    let mut world = World::with_node();
    let held = world.create(json!({"kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/wait"]}}));
    world.converge();
    let namespace = id(Kind::Namespace, "shop");
    world.api.user_deletes(&namespace, Propagation::Background);
    world.converge();
    assert!(world.api.objects.contains_key(&namespace));
    assert!(!world.writes.iter().any(|w| matches!(w, Write::Finalize(_))));
    world.api.change(&held, |object| object["metadata"]["finalizers"] = json!([]));
    world.converge();
    assert!(!world.api.objects.contains_key(&namespace));
}

#[test]
fn what_the_view_has_not_seen_yet_is_deleted_too() {
    let mut world = World::with_node();
    world.settle();
    let held = world.create(json!({"kind": "ConfigMap",
        "metadata": {"name": "late", "finalizers": ["example.com/wait"]}}));
    let namespace = id(Kind::Namespace, "shop");
    world.api.user_deletes(&namespace, Propagation::Background);
    while world.watch_next(Kind::Namespace) {} // the watch of ConfigMaps lags behind
    while let Some(key) = world.queue.pop_first() {
        world.work(&key, |_| crate::world::Answer::Arrives);
    }
    assert!(
        world.api.objects.contains_key(&namespace),
        "the server was asked, and it is not empty"
    );
    assert!(world.api.objects[&held].meta().deletion_timestamp.is_some());
}
