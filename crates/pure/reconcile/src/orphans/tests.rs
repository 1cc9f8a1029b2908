use rekindle_types::v1alpha1::LedgerPhase;
use serde_json::{Value, json};

use super::*;
use crate::restart_context::in_engine;

const NOW: Tick = Tick::from_secs(1_795_262_400);

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn name() -> NamespacedName {
    NamespacedName::new("shop", "jj-1")
}

/// A ledger of a pod that is gone, of this owner.
fn world(owner: Option<ViewObject>, phase: &str) -> ClusterView {
    let mut view = ClusterView::new();
    let owners = owner.as_ref().map(|owner| {
        let meta = owner.meta();
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": meta.name, "uid": meta.uid}])
    });
    view.apply(ViewObject::from(typed::<RestartLedger>(json!({
        "metadata": {"name": "jj-1", "namespace": "shop", "uid": "l", "resourceVersion": "1", "ownerReferences": owners},
        "spec": {"ladderName": "web", "podName": "jj-1", "podUID": "p"},
        "status": {
            "phase": phase, "rung": "Pod", "message": "restarting the whole pod (1 of 1)", "failuresTotal": 2,
            "attempts": [{"rung": "Pod", "at": [(NOW - TickDuration::from_secs(10)).to_micro_time()]}],
            "decisions": [{"at": (NOW - TickDuration::from_secs(10)).to_micro_time(), "rung": "Pod", "reason": "r", "count": 1}],
        },
    }))));
    owner.into_iter().for_each(|owner| drop(view.apply(owner)));
    view
}

fn job(condition: Option<&str>) -> ViewObject {
    let conditions = condition.map(|type_| json!([{"type": type_, "status": "True"}]));
    ViewObject::from(typed::<k8s_openapi::api::batch::v1::Job>(json!({
        "metadata": {"name": "jj", "namespace": "shop", "uid": "j", "resourceVersion": "1"},
        "status": {"conditions": conditions},
    })))
}

/// What the ledger says then, if that is written.
fn written(view: &ClusterView) -> Option<(Option<LedgerPhase>, String)> {
    in_engine(view, |context| plan(context, &name(), NOW)).writes().find_map(|write| match write {
        WriteOperation::UpdateStatus(ViewObject::RestartLedger(ledger)) => {
            let status = ledger.status.clone().unwrap();
            assert_eq!((status.failures_total, status.rung), (2, None));
            assert!(status.attempts.is_some(), "what was tried stays");
            Some((status.phase, status.message.unwrap_or_default()))
        }
        _ => None,
    })
}

#[test]
fn a_ledger_whose_pod_is_gone_and_that_no_other_one_follows_does_not_go_on_climbing() {
    let gone = Some((None, "the pod is gone, and no other one takes its place".to_owned()));
    for phase in ["Climbing", "Holding"] {
        for ended in ["Failed", "Complete"] {
            assert_eq!(written(&world(Some(job(Some(ended))), phase)), gone, "{phase} {ended}");
        }
        assert_eq!(written(&world(None, phase)), gone, "{phase}, without a controller");
        let at_work = job(None);
        assert_eq!(written(&world(Some(at_work), phase)), None, "{phase}: the Job makes another");
    }
    assert_eq!(written(&world(None, "Exhausted")), None, "that stays to be seen");
}

