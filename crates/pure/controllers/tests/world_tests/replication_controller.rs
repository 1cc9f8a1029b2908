//! ReplicationControllers: the ReplicaSet controller under another name.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, ViewObject, pods};
use rekindle_types::TickDuration;
use serde_json::json;

use crate::build::{pod, template};
use crate::world::{World, id};

#[test]
fn a_replication_controller_keeps_its_number_of_pods_and_tells_of_it() {
    let mut world = World::with_node();
    world.create(pod("left-over", json!({"app": "web"})));
    let set = world.create(json!({
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"app": "web"}, "template": template("web", "one")},
    }));
    world.converge();
    let owned = |world: &World| {
        let all = world.api.pods();
        let owner = |pod: &&&rekindle_types::held::HeldPod| {
            pods::is_active(pod)
                && pod.metadata.owner_references.iter().flatten().any(|owner| {
                    (owner.kind.as_str(), owner.api_version.as_str())
                        == ("ReplicationController", "v1")
                })
        };
        all.iter().filter(owner).count()
    };
    assert_eq!(owned(&world), 3, "the one that was there is one of them");
    let status = |world: &World| match &world.api.objects[&set] {
        ViewObject::ReplicationController(set) => set.status.clone().unwrap(),
        other => panic!("{other:?}"),
    };
    let told = status(&world);
    assert_eq!(
        (told.replicas, told.ready_replicas, told.available_replicas),
        (3, Some(3), Some(3))
    );
    assert_eq!((told.fully_labeled_replicas, told.observed_generation), (Some(3), Some(1)));
    assert!(world.notes.iter().any(|note| note.component == "replication-controller"));

    world.api.change(&set, |set| set["spec"]["replicas"] = json!(1));
    world.converge();
    assert_eq!((owned(&world), status(&world).replicas), (1, 1));
    world.writes.clear();
    world.advance(TickDuration::from_secs(60));
    assert_eq!(world.writes.len(), 0, "a status that says the same is not written again");

    world.api.refuse_creation = Some((ResourceKind::Pod, "quota".to_owned()));
    world.api.change(&set, |set| set["spec"]["replicas"] = json!(2));
    world.advance(TickDuration::from_secs(1));
    let conditions = status(&world).conditions.unwrap();
    assert_eq!(
        (conditions[0].type_.as_str(), conditions[0].message.as_deref()),
        ("ReplicaFailure", Some("quota"))
    );
    world.api.refuse_creation = None;
    world.converge();
    assert_eq!((owned(&world), status(&world).conditions), (2, None));
    world.api.user_deletes(&set, DependentPolicy::Background);
    world.converge();
    assert_eq!(world.api.ids(ResourceKind::Pod, "shop"), []);
}

#[test]
fn a_budgets_percentage_is_of_what_a_replication_controller_wants() {
    let mut world = World::with_node();
    world.create(json!({
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"app": "web"}, "template": template("web", "one")},
    }));
    world.create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "half"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}}));
    world.converge();
    match &world.api.objects[&id(ResourceKind::PodDisruptionBudget, "half")] {
        ViewObject::PodDisruptionBudget(budget) => {
            assert_eq!(
                budget.status.as_ref().and_then(|status| status.disruptions_allowed),
                Some(2)
            );
        }
        other => panic!("{other:?}"),
    }
}
