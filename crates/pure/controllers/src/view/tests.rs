//! What keeps the view true while watches lag behind our own writes.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1;
use proptest::prelude::*;
use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

use super::*;
use crate::plan::{DeleteGrace, DeleteWrite, DependentPolicy, ScaleWrite};
use crate::{
    ControllerKey, PlannedWrite, WriteOperation, WriteRefusal, WriteResult, affected, reconcile,
};

fn pod(name: &str, uid: &str, version: u64, node: Option<&str>) -> ViewObject {
    let pod: HeldPod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": uid,
            "resourceVersion": version.to_string()},
        "spec": {"nodeName": node, "containers": [{"name": "main",
            "resources": {"requests": {"cpu": "100m"}}}]},
    }))
    .unwrap();
    pod.into()
}

fn id(name: &str) -> ObjectId {
    ObjectId::new(ResourceKind::Pod, NamespacedName::new("shop", name))
}

fn update(object: &ViewObject) -> PlannedWrite {
    PlannedWrite::from(WriteOperation::UpdateStatus(object.clone()))
}

fn delete(name: &str, uid: &str) -> PlannedWrite {
    PlannedWrite::from(WriteOperation::Delete(DeleteWrite {
        id: id(name),
        uid: uid.to_owned(),
        propagation: DependentPolicy::Default,
        grace: DeleteGrace::Own,
    }))
}

fn bind(name: &str, uid: &str) -> PlannedWrite {
    let (pod, uid, node) = (id(name), uid.to_owned(), "n1".to_owned());
    PlannedWrite::from(WriteOperation::Bind { pod, uid, node })
}

#[test]
fn an_older_event_does_not_take_an_own_write_back() {
    let mut view = ClusterView::new();
    view.apply(pod("a", "u1", 5, None));
    let answer = pod("a", "u1", 9, Some("n1"));
    view.settle(&id("a"), &update(&answer), WriteResult::Stored(answer.clone()));
    assert_eq!(view.apply(pod("a", "u1", 7, None)), None);
    assert_eq!(view.get(&id("a")), Some(&answer));
    assert!(view.is_unconfirmed(&id("a")));
    assert_eq!(view.apply(answer), None, "the echo of an own write is no news");
    assert!(!view.is_unconfirmed(&id("a")));
}

#[test]
fn an_object_we_deleted_does_not_come_back_through_an_older_event() {
    let mut view = ClusterView::new();
    view.apply(pod("a", "u1", 5, None));
    view.settle(&id("a"), &delete("a", "u1"), WriteResult::Gone);
    assert_eq!(view.apply(pod("a", "u1", 6, None)), None);
    assert_eq!(view.get(&id("a")), None);
    let next = pod("a", "u2", 8, None);
    assert!(view.apply(next.clone()).is_some(), "a new one of the same name is another");
    assert_eq!(view.delete(&id("a"), "u1"), None, "the late event is about the old one");
    assert_eq!(view.get(&id("a")), Some(&next));
}

#[test]
fn a_late_answer_does_not_bring_an_object_back() {
    let mut view = ClusterView::new();
    view.apply(pod("a", "u1", 5, None));
    view.delete(&id("a"), "u1");
    let late = pod("a", "u1", 6, None);
    let settled = view.settle(&id("a"), &update(&late), WriteResult::Stored(late.clone()));
    assert!(settled.changes.is_empty());
    assert_eq!(view.get(&id("a")), None);
}

#[test]
fn the_answer_that_lets_the_last_finalizer_go_is_the_end_of_the_object() {
    let mut view = ClusterView::new();
    let known: HeldPod =
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "shop",
        "uid": "u1", "resourceVersion": "5", "finalizers": ["x"],
        "deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        .unwrap();
    let mut last = known.clone();
    last.metadata.finalizers = None;
    view.apply(known.into());
    let write = PlannedWrite::from(WriteOperation::Update(last.clone().into()));
    view.settle(&id("a"), &write, WriteResult::Stored(last.into()));
    assert_eq!(view.get(&id("a")), None);
}

#[test]
fn a_list_older_than_an_own_write_makes_the_object_doubtful_until_the_server_is_asked() {
    let mut view = ClusterView::new();
    let created = pod("a", "u1", 5, None);
    let write = PlannedWrite::from(WriteOperation::Create(v1::Pod::default().into()));
    view.settle(&id("a"), &write, WriteResult::Stored(created));
    let reset = view.reset(ResourceKind::Pod, Vec::new());
    assert_eq!(reset.doubtful, [id("a")]);
    assert!(view.get(&id("a")).is_some());
    let plan = reconcile(&view, &ControllerKey::Doubt(id("a")), Tick::ZERO);
    let step = plan.batches[0][0].clone();
    assert!(matches!(step.write, WriteOperation::CheckAbsent { .. }));
    let settled = view.settle(&id("a"), &step, WriteResult::Done);
    assert!(settled.changes[0].is_removal());
    assert_eq!(view.get(&id("a")), None);
}

