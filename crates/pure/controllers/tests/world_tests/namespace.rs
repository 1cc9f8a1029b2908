//! Deletion of a namespace with everything in it.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, ViewObject, WriteOperation};
use serde_json::json;

use crate::build::{deployment, pod};
use crate::world::{World, id};

/// `TYPE STATUS REASON: MESSAGE`, in their order.
fn conditions(world: &World) -> Vec<String> {
    let ViewObject::Namespace(going) = &world.api.objects[&id(ResourceKind::Namespace, "shop")]
    else {
        panic!()
    };
    let conditions = going.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    conditions
        .map(|c| format!("{} {} {}: {}", c.type_, c.status, text(&c.reason), text(&c.message)))
        .collect()
}

#[test]
fn everything_in_it_goes_then_the_namespace() {
    let mut world = World::with_node();
    world.create(deployment("web", 3, "one"));
    world.create(pod("naked", json!({})));
    for kind in ["ConfigMap", "Secret", "Service", "ServiceAccount", "Lease"] {
        world.create(json!({"kind": kind, "metadata": {"name": "thing"}}));
    }
    world.converge();
    let namespace = id(ResourceKind::Namespace, "shop");
    world.api.user_deletes(&namespace, DependentPolicy::Background);
    world.settle();
    let remaining = "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: pods. has 4 resource instances";
    assert_eq!(conditions(&world)[3], remaining, "pods get their grace, everything else is gone");
    world.converge();
    assert!(!world.api.objects.contains_key(&namespace));
    assert!(world.api.objects.keys().all(|id| id.name.namespace != "shop"));
}

#[test]
fn an_object_with_a_finalizer_holds_the_namespace() {
    let mut world = World::with_node();
    let held = world.create(json!({"kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/wait"]}}));
    let mut web = deployment("web", 0, "one");
    web["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/wait"]);
    let web = world.create(web);
    world.converge();
    let namespace = id(ResourceKind::Namespace, "shop");
    world.api.user_deletes(&namespace, DependentPolicy::Background);
    world.converge();
    assert!(world.api.objects.contains_key(&namespace));
    assert!(!world.writes.iter().any(|w| matches!(w, WriteOperation::Finalize(_))));
    let mut expected = [
        "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
        "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
        "NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
        "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances, \
         deployments.apps has 1 resource instances",
        "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
         example.com/hold in 1 resource instances, example.com/wait in 2 resource instances",
    ];
    assert_eq!(conditions(&world), expected);
    world.api.change(&web, |object| object["metadata"]["finalizers"] = json!([]));
    world.converge();
    expected[3] = "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances";
    expected[4] = "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
                   example.com/wait in 1 resource instances";
    assert_eq!(conditions(&world), expected);
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
    let namespace = id(ResourceKind::Namespace, "shop");
    world.api.user_deletes(&namespace, DependentPolicy::Background);
    while world.watch_next(ResourceKind::Namespace) {} // the watch of ConfigMaps lags behind
    while let Some(key) = world.queue.pop_first() {
        world.work(&key, |_| crate::world::Answer::Arrives);
    }
    assert!(
        world.api.objects.contains_key(&namespace),
        "the server was asked, and it is not empty"
    );
    assert!(world.api.objects[&held].meta().deletion_timestamp.is_some());
}

#[test]
fn a_namespace_that_others_hold_says_that_it_is_empty() {
    let mut world = World::with_node();
    let namespace = id(ResourceKind::Namespace, "shop");
    world.api.change(&namespace, |namespace| {
        namespace["metadata"]["finalizers"] = json!(["example.com/wait"]);
    });
    let held = world.create(json!({"kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/wait"]}}));
    world.api.user_deletes(&namespace, DependentPolicy::Background);
    world.converge();
    assert!(conditions(&world)[4].contains("example.com/wait in 1 resource instances"));
    world.api.change(&held, |object| object["metadata"]["finalizers"] = json!([]));
    world.converge();
    assert!(conditions(&world).iter().all(|condition| condition.contains(" False ")));
    world.api.change(&namespace, |namespace| namespace["metadata"]["finalizers"] = json!([]));
    world.converge();
    assert!(!world.api.objects.contains_key(&namespace));
}
