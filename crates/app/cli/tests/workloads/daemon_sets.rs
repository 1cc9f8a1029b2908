//! DaemonSets with real containers and the real kubectl: the one node gets its pod, rollouts with
//! and without a surge, drains.
use rekindle_testkit::{Engine, TIMEOUT, is, text};

const SET: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: agent
        image: localhost/host
        command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
        env: [{name: VERSION, value: one}]
";

fn rolled_out(engine: &Engine) -> String {
    engine.kubectl(&["rollout", "status", "ds/agent", TIMEOUT])
}

/// `one node-1`, for each pod.
fn pods(engine: &Engine) -> String {
    let path =
        "jsonpath={range .items[*]}{.spec.containers[0].env[0].value} {.spec.nodeName};{end}";
    engine.kubectl(&["get", "pods", "-l", "app=agent", "-o", path])
}

fn pod(engine: &Engine) -> String {
    let path = "jsonpath={.items[0].metadata.name}";
    engine.kubectl(&["get", "pods", "-l", "app=agent", "-o", path])
}

/// The name of the pod that comes after this one, once it is Ready.
fn successor(engine: &Engine, before: &str) -> String {
    let next = |pods: &rekindle_testkit::Objects| {
        let mut others = pods.iter().filter(|(name, pod)| *name != before && is(pod, "Ready"));
        others.next().map(|(name, _)| name.clone())
    };
    next(&engine.until(&["pods", "-l", "app=agent"], |pods| next(pods).is_some())).unwrap()
}

#[test]
fn the_node_has_one_pod_that_rolls_out_and_back_stays_over_a_drain_and_restarts_in_place() {
    let engine = Engine::start();
    let refused =
        |from: &str, to: &str| engine.kubectl_fails(&["apply", "-f", "-"], &SET.replace(from, to));
    let both =
        "spec:\n  updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}\n  selector";
    let said = refused("spec:\n  selector", both);
    assert!(said.contains("may not be set when maxUnavailable is non-zero"), "{said}");
    let said = refused("labels: {app: agent}", "labels: {app: other}");
    assert!(said.contains("`selector` does not match template `labels`"), "{said}");

    engine.apply(SET);
    let said = rolled_out(&engine);
    assert!(said.contains("daemon set \"agent\" successfully rolled out"), "{said}");
    assert_eq!(pods(&engine), "one node-1;");
    let shown = engine.kubectl(&["get", "ds"]);
    let row: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..7], ["agent", "1", "1", "1", "1", "1", "<none>"], "{shown}");

    // Without a surge the old pod goes first.
    engine.kubectl(&["set", "env", "ds/agent", "VERSION=two"]);
    rolled_out(&engine);
    assert_eq!(pods(&engine), "two node-1;");
    let history = engine.kubectl(&["rollout", "history", "ds/agent"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    engine.kubectl(&["rollout", "undo", "ds/agent"]);
    rolled_out(&engine);
    assert_eq!(pods(&engine), "one node-1;");

    // With one the new pod is ready before.
    let surge =
        r#"{"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}"#;
    engine.kubectl(&["patch", "ds/agent", "-p", surge]);
    let before = pod(&engine);
    engine.kubectl(&["rollout", "restart", "ds/agent"]);
    rolled_out(&engine);
    engine.kubectl(&["wait", "--for=delete", &format!("pod/{before}"), TIMEOUT]);
    assert_eq!(pods(&engine), "one node-1;");
    let after = pod(&engine);
    assert_ne!(after, before);

    let said = engine.kubectl_fails(&["drain", "node-1"], "");
    assert!(said.contains("cannot delete DaemonSet-managed Pods"), "{said}");
    let said = engine.kubectl(&["drain", "node-1", "--ignore-daemonsets", TIMEOUT]);
    assert!(said.contains("node/node-1 drained"), "{said}");
    assert_eq!(pod(&engine), after, "it bears the cordon");
    engine.kubectl(&["delete", "pod", &after]);
    let after = successor(&engine, &after);
    engine.kubectl(&["uncordon", "node-1"]);

    let restarted = engine.rekindle(&["restart", "daemonset/agent", "--rung", "pod", "--wait"]);
    assert!(restarted.status.success(), "{}", text(&restarted.stderr));
    assert_eq!(pod(&engine), after, "in place");
    engine.wait_for("ds/agent", ".status.numberReady", "1");
    let why = text(&engine.rekindle(&["why", "ds/agent"]).stdout);
    assert!(why.starts_with("daemonset default/agent: healthy"), "{why}");

    // The node does not fit any more.
    let elsewhere = r#"{"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}"#;
    engine.kubectl(&["patch", "ds/agent", "-p", elsewhere]);
    engine.kubectl(&["wait", "--for=delete", &format!("pod/{after}"), TIMEOUT]);
    engine.wait_for("ds/agent", ".status.desiredNumberScheduled", "0");
    engine.kubectl(&["label", "node/node-1", "disk=ssd"]);
    engine.wait_for("ds/agent", ".status.numberReady", "1");
    engine.kubectl(&["delete", "ds/agent", "--cascade=foreground", TIMEOUT]);
    assert_eq!(pods(&engine), "");
}
