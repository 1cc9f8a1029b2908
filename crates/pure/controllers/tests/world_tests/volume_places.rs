//! Where pods with volumes go: nodes that can have the volumes, and what is said when there is
//! none.

use rekindle_controllers::plan::{DependentPolicy, WriteRefusal};
use rekindle_controllers::{
    ControllerKey, ResourceKind, ViewObject, WriteOperation, WriteResult, reconcile,
};
use serde_json::{Value, json};

use crate::volumes::{
    bound_to, claim, get_claim, local_path, node_of, nothing_is_shared, pod_with, volume,
    volume_id, volume_phase,
};
use crate::world::{World, id};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Nodes `a` and `b`, and the class `disk`, whose volumes are made by people and bound to a pod's
/// node.
fn world() -> World {
    let mut world = World::new();
    world.check = Box::new(nothing_is_shared);
    for name in ["a", "b"] {
        world.api.add_node(name, "8", "16Gi", "110");
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = json!({"kubernetes.io/hostname": name});
        });
    }
    world.create(json!({"kind": "StorageClass", "metadata": {"name": "disk"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}));
    world
}

/// A volume that is on one node.
fn local(name: &str, node: &str, gibibytes: u32) -> Value {
    let mut local = volume(name, "disk", gibibytes);
    local["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}});
    local
}

/// A pod with a volume for each of these claims.
fn pod_of(name: &str, claims: &[&str]) -> Value {
    let mut pod = pod_with(name, "");
    let volumes = claims.iter().enumerate().map(
        |(n, claim)| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": claim}}),
    );
    pod["spec"]["volumes"] = volumes.collect();
    pod
}

fn selected(world: &World, claim: &str) -> Option<String> {
    let annotations = get_claim(&world.api, claim).metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(SELECTED_NODE)).cloned()
}

/// What condition PodScheduled says.
fn message(world: &World, pod: &str) -> Option<String> {
    match &world.api.objects[&id(ResourceKind::Pod, pod)] {
        ViewObject::Pod(pod) => {
            let conditions = pod.status.as_ref().unwrap().conditions.as_deref().unwrap_or_default();
            conditions.iter().find(|c| c.type_ == "PodScheduled").and_then(|c| c.message.clone())
        }
        other => panic!("{other:?}"),
    }
}

const NO_HELP: &str =
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";

/// Kubernetes documentation, "Storage Classes", the example of local volumes.
#[test]
fn a_pod_goes_where_the_volumes_are_that_its_claims_may_have() {
    // (volumes, the claims of the pod with their sizes, where it goes)
    for (volumes, claims, expected) in [
        (vec![local("one", "b", 1)], vec![("data", 1)], Some("b")),
        (vec![local("one", "a", 1), local("two", "b", 2)], vec![("data", 2)], Some("b")),
        (vec![volume("one", "disk", 1)], vec![("data", 1)], Some("a")),
        (vec![local("one", "b", 1)], vec![("data", 2)], None),
        (vec![], vec![("data", 1)], None),
        // each claim takes a volume of its own, the smallest claim first
        (
            vec![local("one", "a", 2), local("two", "b", 2), local("three", "b", 1)],
            vec![("large", 2), ("small", 1)],
            Some("b"),
        ),
        (vec![local("one", "a", 2), local("two", "b", 2)], vec![("data", 1), ("more", 1)], None),
        (vec![local("one", "b", 1)], vec![("data", 1), ("data", 1)], Some("b")),
    ] {
        let mut world = world();
        let case = format!("{volumes:?} {claims:?}");
        volumes.into_iter().for_each(|volume| drop(world.create(volume)));
        for (name, size) in &claims {
            if !world.api.objects.contains_key(&id(ResourceKind::PersistentVolumeClaim, name)) {
                world.create(claim(name, "disk", *size));
            }
        }
        let names: Vec<&str> = claims.iter().map(|(name, _)| *name).collect();
        world.create(pod_of("web", &names));
        world.settle();
        assert_eq!(node_of(&world, "web").as_deref(), expected, "{case}");
        for name in names {
            assert_eq!(bound_to(&world.api, name).is_some(), expected.is_some(), "{case}");
        }
    }
}

