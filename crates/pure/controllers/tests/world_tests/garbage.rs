//! Garbage collection, after the Kubernetes documentation on owners and dependents.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, WriteOperation, WriteResult};
use serde_json::{Value, json};

use crate::build::{deployment, pod, replica_set};
use crate::world::{World, id};

fn owned(name: &str, owners: Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

fn reference(world: &World, owner: &ObjectId) -> Value {
    json!({"apiVersion": owner.kind.api_version(), "kind": owner.kind.info().kind,
        "name": owner.name.name, "uid": world.api.objects[owner].uid(), "blockOwnerDeletion": true})
}

fn count(world: &World, kind: ResourceKind) -> usize {
    world.api.ids(kind, "shop").len()
}

#[test]
fn deleting_a_deployment_takes_its_replica_sets_and_pods_with_it() {
    for propagation in
        [DependentPolicy::Default, DependentPolicy::Background, DependentPolicy::Foreground]
    {
        let mut world = World::with_node();
        let web = world.create(deployment("web", 3, "one"));
        world.converge();
        world.api.user_deletes(&web, propagation);
        world.settle();
        let is_there = world.api.objects.contains_key(&web);
        let foreground = propagation == DependentPolicy::Foreground;
        assert_eq!(
            is_there, foreground,
            "in the foreground it waits for its pods ({propagation:?})"
        );
        world.converge();
        let left = (
            count(&world, ResourceKind::Deployment),
            count(&world, ResourceKind::ReplicaSet),
            count(&world, ResourceKind::Pod),
        );
        assert_eq!(left, (0, 0, 0), "{propagation:?}");
    }
}

#[test]
fn in_the_foreground_each_dependent_is_deleted_once_and_waits_only_for_dependents_of_its_own() {
    let mut world = World::with_node();
    let web = world.create(deployment("web", 3, "one"));
    world.converge();
    world.writes.clear();
    world.api.user_deletes(&web, DependentPolicy::Foreground);
    world.converge();
    let deletions = world.writes.iter().filter_map(|write| match write {
        WriteOperation::Delete(delete) => Some((delete.id.kind, delete.propagation)),
        _ => None,
    });
    let pod = (ResourceKind::Pod, DependentPolicy::Background);
    let expected = [(ResourceKind::ReplicaSet, DependentPolicy::Foreground), pod, pod, pod];
    assert_eq!(deletions.collect::<Vec<_>>(), expected);
}

#[test]
fn orphaning_lets_dependents_live() {
    let mut world = World::with_node();
    let web = world.create(replica_set("web", 2));
    world.converge();
    world.api.user_deletes(&web, DependentPolicy::Orphan);
    world.converge();
    assert!(!world.api.objects.contains_key(&web));
    assert_eq!(count(&world, ResourceKind::Pod), 2);
    assert!(
        world.api.pods().iter().all(|p| p
            .metadata
            .owner_references
            .iter()
            .flatten()
            .next()
            .is_none())
    );
}

#[test]
fn an_object_lives_as_long_as_one_owner_does_and_forgets_the_others() {
    let mut world = World::with_node();
    let (a, b) = (world.create(pod("a", json!({}))), world.create(pod("b", json!({}))));
    let owners = json!([reference(&world, &a), reference(&world, &b)]);
    let config = world.create(owned("config", owners));
    world.settle();
    world.kubelet();
    world.api.user_deletes(&a, DependentPolicy::Default);
    world.converge();
    let left = world.api.objects[&config].meta().owner_references.clone().unwrap();
    assert_eq!(left.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["b"]);
    world.api.user_deletes(&b, DependentPolicy::Default);
    world.converge();
    assert!(!world.api.objects.contains_key(&config));
}

#[test]
fn an_owner_is_its_uid_not_its_name() {
    let mut world = World::with_node();
    let owner = world.create(pod("owner", json!({})));
    let mut old = reference(&world, &owner);
    old["uid"] = json!("uid-of-an-earlier-one");
    let config = world.create(owned("config", json!([old])));
    world.settle();
    assert!(!world.api.objects.contains_key(&config));
}

#[test]
fn an_owner_that_the_view_does_not_know_is_looked_for_before_anything_is_deleted() {
    let mut world = World::with_node();
    let owner = world.create(pod("owner", json!({})));
    let config = world.create(owned("config", json!([reference(&world, &owner)])));
    while world.watch_next(ResourceKind::ConfigMap) {} // the watch of pods lags behind
    let key = world.queue.pop_first().unwrap();
    world.work(&key, |_| crate::world::Answer::Arrives);
    assert!(
        matches!(world.writes.last(), Some(WriteOperation::CheckAbsent { .. })),
        "{:?}",
        world.writes
    );
    world.converge();
    assert!(world.api.objects.contains_key(&config));
}

#[test]
fn owners_of_kinds_we_do_not_know_are_left_to_others() {
    let mut world = World::with_node();
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"});
    let config = world.create(owned("config", json!([unknown])));
    world.converge();
    assert!(world.api.objects.contains_key(&config));
    assert_eq!(id(ResourceKind::ConfigMap, "config"), config);
}

#[test]
fn an_object_without_a_namespace_is_never_collected_for_an_owner_that_would_have_one() {
    let mut world = World::with_node();
    let owner = world.create(pod("owner", json!({})));
    let there = reference(&world, &owner);
    let mut gone = there.clone();
    gone["uid"] = json!("uid-of-nobody");
    let classes = [("fast", there), ("slow", gone)].map(|(name, owner)| {
        let meta = json!({"name": name, "ownerReferences": [owner]});
        world.create(json!({"kind": "StorageClass", "metadata": meta, "provisioner": "none"}))
    });
    world.converge();
    world.api.user_deletes(&owner, DependentPolicy::Foreground);
    world.converge();
    assert!(!world.api.objects.contains_key(&owner), "it waits for nobody");
    assert!(classes.iter().all(|class| world.api.objects.contains_key(class)));
    let warned = world.notes.iter().filter(|note| note.reason == "OwnerRefInvalidNamespace");
    let warned: std::collections::BTreeSet<_> =
        warned.map(|note| (note.about.name.as_str(), note.message.as_str())).collect();
    let said = |uid| {
        format!(
            "ownerRef [v1/Pod, namespace: , name: owner, uid: {uid}] does not exist in namespace \"\""
        )
    };
    let (fast, slow) = (said("uid-3"), said("uid-of-nobody"));
    assert_eq!(warned, [("fast", fast.as_str()), ("slow", slow.as_str())].into());
}

#[test]
fn an_owner_in_another_namespace_is_none_and_the_event_says_so() {
    let mut world = World::with_node();
    let owner = world.create(pod("owner", json!({})));
    let mut config = owned("config", json!([reference(&world, &owner)]));
    config["metadata"]["namespace"] = json!("elsewhere");
    let config = world.create(config);
    world.converge();
    assert!(!world.api.objects.contains_key(&config));
    let said = "OwnerRefInvalidNamespace: ownerRef [v1/Pod, namespace: elsewhere, name: owner, uid: uid-3] does not exist in \
                namespace \"elsewhere\"";
    assert!(world.said().iter().any(|line| line == said), "{:?}", world.said());
}

#[test]
fn kinds_of_which_only_metadata_is_held_are_owners_and_dependents_as_all_others() {
    for propagation in
        [DependentPolicy::Background, DependentPolicy::Foreground, DependentPolicy::Orphan]
    {
        let mut world = World::with_node();
        let role = world.create(json!({"kind": "ClusterRole", "metadata": {"name": "reader"}}));
        let dependents = ["ClusterRoleBinding", "PriorityClass", "Role"].map(|kind| {
            let owners = json!([reference(&world, &role)]);
            world.create(
                json!({"kind": kind, "metadata": {"name": "mine", "ownerReferences": owners}}),
            )
        });
        world.converge();
        world.api.user_deletes(&role, propagation);
        world.converge();
        assert!(!world.api.objects.contains_key(&role), "{propagation:?}");
        for dependent in dependents {
            let is_there = world.api.objects.contains_key(&dependent);
            assert_eq!(
                is_there,
                propagation == DependentPolicy::Orphan,
                "{dependent}: {propagation:?}"
            );
        }
    }
}

/// A kind that a user's definition describes, and an object of it.
pub(crate) fn kite(world: &mut World) -> ObjectId {
    kite_of_scope(world, "Namespaced")
}

fn kite_of_scope(world: &mut World, scope: &str) -> ObjectId {
    world.create(json!({
        "kind": "CustomResourceDefinition", "metadata": {"name": "kites.example.org"},
        "spec": {
            "group": "example.org", "scope": scope,
            "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }));
    world.settle();
    let kind = world.view.custom_kinds().next().unwrap();
    let object = match scope {
        "Cluster" => json!({"metadata": {"name": "red"}}),
        _ => json!({"metadata": {"name": "red", "namespace": "shop"}}),
    };
    match world.api.create(kind, object) {
        WriteResult::Stored(object) => object.id(),
        refused => panic!("{refused:?}"),
    }
}

#[test]
fn objects_of_a_users_kind_own_others_as_built_in_ones_do() {
    let mut world = World::new();
    let kite = kite(&mut world);
    let tail = world.create(owned("tail", json!([reference(&world, &kite)])));
    world.converge();
    assert!(world.api.objects.contains_key(&tail), "its owner is there");
    world.api.user_deletes(&kite, DependentPolicy::Background);
    world.converge();
    assert!(!world.api.objects.contains_key(&tail), "its owner is gone");
    world.assert_view_is_true();
}

#[test]
fn the_dependents_of_a_users_object_go_although_its_definition_went_with_it() {
    // the watch of its kind may end before it shows that, and then a list without it comes
    for is_shown_to_go in [true, false] {
        let mut world = World::new();
        let kite = kite(&mut world);
        let tail = world.create(owned("tail", json!([reference(&world, &kite)])));
        world.converge();
        world.api.user_deletes(&kite, DependentPolicy::Background);
        if is_shown_to_go {
            while world.watch_next(kite.kind) {}
        }
        let definitions = ResourceKind::CustomResourceDefinition;
        let definition = ObjectId::new(definitions, NamespacedName::new("", "kites.example.org"));
        world.api.user_deletes(&definition, DependentPolicy::Background);
        while world.watch_next(definitions) {}
        assert_eq!(world.view.custom_kinds().count(), 0);
        world.writes.clear();
        world.relist(kite.kind, 0);
        world.converge();
        assert!(!world.api.objects.contains_key(&tail), "{:?}", world.writes);
        // the server would answer that it does not serve the path
        let is_check = |write: &WriteOperation| matches!(write, WriteOperation::CheckAbsent { .. });
        assert!(!world.writes.iter().any(is_check), "{:?}", world.writes);
    }
}

/// Deletes a definition and its only object before the collector looks at what that owned.
fn delete_with_definition(world: &mut World, kite: &ObjectId) {
    let definitions = ResourceKind::CustomResourceDefinition;
    let definition = ObjectId::new(definitions, NamespacedName::new("", "kites.example.org"));
    world.api.user_deletes(kite, DependentPolicy::Background);
    world.api.user_deletes(&definition, DependentPolicy::Background);
    while world.watch_next(kite.kind) {}
    while world.watch_next(definitions) {}
    assert_eq!(world.view.custom_kinds().count(), 0);
    world.converge();
}

#[test]
fn an_object_without_a_namespace_goes_with_its_owner_and_the_owners_definition() {
    let mut world = World::new();
    let kite = kite_of_scope(&mut world, "Cluster");
    let meta = json!({"name": "fast", "ownerReferences": [reference(&world, &kite)]});
    let class = json!({"kind": "StorageClass", "metadata": meta, "provisioner": "none"});
    let class = world.create(class);
    let tail = world.create(owned("tail", json!([reference(&world, &kite)])));
    world.converge();
    delete_with_definition(&mut world, &kite);
    for dependent in [&class, &tail] {
        assert!(!world.api.objects.contains_key(dependent), "{dependent}");
    }
}

/// Upstream looks for such an owner at the server, which no longer knows its kind, and keeps the
/// object.
#[test]
fn a_reference_that_leads_elsewhere_keeps_an_object_when_the_definition_went_first() {
    let mut world = World::new();
    let kite = kite(&mut world);
    let found = reference(&world, &kite);
    let mut misnamed = found.clone();
    misnamed["name"] = json!("blue");
    let meta = json!({"name": "fast", "ownerReferences": [&found]});
    let kept = [
        json!({"kind": "StorageClass", "metadata": meta, "provisioner": "none"}),
        json!({"kind": "ConfigMap", "metadata": {
            "name": "tail", "namespace": "elsewhere", "ownerReferences": [&found],
        }}),
        owned("misnamed", json!([misnamed])),
    ];
    let kept = kept.map(|object| world.create(object));
    let collected = world.create(owned("tail", json!([found])));
    delete_with_definition(&mut world, &kite);
    assert!(!world.api.objects.contains_key(&collected));
    for dependent in &kept {
        assert!(world.api.objects.contains_key(dependent), "{dependent}");
    }
}

#[test]
fn the_owner_of_a_users_kind_waits_for_its_dependents_in_the_foreground() {
    let mut world = World::new();
    let kite = kite(&mut world);
    let tail = world.create(owned("tail", json!([reference(&world, &kite)])));
    world.converge();
    world.api.user_deletes(&kite, DependentPolicy::Foreground);
    assert!(world.api.objects.contains_key(&kite));
    world.converge();
    assert!(!world.api.objects.contains_key(&kite) && !world.api.objects.contains_key(&tail));
}

#[test]
fn a_namespace_takes_the_objects_of_users_kinds_with_it() {
    let mut world = World::new();
    let kite = kite(&mut world);
    world.converge();
    let shop = ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", "shop"));
    world.api.user_deletes(&shop, DependentPolicy::Background);
    world.converge();
    assert!(!world.api.objects.contains_key(&kite));
}
