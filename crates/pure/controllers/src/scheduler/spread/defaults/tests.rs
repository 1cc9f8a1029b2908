//! Scores, worked out by hand from upstream's formulas: a node's points are, added up and rounded,
//! for its host `pods · ln(candidates + 2) + 2`, and for its zone `pods · ln(zones + 2) + 4`, each
//! if it has the label; its score is `100 · (most + least − its own) / most`, cut off, and 100 for
//! all when nobody has points.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::*;
use crate::ViewObject;

/// A node: its name, its labels (`h` for a host name, `x` and `y` for zones), and how many pods of
/// the set it has.
type Described = (&'static str, &'static str, usize);

fn node(name: &str, labels: &str) -> Node {
    let mut node = json!({"metadata": {"name": name, "uid": name, "labels": {}}});
    for label in labels.chars() {
        match label {
            'h' => node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name),
            zone => {
                let zone = zone.to_string();
                node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
            }
        }
    }
    serde_json::from_value(node).unwrap()
}

fn owner(kind: &str) -> Value {
    let api_version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    json!([{"apiVersion": api_version, "kind": kind, "name": "web", "uid": "web", "controller": true}])
}

fn pod(name: &str, node: Option<&str>) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
            "ownerReferences": owner("ReplicaSet")},
        "spec": {"nodeName": node, "containers": []}})
}

fn read(pod: Value) -> Arc<HeldPod> {
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn put(view: &mut ClusterView, pod: Value) {
    view.apply(ViewObject::Pod(read(pod)));
}

/// With the ReplicaSet `web`, the nodes and its pods on them.
fn view(nodes: &[Described]) -> ClusterView {
    let mut view = ClusterView::new();
    let set = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    view.apply(ViewObject::ReplicaSet(Arc::new(serde_json::from_value(set).unwrap())));
    for (name, labels, pods) in nodes {
        view.apply(node(name, labels).into());
        for number in 0..*pods {
            put(&mut view, pod(&format!("{name}-{number}"), Some(name)));
        }
    }
    view
}

fn of_candidates(view: &ClusterView, pod: &Value, names: &[&str]) -> Option<Vec<i64>> {
    let hosts = names.iter().map(|name| view.cluster().node(name).unwrap());
    let candidates: Vec<NodeCandidate<'_>> =
        hosts.map(|host| NodeCandidate { host, free_share: 0, balance: 0 }).collect();
    scores(view, &read(pod.clone()), &candidates)
}

#[test]
fn nodes_score_as_upstreams_formulas_say() {
    let cases: &[(&[Described], &[i64])] = &[
        // nobody has any: 2 points each
        (&[("a", "h", 0), ("b", "h", 0)], &[100, 100]),
        // 2 and 3 (1.39 + 2): 100·(5−3)/3
        (&[("a", "h", 0), ("b", "h", 1)], &[100, 66]),
        // 2 and 5 (2.77 + 2)
        (&[("a", "h", 0), ("b", "h", 2)], &[100, 40]),
        // 3 and 5: there is no way back to 0
        (&[("a", "h", 1), ("b", "h", 2)], &[100, 60]),
        // hosts weigh ln 5, zones ln 4: 12 (3.22 + 2 + 2.77 + 4), 9 (2 + 2.77 + 4), 9 (1.61 + 2 +
        // 1.39 + 4)
        (&[("a", "hx", 2), ("b", "hx", 0), ("c", "hy", 1)], &[75, 100, 100]),
        // no zone is a zone as the number of zones goes, and no points: 9 (1.61 + 2 + 1.39 + 4), 2,
        // 7 (4.83 + 2)
        (&[("a", "hx", 1), ("b", "h", 0), ("c", "h", 3)], &[22, 100, 44]),
        // no host name, no points: 0 and 3
        (&[("a", "", 5), ("b", "h", 1)], &[100, 0]),
        // a zone without a host name: 5 (1.39 + 4), and 3 (1.39 + 2)
        (&[("a", "x", 1), ("b", "h", 1)], &[60, 100]),
        (&[("a", "", 3), ("b", "", 0)], &[100, 100]),
    ];
    for (nodes, expected) in cases {
        let view = view(nodes);
        let names: Vec<&str> = nodes.iter().map(|(name, ..)| *name).collect();
        let scores = of_candidates(&view, &pod("comes", None), &names);
        assert_eq!(scores.as_deref(), Some(*expected), "{nodes:?}");
    }
}

/// 12 points (0 + 2 + 4 · 1.39 + 4) in the zone of four others, 6 in the other one.
#[test]
fn pods_in_the_zone_count_on_nodes_that_are_no_candidates() {
    let mut view = view(&[("a", "hx", 0), ("b", "hy", 0), ("c", "hx", 4)]);
    assert_eq!(of_candidates(&view, &pod("comes", None), &["a", "b"]), Some(vec![50, 100]));
    // but on those that the pod may not go to they do not
    let mut elsewhere = pod("comes", None);
    elsewhere["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    for name in ["a", "b"] {
        let mut node = node(name, if name == "a" { "hx" } else { "hy" });
        node.metadata.labels.as_mut().unwrap().insert("disk".to_owned(), "ssd".to_owned());
        view.apply(node.into());
    }
    assert_eq!(of_candidates(&view, &elsewhere, &["a", "b"]), Some(vec![100, 100]));
}

#[test]
fn candidates_in_several_runs_have_their_own_counts() {
    let view = view(&[("a", "h", 0), ("b", "h", 1), ("c", "h", 0), ("d", "h", 1)]);
    let scores = of_candidates(&view, &pod("comes", None), &["b", "d", "a", "c"]);
    // 2 and 4 (1.79 + 2)
    assert_eq!(scores, Some(vec![50, 50, 100, 100]));
}

/// What is changed of one pod on `b`, and whether it counts.
#[test]
fn only_pods_count_that_go_on_and_are_alike() {
    for (patch, counts) in [
        (json!({}), true),
        (json!({"status": {"phase": "Running"}}), true),
        (json!({"metadata": {"ownerReferences": []}}), true),
        (json!({"metadata": {"labels": {"app": "web", "tier": "front"}}}), true),
        (json!({"metadata": {"labels": {"app": "db"}}}), false),
        (json!({"metadata": {"namespace": "other"}}), false),
        (json!({"metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z"}}), false),
        (json!({"status": {"phase": "Succeeded"}}), false),
        (json!({"metadata": {"uid": "comes"}}), false), // that is the pod itself
    ] {
        let mut view = view(&[("a", "h", 0), ("b", "h", 0)]);
        let mut there = pod("there", Some("b"));
        for part in ["metadata", "status"] {
            for (key, value) in patch[part].as_object().into_iter().flatten() {
                there[part][key] = value.clone();
            }
        }
        put(&mut view, there);
        let expected = if counts { vec![100, 66] } else { vec![100, 100] };
        let scores = of_candidates(&view, &pod("comes", None), &["a", "b"]);
        assert_eq!(scores, Some(expected), "{patch}");
    }
}