#[test]
fn a_pod_without_a_volume_says_so_and_goes_when_there_is_one() {
    let mut world = world();
    world.create(claim("data", "disk", 1));
    world.create(pod_with("web", "data"));
    world.settle();
    let none = "node(s) didn't find available persistent volumes to bind";
    let said = format!("0/2 nodes are available: 2 {none}. {NO_HELP}");
    assert_eq!(message(&world, "web"), Some(said.clone()));
    assert!(world.said().contains(&format!("FailedScheduling: {said}")));
    assert_eq!(selected(&world, "data"), None);
    world.create(local("disk", "b", 1));
    world.settle();
    assert_eq!(node_of(&world, "web").as_deref(), Some("b"));
}

/// Both are given the node at once: one of the two chooses again.
#[test]
fn of_two_pods_for_one_volume_the_second_waits_for_another() {
    let mut world = world();
    world.create(local("one", "b", 1));
    for (pod, data) in [("first", "data-1"), ("next", "data-2")] {
        world.create(claim(data, "disk", 1));
        world.create(pod_with(pod, data));
    }
    world.settle();
    assert_eq!(node_of(&world, "first").as_deref(), Some("b"));
    assert_eq!((node_of(&world, "next"), selected(&world, "data-2")), (None, None));
    assert!(message(&world, "next").unwrap().contains("2 node(s) didn't find available"));
    world.create(local("two", "a", 1));
    world.settle();
    assert_eq!(node_of(&world, "next").as_deref(), Some("a"));
}

#[test]
fn a_volume_is_asked_of_another_node_when_the_one_that_was_to_make_it_is_gone() {
    let mut world = world();
    local_path(&mut world);
    world.create(claim("data", "local-path", 1));
    world.create(pod_with("web", "data"));
    world.settle();
    assert_eq!(selected(&world, "data").as_deref(), Some("a"));
    world.api.user_deletes(&id(ResourceKind::Node, "a"), DependentPolicy::Default);
    world.settle();
    assert_eq!(selected(&world, "data").as_deref(), Some("b"));
    let notes = get_claim(&world.api, "data").metadata.annotations.clone().unwrap();
    assert_eq!(notes["volume.kubernetes.io/storage-provisioner"], "rekindle.dev/local-path");
    world.api.user_deletes(&id(ResourceKind::Node, "b"), DependentPolicy::Default);
    world.settle();
    let notes = get_claim(&world.api, "data").metadata.annotations.clone().unwrap_or_default();
    assert_eq!(notes.len(), 0, "nobody is to make it: {notes:?}");
}

/// sig-storage-lib-external-provisioner begins when the claim names it, and for a claim that waits
/// for its pod when a node is chosen, too.
#[test]
fn an_external_provisioner_is_asked_by_its_name() {
    for (mode, node) in [("Immediate", None), ("WaitForFirstConsumer", Some("a"))] {
        let mut world = world();
        world.create(json!({"kind": "StorageClass", "metadata": {"name": "remote"},
            "provisioner": "example.com/remote", "volumeBindingMode": mode}));
        world.create(claim("data", "remote", 1));
        world.create(pod_with("web", "data"));
        world.settle();
        let data = get_claim(&world.api, "data").metadata.clone();
        let says = |key: &str| data.annotations.as_ref().unwrap().get(key).map(String::as_str);
        for key in ["volume.kubernetes.io", "volume.beta.kubernetes.io"] {
            let key = format!("{key}/storage-provisioner");
            assert_eq!(says(&key), Some("example.com/remote"), "{mode}");
        }
        assert_eq!(says(SELECTED_NODE), node, "{mode}");
        let waits = "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'example.com/remote'";
        assert!(world.said().iter().any(|said| said.starts_with(waits)), "{mode}");
        let mut made = volume("made", "remote", 1);
        made["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": data.uid});
        made["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
        made["metadata"]["annotations"] =
            json!({"pv.kubernetes.io/provisioned-by": "example.com/remote"});
        world.create(made);
        world.settle();
        assert_eq!(node_of(&world, "web").as_deref(), Some("a"), "{mode}");
        world.api.user_deletes(&id(ResourceKind::Pod, "web"), DependentPolicy::Default);
        world.kubelet_at(&id(ResourceKind::Pod, "web"));
        let data = id(ResourceKind::PersistentVolumeClaim, "data");
        world.api.user_deletes(&data, DependentPolicy::Default);
        world.settle();
        assert_eq!(
            volume_phase(&world.api, "made"),
            "Released",
            "it is the provisioner's to delete"
        );
    }
}

