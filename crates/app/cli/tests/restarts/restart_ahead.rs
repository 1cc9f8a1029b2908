//! `rekindle restart`: what it may be asked for, and what a dry run tells of it before it is.
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT, text};

const SHOP: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: guarded, labels: {tier: front}}
spec:
  replicas: 1
  selector: {matchLabels: {app: guarded}}
  template:
    metadata: {labels: {app: guarded}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: localhost/demo, args: [signal]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guard}
spec: {minAvailable: 1, selector: {matchLabels: {app: guarded}}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 1
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: localhost/demo, args: [signal]}]
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: localhost/demo, args: [signal]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: done}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: app, image: localhost/host, command: ['true']}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: visitor}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: visitor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: visitor, namespace: default}]
";

/// What the command said, and the code that it ended with.
fn restart(engine: &Engine, arguments: &[&str]) -> (String, i32) {
    let output = engine.rekindle(&[&["restart"], arguments].concat());
    (format!("{}{}", text(&output.stdout), text(&output.stderr)), output.status.code().unwrap())
}

#[track_caller]
fn says(engine: &Engine, arguments: &[&str], code: i32, parts: &[&str]) {
    let (said, ended) = restart(engine, arguments);
    for part in parts {
        assert!(said.contains(part), "{arguments:?}: no {part:?} in {said}");
    }
    assert_eq!(ended, code, "{arguments:?}: {said}");
}

#[test]
fn a_dry_run_tells_what_would_wait_or_be_refused_and_why_and_does_nothing() {
    let engine = Engine::start();
    engine.apply(SHOP);
    engine.wait_for("deployment/guarded", ".status.availableReplicas", "1");
    engine.wait_for("rc/old", ".status.readyReplicas", "1");
    engine.wait_ready("alone");
    engine.kubectl(&["wait", "--for=condition=Complete", "job/done", TIMEOUT]);
    engine.wait_for("poddisruptionbudget/guard", ".status.currentHealthy", "1");

    what_would_become_of_it(&engine);
    what_may_be_named(&engine);
    who_may_not_ask_is_told_so(&engine);
    assert_eq!(
        engine.get("podrestarts")["items"].as_array().unwrap().len(),
        0,
        "nothing was asked"
    );
}

fn what_would_become_of_it(engine: &Engine) {
    let goes = ["would be carried out (server dry run)"];
    says(engine, &["pod/alone", "--dry-run"], 0, &goes);
    says(engine, &["pod/alone", "--dry-run=server", "--rung", "recreate"], 0, &goes);
    let guarded = ["deploy/guarded", "--dry-run=server", "--rung"];
    let budget = [
        "would wait: Cannot evict pod as it would violate the pod's disruption budget.",
        "disruption budget guard needs 1 healthy pods and has 1 currently",
    ];
    says(engine, &[&guarded[..], &["recreate"]].concat(), 0, &budget);
    // in place no budget has a say
    says(engine, &[&guarded[..], &["pod"]].concat(), 0, &goes);
    let nowhere = ["would wait: no node but", "can take the pod"];
    says(engine, &["pod/alone", "--dry-run", "--rung", "reschedule"], 0, &nowhere);
    let no_revision = ["would be refused:", "no revision before it is known to have been healthy"];
    says(engine, &[&guarded[..], &["rollback"]].concat(), 1, &no_revision);

    let pods = engine.kubectl(&["get", "pods", "-l", "job-name=done", "-o", "name"]);
    let finished = ["would be refused: pod default/done-", "has finished (phase Succeeded)"];
    says(engine, &[pods.trim(), "--dry-run"], 1, &finished);
    let bad_name = ["would be refused:", "metadata.name"];
    says(engine, &["pod/alone", "--name", "Not_A_Name", "--dry-run"], 1, &bad_name);
}

fn what_may_be_named(engine: &Engine) {
    for target in [
        &["rc/old"][..],
        &["deployment", "guarded"],
        &["deployments"],
        &["deploy", "-l", "tier=front"],
    ] {
        let (said, code) = restart(engine, &[target, &["--dry-run"]].concat());
        assert_eq!((said.lines().count(), code), (1, 0), "{target:?}: {said}");
    }
    let two = ["pod/alone: a restart of rung Pod would", "pod/guarded-"];
    says(engine, &["deploy/guarded", "pod/alone", "--dry-run=client"], 0, &two);
    says(engine, &["job/done"], 0, &["passed over, it has ended", "no pods to restart"]);
    for (arguments, why) in [
        (&["cronjob/nightly"][..], "restart those of one Job, job/NAME"),
        (&["pods"], "which pod? Name it as pod/NAME"),
        (&["node"], "which node?"),
        (&["-A"], "a restart in all namespaces at once is not offered"),
        (&["pods", "--all-namespaces"], "is not offered"),
        (&["pod/alone", "-l", "a=b"], "exclude each other"),
        (&["service/a"], "the kind is one of pod, cronjob"),
    ] {
        says(engine, arguments, 1, &[why]);
    }
}

/// A kubeconfig whose context logs in with this token.
fn kubeconfig_with(engine: &Engine, token: &str, path: &Path) {
    std::fs::copy(engine.kubeconfig(), path).unwrap();
    let file = path.to_str().unwrap();
    let config = |arguments: &[&str]| {
        engine.kubectl(&[&["config", "--kubeconfig", file], arguments].concat());
    };
    config(&["set-credentials", "visitor", "--token", token]);
    config(&["set-context", "--current", "--user", "visitor"]);
}

fn who_may_not_ask_is_told_so(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let token = engine.kubectl(&["create", "token", "visitor"]);
    kubeconfig_with(engine, token.trim(), &kubeconfig);
    let as_visitor = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--dry-run"];
    let forbidden = ["would be refused: podrestarts.rekindle.dev is forbidden", "cannot create"];
    says(engine, &[&["pod/alone"][..], &as_visitor].concat(), 1, &forbidden);
}
