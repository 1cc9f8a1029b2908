//! Workloads whose pods are gone, and what these left.

use expect_test::expect;
use k8s_openapi::api::core::v1::{Event, Pod};
use rekindle_types::v1alpha1::{PodRestart, RestartLedger};
use rekindle_why::{
    GoneEvidence, PodEvidence, WorkloadEvidence, WorkloadObjects, WorkloadRemains,
    explain_workload, left_behind, render,
};
use serde_json::{Value, json};

use crate::support::{NOW, event, evidence, pod};

fn job(name: &str) -> WorkloadObjects {
    let job = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")},
        "spec": {"completions": 1, "backoffLimit": 1, "template": {"spec": {"restartPolicy": "OnFailure", "containers": []}}},
        "status": {"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-11-21T11:58:00Z"}]}
    });
    WorkloadObjects::Job(Box::new(serde_json::from_value(job).unwrap()))
}

/// A Deployment that has a replica set, and is well.
fn deployment(name: &str) -> WorkloadObjects {
    let deployment = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")},
        "spec": {"replicas": 1, "selector": {}, "template": {}}});
    let set =
        json!({"metadata": {"name": format!("{name}-5d8f"), "uid": format!("uid-of-{name}-5d8f")}});
    let sets = vec![serde_json::from_value(set).unwrap()];
    WorkloadObjects::Deployment(Box::new(serde_json::from_value(deployment).unwrap()), sets)
}

fn ledger(pod: &str, owner: &str, message: &str) -> RestartLedger {
    let of = json!({"apiVersion": "v1", "kind": "Owner", "name": "owner", "uid": owner});
    let decision =
        json!({"at": "2026-11-21T11:57:00Z", "rung": "Pod", "reason": message, "count": 1});
    serde_json::from_value(json!({
        "metadata": {"name": pod, "ownerReferences": [of]},
        "spec": {"ladderName": "web", "podName": pod, "podUID": "u"},
        "status": {"phase": "Climbing", "rung": "Pod", "failuresTotal": 2, "message": message, "decisions": [decision]}
    }))
    .unwrap()
}

fn restart(name: &str, pod: &str, owner: Option<&str>, status: Value) -> PodRestart {
    let of = |uid| json!([{"apiVersion": "v1", "kind": "Owner", "name": "owner", "uid": uid}]);
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": "2026-11-21T11:57:00Z", "ownerReferences": owner.map(of)},
        "spec": {"podName": pod, "rung": "Rollback", "reason": "container \"app\" waits for its image"},
        "status": status,
    }))
    .unwrap()
}

fn of_event(event: Value) -> Event {
    serde_json::from_value(event).unwrap()
}

fn well() -> PodEvidence {
    let running = json!({"startedAt": "2026-11-01T12:00:00Z"});
    evidence(pod(json!({"ready": true, "state": {"running": running}})), vec![])
}

fn account(workload: WorkloadObjects, gone: Vec<GoneEvidence>) -> String {
    let pods = match &workload {
        WorkloadObjects::Deployment(..) => vec![well()],
        _ => vec![],
    };
    let evidence = WorkloadEvidence { workload, events: vec![], pods, gone };
    render(&explain_workload(&evidence, NOW), NOW)
}

