//! DaemonSets, after the API reference of apps/v1 DaemonSet and the documentation's page about
//! rolling updates.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSetStatus;
use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject, pods};
use rekindle_types::{TickDuration, taints};
use serde_json::{Value, json};

use crate::api::FakeApi;
use crate::build::template;
use crate::chance::{Chance, chance};
use crate::world::{World, id};

fn daemon_set(spec: Value) -> Value {
    let mut set = json!({
        "kind": "DaemonSet",
        "metadata": {"name": "agent",
            "annotations": {"deprecated.daemonset.template.generation": "1"}},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent", "one"),
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn rolling(settings: Value) -> Value {
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": settings}})
}

fn with_nodes(count: usize) -> World {
    let mut world = World::new();
    for number in 1..=count {
        world.api.add_node(&format!("node-{number}"), "100", "100Gi", "1000");
    }
    world
}

fn status(world: &World) -> DaemonSetStatus {
    match &world.api.objects[&id(ResourceKind::DaemonSet, "agent")] {
        ViewObject::DaemonSet(set) => set.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// `1:one 2:two`, by node, a mark behind each pod that is not simply ready: `!` not ready, `-`
/// going, `x` ended, `?` unbound.
fn shown(api: &FakeApi) -> String {
    let mut texts: Vec<String> = api
        .pods()
        .iter()
        .map(|pod| {
            let mark = match pod {
                pod if pods::is_terminating(pod) => "-",
                pod if pods::is_finished(pod) => "x",
                pod if pods::node(pod).is_none() => "?",
                pod if pods::is_ready(pod) => "",
                _ => "!",
            };
            let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
            let node = pods::node(pod).map_or("", |node| node.trim_start_matches("node-"));
            format!("{node}:{image}{mark}")
        })
        .collect();
    texts.sort();
    texts.join(" ")
}

fn set_image(world: &mut World, image: &str) {
    world.api.change(&id(ResourceKind::DaemonSet, "agent"), |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

fn taint(world: &mut World, node: &str, taints: Value) {
    world
        .api
        .change(&id(ResourceKind::Node, node), |node| node["spec"] = json!({"taints": taints}));
}

fn pod_on(world: &World, node: &str) -> ObjectId {
    let pods = world.api.pods();
    let pod = pods.iter().find(|pod| pods::node(pod) == Some(node)).unwrap();
    id(ResourceKind::Pod, pod.metadata.name.as_deref().unwrap())
}

/// What is to be seen after each turn of the kubelet, until nothing changes.
fn film(world: &mut World) -> Vec<String> {
    let mut film = Vec::new();
    for _ in 0..40 {
        world.advance(TickDuration::from_secs(1));
        let picture = shown(&world.api);
        if film.last() != Some(&picture) {
            film.push(picture);
        }
        world.kubelet();
    }
    film
}

#[test]
fn every_node_gets_one_pod_a_new_node_too_and_the_scheduler_binds_it() {
    let mut world = with_nodes(3);
    world.create(daemon_set(json!({})));
    assert_eq!(film(&mut world), ["1:one! 2:one! 3:one!", "1:one 2:one 3:one"]);
    world.api.add_node("node-4", "100", "100Gi", "1000");
    world.converge();
    assert_eq!(shown(&world.api), "1:one 2:one 3:one 4:one");
    let status = status(&world);
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (4, 4));
    assert_eq!((status.number_ready, status.number_misscheduled), (4, 0));
    assert_eq!((status.updated_number_scheduled, status.number_available), (Some(4), Some(4)));
    assert_eq!((status.number_unavailable, status.observed_generation), (None, Some(1)));
    let pod = world.api.pods()[0].clone();
    let labels = pod.metadata.labels.unwrap();
    assert_eq!(labels["pod-template-generation"], "1");
    assert!(!labels["controller-revision-hash"].is_empty());
    let tolerations = &pod.spec.as_ref().unwrap().tolerations;
    let keys: Vec<&str> =
        tolerations.iter().map(|t| t.key.as_deref().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "not-ready",
            "unreachable",
            "disk-pressure",
            "memory-pressure",
            "pid-pressure",
            "unschedulable"
        ]
    );
    assert!(
        world.said().iter().any(|said| said.starts_with("SuccessfulCreate: Created pod: agent-"))
    );
}

/// Upstream's `AddOrUpdateDaemonPodTolerations`: what every daemon tolerates it tolerates without a
/// limit, whatever its template says.
#[test]
fn a_daemon_stays_on_a_node_that_is_lost_though_its_template_says_for_how_long() {
    let mut world = with_nodes(2);
    let mut template = template("agent", "one");
    template["spec"]["tolerations"] = json!([{
        "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 5,
    }]);
    world.create(daemon_set(json!({"template": template})));
    assert_eq!(film(&mut world), ["1:one! 2:one!", "1:one 2:one"]);
    // where no node is ready none is lost
    for (node, ready) in [("node-2", "True"), ("node-1", "Unknown")] {
        world.api.change(&id(ResourceKind::Node, node), |node| {
            node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
        });
    }
    world.settle();
    let is_tainted = |object: &ViewObject| {
        matches!(object, ViewObject::Node(node)
        if taints::node_taints(node).iter().any(|taint| taint.effect == taints::NO_EXECUTE))
    };
    assert!(is_tainted(&world.api.objects[&id(ResourceKind::Node, "node-1")]));
    world.advance(TickDuration::from_secs(60));
    assert_eq!(shown(&world.api), "1:one 2:one");
}

#[test]
fn selector_taints_and_cordons_decide_which_nodes_have_a_pod() {
    let mut world = with_nodes(4);
    let labels = |world: &mut World, node: &str, labels: Value| {
        world.api.change(&id(ResourceKind::Node, node), |node| node["metadata"]["labels"] = labels);
    };
    for node in ["node-1", "node-2", "node-3"] {
        labels(&mut world, node, json!({"disk": "ssd"}));
    }
    taint(&mut world, "node-2", json!([{"key": "gpu", "effect": "NoSchedule"}]));
    world.api.change(&id(ResourceKind::Node, "node-3"), |node| {
        node["spec"] = json!({"unschedulable": true});
    });
    let mut set = daemon_set(json!({}));
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    world.create(set);
    world.converge();
    assert_eq!(shown(&world.api), "1:one 3:one", "a cordon is borne, a foreign taint is not");
    // A taint that comes later: NoSchedule leaves what is there, NoExecute does not.
    taint(&mut world, "node-1", json!([{"key": "gpu", "effect": "NoSchedule"}]));
    world.converge();
    assert_eq!(shown(&world.api), "1:one 3:one");
    let now = status(&world);
    assert_eq!((now.desired_number_scheduled, now.number_misscheduled), (1, 1));
    taint(&mut world, "node-1", json!([{"key": "gpu", "effect": "NoExecute"}]));
    world.converge();
    assert_eq!(shown(&world.api), "3:one");
    labels(&mut world, "node-4", json!({"disk": "ssd"}));
    labels(&mut world, "node-3", json!({}));
    world.converge();
    assert_eq!(shown(&world.api), "4:one");
    assert_eq!(status(&world).number_misscheduled, 0);
}

#[test]
fn a_rolling_update_replaces_so_many_at_once_as_may_be_unavailable() {
    let mut world = with_nodes(4);
    world.create(daemon_set(rolling(json!({"maxUnavailable": "50%"}))));
    world.converge();
    set_image(&mut world, "two");
    assert_eq!(
        film(&mut world),
        [
            "1:one- 2:one- 3:one 4:one",
            "1:two! 2:two! 3:one 4:one",
            "1:two 2:two 3:one- 4:one-",
            "1:two 2:two 3:two! 4:two!",
            "1:two 2:two 3:two 4:two",
        ]
    );
    assert_eq!(status(&world).updated_number_scheduled, Some(4));
    let revisions = world.api.ids(ResourceKind::ControllerRevision, "shop").len();
    assert_eq!(revisions, 2, "what was before can be brought back");
}

#[test]
fn a_surge_makes_the_new_pod_first_and_takes_the_old_one_when_it_is_available() {
    let mut world = with_nodes(3);
    let mut spec = rolling(json!({"maxUnavailable": 0, "maxSurge": 1}));
    spec["minReadySeconds"] = json!(2);
    world.create(daemon_set(spec));
    world.converge();
    world.advance(TickDuration::from_secs(5));
    set_image(&mut world, "two");
    let film = film(&mut world);
    assert_eq!(film[0], "1:one 1:two! 2:one 3:one");
    assert_eq!(film[1], "1:one 1:two 2:one 3:one", "it is ready, and not yet for long enough");
    assert_eq!(film[2], "1:one- 1:two 2:one 2:two! 3:one");
    assert_eq!(film.last().unwrap(), "1:two 2:two 3:two");
}

#[test]
fn on_delete_changes_a_pod_only_when_somebody_deletes_it() {
    let mut world = with_nodes(2);
    world.create(daemon_set(json!({"updateStrategy": {"type": "OnDelete"}})));
    world.converge();
    set_image(&mut world, "two");
    world.converge();
    assert_eq!(shown(&world.api), "1:one 2:one");
    let pod = pod_on(&world, "node-2");
    world.api.user_deletes(&pod, DependentPolicy::Default);
    world.converge();
    assert_eq!(shown(&world.api), "1:one 2:two");
}

#[test]
fn a_broken_template_stops_after_the_first_node_and_can_be_taken_back() {
    let mut world = with_nodes(3);
    world.create(daemon_set(json!({})));
    world.converge();
    set_image(&mut world, "broken");
    world.advance(TickDuration::from_secs(1));
    world.kubelet();
    world.advance(TickDuration::from_secs(600));
    assert_eq!(shown(&world.api), "1:broken! 2:one 3:one");
    set_image(&mut world, "one");
    world.converge();
    assert_eq!(shown(&world.api), "1:one 2:one 3:one");
    let revisions = world.api.objects.values().filter_map(|object| match object {
        ViewObject::ControllerRevision(revision) => revision.revision,
        _ => None,
    });
    let mut numbers: Vec<i64> = revisions.collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "a template that was there before gets a new number");
}

#[test]
fn a_failed_pod_is_replaced_at_once_and_then_after_ever_longer_pauses() {
    let mut world = with_nodes(1);
    world.create(daemon_set(json!({})));
    world.converge();
    let began = world.api.now;
    let mut replaced = Vec::new();
    for _ in 0..5 {
        let pod = pod_on(&world, "node-1");
        world.api.change(&pod, |pod| pod["status"]["phase"] = json!("Failed"));
        let failed = world.api.now;
        for _ in 0..1000 {
            world.settle();
            world.kubelet();
            world.settle();
            if !world.api.objects.contains_key(&pod) {
                break;
            }
            world.advance(TickDuration::from_millis(100));
        }
        replaced.push(world.api.now.since(failed).as_micros().div_ceil(1_000_000));
    }
    assert_eq!(replaced, [0, 1, 2, 4, 8]);
    assert!(
        world
            .said()
            .iter()
            .any(|said| said.starts_with("FailedDaemonPod: Found failed daemon pod shop/agent-")
                && said.ends_with(" on node node-1, will try to kill it"))
    );
    // Half an hour without a failure, and the next one is a first one.
    world.advance(TickDuration::from_secs(1801));
    assert!(world.api.now.since(began) > TickDuration::from_secs(1800));
    world.converge();
    let pod = pod_on(&world, "node-1");
    world.api.change(&pod, |pod| pod["status"]["phase"] = json!("Failed"));
    world.settle();
    world.kubelet();
    world.settle();
    assert!(!world.api.objects.contains_key(&pod));
}

#[test]
fn pods_left_behind_are_adopted_and_those_of_a_deleted_set_go() {
    let mut world = with_nodes(2);
    let set = world.create(daemon_set(json!({})));
    world.converge();
    let uids = |world: &World| -> Vec<_> {
        world.api.pods().iter().map(|pod| pod.metadata.uid.clone()).collect()
    };
    let before = uids(&world);
    world.api.user_deletes(&set, DependentPolicy::Orphan);
    world.converge();
    assert_eq!(uids(&world), before);
    let set = world.create(daemon_set(json!({})));
    world.converge();
    assert_eq!(uids(&world), before, "the same template: nothing is to be done");
    assert_eq!(status(&world).updated_number_scheduled, Some(2));
    world.api.user_deletes(&set, DependentPolicy::Background);
    world.converge();
    assert_eq!(shown(&world.api), "");
    assert_eq!(world.api.ids(ResourceKind::ControllerRevision, "shop"), []);
}

#[test]
fn a_pod_that_waits_for_a_node_that_is_gone_goes_too() {
    let mut world = with_nodes(2);
    world.api.change(&id(ResourceKind::Node, "node-2"), |node| {
        node["status"]["allocatable"]["pods"] = json!("0");
    });
    world.create(daemon_set(json!({})));
    world.converge();
    assert_eq!(shown(&world.api), "1:one :one?");
    world.api.user_deletes(&id(ResourceKind::Node, "node-2"), DependentPolicy::Default);
    world.converge();
    assert_eq!(shown(&world.api), "1:one");
}

#[derive(Clone, Debug)]
enum Happening {
    Chance(Chance),
    Image(u8),
    Taint(u8, u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        23 => chance().prop_map(Happening::Chance),
        1 => any::<u8>().prop_map(Happening::Image),
        1 => (1..=4u8, any::<u8>()).prop_map(|(node, n)| Happening::Taint(node, n)),
    ]
}

fn happens(world: &mut World, happening: &Happening) {
    match happening {
        Happening::Chance(chance) => world.takes(chance),
        Happening::Image(n) => set_image(world, ["one", "two", "three"][usize::from(*n) % 3]),
        Happening::Taint(node, n) => {
            let taints = match n % 3 {
                0 => json!([]),
                1 => json!([{"key": "gpu", "effect": "NoSchedule"}]),
                _ => json!([{"key": "gpu", "effect": "NoExecute"}]),
            };
            taint(world, &format!("node-{node}"), taints);
        }
    }
}

/// Living pods that have or want a node, by node.
fn crowd(api: &FakeApi) -> BTreeMap<String, usize> {
    let mut crowd = BTreeMap::new();
    for pod in api.pods().iter().filter(|pod| pods::is_active(pod)) {
        let affinity = serde_json::to_value(pods::affinity(pod)).unwrap();
        let path = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
        let node = affinity.pointer(path).and_then(Value::as_str).unwrap().to_owned();
        *crowd.entry(node).or_insert(0) += 1;
    }
    crowd
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// Whatever lags, is lost or fails: never two living pods of a node without a surge, and in the
    /// end one of the right template on each node that fits.
    #[test]
    fn a_daemon_set_ends_with_one_pod_a_node_whatever_happens(
        surge in any::<bool>(),
        happenings in prop::collection::vec(happening(), 0..250),
    ) {
        let mut world = with_nodes(4);
        let settings = if surge { json!({"maxSurge": 2}) } else { json!({"maxUnavailable": 2}) };
        world.create(daemon_set(rolling(settings)));
        let check: fn(&FakeApi) = if surge {
            |api| assert!(crowd(api).values().all(|pods| *pods <= 3), "{:?}", crowd(api))
        } else {
            |api| assert!(crowd(api).values().all(|pods| *pods == 1), "{:?}", crowd(api))
        };
        world.check = Box::new(check);
        for happening in &happenings {
            happens(&mut world, happening);
        }
        for kind in ResourceKind::ALL {
            world.relist(kind, 0);
        }
        world.advance(TickDuration::from_secs(1800));
        world.converge();
        world.assert_view_is_true();
        let ViewObject::DaemonSet(set) = &world.api.objects[&id(ResourceKind::DaemonSet, "agent")] else {
            panic!("a DaemonSet");
        };
        let image = set.spec.template.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        let (mut wanted, mut borne) = (Vec::new(), Vec::new());
        for number in 1..=4 {
            let node = &world.api.objects[&id(ResourceKind::Node, &format!("node-{number}"))];
            let ViewObject::Node(node) = node else { panic!("a node") };
            let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            match taints.map(|taint| taint.effect.as_str()).next() {
                None => wanted.push(format!("{number}:{image}")),
                // there before the taint, or waiting there
                Some("NoSchedule") => borne.extend([format!("{number}:"), ":".to_owned()]),
                Some(_) => {}
            }
        }
        let text = shown(&world.api);
        let (there, others): (Vec<&str>, Vec<&str>) =
            text.split_whitespace().partition(|pod| wanted.iter().any(|w| w == pod));
        prop_assert_eq!(there, wanted);
        prop_assert!(others.iter().all(|pod| borne.iter().any(|node| pod.starts_with(node))), "{}", text);
    }

    /// A rolling update alone never makes more nodes unavailable than it may, and none with a
    /// surge.
    #[test]
    fn a_rolling_update_of_a_daemon_set_keeps_its_limit_whatever_lags(
        surge in any::<bool>(),
        happenings in prop::collection::vec(
            happening().prop_filter("no trouble but updates", |h| {
                !matches!(h, Happening::Chance(Chance::PodFails(_) | Chance::UserDeletesPod(_)) | Happening::Taint(..))
            }),
            0..250,
        ),
    ) {
        let mut world = with_nodes(4);
        let settings = if surge { json!({"maxSurge": 2}) } else { json!({"maxUnavailable": 2}) };
        world.create(daemon_set(rolling(settings)));
        world.converge();
        fn served(api: &FakeApi) -> usize {
            let ready = api.pods().into_iter().filter(|p| pods::is_active(p) && pods::is_ready(p));
            ready.filter_map(|pod| pods::node(pod)).collect::<std::collections::BTreeSet<_>>().len()
        }
        let check: fn(&FakeApi) = if surge {
            |api| {
                assert_eq!(served(api), 4, "no node may be without a pod");
                let doubles = crowd(api).values().filter(|pods| **pods > 1).count();
                assert!(doubles <= 2, "{doubles} nodes have two pods");
            }
        } else {
            |api| assert!(served(api) >= 2, "more nodes are unavailable than may be")
        };
        world.check = Box::new(check);
        for happening in &happenings {
            happens(&mut world, happening);
        }
    }
}
