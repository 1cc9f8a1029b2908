//! A stock kubectl works as on any cluster: every verb of the README's list, one test a group.
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rekindle_testkit::{Engine, TIMEOUT, until_hung};

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: localhost/demo, args: [server, --port, '8080']}
";

#[test]
fn workloads_are_applied_read_scaled_rolled_back_and_deleted() {
    let engine = Engine::start();
    assert_eq!(engine.apply(WEB), "deployment.apps/web created\n");
    assert_eq!(engine.apply(WEB), "deployment.apps/web unchanged\n");
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);

    let table = engine.kubectl(&["get", "deployments"]);
    assert!(
        table.starts_with(
            "NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    2/2     2            2"
        ),
        "{table}"
    );
    let pods = engine.kubectl(&["get", "pods", "-o", "wide", "-l", "app=web"]);
    assert!(
        pods.starts_with("NAME ") && pods.contains("node-1") && pods.contains("Running"),
        "{pods}"
    );
    assert_eq!(pods.lines().count(), 3, "{pods}");
    let all = engine.kubectl(&["get", "all", "-A"]);
    assert!(all.contains("replicaset.apps/web-"), "{all}");
    let running =
        engine.kubectl(&["get", "pods", "--field-selector", "status.phase=Running", "-o", "name"]);
    assert_eq!(running.lines().count(), 2);
    let yaml = engine.kubectl(&["get", "deployment/web", "-o", "yaml"]);
    assert!(yaml.contains("maxSurge: 25%"), "defaults are filled in: {yaml}");
    assert!(!engine.kubectl(&["describe", "deployment/web"]).is_empty());
    let pod = running.lines().next().unwrap().trim_start_matches("pod/");
    engine.wait_for_event(pod, "Started", "");
    let described = engine.kubectl(&["describe", "pods", "-l", "app=web"]);
    assert!(
        described.contains("Started") && described.contains("Node:             node-1"),
        "{described}"
    );

    engine.kubectl(&["scale", "deployment/web", "--replicas=3"]);
    engine.kubectl(&[
        "wait",
        "--for=jsonpath={.status.readyReplicas}=3",
        "deployment/web",
        TIMEOUT,
    ]);

    // a rollout, its history, and the way back
    engine.kubectl(&["set", "env", "deployment/web", "COLOUR=green"]);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    let history = engine.kubectl(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    engine.kubectl(&["rollout", "undo", "deployment/web"]);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    assert!(!engine.kubectl(&["get", "deployment/web", "-o", "yaml"]).contains("green"));
    engine.kubectl(&["rollout", "restart", "deployment/web"]);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);

    // the garbage collector takes what belonged to it
    engine.kubectl(&["delete", "deployment/web", TIMEOUT]);
    engine.kubectl(&["wait", "--for=delete", "pods", "-l", "app=web", TIMEOUT]);
    engine.kubectl(&["wait", "--for=delete", "replicasets", "-l", "app=web", TIMEOUT]);
}