/// Decided a day from now, as a clock says that was set back since: it would be kept for that day,
/// and no pod would take it over.
#[test]
fn what_a_clock_that_was_ahead_decided_about_a_pod_that_is_gone_is_of_now() {
    let ahead = (NOW + TickDuration::from_secs(86_400)).to_micro_time();
    let mut view = world(Some(job(None)), "Exhausted");
    let mut ledger = view.restart_ledger(&name()).unwrap().as_ref().clone();
    for decision in
        ledger.status.iter_mut().flat_map(|status| status.decisions.iter_mut()).flatten()
    {
        decision.at = ahead.clone();
    }
    view.apply(ledger.into());
    let mut writes = in_engine(&view, |context| plan(context, &name(), NOW))
        .writes()
        .cloned()
        .collect::<Vec<_>>();
    let Some(WriteOperation::UpdateStatus(ViewObject::RestartLedger(written))) = writes.pop()
    else {
        panic!("{writes:?}");
    };
    assert_eq!(written.last_decided(), Some(NOW));
    assert_eq!(
        written.status.as_ref().and_then(|status| status.phase),
        Some(LedgerPhase::Exhausted)
    );
    let heir = pod("jj-2", NOW);
    let ViewObject::Pod(heir) = &heir else { panic!("{heir:?}") };
    assert!(
        may_inherit(heir, &written) && !may_inherit(heir, view.restart_ledger(&name()).unwrap())
    );
    view.apply(ViewObject::RestartLedger(written));
    let next = in_engine(&view, |context| plan(context, &name(), NOW));
    assert_eq!(
        (next.writes().count(), next.again_at),
        (0, Some(NOW + TickDuration::from_secs(600)))
    );
}

#[test]
fn a_pod_that_a_request_has_still_to_create_is_not_told_to_be_gone() {
    for phase in ["Running", "Failed"] {
        let mut view = world(None, "Climbing");
        view.apply(ViewObject::from(typed::<PodRestart>(json!({
            "metadata": {"name": "r", "namespace": "shop", "uid": "r", "resourceVersion": "1"},
            "spec": {"podName": "jj-1", "rung": "Recreate"},
            "status": {"phase": phase, "replacement": {
                "step": "Evicting", "since": NOW.to_time(), "podUID": "p", "nodeName": "n", "pod": {},
            }},
        }))));
        assert_eq!(written(&view), None, "{phase}");
    }
}

#[test]
fn who_ends_a_job_looks_at_the_ledgers_of_its_pods() {
    let view = world(Some(job(Some("Failed"))), "Climbing");
    assert_eq!(orphans_of_controller(&view, "j").collect::<Vec<_>>(), [name()]);
}

/// A controller of this kind, with a spec, and as its status says.
fn controller(kind: &str, spec: Value, status: Value) -> ViewObject {
    let object = json!({
        "metadata": {"name": "jj", "namespace": "shop", "uid": "j", "resourceVersion": "1"},
        "spec": spec, "status": status,
    });
    let kind = ResourceKind::ALL.into_iter().find(|of| of.info().kind == kind).unwrap();
    crate::wire::object_from_json(kind, object.to_string().as_bytes()).unwrap()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}})
}

/// A pod of that controller which is there.
fn pod(name: &str, created: Tick) -> ViewObject {
    let pod = json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": {"app": "web"},
            "creationTimestamp": created.to_time(),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "jj", "uid": "j", "controller": true}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "app"}]}, "status": {"phase": "Running"},
    });
    crate::wire::object_from_json(ResourceKind::Pod, pod.to_string().as_bytes()).unwrap()
}

#[test]
fn a_pod_that_a_scale_down_took_is_told_to_be_gone_and_one_that_comes_again_is_not() {
    let set = |replicas: i32| json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), "serviceName": ""});
    let rc = |replicas: i32| json!({"replicas": replicas, "selector": {"app": "web"}, "template": template()});
    let jobs = |spec: Value| {
        let mut all = json!({"template": template()});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        all
    };
    // one pod is there, which is older than what the ledger decided last
    for (kind, spec, status, is_gone) in [
        ("ReplicaSet", set(1), json!({"replicas": 1}), true),
        ("ReplicaSet", set(2), json!({"replicas": 1}), false),
        ("ReplicationController", rc(1), json!({"replicas": 1}), true),
        ("ReplicationController", rc(2), json!({"replicas": 1}), false),
        ("StatefulSet", set(1), json!({"replicas": 1}), true), // it was pod 1
        ("StatefulSet", set(2), json!({"replicas": 1}), false),
        ("Job", jobs(json!({"parallelism": 1})), json!({}), true),
        ("Job", jobs(json!({"parallelism": 2})), json!({}), false),
        ("Job", jobs(json!({"parallelism": 2, "suspend": true})), json!({}), true),
        ("Job", jobs(json!({"parallelism": 2, "completions": 2})), json!({"succeeded": 1}), true),
    ] {
        let mut view = world(Some(controller(kind, spec.clone(), status)), "Climbing");
        view.apply(pod("jj-0", NOW - TickDuration::from_secs(60)));
        assert_eq!(written(&view).is_some(), is_gone, "{kind} {spec}");
    }
}

