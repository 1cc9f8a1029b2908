//! When a node is added and when one goes, case by case, as cluster-autoscaler's FAQ has it.

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::*;
use crate::ViewObject;

const NOW: Tick = Tick::from_secs(10_000);

fn at(seconds: u64) -> Tick {
    NOW + TickDuration::from_secs(seconds)
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "by-hand": "yes"}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.88.0.254"}],
        },
    })
}

/// A pod of a ReplicaSet on this node; on none it is one that the scheduler has given up on.
fn pod(name: &str, node: Option<&str>, cpu: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
            "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "rs", "controller": true}]},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    });
    match node {
        Some(node) => pod["spec"]["nodeName"] = node.into(),
        None => {
            pod["status"] = json!({"phase": "Pending", "conditions":
                [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        }
    }
    pod
}

/// Nodes n1, n2, n3, and these pods and other objects.
struct Case {
    view: ClusterView,
    further: Vec<String>,
}

impl Case {
    fn new(nodes: &[&str]) -> Self {
        let mut case = Self { view: ClusterView::new(), further: Vec::new() };
        for name in nodes {
            case.node(node(name));
            case.further.push((*name).to_owned());
        }
        case.further.remove(0);
        case
    }

    fn node(&mut self, node: Value) {
        let node: Node = serde_json::from_value(node).unwrap();
        self.view.apply(ViewObject::from(node));
    }

    fn pod(&mut self, pod: Value) {
        let pod: HeldPod = serde_json::from_value(pod).unwrap();
        self.view.apply(ViewObject::from(pod));
    }

    fn nodes(&self) -> ScalableNodes<'_> {
        ScalableNodes { first: "n1", further: &self.further }
    }

    fn look(&self, scaling: &mut Scaling, now: Tick) -> ScalingOutlook {
        scaling.look(&self.view, self.nodes(), now)
    }

    /// What a first look between 1 and 3 nodes decides.
    fn deed(&self) -> ScalingAction {
        self.look(&mut Scaling::new(ScalingSettings::between(1, 3)), NOW).deed
    }

    /// How node n2 stands.
    fn standing(&self) -> String {
        let outlook = self.look(&mut Scaling::new(ScalingSettings::between(1, 3)), NOW);
        match &outlook.nodes["n2"] {
            NodeScalingState::Unneeded { .. } => "unneeded".to_owned(),
            other => other.to_string(),
        }
    }
}

fn names(pods: &[Arc<HeldPod>]) -> Vec<&str> {
    pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
}

#[test]
fn a_node_is_added_for_pods_that_a_new_one_has_room_for() {
    let mut case = Case::new(&["n1"]);
    case.pod(pod("old", Some("n1"), "3"));
    assert_eq!(case.deed(), ScalingAction::Nothing);
    case.pod(pod("new-a", None, "3"));
    case.pod(pod("new-b", None, "500m")); // there is room for it by now
    case.pod(pod("huge", None, "5"));
    let mut scaling = Scaling::new(ScalingSettings::between(1, 3));
    let outlook = case.look(&mut scaling, NOW);
    let ScalingAction::Add(pods) = &outlook.deed else { panic!("{outlook:?}") };
    assert_eq!(names(pods), ["new-a"]);
    let [(huge, why)] = &outlook.not_helped[..] else { panic!("{outlook:?}") };
    assert_eq!(huge.metadata.name.as_deref(), Some("huge"));
    assert_eq!(why, "0/1 nodes are available: 1 Insufficient cpu.");
}

#[test]
fn one_node_takes_as_many_pods_as_fit_and_the_rest_is_told_nothing_until_the_next_look() {
    let mut case = Case::new(&["n1"]);
    for name in ["a", "b", "c"] {
        case.pod(pod(name, None, "3"));
    }
    case.pod(pod("there", Some("n1"), "4"));
    let ScalingAction::Add(pods) = case.deed() else { panic!("a node is missing") };
    assert_eq!(names(&pods), ["a"]);
}

#[test]
fn no_node_is_added_where_it_would_not_help() {
    let mut selects = pod("p", None, "1");
    selects["spec"]["nodeSelector"] = json!({"by-hand": "yes"});
    let mut waits_by_itself = pod("p", None, "1");
    waits_by_itself["spec"]["schedulingGates"] = json!([{"name": "later"}]);
    let mut nominated = pod("p", None, "3");
    nominated["status"]["nominatedNodeName"] = "n1".into();
    let mut not_tried = pod("p", None, "3");
    not_tried["status"] = json!({"phase": "Pending"});
    let mut of_another = pod("p", None, "3");
    of_another["spec"]["schedulerName"] = "mine".into();
    let mut port = pod("p", None, "1");
    port["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    for (what, waiting) in [
        ("a label that a user gave one node", selects),
        ("a gate", waits_by_itself),
        ("room is being made for it", nominated),
        ("the scheduler has not looked at it", not_tried),
        ("another scheduler", of_another),
        ("a port of the machine", port),
    ] {
        let mut case = Case::new(&["n1"]);
        let mut there = pod("there", Some("n1"), "3500m");
        there["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        case.pod(there);
        case.pod(waiting);
        assert_eq!(case.deed(), ScalingAction::Nothing, "{what}");
    }
}

#[test]
fn what_daemon_sets_need_on_a_new_node_is_taken_off_it() {
    let mut case = Case::new(&["n1"]);
    let mut daemon = pod("daemon", Some("n1"), "2");
    daemon["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet".into();
    case.pod(daemon);
    case.pod(pod("new", None, "3"));
    assert_eq!(case.deed(), ScalingAction::Nothing, "it would wait there, too");
}

#[test]
fn there_are_never_more_nodes_than_the_user_wants() {
    let mut case = Case::new(&["n1", "n2", "n3"]);
    for node in ["n1", "n2", "n3"] {
        case.pod(pod(node, Some(node), "3"));
    }
    case.pod(pod("new", None, "3"));
    let outlook = case.look(&mut Scaling::new(ScalingSettings::between(1, 3)), NOW);
    assert_eq!(outlook.deed, ScalingAction::Nothing);
    assert_eq!(outlook.not_helped[0].1, "max node group size reached (3)");
}

#[test]
fn a_node_goes_when_it_was_unneeded_for_ten_minutes_the_newest_first() {
    let case = Case::new(&["n1", "n2", "n3"]);
    let mut scaling = Scaling::new(ScalingSettings::between(2, 3));
    let outlook = case.look(&mut scaling, NOW);
    assert_eq!((outlook.deed, outlook.again_at), (ScalingAction::Nothing, Some(at(600))));
    assert_eq!(case.look(&mut scaling, at(599)).deed, ScalingAction::Nothing);
    assert_eq!(case.look(&mut scaling, at(600)).deed, ScalingAction::Remove("n3".to_owned()));
    let fewer = Case::new(&["n1", "n2"]);
    let outlook = fewer.look(&mut scaling, at(601));
    assert_eq!((outlook.deed, outlook.again_at), (ScalingAction::Nothing, None));
    assert_eq!(outlook.nodes["n2"], NodeScalingState::AtMinimum);
}

#[test]
fn a_node_that_is_needed_in_between_or_could_not_be_removed_begins_anew() {
    let mut scaling = Scaling::new(ScalingSettings::between(1, 3));
    let idle = Case::new(&["n1", "n2"]);
    idle.look(&mut scaling, NOW);
    let mut used = Case::new(&["n1", "n2"]);
    used.pod(pod("there", Some("n2"), "3"));
    used.look(&mut scaling, at(300));
    assert_eq!(idle.look(&mut scaling, at(600)).deed, ScalingAction::Nothing);
    assert_eq!(idle.look(&mut scaling, at(1_200)).deed, ScalingAction::Remove("n2".to_owned()));
    scaling.stays("n2");
    assert_eq!(idle.look(&mut scaling, at(1_201)).deed, ScalingAction::Nothing);
}

#[test]
fn while_a_node_is_to_be_added_none_is_removed() {
    let mut case = Case::new(&["n1", "n2"]);
    let mut scaling = Scaling::new(ScalingSettings::between(1, 3));
    case.look(&mut scaling, NOW);
    let mut elsewhere = node("n2");
    elsewhere["metadata"]["resourceVersion"] = "2".into();
    elsewhere["status"]["allocatable"]["cpu"] = "1".into();
    case.node(elsewhere);
    case.pod(pod("there", Some("n1"), "3"));
    case.pod(pod("new", None, "3"));
    // a new node is as the oldest further one: too small for it
    assert_eq!(case.look(&mut scaling, at(600)).deed, ScalingAction::Remove("n2".to_owned()));
    let mut large = node("n2");
    large["metadata"]["resourceVersion"] = "3".into();
    large["spec"]["taints"] = json!([{"key": "mine", "effect": "NoSchedule"}]);
    case.node(large);
    assert!(matches!(case.look(&mut scaling, at(1_300)).deed, ScalingAction::Add(_)));
}

#[test]
fn what_keeps_a_node() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut pod = pod("web", Some("n2"), "1");
        change(&mut pod);
        let mut case = Case::new(&["n1", "n2"]);
        case.pod(pod);
        case.standing()
    };
    let annotated = |key: &str, value: &str| json!({ (format!("cluster-autoscaler.kubernetes.io/{key}")): value });
    let naked = |pod: &mut Value| pod["metadata"]["ownerReferences"] = json!([]);
    let empty_dir = |pod: &mut Value| {
        pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    };
    assert_eq!(with(&|_| {}), "unneeded");
    assert_eq!(with(&naked), "stays: pod shop/web is made again by nobody");
    assert_eq!(
        with(&|pod| {
            naked(pod);
            pod["metadata"]["annotations"] = annotated("safe-to-evict", "true");
        }),
        "unneeded"
    );
    assert_eq!(
        with(&|pod| pod["metadata"]["annotations"] = annotated("safe-to-evict", "false")),
        "stays: pod shop/web is annotated as not safe to evict"
    );
    assert_eq!(with(&empty_dir), "stays: pod shop/web has local storage (scratch)");
    assert_eq!(
        with(&|pod| {
            empty_dir(pod);
            pod["metadata"]["annotations"] = annotated("safe-to-evict-local-volumes", "x, scratch");
        }),
        "unneeded"
    );
    assert_eq!(
        with(&|pod| {
            pod["spec"]["volumes"] = json!([{"name": "m", "emptyDir": {"medium": "Memory"}}]);
        }),
        "unneeded"
    );
    assert_eq!(
        with(&|pod| pod["metadata"]["namespace"] = "kube-system".into()),
        "stays: pod kube-system/web is of kube-system and has no disruption budget"
    );
    assert_eq!(
        with(&|pod| {
            naked(pod);
            pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        }),
        "unneeded"
    );
    assert_eq!(
        with(&|pod| {
            naked(pod);
            pod["status"]["phase"] = "Succeeded".into();
        }),
        "unneeded"
    );
    assert_eq!(
        with(&|pod| {
            pod["spec"]["containers"][0]["resources"]["requests"] = json!({"memory": "4Gi"});
        }),
        "stays: 50 % of it are asked for"
    );
    assert_eq!(
        with(&|pod| pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n2"})),
        "stays: pod shop/web has no place elsewhere: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    );
}

#[test]
fn pods_that_have_no_place_together_keep_their_node() {
    let mut case = Case::new(&["n1", "n2"]);
    case.pod(pod("there", Some("n1"), "2500m"));
    case.pod(pod("a", Some("n2"), "900m"));
    assert_eq!(case.standing(), "unneeded");
    case.pod(pod("b", Some("n2"), "900m"));
    assert_eq!(
        case.standing(),
        "stays: pod shop/b has no place elsewhere: 0/1 nodes are available: 1 Insufficient cpu."
    );
}

#[test]
fn what_keeps_a_node_whatever_its_pods_are() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut case = Case::new(&["n1", "n2"]);
        let mut changed = node("n2");
        changed["metadata"]["resourceVersion"] = "2".into();
        change(&mut changed);
        case.node(changed);
        case.standing()
    };
    assert_eq!(with(&|_| {}), "unneeded");
    let disabled = json!({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"});
    assert_eq!(
        with(&|node| node["metadata"]["annotations"] = disabled.clone()),
        "stays: its annotation disables scale-down"
    );
    assert_eq!(
        with(&|node| node["spec"] = json!({"unschedulable": true})),
        "stays: it is cordoned"
    );
    let mut missing = Case::new(&["n1", "n2"]);
    missing.further = vec!["n2".to_owned(), "n9".to_owned()];
    let outlook = missing.look(&mut Scaling::new(ScalingSettings::between(1, 3)), NOW);
    assert_eq!(outlook.nodes["n9"], NodeScalingState::Needed(NodeNeed::Absent));
}

/// n2 is not heard of.
fn silent() -> Case {
    let mut case = Case::new(&["n1", "n2"]);
    let mut unready = node("n2");
    unready["metadata"]["resourceVersion"] = "2".into();
    unready["status"]["conditions"][0]["status"] = "Unknown".into();
    case.node(unready);
    case
}

/// cluster-autoscaler's `--scale-down-unready-time`.
#[test]
fn a_node_that_is_not_ready_goes_after_twenty_minutes_when_what_was_on_it_ends() {
    let mut case = silent();
    let mut going = pod("going", Some("n2"), "3");
    going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z".into();
    case.pod(going);
    let mut scaling = Scaling::new(ScalingSettings::between(1, 2));
    let outlook = case.look(&mut scaling, NOW);
    assert_eq!((outlook.deed, outlook.again_at), (ScalingAction::Nothing, Some(at(1_200))));
    assert_eq!(case.look(&mut scaling, at(1_199)).deed, ScalingAction::Nothing);
    assert_eq!(case.look(&mut scaling, at(1_200)).deed, ScalingAction::Remove("n2".to_owned()));
    case.pod(pod("stays", Some("n2"), "1"));
    assert_eq!(case.standing(), "stays: it is not ready", "the pod tolerates that");
}

/// cluster-autoscaler's `InitialNodeGroupBackoffDuration` and `MaxNodeGroupBackoffDuration`.
#[test]
fn after_an_addition_that_failed_none_is_tried_for_longer_each_time() {
    let mut case = Case::new(&["n1"]);
    case.pod(pod("there", Some("n1"), "3"));
    case.pod(pod("new", None, "3"));
    let mut scaling = Scaling::new(ScalingSettings::between(1, 3));
    let mut now = 0;
    for minutes in [5, 10, 20, 30, 30] {
        assert!(
            matches!(case.look(&mut scaling, at(now)).deed, ScalingAction::Add(_)),
            "{minutes}"
        );
        scaling.not_added(at(now));
        let (last, until) = (now + minutes * 60 - 1, now + minutes * 60);
        let outlook = case.look(&mut scaling, at(last));
        assert_eq!((&outlook.deed, outlook.again_at), (&ScalingAction::Nothing, Some(at(until))));
        assert_eq!(outlook.not_helped[0].1, "in backoff after failed scale-up");
        now = until;
    }
    scaling.added("n2", at(now));
    let further = ["n2".to_owned()];
    let there = ScalableNodes { first: "n1", further: &further };
    scaling.look(&ClusterView::new(), there, at(now + 300));
    scaling.not_added(at(now));
    assert!(
        matches!(case.look(&mut scaling, at(now + 300)).deed, ScalingAction::Add(_)),
        "the first again"
    );
    scaling.not_added(at(now + 300));
    scaling.not_added(at(now + 300 + 3 * 3600));
    let later = at(now + 600 + 3 * 3600);
    assert!(
        matches!(case.look(&mut scaling, later).deed, ScalingAction::Add(_)),
        "long ago is forgotten"
    );
}

#[test]
fn a_node_whose_removal_was_broken_off_is_known_by_what_it_says() {
    let mut case = Case::new(&["n1", "n2", "n3"]);
    let mut left = node("n2");
    left["metadata"]["resourceVersion"] = "2".into();
    left["metadata"]["annotations"] = json!({ (SCALE_DOWN): BEING_REMOVED });
    left["spec"] = json!({"unschedulable": true});
    case.node(left);
    let found = |removing| {
        let nodes = broken_off(&case.view, case.nodes(), removing);
        nodes.iter().filter_map(|node| node.metadata.name.clone()).collect::<Vec<String>>()
    };
    assert_eq!(found(None), ["n2"]);
    assert_eq!(found(Some("n3")), ["n2"]);
    assert!(found(Some("n2")).is_empty(), "it is being removed");
}

#[test]
fn a_budget_and_a_volume_keep_a_node() {
    let mut case = Case::new(&["n1", "n2"]);
    case.pod(pod("web", Some("n2"), "1"));
    let budget = |allowed: i32, version: &str| -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "b", "resourceVersion": version},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                "disruptionsAllowed": allowed},
        }))
        .unwrap()
    };
    case.view.apply(ViewObject::from(budget(0, "1")));
    assert_eq!(case.standing(), "stays: pod shop/web is held by a disruption budget");
    case.view.apply(ViewObject::from(budget(1, "2")));
    assert_eq!(case.standing(), "unneeded");
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]});
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {"name": "pv-1", "uid": "v", "resourceVersion": "1"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms":
            [{"matchExpressions": [expression]}]}}},
    }))
    .unwrap();
    case.view.apply(ViewObject::from(volume));
    assert_eq!(case.standing(), "stays: volume pv-1 is on it");
}

/// It was added again at once, as often as somebody took it away.
#[test]
fn a_node_that_goes_as_soon_as_it_is_there_is_added_ever_more_rarely() {
    let mut case = Case::new(&["n1"]);
    case.pod(pod("there", Some("n1"), "3"));
    case.pod(pod("new", None, "3"));
    let mut scaling = Scaling::new(ScalingSettings::between(1, 5));
    let mut added = Vec::new();
    for second in 0..2 * 3600 {
        if matches!(case.look(&mut scaling, at(second)).deed, ScalingAction::Add(_)) {
            scaling.added("n2", at(second));
            added.push(second);
        }
    }
    assert_eq!(added, [0, 301, 902, 2103, 3904, 5705]);
}