/// A pod has one like it on `b` by the labels `app` and `tier`, and one by `app` alone on `c`.
#[test]
fn those_are_alike_that_controller_and_services_select() {
    let service = |name: &str, selector: Value| {
        (
            "Service",
            json!({"metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": {"selector": selector}}),
        )
    };
    let set = |kind: &'static str, selector: Value| {
        (
            kind,
            json!({"metadata": {"name": "web", "namespace": "shop", "uid": "web"}, "spec": {"selector": selector,
            "serviceName": "web", "template": {"metadata": {}, "spec": {"containers": []}}}}),
        )
    };
    let (app, both) = (json!({"app": "web"}), json!({"app": "web", "tier": "front"}));
    let exists = json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]});
    // 2 and 4 (1.61 + 2) points
    let (one, two, none) = (Some(vec![100, 50, 100]), Some(vec![100, 50, 50]), None);
    for (owner_kind, objects, expected) in [
        (None, vec![], &none),
        (None, vec![service("s", app.clone())], &two),
        (None, vec![service("s", both.clone())], &one),
        (None, vec![service("s", app.clone()), service("t", both.clone())], &one),
        (None, vec![service("s", json!({"app": "db"}))], &none),
        (None, vec![service("s", Value::Null), service("t", json!({}))], &none),
        (Some("ReplicaSet"), vec![], &none), // it is gone
        (Some("ReplicaSet"), vec![set("ReplicaSet", json!({"matchLabels": app}))], &two),
        (Some("ReplicaSet"), vec![set("ReplicaSet", json!({"matchLabels": both}))], &one),
        (Some("ReplicaSet"), vec![set("ReplicaSet", exists)], &one),
        (
            Some("ReplicaSet"),
            vec![set("ReplicaSet", json!({"matchLabels": app})), service("s", both.clone())],
            &one,
        ),
        (Some("StatefulSet"), vec![set("StatefulSet", json!({"matchLabels": app}))], &two),
        (Some("ReplicationController"), vec![set("ReplicationController", app.clone())], &two),
        (Some("DaemonSet"), vec![set("DaemonSet", json!({"matchLabels": app}))], &none),
        (Some("DaemonSet"), vec![service("s", both)], &one),
        (None, vec![set("ReplicaSet", json!({"matchLabels": app}))], &none),
    ] {
        let mut view = ClusterView::new();
        for name in ["a", "b", "c"] {
            view.apply(node(name, "h").into());
        }
        for (name, node, labels) in
            [("p", "b", json!({"app": "web", "tier": "front"})), ("q", "c", json!({"app": "web"}))]
        {
            let mut there = pod(name, Some(node));
            there["metadata"]["labels"] = labels;
            put(&mut view, there);
        }
        for (kind, object) in &objects {
            view.apply(typed(kind, object.clone()));
        }
        let mut comes = pod("comes", None);
        comes["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
        comes["metadata"]["ownerReferences"] = owner_kind.map_or(Value::Null, owner);
        let scores = of_candidates(&view, &comes, &["a", "b", "c"]);
        assert_eq!(scores, *expected, "{owner_kind:?} {objects:?}");
    }
}

fn typed(kind: &str, object: Value) -> ViewObject {
    macro_rules! read {
        ($($kind:ident),*) => {
            match kind {
                $(stringify!($kind) => ViewObject::$kind(Arc::new(serde_json::from_value(object).unwrap())),)*
                other => panic!("{other}"),
            }
        };
    }
    read!(Service, ReplicaSet, StatefulSet, ReplicationController, DaemonSet)
}

#[test]
fn constraints_of_its_own_take_the_place_of_the_defaults() {
    let view = view(&[("a", "h", 0), ("b", "h", 1)]);
    let mut hard = pod("comes", None);
    hard["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 9, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    assert_eq!(super::super::scores(&view, &read(hard), &[]), None);
}
