//! StatefulSets, after the API reference of apps/v1 StatefulSet and the documentation's examples.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{
    ControllerKey, ResourceKind, ViewObject, WriteOperation, pods, reconcile,
};
use rekindle_types::TickDuration;
use rekindle_types::held::{HeldPod, HeldVolumeSource};
use serde_json::{Value, json};

use crate::api::FakeApi;
use crate::build::{pod, template};
use crate::chance::{Chance, chance};
use crate::world::{World, id};

fn stateful_set(replicas: i32, spec: Value) -> Value {
    let mut set = json!({
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web", "one"),
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn claims(policy: Value) -> Value {
    json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual", "resources": {"requests": {"storage": "1Gi"}}}}],
        "persistentVolumeClaimRetentionPolicy": policy,
    })
}

fn world_with_volumes(count: usize) -> World {
    let mut world = World::with_node();
    for number in 0..count {
        world.create(
            json!({"kind": "PersistentVolume", "metadata": {"name": format!("pv-{number}")},
            "spec": {"storageClassName": "manual", "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/srv"}}}),
        );
    }
    world
}

fn status(world: &World) -> k8s_openapi::api::apps::v1::StatefulSetStatus {
    match &world.api.objects[&id(ResourceKind::StatefulSet, "web")] {
        ViewObject::StatefulSet(set) => set.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// `web-0:one web-1:two`, a mark behind each that is not simply ready: `!` not ready, `-` going,
/// `x` ended.
fn shown(world: &World) -> String {
    let pods = world.api.pods();
    let mut texts: Vec<String> = pods
        .iter()
        .map(|pod| {
            let mark = match pod {
                pod if pods::is_terminating(pod) => "-",
                pod if pods::is_finished(pod) => "x",
                pod if pods::is_ready(pod) => "",
                _ => "!",
            };
            let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
            format!("{}:{image}{mark}", pod.metadata.name.as_deref().unwrap())
        })
        .collect();
    texts.sort();
    texts.join(" ")
}

fn set_image(world: &mut World, image: &str) {
    world.api.change(&id(ResourceKind::StatefulSet, "web"), |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

fn scale(world: &mut World, replicas: i32) {
    world.api.change(&id(ResourceKind::StatefulSet, "web"), |set| {
        set["spec"]["replicas"] = json!(replicas);
    });
}

/// What is to be seen after each turn of the kubelet, until nothing changes.
fn film(world: &mut World) -> Vec<String> {
    let mut film = Vec::new();
    for _ in 0..50 {
        world.advance(TickDuration::from_secs(1));
        let picture = shown(world);
        if film.last() != Some(&picture) {
            film.push(picture);
        }
        world.kubelet();
    }
    film
}

#[test]
fn pods_come_one_after_the_other_each_with_its_name_and_labels() {
    let mut world = World::with_node();
    world.create(stateful_set(3, json!({})));
    assert_eq!(
        film(&mut world),
        [
            "web-0:one!",
            "web-0:one web-1:one!",
            "web-0:one web-1:one web-2:one!",
            "web-0:one web-1:one web-2:one",
        ]
    );
    let status = status(&world);
    assert_eq!((status.replicas, status.ready_replicas), (3, Some(3)));
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(3), Some(3)));
    assert_eq!(status.available_replicas, Some(3));
    assert_eq!(status.current_revision, status.update_revision);
    let pod = world.api.pods()[1].clone();
    let labels = pod.metadata.labels.unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(Some(&labels["controller-revision-hash"]), status.current_revision.as_ref());
    let spec = pod.spec.unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("web-1"));
    assert_eq!(spec.subdomain.as_deref(), Some("web"));
    assert!(
        world.said().contains(
            &"SuccessfulCreate: create Pod web-0 in StatefulSet web successful".to_owned()
        )
    );
}

#[test]
fn parallel_pods_come_all_at_once_and_ordinals_begin_where_they_are_told() {
    let mut world = World::with_node();
    world.create(stateful_set(
        2,
        json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}),
    ));
    assert_eq!(film(&mut world), ["web-5:one! web-6:one!", "web-5:one web-6:one"]);
}

