use serde_json::Value;

use super::*;
use crate::restart_context::in_engine;

const NOW: Tick = Tick::from_secs(1_000_000);

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A ReplicaSet of two pods that have been ready for so many seconds, if they are, and a ladder
/// with a window of ten minutes.
fn world(rung: &str, ready_for: [Option<u64>; 2]) -> ClusterView {
    let mut view = ClusterView::new();
    view.apply(ViewObject::from(typed::<rekindle_types::v1alpha1::RestartLadder>(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "ladder", "resourceVersion": "1"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "window": "10m",
            "rungs": [{"rung": "Pod"}, {"rung": rung}],
        },
    }))));
    view.apply(ViewObject::from(typed::<ReplicaSet>(json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "set", "resourceVersion": "1"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}},
    }))));
    for (number, ready_for) in ready_for.into_iter().enumerate() {
        let since = ready_for.map_or(NOW, |secs| NOW - TickDuration::from_secs(secs));
        let ready = if ready_for.is_some() { "True" } else { "False" };
        view.apply(ViewObject::from(typed::<HeldPod>(json!({
            "metadata": {
                "name": format!("web-1-{number}"), "namespace": "shop", "uid": format!("pod-{number}"),
                "resourceVersion": "1", "labels": {"app": "web"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "set",
                    "controller": true,
                }],
            },
            "spec": {"containers": [{"name": "app", "image": "app"}]},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": ready, "lastTransitionTime": since.to_time()},
                ],
            },
        }))));
    }
    view
}

fn set() -> NamespacedName {
    NamespacedName::new("shop", "web-1")
}

#[test]
fn a_revision_is_healthy_when_all_its_replicas_have_been_ready_for_the_window() {
    for (ready_for, expected) in [
        ([Some(700), Some(601)], Some(601)),
        ([Some(700), Some(599)], None),
        ([Some(700), None], None),
    ] {
        let plan = in_engine(&world("Rollback", ready_for), |context| prove(context, &set(), NOW));
        let noted = plan.writes().find_map(|write| match write {
            WriteOperation::Patch { patch, .. } => {
                patch["metadata"]["annotations"][rollback::HEALTHY].as_str()
            }
            _ => None,
        });
        let since = expected.map(|secs| json!((NOW - TickDuration::from_secs(secs)).to_time()));
        assert_eq!(noted, since.as_ref().and_then(Value::as_str), "{ready_for:?}");
    }
}

#[test]
fn a_revision_that_is_ready_is_looked_at_again_when_the_window_is_over() {
    let plan = in_engine(&world("Rollback", [Some(700), Some(200)]), |context| {
        prove(context, &set(), NOW)
    });
    assert_eq!(plan.again_at, Some(NOW + TickDuration::from_secs(400)));
}

#[test]
fn nobody_asks_whether_a_revision_is_healthy_without_the_rung_rollback_or_twice() {
    assert_eq!(
        in_engine(&world("Recreate", [Some(700); 2]), |context| prove(context, &set(), NOW)),
        WritePlan::default()
    );
    let mut view = world("Rollback", [Some(700); 2]);
    let mut noted = view.replica_set(&set()).unwrap().as_ref().clone();
    noted.metadata.resource_version = Some("2".to_owned());
    let annotation = (rollback::HEALTHY.to_owned(), "2026-01-01T00:00:00Z".to_owned());
    noted.metadata.annotations = Some([annotation].into());
    view.apply(ViewObject::from(noted));
    assert_eq!(in_engine(&view, |context| prove(context, &set(), NOW)), WritePlan::default());
}

#[test]
fn a_pod_of_no_deployment_has_nothing_to_go_back_to() {
    let view = world("Rollback", [Some(1), None]);
    let pod = view.pod(&NamespacedName::new("shop", "web-1-1")).unwrap();
    assert_eq!(target_of(&view, pod), None);
}