#[test]
fn a_confirmed_object_that_a_list_does_not_show_is_gone() {
    let mut view = ClusterView::new();
    view.apply(pod("a", "u1", 5, None));
    let reset = view.reset(ResourceKind::Pod, vec![pod("b", "u2", 6, None)]);
    assert_eq!(reset.changes.len(), 2);
    assert!(reset.doubtful.is_empty());
    assert_eq!(view.get(&id("a")), None);
}

#[test]
fn a_binding_counts_from_its_decision_and_is_taken_back_when_refused() {
    let mut view = ClusterView::new();
    view.apply(pod("a", "u1", 5, None));
    view.begin(&bind("a", "u1"));
    assert_eq!(view.requested_on("n1").cpu_millis, 100);
    assert_eq!(view.unscheduled().count(), 0);
    // an event from before the binding
    view.apply(pod("a", "u1", 6, None));
    assert_eq!(view.requested_on("n1").cpu_millis, 100);
    let outcome =
        WriteResult::Refused { refusal: WriteRefusal::Conflict, message: "no".to_owned() };
    let settled = view.settle(&id("a"), &bind("a", "u1"), outcome);
    assert_eq!(view.requested_on("n1").cpu_millis, 0);
    let keys = affected(&view, &settled.changes[0]);
    assert!(keys.contains(&ControllerKey::Schedule(id("a").name)), "it needs a node again");
}

#[test]
fn a_refused_binding_of_a_pod_that_is_bound_already_changes_nothing() {
    let mut view = ClusterView::new();
    view.apply(pod("a", "u1", 5, None));
    view.begin(&bind("a", "u1"));
    let bound = pod("a", "u1", 7, Some("n2"));
    view.apply(bound.clone());
    let outcome =
        WriteResult::Refused { refusal: WriteRefusal::Conflict, message: "no".to_owned() };
    view.settle(&id("a"), &bind("a", "u1"), outcome);
    assert_eq!(view.get(&id("a")), Some(&bound));
    assert_eq!(view.requested_on("n1").cpu_millis, 0);
    assert_eq!(view.requested_on("n2").cpu_millis, 100);
}

#[test]
fn after_a_lost_answer_the_server_is_asked_before_anything_else_is_planned() {
    let mut view = ClusterView::new();
    let known = pod("a", "u1", 5, None);
    view.apply(known.clone());
    let lost = || WriteResult::Unknown { message: "connection reset".to_owned() };
    view.settle(&id("a"), &update(&known), lost());
    let key = ControllerKey::PodGc(id("a").name);
    let plan = reconcile(&view, &key, Tick::ZERO);
    assert!(matches!(plan.batches[0][0].write, WriteOperation::Patch { .. }));
    assert_eq!(plan.again_at, Some(Tick::ZERO));
    let now = pod("a", "u1", 8, None);
    view.settle(&id("a"), &plan.batches[0][0], WriteResult::Stored(now));
    assert_eq!(view.doubts(&id("a")).count(), 0);
}

#[test]
fn the_server_is_asked_once_about_an_object_that_went_before_its_answer_was_lost() {
    let mut view = ClusterView::new();
    let known = pod("a", "u1", 5, None);
    view.apply(known.clone());
    view.delete(&id("a"), "u1");
    let lost = WriteResult::Unknown { message: "connection reset".to_owned() };
    view.settle(&id("a"), &update(&known), lost);
    let plan = reconcile(&view, &ControllerKey::PodGc(id("a").name), Tick::ZERO);
    view.settle(&id("a"), &plan.batches[0][0], WriteResult::Gone);
    assert_eq!(view.doubts(&id("a")).count(), 0);
}

proptest! {
    #[test]
    fn what_a_node_is_asked_for_is_the_sum_of_its_pods(
        events in prop::collection::vec((0..6u8, 0..3u8, any::<bool>()), 0..60),
    ) {
        let mut view = ClusterView::new();
        for (version, (name, node, is_there)) in events.into_iter().enumerate() {
            let (name, uid) = (format!("p{name}"), format!("u{name}"));
            let node = ["", "n1", "n2"][usize::from(node)];
            if is_there {
                let node = Some(node).filter(|node| !node.is_empty());
                view.apply(pod(&name, &uid, version as u64 + 1, node));
            } else {
                view.delete(&id(&name), &uid);
            }
            for node in ["n1", "n2"] {
                let on_node = view.pods_on(node).count() as i128;
                prop_assert_eq!(view.requested_on(node).pods, on_node);
                prop_assert_eq!(view.requested_on(node).cpu_millis, on_node * 100);
            }
        }
    }
}

fn labelled(name: &str, version: u64, labels: Value) -> ViewObject {
    let pod: HeldPod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name,
            "resourceVersion": version.to_string(), "labels": labels},
    }))
    .unwrap();
    pod.into()
}

