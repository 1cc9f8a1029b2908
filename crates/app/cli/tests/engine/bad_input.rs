//! Bad input gets one clear message that names the object, the field and what to do; the engine
//! goes on.
use std::net::TcpListener;
use std::process::Stdio;

use rekindle_testkit::{Engine, rekindle, rekindle_path, text};

#[test]
fn bad_manifests_are_refused_as_on_kubernetes() {
    let engine = Engine::start();
    let cases = [
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, colour: red}]}}",
            "strict decoding error: unknown field \"spec.containers[0].colour\"",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, stdin: 7}]}}",
            "spec.containers[0].stdin",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: Not_A_Name}, spec: {containers: [{name: c, image: x}]}}",
            "metadata.name: Invalid value: \"Not_A_Name\"",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}",
            "spec.containers: Required value",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}]}}",
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: nowhere}, spec: {containers: [{name: c, image: x}]}}",
            "namespaces \"nowhere\" not found",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, resources: {limits: {memory: 10Q}}}]}}",
            "quantities must match the regular expression",
        ),
        (
            "{apiVersion: rekindle.dev/v1alpha1, kind: RestartLadder, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, rungs: [{rung: Pod}, {rung: Container}]}}",
            "spec.rungs[1]",
        ),
        (
            "{apiVersion: rekindle.dev/v1alpha1, kind: RestartLadder, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, window: soon, rungs: [{rung: Pod}]}}",
            "spec.window: Invalid value: \"soon\"",
        ),
        (
            // kubectl checks a list itself, by the definitions of OpenAPI v2
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x, colour: red}]}}]}",
            "unknown field \"colour\" in io.k8s.api.core.v1.Container",
        ),
        (
            "{apiVersion: rekindle.dev/v9, kind: RestartLadder, metadata: {name: a}}",
            "no matches for kind \"RestartLadder\" in version \"rekindle.dev/v9\"",
        ),
    ];
    for (manifest, expected) in cases {
        let error = engine.kubectl_fails(&["apply", "-f", "-"], manifest);
        assert!(error.contains(expected), "expected {expected:?} in {error}");
    }
    assert_eq!(engine.get("pods")["items"].as_array().unwrap().len(), 0, "nothing was made");

    // what is good in such a list is made
    let map = |name| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
    engine.apply(&format!(
        "{{apiVersion: v1, kind: List, items: [{}, {}]}}",
        map("one"),
        map("two")
    ));
    engine.kubectl(&["get", "configmap", "one", "two"]);
}

#[test]
fn what_cannot_start_says_why_and_starts_when_it_is_mended() {
    let engine = Engine::start();
    engine.apply("{apiVersion: v1, kind: Pod, metadata: {name: no-image}, spec: {containers: [{name: c, image: '127.0.0.1:1/absent:1'}]}}");
    engine.apply("{apiVersion: v1, kind: Pod, metadata: {name: no-command}, spec: {containers: [{name: c, image: localhost/host, command: [/bin/absent]}]}}");
    engine.apply("{apiVersion: v1, kind: Pod, metadata: {name: no-config}, spec: {containers: [{name: c, image: localhost/demo, args: [signal], envFrom: [{configMapRef: {name: absent}}]}]}}");
    engine.apply("{apiVersion: v1, kind: Pod, metadata: {name: too-large}, spec: {containers: [{name: c, image: localhost/demo, resources: {requests: {memory: 900Ti}}}]}}");

    engine.wait_for(
        "pod/no-image",
        ".status.containerStatuses[0].state.waiting.reason",
        "ImagePullBackOff",
    );
    engine.wait_for(
        "pod/no-command",
        ".status.containerStatuses[0].lastState.terminated.reason",
        "StartError",
    );
    let message = engine.kubectl(&[
        "get",
        "pod",
        "no-command",
        "-o",
        "jsonpath={.status.containerStatuses[0].lastState.terminated.message}",
    ]);
    assert!(message.contains("/bin/absent") && message.contains("no such file"), "{message}");
    engine.wait_for(
        "pod/no-config",
        ".status.containerStatuses[0].state.waiting.reason",
        "CreateContainerConfigError",
    );
    engine.wait_for("pod/too-large", ".status.conditions[0].reason", "Unschedulable");
    engine.wait_for_event("too-large", "FailedScheduling", "Insufficient memory");

    engine.kubectl(&["create", "configmap", "absent", "--from-literal=a=b"]);
    engine.wait_ready("no-config");
}

#[test]
fn accepted_but_not_enforced_fields_are_warned_about() {
    let engine = Engine::start();
    let output = engine.try_kubectl(
        &["apply", "-f", "-"],
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {securityContext: {seLinuxOptions: {level: s0}}, containers: [{name: c, image: localhost/demo, args: [signal], lifecycle: {preStop: {tcpSocket: {port: 1}}}}]}}",
    );
    let warnings = text(&output.stderr);
    assert!(output.status.success(), "{warnings}");
    assert!(warnings.contains("Warning: spec.securityContext.seLinuxOptions"), "{warnings}");
    let hook = "Warning: spec.containers[0].lifecycle.preStop.tcpSocket";
    assert!(warnings.contains(hook), "{warnings}");
}

#[test]
fn a_second_engine_on_the_same_data_directory_or_port_is_told_so() {
    let engine = Engine::start();
    let second = rekindle()
        .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(engine.data_dir())
        .output()
        .unwrap();
    assert!(!second.status.success());
    let error = text(&second.stderr);
    assert!(
        error.contains("held by another engine") && error.contains(&engine.pid().to_string()),
        "{error}"
    );

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let third = rekindle()
        .args(["up", "--listen", &address, "--data-dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(!third.status.success());
    let error = text(&third.stderr);
    assert!(error.contains(&address) && error.contains("--listen"), "{error}");
}

#[test]
fn without_root_the_message_says_what_to_do() {
    let mut command = std::process::Command::new("setpriv");
    let output = command
        .args(["--reuid=65534", "--clear-groups"])
        .arg(rekindle_path())
        .args(["up", "--data-dir", "/tmp/rekindle-test-not-root"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("root") && error.contains("sudo"), "{error}");
}