#[test]
fn scaling_down_takes_the_highest_first_and_only_when_all_before_it_are_well() {
    let mut world = World::with_node();
    world.create(stateful_set(3, json!({})));
    world.converge();
    world.set_ready(&id(ResourceKind::Pod, "web-0"), "False");
    scale(&mut world, 1);
    world.advance(TickDuration::from_secs(5));
    assert_eq!(shown(&world), "web-0:one! web-1:one web-2:one", "web-0 is not well");
    world.set_ready(&id(ResourceKind::Pod, "web-0"), "True");
    assert_eq!(
        film(&mut world),
        ["web-0:one web-1:one web-2:one-", "web-0:one web-1:one-", "web-0:one"]
    );
}

/// Upstream waits for web-1, which is to go as well and may never be ready.
#[test]
fn scaling_down_is_not_held_up_by_another_pod_that_goes_too() {
    let mut world = World::with_node();
    world.create(stateful_set(3, json!({})));
    world.converge();
    world.set_ready(&id(ResourceKind::Pod, "web-1"), "False");
    world.set_ready(&id(ResourceKind::Pod, "web-2"), "False");
    scale(&mut world, 1);
    world.advance(TickDuration::from_secs(1));
    assert_eq!(shown(&world), "web-0:one web-1:one! web-2:one-");
    world.converge();
    assert_eq!(shown(&world), "web-0:one");
}

#[test]
fn a_rolling_update_goes_from_the_highest_ordinal_to_the_partition() {
    let mut world = World::with_node();
    world.create(stateful_set(
        3,
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}),
    ));
    world.converge();
    set_image(&mut world, "two");
    assert_eq!(
        film(&mut world),
        [
            "web-0:one web-1:one web-2:one-",
            "web-0:one web-1:one web-2:two!",
            "web-0:one web-1:one- web-2:two",
            "web-0:one web-1:two! web-2:two",
            "web-0:one web-1:two web-2:two",
        ]
    );
    let partial = status(&world);
    assert_eq!((partial.current_replicas, partial.updated_replicas), (Some(1), Some(2)));
    assert_ne!(partial.current_revision, partial.update_revision);
    // A pod before the partition comes back as it was.
    world.api.user_deletes(&id(ResourceKind::Pod, "web-0"), DependentPolicy::Default);
    world.converge();
    assert_eq!(shown(&world), "web-0:one web-1:two web-2:two");
    world.api.change(&id(ResourceKind::StatefulSet, "web"), |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    });
    world.converge();
    assert_eq!(shown(&world), "web-0:two web-1:two web-2:two");
    assert_eq!(status(&world).current_revision, status(&world).update_revision);
}

#[test]
fn max_unavailable_lets_so_many_be_replaced_at_once() {
    let mut world = World::with_node();
    world.create(stateful_set(
        4,
        json!({
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
        }),
    ));
    world.converge();
    set_image(&mut world, "two");
    assert_eq!(
        film(&mut world),
        [
            "web-0:one web-1:one web-2:one- web-3:one-",
            "web-0:one web-1:one web-2:two! web-3:two!",
            "web-0:one- web-1:one- web-2:two web-3:two",
            "web-0:two! web-1:two! web-2:two web-3:two",
            "web-0:two web-1:two web-2:two web-3:two",
        ]
    );
}

/// kubernetes#137409, mended upstream by #137666: what is broken and old is left at once, whatever
/// may be unavailable.
#[test]
fn under_parallel_a_broken_revision_is_left_whether_it_ever_worked_or_not() {
    for worked_once in [false, true] {
        let mut world = World::with_node();
        world.create(stateful_set(3, json!({"podManagementPolicy": "Parallel"})));
        if worked_once {
            world.converge();
            (0..3).for_each(|n| {
                world.set_ready(&id(ResourceKind::Pod, &format!("web-{n}")), "False")
            });
        }
        world.advance(TickDuration::from_secs(600));
        assert_eq!(shown(&world), "web-0:one! web-1:one! web-2:one!", "{worked_once}");
        set_image(&mut world, "two");
        assert_eq!(
            film(&mut world),
            [
                "web-0:one- web-1:one- web-2:one-",
                "web-0:two! web-1:two! web-2:two!",
                "web-0:two web-1:two web-2:two",
            ],
            "{worked_once}"
        );
        assert_eq!(status(&world).current_revision, status(&world).update_revision);
    }
}

