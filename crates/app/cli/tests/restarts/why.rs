//! `rekindle why` on real containers: what killed them, in the words that a person needs.
use rekindle_testkit::{Engine, text};
use serde_json::Value;

#[track_caller]
fn why(engine: &Engine, arguments: &[&str]) -> String {
    let output = engine.rekindle(&[&["why"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn contains(account: &str, parts: &[&str]) {
    for part in parts {
        assert!(account.contains(part), "no {part:?} in\n{account}");
    }
}

/// Why the last process of a pod ended.
const LAST_END: &str = ".status.containerStatuses[0].lastState.terminated.reason";

/// A pod for each kind of trouble, and a CronJob whose Jobs fail.
const TROUBLES: &str = "
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers:
  - {name: app, image: localhost/host, command: [sh, -c, 'echo no such table: orders; exit 3']}
---
apiVersion: v1
kind: Pod
metadata: {name: unconfigured}
spec:
  containers:
  - {name: app, image: localhost/demo, args: [signal], envFrom: [{configMapRef: {name: settings}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: unstartable}
spec:
  containers:
  - {name: app, image: localhost/host, command: [/bin/no-such-program]}
---
apiVersion: v1
kind: Pod
metadata: {name: hungry}
spec:
  containers:
  - {name: app, image: localhost/host, command: [tail, /dev/zero], resources: {limits: {memory: 32Mi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '0 0 1 1 *'
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          containers: [{name: app, image: localhost/host, command: [sh, -c, 'echo nothing to import; exit 5']}]
";

#[test]
fn each_kind_of_trouble_is_told_with_its_evidence_also_when_the_pod_is_gone() {
    let engine = Engine::start();
    engine.apply(TROUBLES);
    engine.kubectl(&["create", "job", "--from=cronjob/nightly", "import"]);
    let waits = ".status.containerStatuses[0].state.waiting.reason";
    engine.wait_for("pod/crash", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_for("pod/crash", waits, "CrashLoopBackOff");
    let crash = why(&engine, &["pod/crash"]);
    contains(
        &crash,
        &[
            "pod default/crash: failing",
            "exited with 3",
            "ended twice",
            "| no such table: orders",
            "back-off",
        ],
    );

    engine.wait_for("pod/unconfigured", waits, "CreateContainerConfigError");
    let unconfigured = why(&engine, &["pod/unconfigured", "-n", "default"]);
    contains(&unconfigured, &["blocked", "settings", "create what it refers to"]);

    engine.wait_for("pod/unstartable", LAST_END, "StartError");
    let account: Value =
        serde_json::from_str(&why(&engine, &["pod/unstartable", "-o", "json"])).unwrap();
    assert_eq!(account["state"], "Failing", "{account}");
    assert_eq!(account["containers"][0]["cause"], "CommandMissing", "{account}");

    lack_of_memory_is_told(&engine);
    a_cron_job_is_told(&engine);

    let node = why(&engine, &["node/node-1"]);
    let never_ran = ["unconfigured", "unstartable", "pods on it are well", "| nothing to import"];
    contains(&node, &never_ran);

    engine.wait_for_event("crash", "BackOff", "Back-off restarting failed container");
    engine.kubectl(&["delete", "pod", "crash", "--now"]);
    let gone = why(&engine, &["pod/crash"]);
    contains(&gone, &["pod default/crash: gone", "it is not there any more", "BackOff"]);

    let absent = engine.rekindle(&["why", "pod/absent"]);
    assert!(!absent.status.success());
    assert!(text(&absent.stderr).contains("absent"), "{}", text(&absent.stderr));
}

fn lack_of_memory_is_told(engine: &Engine) {
    engine.wait_for("pod/hungry", LAST_END, "OOMKilled");
    let account: Value =
        serde_json::from_str(&why(engine, &["pod", "hungry", "-o", "json"])).unwrap();
    let memory = &account["containers"][0]["memory"];
    assert_eq!(memory["limitBytes"], 32 << 20, "{account:#}");
    assert!(memory["oomKills"].as_u64().unwrap() >= 1, "{account:#}");
    contains(
        &why(engine, &["pod/hungry"]),
        &["was killed for lack of memory", "its limit was 32Mi"],
    );
}

fn a_cron_job_is_told(engine: &Engine) {
    engine.kubectl(&["wait", "--for=condition=Failed", "job/import", rekindle_testkit::TIMEOUT]);
    let job = why(engine, &["job/import"]);
    contains(&job, &["job default/import: failed", "BackoffLimitExceeded", "| nothing to import"]);
    let cron_job = why(engine, &["cj/nightly"]);
    contains(
        &cron_job,
        &["cronjob default/nightly: failing", "its newest Job import", "exited with 5"],
    );
}

#[test]
fn what_a_job_took_along_and_what_a_ladder_ended_is_told_of() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: batch/v1
kind: Job
metadata: {name: import}
spec:
  backoffLimit: 2
  template:
    metadata: {annotations: {rekindle.dev/ladder: 'Container:1, Pod'}}
    spec:
      restartPolicy: OnFailure
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: localhost/host, command: [sh, -c, 'exit 9']}]
---
apiVersion: v1
kind: Pod
metadata:
  name: ended
  annotations: {rekindle.dev/ladder: 'Pod', rekindle.dev/ladder-on-exhausted: Fail}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: localhost/host, command: [sh, -c, 'exit 9']}
  - {name: good, image: localhost/host, command: [sleep, '1000']}
",
    );
    engine.wait_for("pod/ended", ".status.phase", "Failed");
    engine.wait_for("pod/ended", ".status.containerStatuses[1].state.terminated.exitCode", "137");
    let ended = why(&engine, &["pod/ended"]);
    let says = "was ended by ladder \"pod/ended\", which is exhausted (onExhausted Fail)";
    contains(&ended, &["it ended as Failed (LadderExhausted)", says]);
    assert!(!ended.contains("look who killed it"), "{ended}");

    engine.kubectl(&["wait", "--for=condition=Failed", "job/import", rekindle_testkit::TIMEOUT]);
    let gone = "Pods that are gone";
    contains(&why(&engine, &["job/import"]), &[gone, "exited with 9", "under restartPolicy Never"]);
}

#[test]
fn a_deployment_tells_of_its_pods_and_the_ladder_of_its_decisions() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  rungs: [{rung: Pod, attempts: 1}]
---
apiVersion: v1
kind: Pod
metadata: {name: naked, labels: {app: web}}
spec:
  containers:
  - {name: app, image: localhost/host, command: [sh, -c, 'exit 3']}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: app, image: localhost/demo, args: [signal]}]
",
    );
    engine.wait_for("deployment/shop", ".status.availableReplicas", "2");
    contains(
        &why(&engine, &["deploy/shop"]),
        &["deployment default/shop: healthy", "all 2 pods are well"],
    );

    engine.kubectl(&["wait", "--for=create", "restartledger/naked", rekindle_testkit::TIMEOUT]);
    engine.wait_for("restartledger/naked", ".status.phase", "Exhausted");
    contains(
        &why(&engine, &["pod/naked"]),
        &[
            "its ladder is exhausted",
            "Ladder \"web\", Exhausted",
            "PodRestart naked",
            "restarting the whole pod (1 of 1)",
        ],
    );
}
