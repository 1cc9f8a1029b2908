//! The accounts of nodes, of what makes pods, and of pods that are gone.

use std::sync::Arc;

use expect_test::expect;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Node;
use rekindle_why::{
    AccountState, GoneEvidence, NodeEvidence, PodEvidence, WorkloadEvidence, WorkloadObjects,
    explain_gone, explain_node, explain_pod, explain_workload, render,
};
use serde_json::{Value, json};

use crate::support::{NOW, crashed, event, evidence, ledger, pod};

#[test]
fn replicas_with_the_same_trouble_are_one_group() {
    let mut pods = Vec::new();
    for number in 0..12_u32 {
        let mut pod = crashed(number + 2, json!({}));
        pod["metadata"]["name"] = json!(format!("web-{number:02}"));
        pods.push(evidence(pod, vec![]));
    }
    let deployment = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 12, "selector": {}, "template": {}},
        "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
            "message": "Deployment does not have minimum availability.", "lastTransitionTime": "2026-11-21T11:00:00Z"}]}});
    let deployment = serde_json::from_value(deployment).unwrap();
    let workload = WorkloadObjects::Deployment(Box::new(deployment), Vec::new());
    let evidence = WorkloadEvidence { workload, events: Vec::new(), pods, gone: vec![] };
    expect![[r#"
        deployment shop/web: failing
          0 of 12 pods are well, 12 not

        Pods that are not well
          12 failing: container "app" exited with 1; it ended 3 times since the pod's start 20d ago
              web-00, web-01, web-02, web-03, web-04, web-05, web-06, web-07, web-08, web-09 and 2 more
              of web-00:
                next: in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

        What happened
          2026-11-01 12:00:00Z  container "app" ended; last it exited with 1 (102 times until 2026-11-21 11:58:00Z, every 4h45m)
          2026-11-21 11:00:00Z  Available False: MinimumReplicasUnavailable: Deployment does not have minimum availability.

        What would help
          - read its last lines; if they do not tell, the exit code is the app's own
          - all pods that are not well have the same trouble: look at the revision or at what they all depend on
    "#]].assert_eq(&render(&explain_workload(&evidence, NOW), NOW));
}

#[test]
fn a_node_that_stopped_reporting_is_told_with_its_pods() {
    let node = json!({"metadata": {"name": "node-1"}, "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": "2026-11-21T11:55:00Z"}]}});
    let running =
        json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}});
    let evidence = NodeEvidence {
        node: serde_json::from_value(node).unwrap(),
        pods: vec![evidence(pod(running), vec![])],
        ..NodeEvidence::default()
    };
    expect![[r#"
        node node-1: not ready
          Ready is Unknown for 5m (NodeStatusUnknown); it is cordoned: no new pods are placed on it; 1 of 1 pods on it are well

        What happened
          2026-11-21 11:55:00Z  Ready Unknown: NodeStatusUnknown: Kubelet stopped posting node status.

        What would help
          - its agent has stopped reporting: look whether machine, network and agent are there
          - kubectl uncordon node-1, when it may take pods again
    "#]].assert_eq(&render(&explain_node(&evidence, NOW), NOW));
}

#[test]
fn a_node_on_which_a_pod_failed_for_good_has_not_failed_itself() {
    let node = json!({"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let evidence = NodeEvidence {
        node: serde_json::from_value(node).unwrap(),
        pods: vec![failed_pod("import-a")],
        ..NodeEvidence::default()
    };
    let account = explain_node(&evidence, NOW);
    assert_eq!(
        (account.state, account.pods[0].state),
        (AccountState::Healthy, AccountState::Failed)
    );
    assert_eq!(account.summary, "it is ready; 0 of 1 pods on it are well");
}

fn of_job(job: Value) -> Job {
    serde_json::from_value(job).unwrap()
}

/// A pod of a Job that failed for good.
fn failed_pod(name: &str) -> PodEvidence {
    let mut pod = pod(json!({"state": {"terminated": {"exitCode": 3, "reason": "Error",
        "startedAt": "2026-11-21T11:57:58Z", "finishedAt": "2026-11-21T11:58:00Z"}}}));
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["status"]["phase"] = json!("Failed");
    let mut evidence = evidence(pod, vec![]);
    evidence.last_lines.insert("app".to_owned(), vec!["no such table: orders".to_owned()]);
    evidence
}

#[test]
fn a_job_that_gave_up_tells_why_and_what_its_pods_said() {
    let job = of_job(json!({
        "metadata": {"name": "import", "namespace": "shop"},
        "spec": {"completions": 1, "backoffLimit": 1, "template": {}},
        "status": {"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-11-21T11:58:00Z"}]}
    }));
    let evidence = WorkloadEvidence {
        workload: WorkloadObjects::Job(Box::new(job)),
        events: vec![],
        pods: vec![failed_pod("import-b"), failed_pod("import-a")],
        gone: vec![],
    };
    expect![[r#"
        job shop/import: failed
          it failed: BackoffLimitExceeded: Job has reached the specified backoff limit; 0 of 1 pods succeeded, 2 failed, 0 at work

        Pods that are not well
          2 failed: it ended as Failed: container "app" exited with 3
              import-a, import-b
              of import-a:
                app | no such table: orders

        What happened
          2026-11-21 11:58:00Z  Failed True: BackoffLimitExceeded: Job has reached the specified backoff limit
          2026-11-21 11:58:00Z  container "app" exited with 3 (twice until 2026-11-21 11:58:00Z)

        What would help
          - read its last lines; if they do not tell, the exit code is the app's own
          - all pods that are not well have the same trouble: look at the revision or at what they all depend on
    "#]].assert_eq(&render(&explain_workload(&evidence, NOW), NOW));
}

#[test]
fn a_job_that_works_counts_what_it_has() {
    for (status, says) in [
        (json!({"active": 2}), "healthy\n  0 of 3 pods succeeded, 0 failed, 2 at work"),
        (
            json!({"active": 1, "failed": 2}),
            "failing\n  0 of 3 pods succeeded, 2 failed, 1 at work; 6 may fail (backoffLimit)",
        ),
        (
            json!({"succeeded": 3, "conditions": [{"type": "Complete", "status": "True"}]}),
            "completed\n  it is complete: 3 of 3 pods succeeded, 0 failed, 0 at work",
        ),
        (
            json!({"conditions": [{"type": "Suspended", "status": "True"}]}),
            "healthy\n  it is suspended: no pods run; 0 of 3 pods",
        ),
    ] {
        let job = of_job(json!({
            "metadata": {"name": "import", "namespace": "shop"},
            "spec": {"completions": 3, "template": {}}, "status": status
        }));
        let workload = WorkloadObjects::Job(Box::new(job));
        let evidence = WorkloadEvidence { workload, events: vec![], pods: vec![], gone: vec![] };
        let text = render(&explain_workload(&evidence, NOW), NOW);
        assert!(text.contains(&format!("job shop/import: {says}")), "{text}");
    }
}

#[test]
fn a_job_whose_first_pod_is_on_its_way_is_starting() {
    let job = of_job(json!({
        "metadata": {"name": "import", "namespace": "shop"},
        "spec": {"completions": 1, "template": {}}, "status": {"active": 1}
    }));
    let mut pod = crashed(0, json!({}));
    pod["status"] = json!({"phase": "Pending"});
    let workload = WorkloadObjects::Job(Box::new(job));
    let evidence = WorkloadEvidence {
        workload,
        events: vec![],
        pods: vec![evidence(pod, vec![])],
        gone: vec![],
    };
    assert_eq!(explain_workload(&evidence, NOW).state, AccountState::Starting);
}

#[test]
fn a_cron_job_whose_jobs_fail_tells_them_in_one_line() {
    let failed = |minute: u32| {
        of_job(json!({
            "metadata": {"name": format!("nightly-294{minute:05}"), "creationTimestamp": format!("2026-11-21T11:{minute:02}:00Z")},
            "spec": {"completions": 1, "template": {}},
            "status": {"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit",
                "lastTransitionTime": format!("2026-11-21T11:{minute:02}:30Z")}]}
        }))
    };
    let cron_job: CronJob = serde_json::from_value(json!({
        "metadata": {"name": "nightly", "namespace": "shop"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": {}}}},
        "status": {"lastScheduleTime": "2026-11-21T11:50:00Z", "lastSuccessfulTime": "2026-11-20T11:50:00Z"}
    }))
    .unwrap();
    let jobs = vec![failed(30), failed(50), failed(40)];
    let workload = WorkloadObjects::CronJob(Box::new(cron_job), jobs);
    let evidence = WorkloadEvidence {
        workload,
        events: vec![],
        pods: vec![failed_pod("nightly-x")],
        gone: vec![],
    };
    expect![[r#"
        cronjob shop/nightly: failing
          its newest Job nightly-29400050: it failed: BackoffLimitExceeded: Job has reached the specified backoff limit; 0 of 1 pods succeeded, 1 failed, 0 at work; the last one that succeeded did at 2026-11-20 11:50:00Z; its schedule is "*/10 * * * *" (UTC)

        Pods that are not well
          1 failed: it ended as Failed: container "app" exited with 3
              nightly-x
                app | no such table: orders

        What happened
          2026-11-21 11:30:30Z  Job nightly-29400050 failed: BackoffLimitExceeded: Job has reached the specified backoff limit (3 times until 2026-11-21 11:50:30Z)
          2026-11-21 11:58:00Z  container "app" exited with 3

        What would help
          - read its last lines; if they do not tell, the exit code is the app's own
    "#]].assert_eq(&render(&explain_workload(&evidence, NOW), NOW));
}

#[test]
fn a_cron_job_is_judged_by_what_is_over_while_the_next_job_is_at_work() {
    let job = |name: &str, minute: u32, status: Value| {
        of_job(json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-11-21T11:{minute:02}:00Z")},
            "spec": {"completions": 1, "template": {}}, "status": status
        }))
    };
    let over = |type_: &str| json!({"conditions": [{"type": type_, "status": "True", "reason": "r", "message": "m"}]});
    let at_work = || job("at-work", 50, json!({"active": 1}));
    // (its Jobs, how it does, what is said)
    let cases = [
        (
            vec![job("bad", 40, over("Failed")), at_work(), job("good", 30, over("Complete"))],
            AccountState::Failing,
            ["its newest Job that is over, bad: it failed", "; Job at-work is not over yet"],
        ),
        (
            vec![job("good", 40, over("Complete")), at_work(), job("bad", 30, over("Failed"))],
            AccountState::Healthy,
            ["its newest Job that is over, good: it is complete", "; Job at-work is not over yet"],
        ),
        (vec![at_work()], AccountState::Healthy, ["its newest Job at-work: 0 of 1", "1 at work"]),
        (
            vec![
                job("good", 30, over("Complete")),
                job("ailing", 50, json!({"active": 1, "failed": 2})),
            ],
            AccountState::Failing,
            ["its newest Job ailing: 0 of 1 pods succeeded, 2 failed", "none has succeeded so far"],
        ),
    ];
    for (jobs, state, says) in cases {
        let cron_job = json!({"metadata": {"name": "nightly"},
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": {}}}}});
        let cron_job = Box::new(serde_json::from_value(cron_job).unwrap());
        let workload = WorkloadObjects::CronJob(cron_job, jobs);
        let account = explain_workload(
            &WorkloadEvidence { workload, events: vec![], pods: vec![], gone: vec![] },
            NOW,
        );
        assert_eq!(account.state, state, "{}", account.summary);
        assert!(says.iter().all(|part| account.summary.contains(part)), "{}", account.summary);
    }
}

#[test]
fn a_pod_that_is_gone_is_told_from_what_it_left() {
    let mut left = ledger(json!({
        "phase": "Climbing", "rung": "Recreate", "failuresTotal": 4,
        "decisions": [{"at": "2026-11-21T11:55:00Z", "rung": "Recreate", "reason": "evicting the pod (1 of 1)", "count": 1}]
    }));
    left.spec.pod_name = "web-b".to_owned();
    let restart = json!({
        "metadata": {"name": "web-1", "creationTimestamp": "2026-11-21T11:55:00Z"},
        "spec": {"podName": "web", "rung": "Recreate"},
        "status": {"phase": "Succeeded", "message": "pod shop/web-b on node-1 took its place",
            "replacement": {"step": "Starting", "since": "2026-11-21T11:55:00Z", "podUID": "u", "nodeName": "node-1", "newPodName": "web-b"}}
    });
    let events = [
        event("Started", Some("app"), "Container started", 4),
        event(
            "BackOff",
            Some("app"),
            "Back-off restarting failed container app in pod web_shop(u)",
            4,
        ),
        event("Killing", Some("app"), "Stopping container app", 1),
    ];
    let evidence = GoneEvidence {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        events: events.into_iter().map(|e| serde_json::from_value(e).unwrap()).collect(),
        ledger: Some(left),
        restarts: vec![serde_json::from_value(restart).unwrap()],
    };
    expect![[r#"
        pod shop/web: gone
          it is not there any more: PodRestart web-1, rung Recreate, evicted it; pod web-b goes on in its place

        What happened
          2026-11-21 11:00:00Z  container "app": BackOff: Back-off restarting failed container app in pod web_shop(u) (4 times until 2026-11-21 11:57:59Z, every 19m19s)
          2026-11-21 11:00:00Z  container "app": Killing: Stopping container app
          2026-11-21 11:55:00Z  Recreate: evicting the pod (1 of 1)
          2026-11-21 11:55:00Z  PodRestart web-1, rung Recreate, succeeded: pod shop/web-b on node-1 took its place

        Ladder "web", Climbing, on rung Recreate
          failures counted: 4

        What would help
          - rekindle why pod/web-b -n shop tells how its successor does
    "#]].assert_eq(&render(&explain_gone(&evidence), NOW));
}

#[test]
fn a_pod_that_left_events_only_tells_who_ended_it() {
    let evicted =
        json!(event("TaintManagerEviction", None, "Marking for deletion Pod shop/web", 1));
    let mut stopped = json!(event("Killing", Some("app"), "Stopping container app", 1));
    stopped["lastTimestamp"] = json!("2026-11-21T11:58:30Z");
    let evidence = GoneEvidence {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        events: [evicted, stopped].map(|event| serde_json::from_value(event).unwrap()).to_vec(),
        ..GoneEvidence::default()
    };
    assert!(!evidence.is_empty() && GoneEvidence::default().is_empty());
    let account = explain_gone(&evidence);
    assert_eq!(account.state, AccountState::Gone);
    let says = "it is not there any more: TaintManagerEviction at 2026-11-21 11:57:59Z: Marking for deletion Pod shop/web";
    assert_eq!(account.summary, says);
}

#[test]
fn replicas_that_run_out_of_memory_show_the_cgroup_and_the_ladder_of_one_of_them() {
    let pods = ["web-a", "web-b"].map(|name| {
        let message = "OOM killer: 2 kills, limit 67108864 bytes, peak 67100672 bytes";
        let end = json!({"exitCode": 137, "reason": "OOMKilled", "message": message});
        let mut pod = crashed(3, end);
        pod["metadata"]["name"] = json!(name);
        let mut evidence = evidence(pod, vec![]);
        evidence.ledger = Some(ledger(json!({
            "phase": "Holding", "heldBy": "Futile", "failuresTotal": 4,
            "message": "container \"app\" was killed for lack of memory (OOMKilled): no restart helps",
            "decisions": [{"at": "2026-11-21T11:58:00Z", "reason": "no restart helps", "count": 4}]
        })));
        evidence
    });
    let controller = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 2, "template": {}}});
    let workload = WorkloadObjects::ReplicationController(Box::new(
        serde_json::from_value(controller).unwrap(),
    ));
    let evidence = WorkloadEvidence { workload, events: vec![], pods: pods.to_vec(), gone: vec![] };
    let account = explain_workload(&evidence, NOW);
    expect![[r#"
        replicationcontroller shop/web: failing
          0 of 2 pods are well, 2 not

        Pods that are not well
          2 failing: container "app" was killed for lack of memory (OOMKilled): its limit is 64Mi; it ended 4 times since the pod's start 20d ago
              web-a, web-b
              of web-a:
                app: its memory when it died: 2 processes were killed, its limit was 64Mi, its peak 63.9Mi
                ladder "web", Holding: container "app" was killed for lack of memory (OOMKilled): no restart helps
                next: in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

        What happened
          2026-11-01 12:00:00Z  container "app" ended; last it was killed for lack of memory (OOMKilled): its limit is 64Mi (8 times until 2026-11-21 11:58:00Z)
          2026-11-21 11:58:00Z  ladder: no restart helps (8 times until 2026-11-21 11:58:00Z)

        What would help
          - raise resources.limits.memory above 64Mi, or make it use less; no restart helps
          - all pods that are not well have the same trouble: look at the revision or at what they all depend on
    "#]].assert_eq(&render(&account, NOW));
    let account = serde_json::to_value(account).unwrap();
    let memory = &account["pods"][0]["example"]["containers"][0]["memory"];
    assert_eq!(*memory, json!({"oomKills": 2, "limitBytes": 67_108_864, "peakBytes": 67_100_672}));
}

/// The page is what people learn the accounts from.
#[test]
fn the_page_of_examples_shows_these_accounts() {
    let page = include_str!("../../../../../docs/why.md");
    let tests = [
        include_str!("accounts.rs"),
        include_str!("ends.rs"),
        include_str!("gone.rs"),
        include_str!("workloads.rs"),
    ]
    .concat();
    let snapshots = tests.split("expect![[r#\"\n").skip(1);
    for snapshot in snapshots.filter_map(|rest| Some(rest.split_once("\"#]]")?.0)) {
        let lines = snapshot.lines().map(|line| line.trim_start()).filter(|line| !line.is_empty());
        for line in lines {
            assert!(page.contains(line), "docs/why.md lacks {line:?}");
        }
    }
}

#[test]
fn nodes_that_are_closed_to_a_pod_are_named_alike_ones_together() {
    let node = |name: &str, spec: Value, conditions: Value| {
        let node =
            json!({"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}});
        serde_json::from_value::<Node>(node).unwrap()
    };
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let full = json!([
        {"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"},
        {"type": "Ready", "status": "True"},
    ]);
    let silent = json!([{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]);
    let mut nodes: Vec<Node> = (0..5)
        .map(|number| {
            let taints = [taint("node.kubernetes.io/disk-pressure", "NoSchedule")];
            node(&format!("full-{number}"), json!({"taints": taints}), full.clone())
        })
        .collect();
    let cordon = taint("node.kubernetes.io/unschedulable", "NoSchedule");
    nodes.push(node("cordoned", json!({"unschedulable": true, "taints": [cordon]}), json!([])));
    let taints =
        ["NoSchedule", "NoExecute"].map(|effect| taint("node.kubernetes.io/unreachable", effect));
    nodes.push(node("silent", json!({"taints": taints}), silent));
    let gpu = json!([
        {"key": "gpu", "value": "a100", "effect": "NoSchedule"},
        {"key": "team", "effect": "PreferNoSchedule"},
        {"key": "tolerated", "effect": "NoSchedule"},
    ]);
    nodes.push(node("gpu", json!({"taints": gpu}), json!([])));
    // want of memory closes a node to pods that ask for nothing only
    let memory = taint("node.kubernetes.io/memory-pressure", "NoSchedule");
    nodes.push(node("small", json!({"taints": [memory]}), json!([])));
    let mut waiting = pod(json!({}));
    waiting["spec"]["tolerations"] = json!([{"key": "tolerated", "operator": "Exists"}]);
    waiting["status"] = json!({"phase": "Pending", "qosClass": "Burstable", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/9 nodes are available: 8 node(s) had untolerated taint(s), 1 node(s) didn't match"},
    ]});
    let mut evidence = evidence(waiting, vec![]);
    evidence.nodes = Arc::new(nodes);
    expect![[r#"
        pod shop/web: blocked
          no node takes it: 0/9 nodes are available: 8 node(s) had untolerated taint(s), 1 node(s) didn't match

        Nodes that are closed to it
          full-0, full-1, full-2 and 2 more: DiskPressure is True: kubelet has disk pressure
          silent: Ready is Unknown: Kubelet stopped posting node status.
          cordoned: cordoned
          gpu: taint gpu=a100:NoSchedule

        What would help
          - full-0, full-1, full-2 and 2 more: free disk space on it: images, logs, emptyDir volumes
          - silent: its agent has stopped reporting: look whether machine, network and agent are there
          - cordoned: kubectl uncordon it, when it may take pods again
          - gpu: take the taint gpu=a100:NoSchedule away, or give the pod a toleration of it
    "#]].assert_eq(&render(&explain_pod(&evidence, NOW), NOW));

    let deployment = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {}, "template": {}}});
    let deployment = serde_json::from_value(deployment).unwrap();
    let workload = WorkloadObjects::Deployment(Box::new(deployment), Vec::new());
    let of_one =
        WorkloadEvidence { workload, events: Vec::new(), pods: vec![evidence], gone: vec![] };
    expect![[r#"
        deployment shop/web: blocked
          its pod is not well

        Pods that are not well
          1 blocked: no node takes it: 0/9 nodes are available: 8 node(s) had untolerated taint(s), 1 node(s) didn't match
              web
                full-0, full-1, full-2 and 2 more: DiskPressure is True: kubelet has disk pressure
                silent: Ready is Unknown: Kubelet stopped posting node status.
                cordoned: cordoned
                gpu: taint gpu=a100:NoSchedule

        What would help
          - full-0, full-1, full-2 and 2 more: free disk space on it: images, logs, emptyDir volumes
          - silent: its agent has stopped reporting: look whether machine, network and agent are there
          - cordoned: kubectl uncordon it, when it may take pods again
          - gpu: take the taint gpu=a100:NoSchedule away, or give the pod a toleration of it
    "#]].assert_eq(&render(&explain_workload(&of_one, NOW), NOW));
}

#[test]
fn a_node_under_pressure_is_ready_and_restricted() {
    let node = json!({"metadata": {"name": "node-1"},
    "spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]},
    "status": {"conditions": [
        {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure",
            "message": "kubelet has disk pressure", "lastTransitionTime": "2026-11-21T11:55:00Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T11:00:00Z"},
    ]}});
    let node = serde_json::from_value(node).unwrap();
    let account = explain_node(&NodeEvidence { node, ..NodeEvidence::default() }, NOW);
    assert_eq!(account.state, AccountState::Restricted);
    expect!["DiskPressure is True for 5m (KubeletHasDiskPressure); 0 of 0 pods on it are well"]
        .assert_eq(&account.summary);
}

#[test]
fn a_workload_that_is_well_again_tells_what_was() {
    let back = json!({"ready": true, "restartCount": 3, "state": {"running": {"startedAt": "2026-11-21T11:58:10Z"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": "2026-11-21T11:57:58Z",
            "finishedAt": "2026-11-21T11:58:00Z"}}});
    let mut first = evidence(pod(back), vec![]);
    first.ledger = Some(ledger(json!({"phase": "Healthy", "failuresTotal": 3,
        "decisions": [{"at": "2026-11-21T11:58:01Z", "rung": "Pod", "reason": "container \"app\" exited with 1", "count": 1}]})));
    let mut second =
        pod(json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}}));
    second["metadata"]["name"] = json!("web-b");
    let deployment = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "selector": {}, "template": {}}});
    let deployment = serde_json::from_value(deployment).unwrap();
    let workload = WorkloadObjects::Deployment(Box::new(deployment), Vec::new());
    let pods = vec![first, evidence(second, vec![])];
    let of_two = WorkloadEvidence { workload, events: Vec::new(), pods, gone: vec![] };
    expect![[r#"
        deployment shop/web: healthy
          all 2 pods are well; their containers ended 3 times, the last time 2m ago

        What happened
          2026-11-01 12:00:00Z  container "app" ended; last it exited with 1 (3 times until 2026-11-21 11:58:00Z)
          2026-11-21 11:58:01Z  Pod: container "app" exited with 1
    "#]].assert_eq(&render(&explain_workload(&of_two, NOW), NOW));
}

/// One of the old revision serves on, and one of the new cannot.
#[test]
fn a_workload_with_more_pods_than_it_wants_tells_how_many_are_well() {
    let well =
        pod(json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}}));
    let end = json!({"exitCode": 1, "reason": "Error"});
    let mut unwell = crashed(3, end);
    unwell["metadata"]["name"] = json!("web-b");
    for (replicas, pods, says) in [
        (1, vec![&well, &unwell], "1 wanted; of its pods 1 well, 1 not"),
        (2, vec![&well, &unwell], "1 of 2 pods are well, 1 not"),
        (1, vec![&unwell], "its pod is not well"),
        (1, vec![&well], "its pod is well"),
    ] {
        let deployment = json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "selector": {}, "template": {}}});
        let deployment = serde_json::from_value(deployment).unwrap();
        let workload = WorkloadObjects::Deployment(Box::new(deployment), Vec::new());
        let pods = pods.into_iter().map(|pod| evidence(pod.clone(), vec![])).collect();
        let evidence = WorkloadEvidence { workload, events: vec![], pods, gone: vec![] };
        assert_eq!(explain_workload(&evidence, NOW).summary, says);
    }
}
