//! Pods that have ended and are too many. Source: documentation of kube-controller-manager,
//! `--terminated-pod-gc-threshold`.

use std::collections::BTreeSet;

use super::*;
use crate::{WriteResult, affected, reconcile};

/// A pod that has ended, made in this second; the number is its name.
fn ended(number: usize, second: u64, status: serde_json::Value) -> ViewObject {
    let pod: HeldPod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("pod-{number:05}"), "namespace": "shop", "uid": format!("uid-{number}"),
            "resourceVersion": "1", "creationTimestamp": Tick::from_secs(second).to_time(),
        },
        "status": status,
    }))
    .unwrap();
    pod.into()
}

/// Lets the controller work until it is at rest; the names of the pods that it removes, in order.
fn removed(view: &mut ClusterView, mut keys: BTreeSet<ControllerKey>) -> Vec<String> {
    let mut removed = Vec::new();
    while let Some(key) = keys.pop_first() {
        let plan = reconcile(view, &key, Tick::from_secs(2_000_000));
        for step in plan.batches.into_iter().flatten() {
            let WriteOperation::Delete(delete) = &step.write else { panic!("{step:?}") };
            assert_eq!(delete.grace, DeleteGrace::Now);
            removed.push(delete.id.name.name.clone());
            let settled = view.settle(&key.object(), &step, WriteResult::Gone);
            for change in settled.changes {
                super::affected(view, &change, &mut keys);
            }
        }
    }
    removed
}

#[test]
fn of_pods_that_have_ended_so_many_are_kept_and_the_evicted_and_the_oldest_go() {
    let mut view = ClusterView::new();
    let mut keys = BTreeSet::new();
    let mut show = |view: &mut ClusterView, object| {
        let change = view.apply(object).unwrap();
        keys.extend(
            affected(view, &change)
                .into_iter()
                .filter(|key| matches!(key, ControllerKey::PodGc(_))),
        );
        std::mem::take(&mut keys)
    };
    // 2 and 1 are of one second; all others are younger.
    for number in 0..FINISHED_MAX {
        let second = if number < 3 { 1 } else { 10 };
        let due = show(&mut view, ended(number, second, json!({"phase": "Succeeded"})));
        assert_eq!(due, BTreeSet::new(), "{number}");
    }
    let running = ended(90_000, 0, json!({"phase": "Running"}));
    assert_eq!(show(&mut view, running), BTreeSet::new());
    let due = show(&mut view, ended(90_001, 20, json!({"phase": "Failed", "reason": "Evicted"})));
    assert_eq!(removed(&mut view, due), ["pod-90001"], "nobody counts those that were evicted");
    let failed = |number| ended(number, 20, json!({"phase": "Failed"}));
    show(&mut view, failed(90_002));
    let due = show(&mut view, failed(90_003));
    assert_eq!(removed(&mut view, due), ["pod-00000", "pod-00001"]);
    assert_eq!(view.finished_beyond(0).count(), FINISHED_MAX);
}

#[test]
fn one_that_somebody_holds_does_not_hold_up_the_others() {
    let mut view = ClusterView::new();
    for number in 0..FINISHED_MAX {
        view.apply(ended(number, 1, json!({"phase": "Succeeded"})));
    }
    let ViewObject::Pod(held) = ended(0, 1, json!({"phase": "Succeeded"})) else { panic!() };
    let mut held = held.as_ref().clone();
    held.metadata.resource_version = Some("2".to_owned());
    held.metadata.deletion_timestamp = Some(Tick::from_secs(5).to_time());
    held.metadata.finalizers = Some(vec!["example.com/wait".to_owned()]);
    view.apply(held.into());
    view.apply(ended(90_001, 2, json!({"phase": "Failed"})));
    let change = view.apply(ended(90_002, 2, json!({"phase": "Failed"}))).unwrap();
    let mut keys = BTreeSet::new();
    super::affected(&view, &change, &mut keys);
    assert_eq!(removed(&mut view, keys), ["pod-00001"], "0 goes anyway");
}
