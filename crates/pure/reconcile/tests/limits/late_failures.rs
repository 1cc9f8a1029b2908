//! Failures that are seen late, when the pods are well again: their restarts take of the ladder's
//! budget like all others (promise P5).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_controllers::{NewObject, ResourceKind, ViewObject, WriteOperation, WriteResult};
use rekindle_reconcile::{Planner, PlannerTask, RestartLimits, TokenBucket, WatchUpdate, kinds};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde_json::json;

use crate::failing::{BEGIN, typed};

const PODS: usize = 3;
/// When its pods fail.
const ENDED: Tick = Tick::from_secs(1_800_000_100);
/// When the node can tell again what became of its pods.
const LATER: Tick = Tick::from_secs(1_800_000_300);

/// A pod that has been restarted so often, the last time after this end, and runs and is ready.
fn running_pod(number: usize, restarts: usize, ended: Tick, started: Tick) -> ViewObject {
    let pod: Pod = typed(json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": "default", "uid": format!("pod-{number}"),
            "resourceVersion": (10 + restarts).to_string(), "labels": {"app": "web"},
            "creationTimestamp": BEGIN.to_time(),
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]},
        "status": {
            "phase": "Running", "startTime": BEGIN.to_time(),
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": restarts,
                "state": {"running": {"startedAt": started.to_time()}},
                "lastState": {"terminated": {
                    "exitCode": 1, "reason": "Error",
                    "startedAt": BEGIN.to_time(), "finishedAt": ended.to_time(),
                }},
            }],
        },
    }));
    ViewObject::from(pod)
}

/// Carries out what the planner wants now. How many restarts that were.
fn settle(planner: &mut Planner, now: Tick) -> usize {
    let mut restarts = 0;
    planner.begin_due(now);
    while let Some(task) = planner.poll_task() {
        let PlannerTask::Write(work, step) = task else { continue };
        let outcome = match &step.write {
            WriteOperation::Create(NewObject::Object(ViewObject::RestartLedger(ledger))) => {
                let mut ledger: RestartLedger = ledger.as_ref().clone();
                ledger.metadata.uid = ledger.metadata.name.clone();
                ledger.metadata.resource_version = Some("20".to_owned());
                WriteResult::Stored(ViewObject::from(ledger))
            }
            WriteOperation::UpdateStatus(
                object @ (ViewObject::RestartLedger(_) | ViewObject::RestartLadder(_)),
            ) => WriteResult::Stored(object.clone()),
            WriteOperation::Create(NewObject::Object(ViewObject::PodRestart(restart))) => {
                restarts += 1;
                let mut restart: PodRestart = restart.as_ref().clone();
                restart.metadata.uid = restart.metadata.name.clone();
                restart.metadata.resource_version = Some("30".to_owned());
                restart.metadata.creation_timestamp = Some(now.to_time());
                WriteResult::Stored(ViewObject::from(restart))
            }
            _ => WriteResult::Done,
        };
        planner.settle(now, &work, &step, outcome);
        planner.begin_due(now);
    }
    restarts
}

#[test]
fn a_pod_that_is_well_again_is_restarted_within_the_budget_only() {
    let mut objects: BTreeMap<ResourceKind, Vec<ViewObject>> = BTreeMap::new();
    let node: Node =
        typed(json!({"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}));
    objects.insert(ResourceKind::Node, vec![ViewObject::from(node)]);
    let ladder: RestartLadder = typed(json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "ladder", "resourceVersion": "1", "generation": 1,
        },
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "window": "2m",
            "rungs": [{"rung": "Container", "attempts": 3}, {"rung": "Pod", "attempts": 3}],
            "budget": {"perMinute": 1},
        },
    }));
    objects.insert(ResourceKind::RestartLadder, vec![ViewObject::from(ladder)]);
    objects.insert(
        ResourceKind::Pod,
        (0..PODS).map(|number| running_pod(number, 1, BEGIN, BEGIN)).collect(),
    );
    let bucket = TokenBucket::new(100, 600);
    let mut planner =
        Planner::new(RestartLimits { namespace: bucket, cluster: bucket, per_workload: 100 });
    for kind in kinds() {
        planner.see(BEGIN, WatchUpdate::List(kind, objects.remove(&kind).unwrap_or_default()));
    }
    assert_eq!(settle(&mut planner, BEGIN), 0, "one failure each is left to the container");
    for number in 0..PODS {
        planner.see(LATER, WatchUpdate::Applied(running_pod(number, 6, ENDED, LATER)));
    }
    assert_eq!(settle(&mut planner, LATER), 1, "the budget has one restart a minute");
}
