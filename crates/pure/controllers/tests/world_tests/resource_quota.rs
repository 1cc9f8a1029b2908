//! The status of quotas: what the controller counts, and when it says so.

use rekindle_controllers::{ResourceKind, ViewObject};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::{deployment, pod};
use crate::garbage::kite;
use crate::world::{World, id};

fn quota(hard: Value) -> Value {
    json!({"kind": "ResourceQuota", "metadata": {"name": "budget"}, "spec": {"hard": hard}})
}

fn status(world: &World) -> Value {
    match &world.api.objects[&id(ResourceKind::ResourceQuota, "budget")] {
        ViewObject::ResourceQuota(quota) => json!(quota.status),
        other => panic!("{other:?}"),
    }
}

/// Long enough for the controller to look.
fn quiet(world: &mut World) {
    world.advance(TickDuration::from_secs(3));
}

fn set_status(world: &mut World, status: Value) {
    world.api.change(&id(ResourceKind::ResourceQuota, "budget"), |quota| quota["status"] = status);
}

#[test]
fn what_is_there_is_counted_once_nothing_changes_any_more() {
    let mut world = World::with_node();
    let hard = json!({"pods": "9", "count/replicasets.apps": "4", "count/deployments.apps": "2", "secrets": "3"});
    world.create(quota(hard.clone()));
    world.create(deployment("web", 3, "one"));
    world.create(json!({"kind": "Secret", "metadata": {"name": "key"}}));
    world.settle();
    assert_eq!(status(&world), Value::Null, "it waits while something changes");
    quiet(&mut world);
    let used = json!({"pods": "3", "count/replicasets.apps": "1", "count/deployments.apps": "1", "secrets": "1"});
    assert_eq!(status(&world), json!({"hard": hard, "used": used}));
    // what no quota counts is no reason to look again
    let version = world.api.version;
    for _ in 0..3 {
        world.kubelet();
        quiet(&mut world);
    }
    let quotas = world.api.ids(ResourceKind::ResourceQuota, "shop");
    assert_eq!(quotas.len(), 1);
    assert!(world.api.version > version, "the pods became ready");
    assert_eq!(status(&world)["used"], used);
}

#[test]
fn a_status_that_is_wrong_is_counted_again_and_a_right_one_is_left() {
    let mut world = World::with_node();
    world.create(quota(json!({"pods": "9", "count/widgets.example.com": "3"})));
    world.create(pod("a", json!({})));
    quiet(&mut world);
    assert_eq!(
        status(&world)["used"],
        json!({"pods": "1"}),
        "kinds that are not held are not counted"
    );
    // of those, it is as the server says
    let said = json!({"hard": {"pods": "8"}, "used": {"pods": "7", "count/widgets.example.com": "2", "secrets": "1"}});
    set_status(&mut world, said);
    quiet(&mut world);
    let used = json!({"pods": "1", "count/widgets.example.com": "2"});
    assert_eq!(
        status(&world),
        json!({"hard": {"pods": "9", "count/widgets.example.com": "3"}, "used": used})
    );
    let version = world.api.version;
    set_status(
        &mut world,
        json!({"hard": {"pods": "9000m", "count/widgets.example.com": "3"}, "used": used}),
    );
    quiet(&mut world);
    assert_eq!(world.api.version, version + 1, "an amount that is written otherwise is the same");
}

#[test]
fn a_namespace_that_is_never_quiet_is_counted_every_30_s() {
    let mut world = World::with_node();
    world.create(quota(json!({"secrets": "99"})));
    world.settle();
    let mut shown = Vec::new();
    for second in 1..=70 {
        world.create(json!({"kind": "Secret", "metadata": {"name": format!("key-{second}")}}));
        world.advance(TickDuration::from_secs(1));
        let secrets = status(&world)["used"]["secrets"].clone();
        if shown.last().is_none_or(|(_, known)| *known != secrets) {
            shown.push((second, secrets));
        }
    }
    let expected = [(1, Value::Null), (30, json!("30")), (60, json!("60"))];
    assert_eq!(shown, expected);
    quiet(&mut world);
    assert_eq!(status(&world)["used"]["secrets"], "70");
}

#[test]
fn objects_of_a_kind_that_a_definition_describes_are_counted() {
    let mut world = World::new();
    world.create(quota(json!({"count/kites.example.org": "9", "count/boats.example.org": "9"})));
    kite(&mut world);
    set_status(
        &mut world,
        json!({"used": {"count/kites.example.org": "4", "count/boats.example.org": "4"}}),
    );
    quiet(&mut world);
    let used = json!({"count/kites.example.org": "1", "count/boats.example.org": "4"});
    assert_eq!(status(&world)["used"], used, "boats are not served");
}

#[test]
fn a_pod_that_does_not_end_in_its_time_stops_counting() {
    let mut world = World::with_node();
    world.create(quota(json!({"pods": "9", "count/pods": "9"})));
    let stuck = world.create(pod("stuck", json!({})));
    world.create(pod("other", json!({})));
    quiet(&mut world);
    let now = world.api.now;
    world.api.change(&stuck, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!((now + TickDuration::from_secs(30)).to_time());
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    });
    world.advance(TickDuration::from_secs(58));
    assert_eq!(status(&world)["used"], json!({"pods": "2", "count/pods": "2"}));
    world.advance(TickDuration::from_secs(4));
    assert_eq!(status(&world)["used"], json!({"pods": "1", "count/pods": "2"}));
}

#[test]
fn a_controller_that_a_quota_had_refused_goes_on_when_there_is_room() {
    let mut world = World::with_node();
    let mut budget = quota(json!({"pods": "2"}));
    budget["status"] = json!({"hard": {"pods": "2"}, "used": {"pods": "2"}});
    world.create(budget);
    let refusal = "pods is forbidden: exceeded quota: budget, requested: pods=1".to_owned();
    world.api.refuse_creation = Some((ResourceKind::Pod, refusal));
    world.create(deployment("web", 1, "one"));
    world.settle();
    assert!(world.said().iter().any(|note| note.contains("exceeded quota")), "{:?}", world.said());
    world.api.refuse_creation = None;
    let count = |world: &World| world.api.ids(ResourceKind::Pod, "shop").len();
    for (part, name, value, pods) in [
        ("metadata", "labels", json!({"a": "b"}), 0),
        ("spec", "hard", json!({"pods": "1"}), 0),
        ("status", "used", json!({"pods": "1"}), 1),
    ] {
        let budget = id(ResourceKind::ResourceQuota, "budget");
        world.api.change(&budget, |quota| quota[part][name] = value);
        world.settle();
        assert_eq!(count(&world), pods);
    }
}