#[test]
fn a_job_that_took_its_pod_along_tells_what_the_ladder_saw_of_it() {
    let why = "container \"app\" exited with 9 twice: restarting the whole pod (1 of 1)";
    let ledgers = [ledger("import-x", "uid-of-import", why)];
    let workload = job("import");
    let remains = WorkloadRemains { events: &[], pods: &[], ledgers: &ledgers, restarts: &[] };
    let gone = left_behind(&workload, remains);
    expect![[r#"
        job shop/import: failed
          it failed: BackoffLimitExceeded: Job has reached the specified backoff limit; 0 of 1 pods succeeded, 1 failed, 0 at work

        Pods that are gone
          1 gone: it is not there any more
              import-x
                ladder "web", Climbing: container "app" exited with 9 twice: restarting the whole pod (1 of 1)

        What happened
          2026-11-21 11:57:00Z  Pod: container "app" exited with 9 twice: restarting the whole pod (1 of 1)
          2026-11-21 11:58:00Z  Failed True: BackoffLimitExceeded: Job has reached the specified backoff limit

        What would help
          - its pods went when it gave up, and their last lines with them: under restartPolicy Never those that fail stay to be looked at
    "#]]
    .assert_eq(&account(workload, gone));
}

#[test]
fn a_job_without_a_ladder_names_its_pods_by_its_events_and_tells_theirs() {
    let events = [of_event(event("SuccessfulCreate", None, "Created pod: import-x", 1))];
    let workload = job("import");
    let remains = WorkloadRemains { events: &events, pods: &[], ledgers: &[], restarts: &[] };
    let mut gone = left_behind(&workload, remains);
    let [pod] = gone.as_mut_slice() else { panic!("{gone:?}") };
    pod.events = vec![
        of_event(event("Scheduled", None, "Successfully assigned", 1)),
        of_event(event(
            "BackOff",
            Some("app"),
            "Back-off restarting failed container app in pod import-x_shop(u)",
            4,
        )),
        of_event(event("Killing", Some("app"), "Stopping container app", 1)),
    ];
    let text = account(workload, gone);
    for part in [
        "1 gone: it is not there any more: Killing at 2026-11-21 11:57:59Z: Stopping container app",
        "BackOff: Back-off restarting failed container app (4 times until",
        "how its containers ended is not known any more: exit codes and last lines are told by pods alone",
        "under restartPolicy Never those that fail stay",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains("Scheduled"), "{text}");
}

#[test]
fn a_deployment_that_was_rolled_back_tells_why() {
    let why = "container \"app\" waits for its image \"web:v2\", which cannot be had";
    let ledgers = [ledger("web-5d8f-x", "uid-of-web-5d8f", why)];
    let status = json!({"phase": "Succeeded", "message": "Deployment web is at revision 1 again",
        "rollback": {"deploymentName": "web", "fromReplicaSet": "web-5d8f", "toReplicaSet": "web-77b4", "toRevision": 1}});
    let restarts = [restart("web-rollback-1", "web-5d8f-x", Some("uid-of-web-5d8f"), status)];
    let workload = deployment("web");
    let remains =
        WorkloadRemains { events: &[], pods: &[], ledgers: &ledgers, restarts: &restarts };
    let gone = left_behind(&workload, remains);
    expect![[r#"
        deployment shop/web: healthy
          its pod is well

        Pods that are gone
          1 gone: it is not there any more: PodRestart web-rollback-1, rung Rollback, took Deployment web back to revision 1
              web-5d8f-x
                ladder "web", Climbing: container "app" waits for its image "web:v2", which cannot be had

        What happened
          2026-11-21 11:57:00Z  Pod: container "app" waits for its image "web:v2", which cannot be had
          2026-11-21 11:57:00Z  PodRestart, rung Rollback, succeeded: Deployment web is at revision 1 again (asked because: container "app" waits for its image)
    "#]]
    .assert_eq(&account(workload, gone));
}

#[test]
fn pods_that_went_alike_are_one_group() {
    let why = "container \"app\" exited with 9 twice: restarting the whole pod (1 of 1)";
    let ledgers = ["import-x", "import-qq7"].map(|pod| ledger(pod, "uid-of-import", why));
    let workload = job("import");
    let remains = WorkloadRemains { events: &[], pods: &[], ledgers: &ledgers, restarts: &[] };
    let gone = left_behind(&workload, remains);
    let text = account(workload, gone);
    assert!(
        text.contains("2 gone: it is not there any more\n      import-qq7, import-x\n"),
        "{text}"
    );
}

#[test]
fn only_the_workloads_own_pods_that_are_gone_are_told_of() {
    let there: Pod = serde_json::from_value(json!({"metadata": {"name": "web-0"}})).unwrap();
    let ledgers = [
        ledger("web-0", "uid-of-web-5d8f", "lives"),
        ledger("web-1", "uid-of-web-5d8f", "gone"),
        ledger("api-1", "uid-of-api", "of another"),
    ];
    let replaced = |uid: &str| {
        json!({"phase": "Succeeded", "replacement": {"step": "Starting", "since": "2026-11-21T11:55:00Z",
            "podUID": "u", "nodeName": "node-1", "workloadUID": uid}})
    };
    let back = |deployment: &str| {
        json!({"phase": "Succeeded", "rollback": {"deploymentName": deployment, "fromReplicaSet": "a",
            "toReplicaSet": "b", "toRevision": 1}})
    };
    let restarts = [
        restart("1", "web-2", None, replaced("uid-of-web")),
        restart("2", "web-3", None, back("web")),
        restart("3", "web-1", None, Value::Null),
        restart("4", "api-2", None, replaced("uid-of-api")),
        restart("5", "api-3", None, back("api")),
        restart("6", "web-0", None, replaced("uid-of-web")),
    ];
    let events = [of_event(event("SuccessfulDelete", None, "Deleted pod: web-9", 1))];
    let remains =
        WorkloadRemains { events: &events, pods: &[there], ledgers: &ledgers, restarts: &restarts };
    let gone = left_behind(&deployment("web"), remains);
    let told: Vec<_> =
        gone.iter().map(|g| (g.name.as_str(), g.ledger.is_some(), g.restarts.len())).collect();
    assert_eq!(told, [("web-1", true, 1), ("web-2", false, 1), ("web-3", false, 1)]);
}

#[test]
fn of_many_pods_those_that_were_heard_of_last_are_told() {
    let created = |number: u32| {
        let mut created =
            event("SuccessfulCreate", None, &format!("Created pod: import-{number:02}"), 1);
        created["lastTimestamp"] = json!(format!("2026-11-21T11:{number:02}:00Z"));
        of_event(created)
    };
    let events: Vec<Event> = (0..30).map(created).collect();
    let remains = WorkloadRemains { events: &events, pods: &[], ledgers: &[], restarts: &[] };
    let gone = left_behind(&job("import"), remains);
    let names: Vec<&str> = gone.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[9]), (10, "import-20", "import-29"));
}