#[test]
fn a_class_without_a_provisioner_says_so_where_it_does_not_wait_for_a_pod() {
    let mut world = world();
    world.settle();
    world.notes.clear(); // of the nodes
    world.create(json!({"kind": "StorageClass", "metadata": {"name": "manual"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"}));
    world.create(claim("data", "manual", 1));
    world.settle();
    let failed = "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner";
    assert_eq!(world.said(), [failed]);
    world.create(volume("disk", "manual", 1));
    world.settle();
    assert_eq!(bound_to(&world.api, "data").as_deref(), Some("disk"));
}

#[test]
fn what_is_wrong_with_the_claims_of_a_pod_is_said_in_the_words_of_upstream() {
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    let going = "persistentvolumeclaim \"data\" is being deleted";
    let lost = "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"one\"";
    let elsewhere =
        "1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) were unschedulable";
    let remove = |world: &mut World| {
        world.api.change(&volume_id("one"), |one| one["metadata"]["finalizers"] = json!([]));
        world.api.user_deletes(&volume_id("one"), DependentPolicy::Default);
    };
    // (class of the claim, what happens to it before the pod comes, the message)
    for (class, happening, said) in [
        ("", "nothing", unbound),
        ("absent", "nothing", unbound),
        ("", "deleted", going),
        ("", "lost", lost),
        ("", "bound on b, which is cordoned", elsewhere),
        ("", "bound in another zone", "2 node(s) had no available volume zone"),
    ] {
        let mut world = world();
        let data = world.create(claim("data", class, 1));
        world.settle();
        match happening {
            "deleted" => {
                world.create(pod_with("user", "data"));
                world.api.change(&id(ResourceKind::Pod, "user"), |pod| {
                    pod["spec"]["nodeName"] = json!("a")
                });
                world.settle();
                world.api.user_deletes(&data, DependentPolicy::Default);
            }
            "lost" => {
                world.check = Box::new(|_| {}); // the claim has a volume that is not there
                world.create(volume("one", class, 1));
                world.settle();
                remove(&mut world);
            }
            "bound on b, which is cordoned" => {
                let mut one = local("one", "b", 1);
                one["spec"]["storageClassName"] = json!(class);
                world.create(one);
                world.api.change(&id(ResourceKind::Node, "b"), |b| {
                    b["spec"]["unschedulable"] = json!(true)
                });
            }
            "bound in another zone" => {
                let mut one = volume("one", class, 1);
                one["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "far"});
                world.create(one);
                for node in ["a", "b"] {
                    world.api.change(&id(ResourceKind::Node, node), |node| {
                        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("near");
                    });
                }
            }
            _ => {}
        }
        world.settle();
        world.create(pod_with("web", "data"));
        world.settle();
        let said = format!("0/2 nodes are available: {said}. {NO_HELP}");
        assert_eq!(message(&world, "web"), Some(said), "{class:?} {happening}");
    }
}

/// A volume of the class local-path is made by its node: from one that is not heard of it never
/// comes.
#[test]
fn a_claim_whose_node_falls_silent_before_it_made_the_volume_is_served_by_another() {
    let everything = json!([{"operator": "Exists"}]);
    // (the pod's tolerations, whether the volume was made, the node that is selected then)
    for (tolerations, is_made, expected) in
        [(json!([]), false, "b"), (everything.clone(), false, "b"), (json!([]), true, "a")]
    {
        let mut world = world();
        local_path(&mut world);
        world.create(claim("data", "local-path", 1));
        let mut web = pod_with("web", "data");
        web["spec"]["tolerations"] = tolerations.clone();
        world.create(web);
        world.settle();
        assert_eq!(selected(&world, "data").as_deref(), Some("a"));
        if is_made {
            let mut made = local("made", "a", 1);
            made["spec"]["storageClassName"] = json!("local-path");
            let uid = get_claim(&world.api, "data").metadata.uid.clone();
            made["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": uid});
            world.create(made);
            world.settle();
        }
        let ready = |world: &mut World, node: &str, status: &str| {
            let conditions = json!([{"type": "Ready", "status": status}]);
            world.api.change(&id(ResourceKind::Node, node), |node| {
                node["status"]["conditions"] = conditions
            });
            world.settle();
        };
        ready(&mut world, "a", "False");
        assert_eq!(selected(&world, "data").as_deref(), Some("a"), "it is there, and may make it");
        ready(&mut world, "a", "Unknown");
        assert_eq!(selected(&world, "data").as_deref(), Some(expected), "{tolerations} {is_made}");
        if is_made {
            continue;
        }
        // Nobody is left who could make it, until one is heard of again; who tolerates everything
        // asks nobody in vain.
        ready(&mut world, "b", "Unknown");
        assert_eq!(selected(&world, "data"), None, "{tolerations}");
        ready(&mut world, "a", "True");
        assert_eq!(selected(&world, "data").as_deref(), Some("a"), "{tolerations}");
    }
}

/// A pod with a claim of its own, of a class whose volumes are made on the pod's node, that asks
/// for so many CPUs.
fn with_own_claim(world: &mut World, name: &str, cpu: &str) {
    world.create(claim(&format!("data-{name}"), "local-path", 1));
    let mut pod = pod_of(name, &[&format!("data-{name}")]);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    pod["metadata"]["labels"] = json!({"app": "db"});
    world.create(pod);
}

/// Volumes do not follow a pod elsewhere: the room of one that waits for its volumes is its own
/// (KEP-5278).
#[test]
fn pods_that_wait_for_volumes_do_not_take_each_others_room() {
    let mut world = world();
    local_path(&mut world);
    ["db-0", "db-1"].into_iter().for_each(|name| with_own_claim(&mut world, name, "5"));
    world.settle();
    let places = ["db-0", "db-1"].map(|name| selected(&world, &format!("data-{name}")));
    assert_eq!(places, [Some("a".to_owned()), Some("b".to_owned())]);
}

#[test]
fn room_is_kept_from_the_moment_of_the_decision_until_the_server_refuses_it() {
    let mut world = world();
    local_path(&mut world);
    ["db-0", "db-1"].into_iter().for_each(|name| with_own_claim(&mut world, name, "5"));
    while ResourceKind::ALL.into_iter().any(|kind| world.watch_next(kind)) {}
    let decided = |world: &World, name: &str| {
        let key = ControllerKey::Schedule(id(ResourceKind::Pod, name).name);
        let step = reconcile(&world.view, &key, world.api.now).batches[0][0].clone();
        match step.write.clone() {
            WriteOperation::Nominate { node, .. } => (step, node),
            other => panic!("{other:?}"),
        }
    };
    let (first, node) = decided(&world, "db-0");
    assert_eq!(node, "a");
    world.view.begin(&first);
    assert_eq!(decided(&world, "db-1").1, "b");
    let refused = WriteResult::Refused { refusal: WriteRefusal::Other, message: String::new() };
    world.view.settle(&id(ResourceKind::Pod, "db-0"), &first, refused);
    assert_eq!(decided(&world, "db-1").1, "a");
}

/// Neither do those of one Service all go to the same node while their volumes are made.
#[test]
fn pods_that_wait_for_volumes_are_spread() {
    let mut world = world();
    local_path(&mut world);
    world.create(
        json!({"kind": "Service", "metadata": {"name": "db"}, "spec": {"selector": {"app": "db"}}}),
    );
    for number in 0..6 {
        with_own_claim(&mut world, &format!("db-{number}"), "0");
    }
    world.settle();
    let on_a = (0..6).filter(|n| selected(&world, &format!("data-db-{n}")).as_deref() == Some("a"));
    assert_eq!(on_a.count(), 3);
}

#[test]
fn a_claim_that_no_folder_can_be_says_so_and_gets_none() {
    for (field, value) in [
        ("dataSource", json!({"kind": "PersistentVolumeClaim", "name": "other"})),
        ("volumeMode", json!("Block")),
        ("volumeAttributesClassName", json!("gold")),
    ] {
        let mut world = world();
        world.create(json!({"kind": "StorageClass", "metadata": {"name": "folders"},
            "provisioner": "rekindle.dev/local-path",
            "volumeBindingMode": "WaitForFirstConsumer"}));
        let mut wanted = claim("data", "folders", 1);
        wanted["spec"][field] = value;
        world.create(wanted);
        world.create(pod_with("web", "data"));
        world.settle();
        let failed = "ProvisioningFailed: failed to provision volume with StorageClass";
        assert!(world.said().iter().any(|said| said.starts_with(failed)), "{field}");
        assert_eq!(bound_to(&world.api, "data"), None, "{field}");
    }
}
