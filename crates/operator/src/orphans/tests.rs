use rekindle_types::v1alpha1::LedgerPhase;
use serde_json::{Value, json};

use super::*;

const NOW: Tick = Tick::from_secs(1_795_262_400);

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn name() -> NamespacedName {
    NamespacedName::new("shop", "jj-1")
}

/// A ledger of a pod that is gone, of this owner.
fn world(owner: Option<Object>, phase: &str) -> View {
    let mut view = View::new();
    let owners = owner.as_ref().map(|owner| {
        let meta = owner.meta();
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": meta.name, "uid": meta.uid}])
    });
    view.apply(Object::from(typed::<RestartLedger>(json!({
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

fn job(condition: Option<&str>) -> Object {
    let conditions = condition.map(|type_| json!([{"type": type_, "status": "True"}]));
    Object::from(typed::<k8s_openapi::api::batch::v1::Job>(json!({
        "metadata": {"name": "jj", "namespace": "shop", "uid": "j", "resourceVersion": "1"},
        "status": {"conditions": conditions},
    })))
}

/// What the ledger says then, if that is written.
fn written(view: &View) -> Option<(Option<LedgerPhase>, String)> {
    plan(view, &name(), NOW).writes().find_map(|write| match write {
        Write::UpdateStatus(Object::RestartLedger(ledger)) => {
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
        assert_eq!(
            written(&world(Some(job(None)), phase)),
            None,
            "{phase}: the Job makes another one"
        );
    }
    assert_eq!(written(&world(None, "Exhausted")), None, "that stays to be seen");
}

#[test]
fn a_pod_that_a_request_has_still_to_create_is_not_told_to_be_gone() {
    for phase in ["Running", "Failed"] {
        let mut view = world(None, "Climbing");
        view.apply(Object::from(typed::<PodRestart>(json!({
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
    assert_eq!(of_controller(&view, "j").collect::<Vec<_>>(), [name()]);
}