#[test]
fn what_is_available_is_replaced_only_as_far_as_nothing_else_is_missing() {
    let cases: [(&[usize], usize, usize, &str); 5] = [
        (&[0], 0, 1, "web-0:one- web-1:one web-2:one web-3:one"),
        (&[0], 0, 2, "web-0:one- web-1:one web-2:one web-3:one-"),
        (&[0, 2], 0, 2, "web-0:one- web-1:one web-2:one- web-3:one"),
        // before the partition nothing is replaced, but it counts
        (&[0], 1, 1, "web-0:one! web-1:one web-2:one web-3:one"),
        (&[0, 2], 1, 3, "web-0:one! web-1:one web-2:one- web-3:one-"),
    ];
    for (broken, partition, max_unavailable, expected) in cases {
        let mut world = World::with_node();
        let rolling = json!({"partition": partition, "maxUnavailable": max_unavailable});
        world.create(stateful_set(
            4,
            json!({"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": rolling}}),
        ));
        world.converge();
        for n in broken {
            world.set_ready(&id(ResourceKind::Pod, &format!("web-{n}")), "False");
        }
        set_image(&mut world, "two");
        world.settle();
        assert_eq!(shown(&world), expected, "{broken:?} {rolling}");
    }
}

#[test]
fn a_look_at_a_parallel_set_makes_a_few_hundred_pods_at_most_however_many_it_wants() {
    for (start, taken) in [(0, 0), (7, 0), (0, 500)] {
        let mut world = World::new();
        let set = world.create(stateful_set(
            0,
            json!({"podManagementPolicy": "Parallel", "ordinals": {"start": start}}),
        ));
        world.settle();
        for n in 0..taken {
            world.create(pod(&format!("web-{n}"), json!({"app": "another"})));
        }
        world.settle();
        scale(&mut world, i32::MAX);
        while world.watch_next(ResourceKind::StatefulSet) {}
        let plan = reconcile(&world.view, &ControllerKey::StatefulSet(set.name), world.api.now);
        let sizes: Vec<usize> = plan.batches.iter().map(Vec::len).collect();
        let first = plan.writes().find_map(|write| match write {
            WriteOperation::Create(pod) => Some(pod.id().name.name),
            _ => None,
        });
        if taken == 0 {
            assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 245]);
            assert_eq!(first, Some(format!("web-{start}")));
        } else {
            assert_eq!((plan.notes.len(), first), (taken, None), "those names are others'");
        }
    }
}

/// Each was made although the first was refused, all at once; and what is below the refused ones is
/// mended still.
#[test]
fn while_a_pod_is_refused_the_others_are_mended_and_counted() {
    let mut world = World::with_node();
    world.create(stateful_set(3, json!({"podManagementPolicy": "Parallel"})));
    world.converge();
    world.api.refuse_creation = Some((ResourceKind::Pod, "quota exceeded".to_owned()));
    scale(&mut world, 100);
    world.writes.clear();
    world.advance(TickDuration::from_millis(120));
    let tried =
        world.writes.iter().filter(|write| matches!(write, WriteOperation::Create(_))).count();
    assert!((1..=4).contains(&tried), "slow start: {tried} tries");
    let refused = status(&world);
    assert_eq!((refused.ready_replicas, refused.observed_generation), (Some(3), Some(2)));
    world.set_ready(&id(ResourceKind::Pod, "web-1"), "False");
    world
        .api
        .change(&id(ResourceKind::Pod, "web-2"), |pod| pod["status"]["phase"] = json!("Failed"));
    world.advance(TickDuration::from_secs(11));
    assert_eq!(shown(&world), "web-0:one web-1:one! web-2:one-");
    assert_eq!(status(&world).ready_replicas, Some(1));
}

#[test]
fn on_delete_changes_a_pod_only_when_somebody_deletes_it() {
    let mut world = World::with_node();
    world.create(stateful_set(2, json!({"updateStrategy": {"type": "OnDelete"}})));
    world.converge();
    set_image(&mut world, "two");
    world.converge();
    assert_eq!(shown(&world), "web-0:one web-1:one");
    world.api.user_deletes(&id(ResourceKind::Pod, "web-0"), DependentPolicy::Default);
    world.converge();
    assert_eq!(shown(&world), "web-0:two web-1:one");
}

