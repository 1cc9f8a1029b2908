//! Failures that are seen late, when the pods are well again: their restarts take of the ladder's
//! budget like all others (promise P5).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_controllers::{Kind, Manifest, Object, Outcome, Write};
use rekindle_reconcile::{Limits, Planner, Seen, Task, TokenBucket, kinds};
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
fn running_pod(number: usize, restarts: usize, ended: Tick, started: Tick) -> Object {
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
    Object::from(pod)
}

/// Carries out what the planner wants now. How many restarts that were.
fn settle(planner: &mut Planner, now: Tick) -> usize {
    let mut restarts = 0;
    planner.begin_due(now);
    while let Some(task) = planner.poll_task() {
        let Task::Write(work, step) = task else { continue };
        let outcome = match &step.write {
            Write::Create(Manifest::Object(Object::RestartLedger(ledger))) => {
                let mut ledger: RestartLedger = ledger.as_ref().clone();
                ledger.metadata.uid = ledger.metadata.name.clone();
                ledger.metadata.resource_version = Some("20".to_owned());
                Outcome::Stored(Object::from(ledger))
            }
            Write::UpdateStatus(object @ (Object::RestartLedger(_) | Object::RestartLadder(_))) => {
                Outcome::Stored(object.clone())
            }
            Write::Create(Manifest::Object(Object::PodRestart(restart))) => {
                restarts += 1;
                let mut restart: PodRestart = restart.as_ref().clone();
                restart.metadata.uid = restart.metadata.name.clone();
                restart.metadata.resource_version = Some("30".to_owned());
                restart.metadata.creation_timestamp = Some(now.to_time());
                Outcome::Stored(Object::from(restart))
            }
            _ => Outcome::Done,
        };
        planner.settle(now, &work, &step, outcome);
        planner.begin_due(now);
    }
    restarts
}

#[test]
fn a_pod_that_is_well_again_is_restarted_within_the_budget_only() {
    let mut objects: BTreeMap<Kind, Vec<Object>> = BTreeMap::new();
    let node: Node =
        typed(json!({"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}));
    objects.insert(Kind::Node, vec![Object::from(node)]);
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
    objects.insert(Kind::RestartLadder, vec![Object::from(ladder)]);
    objects
        .insert(Kind::Pod, (0..PODS).map(|number| running_pod(number, 1, BEGIN, BEGIN)).collect());
    let bucket = TokenBucket::new(100, 600);
    let mut planner =
        Planner::new(Limits { namespace: bucket, cluster: bucket, per_workload: 100 });
    for kind in kinds() {
        planner.see(BEGIN, Seen::List(kind, objects.remove(&kind).unwrap_or_default()));
    }
    assert_eq!(settle(&mut planner, BEGIN), 0, "one failure each is left to the container");
    for number in 0..PODS {
        planner.see(LATER, Seen::Applied(running_pod(number, 6, ENDED, LATER)));
    }
    assert_eq!(settle(&mut planner, LATER), 1, "the budget has one restart a minute");
}