#[test]
fn the_daemon_of_a_node_that_is_gone_or_unfit_does_not_come_again() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template(), "updateStrategy": {}});
    let node = |taints: Value| {
        let node = json!({"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "spec": {"taints": taints}});
        crate::wire::object_from_json(ResourceKind::Node, node.to_string().as_bytes()).unwrap()
    };
    for (node, is_gone) in [
        (Some(node(json!([]))), false),
        (Some(node(json!([{"key": "k", "effect": "NoSchedule"}]))), true),
        (None, true),
    ] {
        let mut view = ClusterView::new();
        view.apply(controller("DaemonSet", spec.clone(), json!({})));
        let case = format!("{node:?}");
        node.into_iter().for_each(|node| drop(view.apply(node)));
        let mut ledger = typed::<RestartLedger>(json!({
            "metadata": {"name": "jj.n", "namespace": "shop", "uid": "l", "resourceVersion": "1",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "jj", "uid": "j"}]},
            "spec": {"ladderName": "web", "podName": "jj-abcde", "podUID": "p"},
            "status": {"phase": "Climbing", "failuresTotal": 2},
        }));
        ledger.metadata.creation_timestamp = Some(NOW.to_time());
        view.apply(ViewObject::from(ledger));
        let name = NamespacedName::new("shop", "jj.n");
        let is_told =
            in_engine(&view, |context| plan(context, &name, NOW)).writes().next().is_some();
        assert_eq!(is_told, is_gone, "{case}");
    }
}

#[test]
fn a_ledger_that_a_pod_is_about_to_take_over_is_left_to_it() {
    let spec =
        json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
    let mut view = world(Some(controller("ReplicaSet", spec, json!({"replicas": 1}))), "Climbing");
    view.apply(pod("jj-2", NOW));
    assert!(written(&view).is_some(), "no ladder selects it");
    view.apply(ViewObject::from(typed::<rekindle_types::v1alpha1::RestartLadder>(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "web", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "rungs": [{"rung": "Pod"}]},
    }))));
    assert_eq!(written(&view), None);
}

#[test]
fn who_scales_a_controller_looks_at_the_ledgers_of_its_pods() {
    let at = |generation: i64, replicas: i32| {
        let spec = json!({"replicas": replicas, "selector": {}, "template": template()});
        let mut set = controller("ReplicaSet", spec, json!({}));
        let ViewObject::ReplicaSet(of) = &mut set else { panic!("{set:?}") };
        let meta = &mut Arc::make_mut(of).metadata;
        meta.generation = Some(generation);
        meta.resource_version = Some(generation.to_string());
        set
    };
    let mut view = world(Some(at(1, 3)), "Climbing");
    let change = view.apply(at(2, 1)).unwrap();
    assert_eq!(controller_of_news(&change), Some("j"));
    let ViewObject::ReplicaSet(mut counted) = at(2, 1) else { panic!() };
    Arc::make_mut(&mut counted).metadata.resource_version = Some("3".to_owned());
    let change = view.apply(ViewObject::ReplicaSet(counted)).unwrap();
    assert_eq!(controller_of_news(&change), None, "its status alone");
}
