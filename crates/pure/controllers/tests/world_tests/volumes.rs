//! The binder, with the node's part of it as a function.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation};
use serde_json::{Value, json};

use crate::api::FakeApi;
use crate::build::pod;
use crate::world::{Answer, World, id};

pub(crate) fn claim(name: &str, class: &str, gibibytes: u32) -> Value {
    json!({"kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": format!("{gibibytes}Gi")}}},
        "status": {"phase": "Pending"}})
}

pub(crate) fn volume(name: &str, class: &str, gibibytes: u32) -> Value {
    json!({"kind": "PersistentVolume",
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": format!("{gibibytes}Gi")},
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/srv"}}})
}

pub(crate) fn local_path(world: &mut World) {
    world.create(json!({"kind": "StorageClass", "metadata": {"name": "local-path"},
        "provisioner": "rekindle.dev/local-path", "volumeBindingMode": "WaitForFirstConsumer"}));
}

pub(crate) fn pod_with(name: &str, claim: &str) -> Value {
    let mut pod = pod(name, json!({}));
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

pub(crate) fn volume_id(name: &str) -> ObjectId {
    ObjectId::new(ResourceKind::PersistentVolume, NamespacedName::new("", name))
}

pub(crate) fn get_claim<'a>(api: &'a FakeApi, name: &str) -> &'a PersistentVolumeClaim {
    match &api.objects[&id(ResourceKind::PersistentVolumeClaim, name)] {
        ViewObject::PersistentVolumeClaim(claim) => claim,
        other => panic!("{other:?}"),
    }
}

fn get_volume<'a>(api: &'a FakeApi, name: &str) -> &'a PersistentVolume {
    match &api.objects[&volume_id(name)] {
        ViewObject::PersistentVolume(volume) => volume,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn phase(api: &FakeApi, claim: &str) -> String {
    get_claim(api, claim).status.clone().unwrap().phase.unwrap()
}

pub(crate) fn volume_phase(api: &FakeApi, volume: &str) -> String {
    get_volume(api, volume).status.clone().unwrap().phase.unwrap()
}

pub(crate) fn bound_to(api: &FakeApi, claim: &str) -> Option<String> {
    get_claim(api, claim).spec.clone().unwrap().volume_name
}

pub(crate) fn node_of(world: &World, pod: &str) -> Option<String> {
    match &world.api.objects[&id(ResourceKind::Pod, pod)] {
        ViewObject::Pod(pod) => pod.node_name.clone(),
        other => panic!("{other:?}"),
    }
}

/// What must hold after every write: a volume is of one claim at most, and a claim says so only of
/// a volume that is its own.
pub(crate) fn nothing_is_shared(api: &FakeApi) {
    let mut taken = BTreeSet::new();
    for object in api.objects.values() {
        let ViewObject::PersistentVolumeClaim(claim) = object else { continue };
        let Some(name) = claim.spec.as_ref().unwrap().volume_name.clone() else { continue };
        assert!(taken.insert(name.clone()), "two claims have volume {name}");
        let volume = get_volume(api, &name);
        let of = volume.spec.as_ref().unwrap().claim_ref.as_ref().unwrap();
        assert_eq!(of.uid, claim.metadata.uid, "volume {name} is another claim's");
    }
}

#[test]
fn a_claim_gets_the_smallest_volume_that_does() {
    // (what is special about the volume "small", the volume that the claim of 2Gi gets)
    let cases = [
        (json!({}), Some("small")),
        (json!({"storageClassName": "other"}), Some("large")),
        (json!({"capacity": {"storage": "1Gi"}}), Some("large")),
        (json!({"accessModes": ["ReadOnlyMany"]}), Some("large")),
        (json!({"volumeMode": "Block"}), Some("large")),
        (json!({"claimRef": {"namespace": "shop", "name": "other"}}), Some("large")),
        (json!({"claimRef": {"namespace": "shop", "name": "data"}}), Some("small")),
    ];
    for (special, wanted) in cases {
        let mut world = World::with_node();
        world.check = Box::new(nothing_is_shared);
        let mut small = volume("small", "disk", 2);
        for (key, value) in special.as_object().unwrap() {
            small["spec"][key] = value.clone();
        }
        world.create(small);
        world.create(volume("large", "disk", 9));
        world.create(claim("data", "disk", 2));
        world.settle();
        assert_eq!(bound_to(&world.api, "data").as_deref(), wanted, "{special}");
        assert_eq!(phase(&world.api, "data"), "Bound");
        assert_eq!(volume_phase(&world.api, wanted.unwrap()), "Bound");
    }
}

#[test]
fn a_volume_is_made_when_the_first_pod_has_a_node_and_the_pod_waits_for_it() {
    let mut world = World::with_node();
    world.check = Box::new(nothing_is_shared);
    local_path(&mut world);
    world.create(pod_with("web", "data"));
    world.settle();
    let missing = "FailedScheduling: 0/1 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert!(world.said().contains(&missing.to_owned()), "{:?}", world.said());
    world.create(claim("data", "local-path", 1));
    world.settle();
    let notes = get_claim(&world.api, "data").metadata.annotations.clone().unwrap();
    assert_eq!(notes["volume.kubernetes.io/selected-node"], "node-1");
    assert_eq!(notes["volume.kubernetes.io/storage-provisioner"], "rekindle.dev/local-path");
    assert_eq!(node_of(&world, "web"), None, "its volume is not there");

    let uid = get_claim(&world.api, "data").metadata.uid.clone();
    let mut made = volume("pvc-1", "local-path", 1);
    made["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": uid});
    world.create(made);
    world.settle();
    assert_eq!(phase(&world.api, "data"), "Bound");
    assert_eq!(node_of(&world, "web").as_deref(), Some("node-1"));
    let failed = world.said().into_iter().filter(|said| said.starts_with("FailedScheduling"));
    assert_eq!(failed.collect::<Vec<_>>(), [missing], "none while its volume is made and bound");
}