/// An object of a kind that covers pods.
fn covering(kind: ResourceKind, name: &str, version: u64, selector: Value) -> ViewObject {
    let metadata = json!({"name": name, "namespace": "shop", "uid": format!("{kind}-{name}"),
        "resourceVersion": version.to_string()});
    let object = json!({"metadata": metadata, "spec": {"selector": selector}});
    match kind {
        ResourceKind::Service => serde_json::from_value::<Service>(object).unwrap().into(),
        _ => serde_json::from_value::<PodDisruptionBudget>(object).unwrap().into(),
    }
}

/// What it covers, asked of every pod, and what the view says.
fn covered(view: &ClusterView, object: &ViewObject) -> [Vec<ViewObject>; 2] {
    let labels = |pod: &ViewObject| pod.meta().labels.clone();
    let selects = |pod: &&ViewObject| match object {
        ViewObject::Service(service) => crate::endpoints::selects(service, labels(pod).as_ref()),
        ViewObject::PodDisruptionBudget(budget) => {
            crate::disruption::selects(budget, labels(pod).as_ref())
        }
        other => panic!("{other:?}"),
    };
    let name = object.id().name;
    let found: Vec<_> = match object {
        ViewObject::Service(_) => view.selected_by(&name).collect(),
        _ => view.covered_by(&name).collect(),
    };
    let scanned = view.in_namespace(ResourceKind::Pod, "shop").filter(selects).cloned().collect();
    [scanned, found.into_iter().cloned().map(ViewObject::Pod).collect()]
}

proptest! {
    #[test]
    fn budgets_and_services_find_the_pods_that_they_select_and_pods_find_them(
        events in prop::collection::vec((0..4u8, 0..5u8, 0..5usize, any::<bool>()), 0..80),
    ) {
        const KINDS: [ResourceKind; 2] = [ResourceKind::PodDisruptionBudget, ResourceKind::Service];
        let exists = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        let budgets = [json!({"matchLabels": {"app": "web"}}), json!({"matchLabels": {"app": "db", "tier": "a"}}),
            json!({}), exists, Value::Null];
        let services = [json!({"app": "web"}), json!({"app": "db", "tier": "a"}), json!({"tier": "a"}),
            json!({}), Value::Null];
        let labels = [json!({"app": "web"}), json!({"app": "db"}), json!({"app": "db", "tier": "a"}),
            json!({"tier": "a"}), Value::Null];
        let mut view = ClusterView::new();
        for (version, (kind, name, which, is_there)) in events.into_iter().enumerate() {
            let version = version as u64 + 1;
            let (kind, name) = match kind {
                0 => (ResourceKind::PodDisruptionBudget, format!("o{}", name % 3)),
                1 => (ResourceKind::Service, format!("o{}", name % 3)),
                _ => (ResourceKind::Pod, format!("o{name}")),
            };
            let object = match kind {
                ResourceKind::Pod => labelled(&name, version, labels[which].clone()),
                ResourceKind::Service => covering(kind, &name, version, services[which].clone()),
                _ => covering(kind, &name, version, budgets[which].clone()),
            };
            if is_there {
                view.apply(object);
            } else {
                view.delete(&object.id(), object.uid());
            }
            for kind in KINDS {
                for object in view.in_namespace(kind, "shop") {
                    let [scanned, found] = covered(&view, object);
                    prop_assert_eq!(found, scanned);
                }
                for pod in view.in_namespace(ResourceKind::Pod, "shop") {
                    let all = view.in_namespace(kind, "shop");
                    let scanned: BTreeSet<ObjectId> = all
                        .filter(|object| covered(&view, object)[0].contains(pod))
                        .map(ViewObject::id)
                        .collect();
                    let found: Vec<ObjectId> =
                        view.covering(kind, "shop", pod.meta().labels.as_ref()).map(ViewObject::id).collect();
                    prop_assert_eq!(found.len(), scanned.len(), "each once");
                    prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), scanned);
                    prop_assert_eq!(view.covering(kind, "other", pod.meta().labels.as_ref()).count(), 0);
                }
            }
        }
    }
}

#[test]
fn nothing_is_remembered_of_an_autoscaler_that_goes_while_it_scales() {
    let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "5"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }))
    .unwrap();
    let autoscaler = ViewObject::from(autoscaler);
    let scale = PlannedWrite::from(WriteOperation::Scale(ScaleWrite {
        target: ObjectId::new(ResourceKind::Deployment, NamespacedName::new("shop", "web")),
        uid: "u2".to_owned(),
        resource_version: "4".to_owned(),
        replicas: 3,
        change: 2,
        autoscaler: "u1".to_owned(),
    }));
    let mut view = ClusterView::new();
    view.apply(autoscaler.clone());
    view.settle(&autoscaler.id(), &scale, WriteResult::Done);
    assert_eq!(view.scaling_history("u1").last_change(), Some(Tick::ZERO));
    view.delete(&autoscaler.id(), "u1");
    view.settle(&autoscaler.id(), &scale, WriteResult::Done);
    assert_eq!(view.scaling_history("u1"), Default::default());
}