#[test]
fn a_failed_pod_is_made_again_under_its_name_with_its_claim() {
    let mut world = world_with_volumes(2);
    world.create(stateful_set(2, claims(json!({"whenDeleted": "Retain", "whenScaled": "Retain"}))));
    world.converge();
    let claim =
        world.api.objects[&id(ResourceKind::PersistentVolumeClaim, "data-web-1")].uid().to_owned();
    world
        .api
        .change(&id(ResourceKind::Pod, "web-1"), |pod| pod["status"]["phase"] = json!("Failed"));
    world.advance(TickDuration::from_secs(11));
    world.converge();
    assert_eq!(shown(&world), "web-0:one web-1:one");
    assert!(world.said().contains(
        &"RecreatingFailedPod: StatefulSet shop/web is recreating failed Pod web-1".to_owned()
    ));
    let kept = &world.api.objects[&id(ResourceKind::PersistentVolumeClaim, "data-web-1")];
    assert_eq!(kept.uid(), claim);
    assert_eq!(kept.meta().labels.as_ref().unwrap()["app"], "web");
    let pod = world.view.pod(&id(ResourceKind::Pod, "web-1").name).unwrap();
    let volume = &pod.spec.as_ref().unwrap().volumes[0];
    assert_eq!(volume.source, HeldVolumeSource::Claim("data-web-1".to_owned()));
}

#[test]
fn a_pod_that_its_node_refuses_for_a_kernel_setting_is_made_again_after_a_pause() {
    let mut world = World::with_node();
    world.create(stateful_set(1, json!({})));
    world.converge();
    let pod = id(ResourceKind::Pod, "web-0");
    let first = world.api.objects[&pod].uid().to_owned();
    world.set_ready(&pod, "False");
    world.api.change(&pod, |pod| {
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["reason"] = json!("SysctlForbidden");
    });
    world.advance(TickDuration::from_secs(8));
    assert_eq!(world.api.objects[&pod].uid(), first);
    world.advance(TickDuration::from_secs(3));
    world.converge();
    assert_ne!(world.api.objects[&pod].uid(), first);
    assert_eq!(shown(&world), "web-0:one");
}

#[test]
fn claims_go_with_whom_the_retention_policy_says() {
    for (scaled, deleted, after_scaling, after_deletion) in [
        ("Retain", "Retain", 3, 3),
        ("Delete", "Retain", 1, 1),
        ("Retain", "Delete", 3, 0),
        ("Delete", "Delete", 1, 0),
    ] {
        let mut world = world_with_volumes(3);
        let policy = json!({"whenScaled": scaled, "whenDeleted": deleted});
        world.create(stateful_set(3, claims(policy)));
        world.converge();
        let count =
            |world: &World| world.api.ids(ResourceKind::PersistentVolumeClaim, "shop").len();
        assert_eq!(count(&world), 3);
        scale(&mut world, 1);
        world.converge();
        assert_eq!(count(&world), after_scaling, "scaled {scaled}, deleted {deleted}");
        world.api.user_deletes(&id(ResourceKind::StatefulSet, "web"), DependentPolicy::Background);
        world.converge();
        assert_eq!(count(&world), after_deletion, "scaled {scaled}, deleted {deleted}");
        assert_eq!(shown(&world), "");
        assert_eq!(world.api.ids(ResourceKind::ControllerRevision, "shop"), []);
    }
}

/// Upstream's `updateClaimOwnerRefForSetAndPod`: the one that a claim goes with controls it.
#[test]
fn who_a_claim_goes_with_is_its_controller_unless_it_has_another() {
    let mut world = world_with_volumes(1);
    let data = id(ResourceKind::PersistentVolumeClaim, "data-web-0");
    let owners = |world: &World| json!(world.api.objects[&data].meta().owner_references);
    let set = world
        .create(stateful_set(1, claims(json!({"whenDeleted": "Delete", "whenScaled": "Retain"}))));
    world.converge();
    let set_uid = world.api.objects[&set].uid().to_owned();
    let ours = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
        "uid": set_uid, "controller": true, "blockOwnerDeletion": true});
    assert_eq!(owners(&world), json!([ours]));
    // as earlier versions wrote it
    let plain = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
        "uid": set_uid});
    world.api.change(&data, |claim| claim["metadata"]["ownerReferences"] = json!([plain]));
    world.converge();
    assert_eq!(owners(&world), json!([ours]));
    let mut other = stateful_set(0, json!({}));
    other["metadata"]["name"] = json!("other");
    let other = world.create(other);
    let mut theirs = ours.clone();
    theirs["name"] = json!("other");
    theirs["uid"] = json!(world.api.objects[&other].uid());
    world.api.change(&data, |claim| claim["metadata"]["ownerReferences"] = json!([theirs, plain]));
    world.converge();
    assert_eq!(owners(&world), json!([theirs]));
}