#[test]
fn objects_are_edited_in_every_way_kubectl_knows() {
    let engine = Engine::start();
    engine.kubectl(&["create", "configmap", "settings", "--from-literal=a=1"]);
    engine.kubectl(&["label", "configmap/settings", "tier=back"]);
    engine.kubectl(&["annotate", "configmap/settings", "note=hello"]);
    engine.kubectl(&["patch", "configmap/settings", "--type=merge", "-p", r#"{"data":{"b":"2"}}"#]);
    engine.kubectl(&[
        "patch",
        "configmap/settings",
        "--type=json",
        "-p",
        r#"[{"op":"add","path":"/data/c","value":"3"}]"#,
    ]);
    engine.kubectl(&["patch", "configmap/settings", "-p", r#"{"data":{"a":null}}"#]);
    let settings = engine.get("configmap/settings");
    assert_eq!(settings["data"], serde_json::json!({"b": "2", "c": "3"}));
    assert_eq!(settings["metadata"]["labels"]["tier"], "back");
    assert_eq!(engine.kubectl(&["get", "configmap", "settings", "-o", "jsonpath={.data.c}"]), "3");

    let replaced = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"only":"this"}}"#;
    engine.kubectl_with(&["replace", "-f", "-"], replaced);
    assert_eq!(engine.get("configmap/settings")["data"], serde_json::json!({"only": "this"}));

    let mut edit = engine.kubectl_command(&["edit", "configmap/settings"]);
    let edited = edit.env("KUBE_EDITOR", "sed -i s/this/that/").output().unwrap();
    assert!(edited.status.success(), "{}", rekindle_testkit::text(&edited.stderr));
    assert_eq!(engine.get("configmap/settings")["data"]["only"], "that");

    let changed = replaced.replace("this", "other");
    let diff = engine.try_kubectl(&["diff", "-f", "-"], &changed);
    let text = rekindle_testkit::text(&diff.stdout);
    assert_eq!(
        diff.status.code(),
        Some(1),
        "there is a difference: {text}{}",
        rekindle_testkit::text(&diff.stderr)
    );
    assert!(text.contains("+  only: other") && text.contains("-  only: that"), "{text}");
    assert_eq!(engine.get("configmap/settings")["data"]["only"], "that", "diff changes nothing");

    engine.kubectl(&["delete", "configmap/settings"]);
    let error = engine.kubectl_fails(&["get", "configmap", "settings"], "");
    assert_eq!(error, "Error from server (NotFound): configmaps \"settings\" not found\n");
}

#[test]
fn discovery_explain_version_and_cluster_info_answer() {
    let engine = Engine::start();
    let resources = engine.kubectl(&["api-resources"]);
    for (name, kind) in [
        ("pods", "Pod"),
        ("deployments", "Deployment"),
        ("restartladders", "RestartLadder"),
        ("podrestarts", "PodRestart"),
    ] {
        assert!(
            resources.lines().any(|line| line.starts_with(name) && line.ends_with(kind)),
            "{name} in {resources}"
        );
    }
    let explained = engine.kubectl(&["explain", "pod.spec.containers.image"]);
    assert!(explained.contains("FIELD: image <string>"), "{explained}");
    let explained = engine.kubectl(&["explain", "restartladder.spec.rungs"]);
    assert!(explained.contains("attempts"), "{explained}");
    let version = engine.kubectl(&["version"]);
    assert!(version.contains("Server Version: v1.37"), "{version}");
    assert!(engine.kubectl(&["cluster-info"]).contains("is running at"));
    let nodes = engine.kubectl(&["get", "nodes"]);
    assert!(nodes.contains("node-1   Ready"), "{nodes}");
}

#[test]
fn a_namespace_goes_with_everything_in_it() {
    let engine = Engine::start();
    engine.kubectl(&["create", "namespace", "shop"]);
    engine.kubectl(&["wait", "--for=create", "serviceaccount/default", "-n", "shop", TIMEOUT]);
    engine.kubectl(&["wait", "--for=create", "configmap/kube-root-ca.crt", "-n", "shop", TIMEOUT]);
    engine.kubectl(&["run", "web", "-n", "shop", "--image=localhost/demo", "--", "signal"]);
    engine.kubectl(&["wait", "--for=condition=Ready", "pod/web", "-n", "shop", TIMEOUT]);
    engine.kubectl(&["delete", "namespace", "shop", TIMEOUT]);
    let error = engine.kubectl_fails(&["get", "pods", "web", "-n", "shop"], "");
    assert!(error.contains("NotFound"), "{error}");
}

#[test]
fn logs_are_followed_cut_stamped_and_kept_of_the_container_before() {
    let engine = Engine::start();
    engine.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: talker}, spec: {terminationGracePeriodSeconds: 0, containers: [
         {name: talk, image: localhost/host, command: [sh, -c, 'echo one; echo two; echo three; exec sleep 1000']}]}}",
    );
    engine.wait_ready("talker");
    let mut follower =
        engine.kubectl_command(&["logs", "-f", "talker"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let first: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    assert_eq!(first, ["one", "two", "three"]);
    assert_eq!(engine.kubectl(&["logs", "talker", "--tail=1"]), "three\n");
    let stamped = engine.kubectl(&["logs", "talker", "--timestamps"]);
    assert!(stamped.lines().all(|line| line.starts_with("20") && line.contains("Z ")), "{stamped}");

    let restarted = engine.rekindle(&[
        "restart",
        "pod/talker",
        "--rung",
        "container",
        "--wait",
        "--grace-period",
        "0",
    ]);
    assert!(restarted.status.success(), "{}", rekindle_testkit::text(&restarted.stderr));
    assert_eq!(engine.kubectl(&["logs", "talker", "--previous"]), "one\ntwo\nthree\n");
    assert!(lines.next().is_none(), "a follower of the old container ends with it");
    follower.wait().unwrap();
}

#[test]
fn a_watch_shows_each_change_once_and_in_order() {
    let engine = Engine::start();
    let map = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{watched: 'yes'}}}}, data: {{a: '1'}}}}"
        )
    };
    engine.apply(&map("before"));
    let mut watch = engine
        .kubectl_command(&[
            "get",
            "configmaps",
            "-w",
            "--output-watch-events",
            "--no-headers",
            "-l",
            "watched=yes",
            &until_hung(),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || {
        let line: String = lines.next().unwrap().unwrap();
        line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    // what stood before is told: from here on nothing is missed
    assert_eq!(next(), ["ADDED", "before"]);
    engine.apply(&map("seen"));
    engine.kubectl(&["patch", "configmap/seen", "-p", r#"{"data":{"b":"2"}}"#]);
    engine.kubectl(&["delete", "configmap/seen"]);
    let events = [next(), next(), next()];
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(events, ["ADDED", "MODIFIED", "DELETED"].map(|event| [event, "seen"]));
}
