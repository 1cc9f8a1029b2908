//! The scheduler: which pods are looked at again, when, and in which order.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{
    ControllerKey, NamespacedName, ObjectId, ResourceKind, ViewObject, WriteRefusal, WriteResult,
    affected, reconcile, turn,
};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

fn asks(name: &str, cpus: u8, more: &Value) -> Value {
    let mut pod = pod(name, json!({"app": name}));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpus.to_string()}});
    for (key, value) in more.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn node_of(world: &World, id: &ObjectId) -> Option<String> {
    match &world.api.objects[id] {
        ViewObject::Pod(pod) => pod.node_name.clone(),
        other => panic!("{other:?}"),
    }
}

/// A node "a" that is full, and pods that wait.
fn full(waiting: Vec<Value>) -> World {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.api.change(&id(ResourceKind::Node, "a"), |node| {
        node["metadata"]["labels"] = json!({"disk": "hdd"})
    });
    for name in ["one", "two"] {
        world.create(asks(name, 2, &json!({})));
    }
    world.settle();
    waiting.into_iter().for_each(|pod| drop(world.create(pod)));
    world.settle();
    world
}

/// The waiting pods that the next event of a kind wakes.
fn woken(world: &mut World, kind: ResourceKind) -> Vec<String> {
    world.queue.clear();
    assert!(world.watch_next(kind), "an event");
    let keys = world.queue.iter().filter_map(|key| match key {
        ControllerKey::Schedule(name) => Some(name.name.clone()),
        _ => None,
    });
    keys.collect()
}

#[test]
fn room_that_comes_up_wakes_those_that_fit_into_it_and_no_others() {
    let waiting = vec![
        asks("fits", 2, &json!({})),
        asks("large", 3, &json!({})),
        asks("picky", 1, &json!({"nodeSelector": {"disk": "ssd"}})),
        asks("polite", 4, &json!({"priority": 10, "preemptionPolicy": "Never"})),
    ];
    let mut world = full(waiting);
    let one = id(ResourceKind::Pod, "one");
    world.api.user_deletes(&one, DependentPolicy::Default);
    world.settle();
    world.kubelet_at(&one);
    assert_eq!(woken(&mut world, ResourceKind::Pod), ["fits"]);

    // A node that becomes what somebody waits for; a heartbeat is nothing.
    let waiting = vec![
        asks("large", 5, &json!({})),
        asks("picky", 1, &json!({"nodeSelector": {"disk": "ssd"}})),
    ];
    let mut world = full(waiting);
    world.api.add_node("b", "2", "16Gi", "110");
    assert_eq!(woken(&mut world, ResourceKind::Node), [""; 0]);
    let label = |node: &mut Value| node["metadata"]["labels"] = json!({"disk": "ssd"});
    world.api.change(&id(ResourceKind::Node, "b"), label);
    assert_eq!(woken(&mut world, ResourceKind::Node), ["picky"]);
    let beat = |node: &mut Value| node["metadata"]["annotations"] = json!({"beat": "1"});
    world.api.change(&id(ResourceKind::Node, "b"), beat);
    assert_eq!(woken(&mut world, ResourceKind::Node), [""; 0]);
    world.api.change(&id(ResourceKind::Node, "b"), |node| {
        node["status"]["allocatable"]["cpu"] = json!("5")
    });
    assert_eq!(woken(&mut world, ResourceKind::Node), ["large", "picky"]);
}

/// What is free is too little for it, but now it helps that a weaker pod ends.
#[test]
fn room_wakes_those_that_can_make_the_rest_of_the_room_they_need() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    let strong = world.create(asks("strong", 2, &json!({"priority": 20})));
    world.create(asks("other", 1, &json!({"priority": 20})));
    let weak = world.create(asks("weak", 1, &json!({"priority": 1})));
    world.settle();
    let comes = world.create(asks("comes", 3, &json!({"priority": 10})));
    world.settle();
    assert!(world.api.objects[&weak].meta().deletion_timestamp.is_none(), "it would not help");
    world.api.user_deletes(&strong, DependentPolicy::Default);
    world.settle();
    world.kubelet_at(&strong);
    world.settle();
    assert!(world.api.objects[&weak].meta().deletion_timestamp.is_some());
    world.kubelet_at(&weak);
    world.settle();
    assert_eq!(node_of(&world, &comes).as_deref(), Some("a"));
}

fn schedule(pod: &str) -> ControllerKey {
    ControllerKey::Schedule(NamespacedName::new("shop", pod))
}

#[test]
fn a_refused_binding_wakes_those_that_it_left_no_room_for() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.create(asks("first", 4, &json!({})));
    while ResourceKind::ALL.into_iter().any(|kind| world.watch_next(kind)) {}
    let plan = reconcile(&world.view, &schedule("first"), world.api.now);
    let step = plan.batches[0][0].clone();
    world.view.begin(&step);
    world.queue.clear();
    world.create(asks("next", 4, &json!({})));
    world.settle();
    assert!(world.said().iter().any(|said| said.contains("1 Insufficient cpu")));

    let refused = WriteResult::Refused { refusal: WriteRefusal::Other, message: "no".to_owned() };
    let settled = world.view.settle(&schedule("first").object(), &step, refused);
    let woken = settled.changes.iter().flat_map(|change| affected(&world.view, change));
    let woken: Vec<ControllerKey> =
        woken.filter(|key| matches!(key, ControllerKey::Schedule(_))).collect();
    assert_eq!(woken, [schedule("first"), schedule("next")]);
}