#[test]
fn a_revision_that_was_taken_back_does_not_block_for_ever() {
    let mut world = World::with_node();
    world.create(stateful_set(2, json!({})));
    world.converge();
    set_image(&mut world, "broken");
    world.advance(TickDuration::from_secs(1));
    world.api.pod_ended(&id(ResourceKind::Pod, "web-1"));
    world.advance(TickDuration::from_secs(1));
    assert_eq!(shown(&world), "web-0:one web-1:broken!");
    world.advance(TickDuration::from_secs(600));
    assert_eq!(shown(&world), "web-0:one web-1:broken!", "the rollout waits for it");
    set_image(&mut world, "one");
    world.converge();
    assert_eq!(shown(&world), "web-0:one web-1:one");
    assert_eq!(status(&world).current_revision, status(&world).update_revision);
    let revisions = world.api.objects.values().filter_map(|object| match object {
        ViewObject::ControllerRevision(revision) => revision.revision,
        _ => None,
    });
    let mut numbers: Vec<i64> = revisions.collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "a template that was there before gets a new number");
}

#[test]
fn old_revisions_are_deleted_beyond_the_limit() {
    let mut world = World::with_node();
    world.create(stateful_set(1, json!({"revisionHistoryLimit": 2})));
    for image in ["two", "three", "four", "five"] {
        world.converge();
        set_image(&mut world, image);
    }
    world.converge();
    assert_eq!(
        world.api.ids(ResourceKind::ControllerRevision, "shop").len(),
        3,
        "two and the present one"
    );
}

#[test]
fn pods_left_behind_are_adopted_and_not_made_twice() {
    let mut world = World::with_node();
    let set = world.create(stateful_set(2, json!({})));
    world.converge();
    let uids = |world: &World| -> Vec<_> {
        world.api.pods().iter().map(|pod| pod.metadata.uid.clone()).collect()
    };
    let before = uids(&world);
    world.api.user_deletes(&set, DependentPolicy::Orphan);
    world.converge();
    world.create(stateful_set(2, json!({})));
    world.converge();
    assert_eq!(uids(&world), before);
    assert_eq!(status(&world).current_replicas, Some(2));
}

#[derive(Clone, Debug)]
enum Happening {
    Chance(Chance),
    Image(u8),
    Scale(u8),
    /// Somebody makes a pod that looks like one of the set's.
    Stray(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        23 => chance().prop_map(Happening::Chance),
        1 => any::<u8>().prop_map(Happening::Image),
        1 => any::<u8>().prop_map(Happening::Scale),
        1 => any::<u8>().prop_map(Happening::Stray),
    ]
}

fn happens(world: &mut World, happening: &Happening) {
    match happening {
        Happening::Chance(chance) => world.takes(chance),
        Happening::Image(n) => set_image(world, ["one", "two", "three"][usize::from(*n) % 3]),
        Happening::Scale(n) => scale(world, i32::from(*n) % 5),
        Happening::Stray(n) => {
            let name = format!("web-{}{}", ["", "0"][usize::from(n % 2)], n / 2 % 5);
            if !world.api.objects.contains_key(&id(ResourceKind::Pod, &name)) {
                world.create(pod(&name, json!({"app": "web"})));
            }
        }
    }
}

/// The ordinals of the set's pods, however they are written, and the pods that are not the set's.
fn members(api: &FakeApi) -> (Vec<u32>, Vec<&HeldPod>) {
    let is_member =
        |pod: &&HeldPod| pod.metadata.owner_references.iter().flatten().next().is_some();
    let (members, others): (Vec<_>, Vec<_>) = api.pods().into_iter().partition(is_member);
    let ordinal = |pod: &&HeldPod| pod.metadata.name.as_deref()?.rsplit('-').next()?.parse().ok();
    (members.iter().filter_map(ordinal).collect(), others)
}

fn named(pod: &HeldPod) -> String {
    format!("{}:", pod.metadata.name.as_deref().unwrap_or_default())
}

fn one_pod_an_ordinal(api: &FakeApi) {
    let (ordinals, _) = members(api);
    let distinct: BTreeSet<_> = ordinals.iter().collect();
    assert_eq!(distinct.len(), ordinals.len(), "two pods of one ordinal: {ordinals:?}");
}

