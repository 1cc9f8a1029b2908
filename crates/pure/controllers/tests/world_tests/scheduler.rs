//! The scheduler.

use rekindle_controllers::plan::{DependentPolicy, PatchTarget};
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ObjectId, ResourceKind, ViewObject, turn,
};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

fn pod_with(name: &str, spec: Value) -> Value {
    let mut pod = pod(name, json!({}));
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn asks(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "one",
        "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

fn node_of(world: &World, id: &ObjectId) -> Option<String> {
    match &world.api.objects[id] {
        ViewObject::Pod(pod) => pod.node_name.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_go_where_most_is_free() {
    let mut world = World::new();
    world.api.add_node("big", "8", "16Gi", "110");
    world.api.add_node("small", "2", "4Gi", "110");
    let pods: Vec<_> =
        (0..5).map(|n| world.create(pod_with(&format!("p{n}"), asks("1", "2Gi")))).collect();
    world.settle();
    let on_big = pods.iter().filter(|p| node_of(&world, p).as_deref() == Some("big")).count();
    assert_eq!(on_big, 4, "by share of what is left: big, big, …, small once");
    assert!(world.said().contains(&"Scheduled: Successfully assigned shop/p0 to big".to_owned()));
}

/// Assigning Pods to Nodes, "Node affinity weight"; Taints and Tolerations, "PreferNoSchedule".
#[test]
fn preferences_outweigh_free_room_and_taints_outweigh_preferences() {
    let prefers = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}},
        {"weight": 50, "preference": {"matchExpressions":
            [{"key": "disk", "operator": "In", "values": ["ssd"]}]}},
    ]}});
    let tolerates = json!([{"key": "old", "operator": "Exists"}]);
    // (preferred affinity, tolerations, where the pod goes)
    for (affinity, tolerations, expected) in [
        (Value::Null, Value::Null, "plain"),
        (prefers.clone(), Value::Null, "rotating"),
        (prefers, tolerates.clone(), "solid"),
        (Value::Null, tolerates, "plain"),
    ] {
        let mut world = World::new();
        for (name, cpu) in [("plain", "8"), ("rotating", "6"), ("solid", "4")] {
            world.api.add_node(name, cpu, "16Gi", "110");
        }
        let node = |name| ObjectId::new(ResourceKind::Node, NamespacedName::new("", name));
        world.api.change(&node("rotating"), |n| n["metadata"]["labels"] = json!({"disk": "hdd"}));
        world.api.change(&node("solid"), |n| {
            n["metadata"]["labels"] = json!({"disk": "ssd"});
            n["spec"]["taints"] = json!([{"key": "old", "effect": "PreferNoSchedule"}]);
        });
        let mut spec = asks("1", "1Gi");
        spec["affinity"] = affinity.clone();
        spec["tolerations"] = tolerations.clone();
        let id = world.create(pod_with("web", spec));
        world.settle();
        assert_eq!(node_of(&world, &id).as_deref(), Some(expected), "{affinity} {tolerations}");
    }
}

#[test]
fn what_does_not_fit_says_why_once_and_is_tried_again_when_something_changes() {
    let mut world = World::new();
    world.api.add_node("node-1", "2", "4Gi", "110");
    let first = world.create(pod_with("first", asks("1500m", "1Gi")));
    world.settle();
    let second = world.create(pod_with("second", asks("1", "1Gi")));
    world.settle();
    assert_eq!(node_of(&world, &second), None);
    let said = "FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.".to_owned();
    assert_eq!(world.said().iter().filter(|s| **s == said).count(), 1);
    let ViewObject::Pod(waiting) = &world.api.objects[&second] else { panic!() };
    let condition = &waiting.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
    let writes = world.writes.len();
    world.advance(TickDuration::from_secs(3600));
    assert_eq!(world.writes.len(), writes, "nothing new is to be said");
    let later: Vec<_> =
        world.timers.iter().map(|(key, at)| (key.clone(), at.since(world.api.now))).collect();
    let five_minutes = TickDuration::from_secs(5 * 60);
    assert_eq!(
        later,
        [(ControllerKey::Schedule(second.name.clone()), five_minutes)],
        "nothing else is polled"
    );
    world.api.user_deletes(&first, DependentPolicy::Default);
    world.settle();
    assert_eq!(node_of(&world, &second), None, "the first still terminates");
    world.kubelet_at(&first);
    world.settle();
    assert_eq!(node_of(&world, &second).as_deref(), Some("node-1"));
}

/// KEP-1287: what the node has not taken back yet still counts.
#[test]
fn a_pod_that_was_made_smaller_makes_room_once_its_node_says_so() {
    let mut world = World::new();
    world.api.add_node("node-1", "2", "4Gi", "110");
    let first = world.create(pod_with("first", asks("1500m", "1Gi")));
    world.settle();
    let second = world.create(pod_with("second", asks("1", "1Gi")));
    world.settle();
    let container =
        |cpu: &str| json!([{"name": "main", "allocatedResources": {"cpu": cpu, "memory": "1Gi"}}]);
    world.api.change(&first, |pod| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
        pod["status"]["containerStatuses"] = container("1500m");
    });
    world.settle();
    assert_eq!(node_of(&world, &second), None, "the node has not granted it");
    world.api.change(&first, |pod| pod["status"]["containerStatuses"] = container("500m"));
    world.settle();
    assert_eq!(node_of(&world, &second).as_deref(), Some("node-1"));
}