#[test]
fn a_waiting_pod_with_other_labels_is_looked_at_again() {
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    world.api.change(&id(ResourceKind::Node, "a"), |node| {
        node["metadata"]["labels"] = json!({"zone": "x"})
    });
    let terms = json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let shuns = json!({"affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
    world.create(asks("shy", 1, &shuns));
    world.settle();
    let web = world.create(asks("web", 1, &json!({})));
    world.settle();
    assert_eq!(node_of(&world, &web), None);
    world.api.change(&web, |web| web["metadata"]["labels"] = json!({"app": "other"}));
    world.settle();
    assert_eq!(node_of(&world, &web).as_deref(), Some("a"));
}

#[test]
fn a_pod_that_nothing_helped_is_looked_at_again_after_five_minutes() {
    let mut world = full(vec![asks("waits", 1, &json!({}))]);
    let looks = |world: &World| {
        world.said().iter().filter(|said| said.starts_with("FailedScheduling")).count()
    };
    assert_eq!(looks(&world), 1);
    world.advance(TickDuration::from_secs(5 * 60 - 1));
    assert_eq!(looks(&world), 1);
    world.advance(TickDuration::from_secs(1));
    assert_eq!(looks(&world), 2);
}

#[test]
fn in_a_crowd_a_pod_waits_until_its_backoff_is_over() {
    // (how many wait, whether the one that fits is taken as soon as there is room)
    for (crowd, at_once) in [(100, true), (101, false)] {
        let waiting = (1..crowd).map(|n| asks(&format!("large-{n}"), 5, &json!({})));
        let mut world = full(waiting.chain([asks("fits", 2, &json!({}))]).collect());
        let fits = id(ResourceKind::Pod, "fits");
        let one = id(ResourceKind::Pod, "one");
        world.api.user_deletes(&one, DependentPolicy::Default);
        world.settle();
        world.kubelet_at(&one);
        world.settle();
        assert_eq!(node_of(&world, &fits).is_some(), at_once, "{crowd} wait");
        world.advance(TickDuration::from_millis(999));
        assert_eq!(node_of(&world, &fits).is_some(), at_once, "{crowd} wait");
        world.advance(TickDuration::from_millis(1));
        assert_eq!(node_of(&world, &fits).as_deref(), Some("a"), "{crowd} wait");
    }
}

#[test]
fn pods_that_back_off_go_behind_those_that_do_not() {
    let mut world = full(vec![asks("tried", 1, &json!({"priority": 5}))]);
    let fresh = world.create(asks("fresh", 1, &json!({})));
    while world.watch_next(fresh.kind) {}
    let order = |world: &World| {
        let mut keys = ["tried", "fresh"]
            .map(|name| ControllerKey::Schedule(NamespacedName::new("shop", name)));
        keys.sort_by_key(|key| turn(&world.view, key));
        keys.map(|key| key.object().name.name)
    };
    assert_eq!(order(&world), ["fresh", "tried"]);
    world.api.now = world.api.now + TickDuration::from_secs(1);
    world.view.set_time(world.api.now);
    assert_eq!(order(&world), ["tried", "fresh"], "by priority again");
}

#[test]
fn a_pod_in_the_middle_of_being_tried_is_not_forgotten() {
    // It was never looked at: whatever happens, it is.
    let mut world = full(Vec::new());
    world.create(asks("new", 4, &json!({})));
    while world.watch_next(ResourceKind::Pod) {}
    world.queue.clear();
    let one = id(ResourceKind::Pod, "one");
    world.api.user_deletes(&one, DependentPolicy::Default);
    world.kubelet_at(&one);
    while world.watch_next(ResourceKind::Pod) {}
    assert!(
        world
            .queue
            .iter()
            .any(|key| matches!(key, ControllerKey::Schedule(name) if name.name == "new"))
    );
    let change = world.view.apply(world.api.objects[&id(ResourceKind::Pod, "two")].clone());
    assert!(change.is_none_or(|change| affected(&world.view, &change).is_empty()));
}

fn add_nodes(world: &mut World, nodes: &[(&str, &str, &str)]) {
    for (name, cpus, zone) in nodes {
        world.api.add_node(name, cpus, "16Gi", "110");
        let labels = json!({"zone": zone, "kubernetes.io/hostname": name});
        world.api.change(&id(ResourceKind::Node, name), |node| node["metadata"]["labels"] = labels);
    }
}

/// Two nodes that are full, and a pod that comes and has the weaker of the two there end for it.
struct Full {
    world: World,
    victim: ObjectId,
    other: ObjectId,
    comes: ObjectId,
}

impl Full {
    fn new() -> Self {
        let mut world = World::new();
        add_nodes(&mut world, &[("a", "4", "x"), ("b", "4", "x")]);
        let mut create = |name: &str, priority: i32| {
            let pod = world.create(asks(name, 4, &json!({"priority": priority})));
            world.settle();
            pod
        };
        let (victim, other) = (create("victim", 1), create("other", 2));
        let comes = create("comes", 10);
        Self { world, victim, other, comes }
    }
}

/// As upstream, where the end of a pod wakes all that were refused for want of room.
#[test]
fn a_pod_whose_node_is_lost_to_it_while_others_end_for_it_there_preempts_on_another() {
    let cordon: fn(&mut World) = |world| {
        world.api.change(&id(ResourceKind::Node, "a"), |node| {
            node["spec"]["unschedulable"] = json!(true)
        });
    };
    let delete: fn(&mut World) =
        |world| world.api.user_deletes(&id(ResourceKind::Node, "a"), DependentPolicy::Default);
    let takes: fn(&mut World) = |world| {
        let mut bound = asks("bound", 4, &json!({"priority": 20}));
        bound["spec"]["nodeName"] = json!("a");
        world.create(bound);
    };
    for (case, happens) in [
        ("cordoned", cordon),
        ("deleted", delete),
        ("taken by a stronger pod, bound by hand", takes),
    ] {
        let Full { mut world, victim, other, comes } = Full::new();
        assert!(world.api.objects[&victim].meta().deletion_timestamp.is_some(), "{case}");
        happens(&mut world);
        world.settle();
        if world.api.objects.contains_key(&victim) {
            world.kubelet_at(&victim);
        }
        world.settle();
        assert!(world.api.objects[&other].meta().deletion_timestamp.is_some(), "{case}");
        world.kubelet_at(&other);
        world.settle();
        assert_eq!(node_of(&world, &comes).as_deref(), Some("b"), "{case}");
    }
}

/// A pod that has ended takes no room: who waits for it to be gone as well waits for nothing.
#[test]
fn a_victim_that_has_ended_and_is_not_gone_is_not_waited_for() {
    let Full { mut world, victim, other, .. } = Full::new();
    let mut bound = asks("bound", 4, &json!({"priority": 20}));
    bound["spec"]["nodeName"] = json!("a");
    world.create(bound);
    world.api.change(&victim, |victim| victim["status"]["phase"] = json!("Failed"));
    world.settle();
    assert!(world.api.objects.contains_key(&victim), "something holds it");
    assert!(world.api.objects[&other].meta().deletion_timestamp.is_some());
}

/// kubernetes/kubernetes#134393: it is not the waiting pod that looks at others, but they at it.
#[test]
fn a_pod_that_others_kept_away_from_a_whole_zone_is_woken_when_they_do_not_any_more() {
    let shuns = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "waits"}},
         "namespaceSelector": {"matchLabels": {"kept": "away"}}}]}}});
    let quiet: fn(&mut World) = |world| {
        let quiet = id(ResourceKind::Pod, "shy");
        world.api.user_deletes(&quiet, DependentPolicy::Default);
        world.settle();
        world.kubelet_at(&quiet);
    };
    let finishes: fn(&mut World) = |world| {
        world.api.change(&id(ResourceKind::Pod, "shy"), |shy| {
            shy["status"]["phase"] = json!("Succeeded")
        });
    };
    let moves: fn(&mut World) = |world| {
        world
            .api
            .change(&id(ResourceKind::Node, "a"), |a| a["metadata"]["labels"]["zone"] = json!("y"));
    };
    let node_goes: fn(&mut World) =
        |world| world.api.user_deletes(&id(ResourceKind::Node, "a"), DependentPolicy::Default);
    let namespace: fn(&mut World) = |world| {
        world.api.change(&id(ResourceKind::Namespace, "shop"), |shop| {
            shop["metadata"]["labels"] = json!({})
        });
    };
    for (case, happens) in [
        ("it ends", quiet),
        ("it is over", finishes),
        ("its node leaves the zone", moves),
        ("its node is gone", node_goes),
        ("its terms do not mean the namespace any more", namespace),
    ] {
        let mut world = World::new();
        world.api.change(&id(ResourceKind::Namespace, "shop"), |shop| {
            shop["metadata"]["labels"] = json!({"kept": "away"});
        });
        add_nodes(&mut world, &[("a", "4", "x"), ("b", "8", "x")]);
        for (pod, cpus) in [("shy", 1), ("fills", 3)] {
            let mut pod = asks(pod, cpus, if cpus == 1 { &shuns } else { &Value::Null });
            pod["spec"]["nodeName"] = json!("a");
            world.create(pod);
        }
        world.settle();
        let waits = world.create(asks("waits", 4, &json!({"preemptionPolicy": "Never"})));
        let large = world.create(asks("large", 9, &json!({})));
        world.settle();
        assert_eq!(node_of(&world, &waits), None, "{case}");
        let said = world.said().len();
        happens(&mut world);
        world.settle();
        assert_eq!(node_of(&world, &waits).as_deref(), Some("b"), "{case}");
        assert_eq!(node_of(&world, &large), None);
        let others = world.said()[said..].iter().any(|said| said.starts_with("FailedScheduling"));
        assert!(!others, "{case}: nobody else is");
    }
}