/// What the property below found: the set left such a pod alone, and its name was taken for ever.
#[test]
fn a_pod_of_its_name_that_has_ended_and_is_nobodys_is_made_again() {
    for phase in ["Failed", "Succeeded"] {
        let mut world = World::with_node();
        let stray = world.create(pod("web-0", json!({"app": "web"})));
        world.api.change(&stray, |pod| pod["status"]["phase"] = json!(phase));
        world.create(stateful_set(2, json!({})));
        world.converge();
        assert_eq!(shown(&world), "web-0:one web-1:one", "{phase}");
    }
}

/// Upstream, `computeReplicaStatus`.
#[test]
fn a_pod_that_is_being_deleted_counts_as_ready_but_not_as_of_a_revision() {
    let mut world = World::with_node();
    world.create(stateful_set(2, json!({})));
    world.converge();
    world.api.user_deletes(&id(ResourceKind::Pod, "web-1"), DependentPolicy::Background);
    world.settle();
    let going = status(&world);
    assert_eq!(
        (going.replicas, going.ready_replicas, going.available_replicas),
        (2, Some(2), Some(2))
    );
    assert_eq!((going.current_replicas, going.updated_replicas), (Some(1), Some(1)));
    world.set_ready(&id(ResourceKind::Pod, "web-1"), "False");
    world.settle();
    assert_eq!(status(&world).ready_replicas, Some(1), "as long as it is ready");
}

/// Upstream words the events about claims in another way than those about pods.
#[test]
fn events_about_claims_are_worded_as_upstream() {
    let mut world = world_with_volumes(1);
    world.api.refuse_creation = Some((ResourceKind::PersistentVolumeClaim, "quota".to_owned()));
    world.create(stateful_set(1, claims(json!({}))));
    world.advance(TickDuration::from_secs(1));
    world.api.refuse_creation = None;
    world.converge();
    let mut said = world.said();
    said.retain(|said| said.contains("Claim data-web-0"));
    said.dedup();
    assert_eq!(
        said,
        [
            "FailedCreate: create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: quota",
            "SuccessfulCreate: create Claim data-web-0 Pod web-0 in StatefulSet web success",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// Whatever lags, is lost or fails: one pod an ordinal, and in the end the right ones, of the
    /// template as it is.
    #[test]
    fn a_stateful_set_ends_with_one_pod_an_ordinal_whatever_happens(
        policy in prop_oneof![Just("OrderedReady"), Just("Parallel")],
        happenings in prop::collection::vec(happening(), 0..250),
    ) {
        let mut world = World::with_node();
        world.create(stateful_set(3, json!({"podManagementPolicy": policy})));
        world.check = Box::new(one_pod_an_ordinal);
        for happening in &happenings {
            happens(&mut world, happening);
        }
        for kind in ResourceKind::ALL {
            world.relist(kind, 0);
        }
        world.advance(TickDuration::from_secs(60));
        world.converge();
        world.assert_view_is_true();
        let ViewObject::StatefulSet(set) = &world.api.objects[&id(ResourceKind::StatefulSet, "web")] else {
            panic!("a StatefulSet");
        };
        let image = set.spec.template.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        let wanted: Vec<String> =
            (0..set.spec.replicas.unwrap()).map(|n| format!("web-{n}:{image}")).collect();
        let strays: Vec<String> = members(&world.api).1.iter().map(|pod| named(pod)).collect();
        let shown = shown(&world);
        let mine = shown.split_whitespace().filter(|pod| !strays.iter().any(|stray| pod.starts_with(stray)));
        prop_assert_eq!(mine.collect::<Vec<_>>(), wanted);
        prop_assert!(strays.iter().all(|stray| stray.starts_with("web-0")), "{:?}", strays);
    }

    /// A rolling update alone never makes more pods unavailable than it may.
    #[test]
    fn a_rolling_update_keeps_its_limit_whatever_lags(
        happenings in prop::collection::vec(
            happening().prop_filter("no trouble but updates", |h| {
                !matches!(h, Happening::Chance(Chance::PodFails(_) | Chance::UserDeletesPod(_))
                    | Happening::Scale(_) | Happening::Stray(_))
            }),
            0..250,
        ),
    ) {
        let mut world = World::with_node();
        world.create(stateful_set(
            4,
            json!({"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}),
        ));
        world.converge();
        world.check = Box::new(|api| {
            let ready = api.pods().iter().filter(|p| pods::is_active(p) && pods::is_ready(p)).count();
            assert!(ready >= 2, "{ready} are fewer than replicas - maxUnavailable");
        });
        for happening in &happenings {
            happens(&mut world, happening);
        }
    }
}