#[test]
fn reasons_are_counted_over_nodes_as_upstream_words_them() {
    let no_victims = "No preemption victims found for incoming pod";
    let no_help = "Preemption is not helpful for scheduling";
    // (what is special about the node, what is special about the pod, the message, why preemption
    // is of no use)
    let cases = [
        (json!({}), asks("10", "1Gi"), "0/1 nodes are available: 1 Insufficient cpu.", no_help),
        (
            json!({}),
            asks("10", "100Gi"),
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            no_help,
        ),
        (
            json!({"status": {"allocatable": {"example.com/gpu": "1"}}}),
            json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "2", "hugepages-2Mi": "2Mi"}}}]}),
            "0/1 nodes are available: 1 Insufficient example.com/gpu, 1 Insufficient hugepages-2Mi.",
            no_help,
        ),
        (
            json!({"spec": {"unschedulable": true}}),
            json!({}),
            "0/1 nodes are available: 1 node(s) were unschedulable.",
            no_help,
        ),
        (
            json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}),
            json!({}),
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            no_help,
        ),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
            json!({}),
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            no_help,
        ),
        (
            json!({}),
            json!({"nodeSelector": {"disk": "ssd"}}),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            no_help,
        ),
        (
            json!({"status": {"allocatable": {"ephemeral-storage": "1Gi"}}}),
            json!({"containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "2Gi"}}}]}),
            "0/1 nodes are available: 1 Insufficient ephemeral-storage.",
            no_help,
        ),
        (
            json!({}),
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]}),
            "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label).",
            no_help,
        ),
        (
            json!({"status": {"allocatable": {"pods": "0"}}}),
            json!({}),
            "0/1 nodes are available: 1 Too many pods.",
            no_victims,
        ),
    ];
    for (node, spec, expected, why) in cases {
        let mut world = World::new();
        world.api.add_node("node-1", "2", "4Gi", "110");
        for part in [PatchTarget::Whole, PatchTarget::Status] {
            world.api.patch(&id(ResourceKind::Node, "node-1"), part, &node);
        }
        world.settle(); // the node has its taints
        world.notes.clear();
        world.create(pod_with("p", spec));
        world.settle();
        let why = format!("preemption: 0/1 nodes are available: 1 {why}.");
        assert_eq!(world.said(), [format!("FailedScheduling: {expected} {why}")]);
    }
    let mut world = World::new();
    world.create(pod_with("p", json!({})));
    world.settle();
    assert_eq!(world.said(), ["FailedScheduling: no nodes available to schedule pods"]);
}

#[test]
fn node_affinity_terms_are_alternatives() {
    let mut world = World::new();
    for (name, zone) in [("a", "east"), ("b", "west")] {
        world.api.add_node(name, "2", "4Gi", "110");
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = json!({"zone": zone, "cores": "8"});
        });
    }
    let term = |key: &str, operator: &str, value: &str| json!({"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]});
    for (name, terms, expected) in [
        ("in", json!([term("zone", "In", "west")]), Some("b")),
        ("not-in", json!([term("zone", "NotIn", "west")]), Some("a")),
        ("either", json!([term("zone", "In", "none"), term("zone", "In", "west")]), Some("b")),
        ("gt", json!([term("cores", "Gt", "8")]), None),
        ("empty", json!([{}]), None),
        (
            "field",
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]),
            Some("b"),
        ),
    ] {
        let affinity = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let pod = world.create(pod_with(name, json!({"affinity": affinity})));
        world.settle();
        assert_eq!(node_of(&world, &pod).as_deref(), expected, "{name}");
    }
}

#[test]
fn a_gated_pod_and_one_of_another_scheduler_are_left_alone() {
    let mut world = World::with_node();
    let gated = world.create(pod_with("gated", json!({"schedulingGates": [{"name": "wait"}]})));
    let other = world.create(pod_with("other", json!({"schedulerName": "mine"})));
    world.settle();
    assert_eq!((node_of(&world, &gated), node_of(&world, &other)), (None, None));
    world.api.change(&gated, |pod| pod["spec"]["schedulingGates"] = json!([]));
    world.settle();
    assert_eq!(node_of(&world, &gated).as_deref(), Some("node-1"));
}

#[test]
fn pods_of_a_node_that_is_gone_end_as_failed_after_forty_seconds_or_as_long_as_is_set() {
    for seconds in [40, 7] {
        let mut world = World::with_node();
        let mut settings = world.view.node_settings().clone();
        if seconds != 40 {
            settings.missing_node_grace = TickDuration::from_secs(seconds);
        }
        world.view.set_node_settings(settings);
        let pod = world.create(pod("p", json!({})));
        world.settle();
        world.api.user_deletes(&id(ResourceKind::Node, "node-1"), DependentPolicy::Default);
        world.advance(TickDuration::from_secs(seconds - 1));
        assert!(world.api.objects.contains_key(&pod), "{seconds}");
        world.advance(TickDuration::from_secs(2));
        assert!(!world.api.objects.contains_key(&pod), "{seconds}");
    }
}