#[test]
fn a_claim_waits_for_its_pod_and_a_released_volume_is_given_to_nobody() {
    let mut world = World::with_node();
    world.check = Box::new(nothing_is_shared);
    world.create(volume("disk", "", 1));
    world.create(claim("data", "", 1));
    world.create(pod_with("web", "data"));
    world.settle();
    assert_eq!(node_of(&world, "web").as_deref(), Some("node-1"));
    let data = id(ResourceKind::PersistentVolumeClaim, "data");
    world.api.user_deletes(&data, DependentPolicy::Default);
    world.api.user_deletes(&volume_id("disk"), DependentPolicy::Default);
    world.settle();
    assert!(world.api.objects.contains_key(&data), "a pod uses it");
    assert!(world.api.objects.contains_key(&volume_id("disk")), "a claim has it");
    world.api.change(&volume_id("disk"), |disk| {
        disk["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    });
    world.api.user_deletes(&id(ResourceKind::Pod, "web"), DependentPolicy::Default);
    world.kubelet_at(&id(ResourceKind::Pod, "web"));
    world.settle();
    assert!(!world.api.objects.contains_key(&data));
    assert_eq!(volume_phase(&world.api, "disk"), "Released");
    world.create(claim("data", "", 1));
    world.settle();
    assert_eq!(phase(&world.api, "data"), "Pending", "what is on it belongs to somebody else");
    world.api.change(&volume_id("disk"), |disk| {
        disk["spec"].as_object_mut().unwrap().remove("claimRef");
    });
    world.settle();
    assert_eq!(phase(&world.api, "data"), "Bound");
}

#[test]
fn a_claim_whose_volume_is_gone_is_lost() {
    let mut world = World::with_node();
    world.create(volume("disk", "", 1));
    world.create(claim("data", "", 1));
    world.settle();
    world.api.change(&volume_id("disk"), |disk| disk["metadata"]["finalizers"] = json!([]));
    world.api.user_deletes(&volume_id("disk"), DependentPolicy::Default);
    world.settle();
    assert_eq!(phase(&world.api, "data"), "Lost");
    world.create(pod_with("web", "data"));
    world.settle();
    assert_eq!(node_of(&world, "web"), None);
}

#[test]
fn a_claim_that_a_pod_brings_along_is_made_for_it() {
    let mut world = World::with_node();
    let mut bringing = pod("web", json!({}));
    let mut template = claim("", "", 1);
    template.as_object_mut().unwrap().remove("status");
    bringing["spec"]["volumes"] =
        json!([{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": template["spec"]}}}]);
    world.create(bringing);
    world.create(volume("disk", "", 1));
    world.settle();
    let made = get_claim(&world.api, "web-tmp");
    assert_eq!(made.metadata.owner_references.as_ref().unwrap()[0].name, "web");
    assert_eq!(node_of(&world, "web").as_deref(), Some("node-1"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Claims and volumes come and go while answers are lost: no volume is ever shared, and in the
    /// end no claim waits beside a volume that it could have.
    #[test]
    fn no_volume_is_shared_whatever_is_lost(
        steps in prop::collection::vec((0u8..4, 0usize..5, 1u32..4, 0u8..3), 1..30),
    ) {
        let mut world = World::with_node();
        world.check = Box::new(nothing_is_shared);
        for (what, n, size, fate) in steps {
            let (data, disk) = (format!("data-{n}"), format!("disk-{n}"));
            let (data_id, disk_id) = (id(ResourceKind::PersistentVolumeClaim, &data), volume_id(&disk));
            match what {
                0 if !world.api.objects.contains_key(&data_id) => {
                    world.create(claim(&data, "", size));
                }
                1 if !world.api.objects.contains_key(&disk_id) => {
                    world.create(volume(&disk, "", size));
                }
                2 if world.api.objects.contains_key(&data_id) => {
                    world.api.user_deletes(&data_id, DependentPolicy::Default);
                }
                3 => {
                    for kind in ResourceKind::ALL {
                        while world.watch_next(kind) {}
                    }
                }
                _ => {}
            }
            let answer = [Answer::Arrives, Answer::IsLost, Answer::NeverSent][usize::from(fate)];
            while let Some(key) = world.queue.pop_first() {
                world.work(&key, |_: &WriteOperation| answer);
                if fate != 0 {
                    break;
                }
            }
        }
        world.converge();
        let waits = world.api.ids(ResourceKind::PersistentVolumeClaim, "shop");
        let free: Vec<_> = world.api.objects.values().filter_map(|object| match object {
            ViewObject::PersistentVolume(v) if v.spec.as_ref().unwrap().claim_ref.is_none() => {
                Some(v.spec.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0.clone())
            }
            _ => None,
        }).collect();
        for claim in waits {
            let claim = get_claim(&world.api, &claim.name.name);
            if claim.spec.as_ref().unwrap().volume_name.is_none() {
                let wanted = &claim.spec.as_ref().unwrap().resources.as_ref().unwrap();
                let wanted = &wanted.requests.as_ref().unwrap()["storage"].0;
                prop_assert!(!free.iter().any(|size| size >= wanted), "{free:?} {wanted}");
            }
        }
    }
}
