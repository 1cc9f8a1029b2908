//! The longest legal names of everything, on real containers: no folder, socket, cgroup or event
//! may be named too long by them.
use rekindle_testkit::{Engine, text};

/// A name of so many bytes, with a dot and a dash where it might be cut.
fn name(letter: &str, bytes: usize) -> String {
    let label = letter.repeat(bytes);
    format!("{}-{}", &label[..bytes / 2], &label[bytes / 2 + 1..])
}

#[test]
fn a_pod_with_the_longest_names_of_everything_runs_and_is_restarted() {
    let engine = Engine::start();
    let (namespace, container, volume) = (name("n", 63), name("c", 63), name("v", 63));
    let (pod, settings) = (name("p", 253), name("s", 253));
    let key = "k".repeat(253);
    engine.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"));
    engine.apply(&format!(
        "
apiVersion: v1
kind: ConfigMap
metadata: {{name: {settings}, namespace: {namespace}}}
data: {{{key}: here}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {pod}, namespace: {namespace}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: {container}
    image: localhost/host
    command: [sh, -c, 'cat /s/{key}; echo; hostname; exec sleep 1000000']
    volumeMounts: [{{name: {volume}, mountPath: /v}}, {{name: settings, mountPath: /s}}]
    readinessProbe: {{exec: {{command: [test, -d, /v]}}}}
  volumes:
  - {{name: {volume}, emptyDir: {{medium: Memory}}}}
  - {{name: settings, configMap: {{name: {settings}}}}}
"
    ));
    let is_ready = || {
        let what = format!("pod/{pod}");
        engine.kubectl(&[
            "wait",
            &what,
            "-n",
            &namespace,
            "--for=condition=Ready",
            "--timeout=120s",
        ]);
    };
    is_ready();
    let in_namespace = ["-n", namespace.as_str()];
    let log = engine.kubectl(&[&["logs", &pod], &in_namespace[..]].concat());
    let hostname = format!("{}\n", "p".repeat(63));
    assert_eq!(log, format!("here\n{hostname}"));
    let exec = ["exec", &pod, "-n", &namespace, "--", "hostname"];
    assert_eq!(engine.kubectl(&exec), hostname);
    let about = format!("involvedObject.name={pod}");
    let events = ["get", "events", "--field-selector", &about, "-o", "jsonpath={.items[*].reason}"];
    let events = engine.kubectl(&[&events[..], &in_namespace[..]].concat());
    assert!(events.contains("Started"), "an event has a name that the API takes: {events}");
    for rung in ["container", "pod"] {
        let target = format!("pod/{pod}");
        let restart =
            engine.rekindle(&["restart", &target, "-n", &namespace, "--rung", rung, "--wait"]);
        assert!(restart.status.success(), "{}{}", text(&restart.stdout), text(&restart.stderr));
        is_ready();
    }
    let why = engine.rekindle(&["why", &format!("pod/{pod}"), "-n", &namespace]);
    assert!(why.status.success(), "{}", text(&why.stderr));
}