#[test]
fn a_node_that_comes_back_in_time_keeps_its_pods() {
    let mut world = World::with_node();
    let pod = world.create(pod("p", json!({})));
    world.settle();
    world.api.user_deletes(&id(ResourceKind::Node, "node-1"), DependentPolicy::Default);
    world.advance(TickDuration::from_secs(20));
    world.api.add_node("node-1", "2", "4Gi", "110");
    world.advance(TickDuration::from_secs(600));
    assert!(world.api.objects.contains_key(&pod));
}

#[test]
fn pods_that_wait_together_go_by_priority_and_then_by_age() {
    // (name, priority, created at second), the order in which they are looked at
    let pods = [("old", 0, 1), ("new", 0, 2), ("urgent", 100, 3), ("patient", -1, 0)];
    let mut view = ClusterView::new();
    for (name, priority, second) in pods {
        let mut pod = pod_with(name, json!({"priority": priority}));
        pod["metadata"]["uid"] = json!(name);
        pod["metadata"]["namespace"] = json!("shop");
        pod["metadata"]["creationTimestamp"] = json!(format!("2026-11-21T12:00:0{second}Z"));
        let pod: HeldPod = serde_json::from_value(pod).unwrap();
        view.apply(ViewObject::from(pod));
    }
    let mut keys =
        pods.map(|(name, ..)| ControllerKey::Schedule(NamespacedName::new("shop", name)));
    keys.sort_by_key(|key| turn(&view, key));
    let order = keys.map(|key| key.object().name.name);
    assert_eq!(order, ["urgent", "old", "new", "patient"]);
}

#[test]
fn a_node_under_pressure_is_tainted_until_it_is_over_and_gets_no_pods_that_do_not_cope() {
    let node = id(ResourceKind::Node, "node-1");
    let under = |condition: &str, status: &str| {
        json!({"status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": condition, "status": status}]}})
    };
    let taints = |world: &World| match &world.api.objects[&node] {
        ViewObject::Node(node) => {
            let taints =
                node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            taints.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let mut world = World::new();
    world.api.add_node("node-1", "2", "4Gi", "110");
    world.api.patch(
        &node,
        PatchTarget::Whole,
        &json!({"spec": {"taints": [{"key": "own", "effect": "PreferNoSchedule"}]}}),
    );
    for (condition, key) in [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ] {
        world.api.patch(&node, PatchTarget::Status, &under(condition, "True"));
        world.settle();
        let of_pressure = format!("node.kubernetes.io/{key}:NoSchedule");
        assert_eq!(taints(&world), ["own:PreferNoSchedule".to_owned(), of_pressure]);
        let best_effort = world.create(pod_with(&format!("weak-{key}"), json!({})));
        let burstable = world.create(pod_with(&format!("firm-{key}"), asks("1m", "1Mi")));
        world.settle();
        assert_eq!(node_of(&world, &best_effort), None);
        assert_eq!(node_of(&world, &burstable).is_some(), condition == "MemoryPressure");
        world.api.patch(&node, PatchTarget::Status, &under(condition, "False"));
        world.settle();
        assert_eq!(taints(&world), ["own:PreferNoSchedule"]);
        assert_eq!(node_of(&world, &best_effort).as_deref(), Some("node-1"));
    }
}

#[test]
fn pods_that_ask_for_all_there_can_be_leave_their_node_as_it_was() {
    let most = "9223372036854775807";
    let mut world = World::new();
    world.api.add_node("a", "4", "16Gi", "110");
    let asking = |name: &str, cpu: &str, memory: &str| {
        let mut pod = pod(name, json!({}));
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": cpu, "memory": memory, "ephemeral-storage": "0"}});
        pod
    };
    let there = world.create(asking("there", "1", "12Gi"));
    world.settle();
    let huge: Vec<_> = ["one", "two", "three"]
        .into_iter()
        .map(|name| {
            let mut huge = asking(name, most, most);
            huge["spec"]["nodeName"] = json!("a");
            huge["spec"]["overhead"] = json!({"memory": most});
            world.create(huge)
        })
        .collect();
    let fits = world.create(asking("fits", "3", "4Gi"));
    world.settle();
    assert_eq!(node_of(&world, &fits), None);
    for huge in huge {
        world.api.user_deletes(&huge, DependentPolicy::Default);
        world.kubelet_at(&huge);
        world.settle();
    }
    assert_eq!(node_of(&world, &there).as_deref(), Some("a"));
    assert_eq!(node_of(&world, &fits).as_deref(), Some("a"));
    let more = world.create(asking("more", "0", "1"));
    world.settle();
    assert_eq!(node_of(&world, &more), None, "the node is full to the last byte");
}
