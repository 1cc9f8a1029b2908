//! Restarts of more than one pod, one by one; asked for once by name; and through kubectl.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use rekindle_testkit::{Engine, TIMEOUT, rekindle, text};
use rustix::process::{Pid, Signal, kill_process};

const SHOP: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: localhost/demo, args: [signal]}]
";

/// A pod that looks as if it were one of theirs, and that no node takes.
const WAITING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: waiting, labels: {app: shop}}
spec:
  nodeSelector: {kept-for: nobody}
  containers: [{name: app, image: localhost/demo, args: [signal]}]
";

/// The restarts of each pod's container.
fn restarts(engine: &Engine) -> BTreeMap<String, i64> {
    let pods = engine.get("pods");
    let of = |pod: &serde_json::Value| {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        (name, pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap())
    };
    pods["items"].as_array().unwrap().iter().map(of).collect()
}

#[track_caller]
fn run(engine: &Engine, arguments: &[&str]) -> String {
    let output = engine.rekindle(&[&["restart"], arguments].concat());
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

#[test]
fn a_deployment_is_restarted_pod_by_pod_and_once_by_name() {
    let engine = Engine::start();
    engine.apply(SHOP);
    engine.wait_for("deployment/shop", ".status.availableReplicas", "3");

    for (mode, says) in
        [("--dry-run=client", "(client dry run)"), ("--dry-run=server", "(server dry run)")]
    {
        let said = run(&engine, &["deploy/shop", mode]);
        assert_eq!(said.matches(says).count(), 3, "{said}");
    }
    assert_eq!(engine.get("podrestarts")["items"].as_array().unwrap().len(), 0);

    let said = run(&engine, &["deployment/shop", "--name", "upgrade", TIMEOUT]);
    assert_eq!(restarts(&engine).into_values().collect::<Vec<_>>(), [1, 1, 1], "{said}");
    let steps: Vec<&str> = said
        .lines()
        .filter_map(|line| {
            if line.ends_with("created") {
                Some("asked")
            } else {
                line.ends_with("is ready").then_some("ready")
            }
        })
        .collect();
    assert_eq!(steps, ["asked", "ready", "asked", "ready", "asked", "ready"], "{said}");

    let again = run(&engine, &["deployment/shop", "--name", "upgrade", TIMEOUT]);
    assert_eq!(again.matches("unchanged").count(), 3, "{again}");
    assert_eq!(restarts(&engine).into_values().collect::<Vec<_>>(), [1, 1, 1], "done once");

    run(&engine, &["-l", "app=shop", "--rung", "container"]);
    assert_eq!(restarts(&engine).into_values().collect::<Vec<_>>(), [2, 2, 2]);
    run(&engine, &["node/node-1", "--reason", "a test"]);
    assert_eq!(restarts(&engine).into_values().collect::<Vec<_>>(), [3, 3, 3]);

    engine.apply(WAITING);
    engine.kubectl(&["wait", "--for=condition=PodScheduled=false", "pod/waiting", TIMEOUT]);
    let said = run(&engine, &["-l", "app=shop", "--rung", "container"]);
    assert!(said.contains("pod/waiting: passed over, it is not on a node yet"), "{said}");
    assert_eq!(said.matches("is ready").count(), 3, "the others are restarted: {said}");

    let nothing = run(&engine, &["-l", "app=absent"]);
    assert!(nothing.contains("no pods to restart"), "{nothing}");
}

#[test]
fn a_deployment_is_rolled_back_once_however_many_pods_it_has() {
    let engine = Engine::start();
    engine.apply(SHOP);
    engine.wait_for("deployment/shop", ".status.availableReplicas", "3");
    // a ladder with Rollback would have said so after its window
    engine.kubectl(&[
        "annotate",
        "rs",
        "-l",
        "app=shop",
        "rekindle.dev/healthy-since=2026-11-22T00:00:00Z",
    ]);
    let generation =
        |engine: &Engine| engine.get("deployment/shop")["metadata"]["generation"].as_i64();
    assert_eq!(generation(&engine), Some(1), "its revision is no change that a user made");
    // never ready: one that crashes may be seen ready for a moment, and the rollout goes on
    let never_ready = "args: [bad], readinessProbe: {tcpSocket: {port: 9}}";
    engine.apply(&SHOP.replace("args: [signal]", never_ready));
    engine.wait_for("deployment/shop", ".status.updatedReplicas", "1");
    assert_eq!(generation(&engine), Some(2));

    let ahead = run(&engine, &["deploy/shop", "--rung", "rollback", "--dry-run"]);
    assert_eq!(ahead.matches("would be carried out").count(), 1, "{ahead}");
    let said = run(&engine, &["deploy/shop", "--rung", "rollback", "--wait", TIMEOUT]);
    assert!(said.contains("revision 1"), "{said}");
    let shown = engine.get("deployment/shop");
    let arguments = &shown["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(arguments, &serde_json::json!(["signal"]));
    assert_eq!(engine.get("podrestarts")["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_pod_that_does_not_come_back_ends_the_wait_with_a_code_of_its_own() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: stuck}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: once, emptyDir: {}}]
  initContainers:
  - {name: init, image: localhost/host, command: [sh, -c, 'test ! -e /once/init; touch /once/init; exec sleep 1000']}
  containers: [{name: app, image: localhost/demo, args: [signal]}]
",
    );
    engine.wait_for("pod/stuck", ".status.initContainerStatuses[0].started", "true");
    let waited = engine.rekindle(&["restart", "pod/stuck", "--wait", "--timeout", "3s"]);
    assert_eq!(waited.status.code(), Some(124), "{}", text(&waited.stderr));
    assert!(text(&waited.stderr).contains("not done within 3s"), "{}", text(&waited.stderr));
    let interrupted = interrupted_wait(&engine);
    let said = text(&interrupted.stderr);
    assert_eq!(interrupted.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted; what was asked for goes on"), "{said}");
}

/// Ctrl-C as soon as the restart has begun, which never comes to its end.
fn interrupted_wait(engine: &Engine) -> Output {
    let mut waiting = rekindle()
        .args(["restart", "pod/stuck", "--wait", "--data-dir"])
        .arg(engine.data_dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(waiting.stdout.take().unwrap()).lines();
    let begun = { said }.find(|line| line.as_ref().unwrap().starts_with("Running"));
    assert!(begun.is_some(), "it tells of its beginning");
    kill_process(Pid::from_child(&waiting), Signal::INT).unwrap();
    waiting.wait_with_output().unwrap()
}

#[test]
fn kubectl_restart_and_kubectl_why_are_this_binary_by_another_name() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    for name in ["kubectl-restart", "kubectl-why"] {
        std::os::unix::fs::symlink(rekindle().get_program(), folder.path().join(name)).unwrap();
    }
    engine.apply(SHOP);
    engine.wait_for("deployment/shop", ".status.availableReplicas", "3");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let kubeconfig = engine.kubeconfig();
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let said = |arguments: &[&str]| {
        let mut command = engine.kubectl_command(arguments);
        let output = command.env("PATH", &path).output().expect("run kubectl");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let account = said(&[&["why", "deploy/shop", "-n", "default"][..], &kubeconfig].concat());
    assert!(account.contains("all 3 pods are well"), "{account}");
    said(&["restart", "deploy/shop", "--rung", "container", TIMEOUT]);
    assert_eq!(restarts(&engine).into_values().collect::<Vec<_>>(), [1, 1, 1]);

    // without KUBECONFIG they mean the cluster that kubectl means, and the program by its own name
    // the engine's
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".kube")).unwrap();
    std::fs::copy(engine.kubeconfig(), home.path().join(".kube/config")).unwrap();
    let why = |command: &mut Command| {
        let command = command.args(["deploy/shop", "--data-dir"]).arg(home.path());
        command.env("HOME", home.path()).env_remove("KUBECONFIG").output().unwrap()
    };
    let of_plugin = why(&mut Command::new(folder.path().join("kubectl-why")));
    assert!(text(&of_plugin.stdout).contains("all 3 pods are well"), "{of_plugin:?}");
    let of_program = text(&why(rekindle().arg("why")).stderr);
    assert!(of_program.contains("start an engine with `rekindle up`"), "{of_program}");
}
