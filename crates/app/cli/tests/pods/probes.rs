//! Probes, hooks and restart rules on real containers, seen through kubectl.
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT, is};
use serde_json::Value;

fn container(engine: &Engine, pod: &str) -> Value {
    engine.get(&format!("pod/{pod}"))["status"]["containerStatuses"][0].clone()
}

/// The container writes what it is told to a volume of the host, so that the test sees it after the
/// pod's end.
fn notes(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default()
}

fn volume(folder: &tempfile::TempDir) -> String {
    format!("{{name: notes, hostPath: {{path: {}, type: Directory}}}}", folder.path().display())
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("rekindle-notes-").tempdir().unwrap()
}

#[test]
fn a_container_that_fails_liveness_is_restarted_with_its_hook_and_its_reason_is_told() {
    let engine = Engine::start();
    let folder = folder();
    engine.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: ill}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: web
    image: localhost/demo
    args: [server, --unhealthy-after, 300ms]
    ports: [{{name: http, containerPort: 8080}}]
    livenessProbe: {{httpGet: {{path: /healthz, port: http}}, initialDelaySeconds: 1, periodSeconds: 1, failureThreshold: 1}}
    lifecycle: {{preStop: {{exec: {{command: [/demo, seed, --once, /notes/once, --poison, /notes/notes]}}}}}}
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  volumes: [{}]
",
        volume(&folder)
    ));
    engine.wait_for("pod/ill", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_for("pod/ill", ".status.containerStatuses[0].lastState.terminated.exitCode", "0");
    assert_eq!(notes(&folder), "cut short\n", "the hook ran in the container");
    let failed = "Liveness probe failed: HTTP probe failed with statuscode: 503";
    engine.wait_for_event("ill", "Unhealthy", failed);
    let killing = "Container web failed liveness probe, will be restarted";
    engine.wait_for_event("ill", "Killing", killing);
}

#[test]
fn a_pod_is_ready_when_its_probes_say_so_and_no_longer() {
    let engine = Engine::start();
    let folder = folder();
    engine.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: localhost/host
    command: [sh, -c, 'exec sleep 1000']
    startupProbe: {{exec: {{command: [test, -e, /notes/started]}}, periodSeconds: 1, failureThreshold: 60}}
    readinessProbe: {{exec: {{command: [test, -e, /notes/ready]}}, periodSeconds: 1, failureThreshold: 1}}
    livenessProbe: {{exec: {{command: [test, -e, /notes/started]}}, periodSeconds: 1, timeoutSeconds: 30}}
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  volumes: [{}]
",
        volume(&folder)
    ));
    let ready = ".status.containerStatuses[0].ready";
    let started = ".status.containerStatuses[0].started";
    engine.wait_for("pod/web", ".status.phase", "Running");
    let shown = container(&engine, "web");
    assert_eq!((&shown["started"], &shown["ready"]), (&Value::Bool(false), &Value::Bool(false)));

    std::fs::write(folder.path().join("started"), "").unwrap();
    engine.wait_for("pod/web", started, "true");
    assert_eq!(container(&engine, "web")["ready"], false);

    std::fs::write(folder.path().join("ready"), "").unwrap();
    engine.wait_ready("web");

    std::fs::remove_file(folder.path().join("ready")).unwrap();
    engine.wait_for("pod/web", ready, "false");
    engine.kubectl(&["wait", "--for=condition=Ready=false", "pod/web", TIMEOUT]);
    assert_eq!(container(&engine, "web")["restartCount"], 0);
}

#[test]
fn readiness_and_starts_are_kept_when_the_engine_is_killed() {
    let mut engine = Engine::start();
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: localhost/demo
    args: [server]
    startupProbe: {httpGet: {path: /startz, port: 8080}, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30}
",
    );
    engine.wait_ready("web");
    let before = container(&engine, "web");
    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("web");
    let after = container(&engine, "web");
    assert_eq!(before["containerID"], after["containerID"]);
    assert_eq!(after["restartCount"], 0);
    assert_eq!(after["started"], true);
}

#[test]
fn the_pre_stop_hook_runs_before_the_signal_and_its_time_counts() {
    // How long it takes is read from the container's own diary: what kubectl needs to begin is not
    // in it.
    let engine = Engine::start();
    let folder = folder();
    engine.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 6
  os: {{name: linux}}
  containers:
  - name: obeys
    image: localhost/host
    command: [sh, -c, 'trap \"echo signal >> /notes/notes; exit 0\" USR1; touch /up; sleep 1000 & wait']
    lifecycle:
      stopSignal: SIGUSR1
      postStart: {{exec: {{command: [sh, -c, 'until test -e /up; do sleep 0.05; done']}}}}
      preStop: {{exec: {{command: [sh, -c, 'echo hook >> /notes/notes; sleep 0.3; echo done >> /notes/notes']}}}}
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  - name: hangs
    image: localhost/host
    command: [sh, -c, 'trap \"\" TERM; while :; do date +%s.%N > /notes/new; mv /notes/new /notes/alive; sleep 0.05; done']
    lifecycle: {{preStop: {{exec: {{command: [sh, -c, 'date +%s.%N > /notes/hook; sleep 4']}}}}}}
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  volumes: [{}]
",
        volume(&folder)
    ));
    engine.wait_ready("web");
    engine.kubectl(&["delete", "pod/web", TIMEOUT]);
    assert_eq!(notes(&folder), "hook\ndone\nsignal\n");
    let at = |name: &str| -> f64 {
        std::fs::read_to_string(folder.path().join(name)).unwrap().trim().parse().unwrap()
    };
    // 6 s of grace, 4 of which the hook takes: SIGKILL after 6 s, not after 4, and not after 10
    let took = at("alive") - at("hook");
    assert!((4.2..9.8).contains(&took), "{took} s");
}

#[test]
fn a_post_start_hook_that_fails_ends_the_container_and_it_is_tried_again() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: localhost/host
    command: [sleep, '1000']
    lifecycle: {postStart: {exec: {command: [sh, -c, 'exit 3']}}}
",
    );
    engine.wait_for(
        "pod/web",
        ".status.containerStatuses[0].state.waiting.reason",
        "CrashLoopBackOff",
    );
    engine.wait_for_event("web", "FailedPostStartHook", "PostStartHook failed");
    assert_eq!(container(&engine, "web")["started"], false);
}

#[test]
fn a_restart_rule_restarts_all_containers_in_the_same_sandbox() {
    let engine = Engine::start();
    let folder = folder();
    engine.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: team}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  initContainers:
  - {{name: setup, image: localhost/host, command: [sh, -c, 'echo setup >> /notes/notes'], volumeMounts: [{{name: notes, mountPath: /notes}}]}}
  containers:
  - name: web
    image: localhost/host
    command: [sh, -c, 'touch /notes/web; exec sleep 1000']
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  - name: watcher
    image: localhost/host
    command: [sh, -c, 'test $(wc -l < /notes/notes) -ge 2 && exec sleep 1000; until test -e /notes/web; do sleep 0.05; done; exit 88']
    restartPolicy: Never
    restartPolicyRules: [{{action: RestartAllContainers, exitCodes: {{operator: In, values: [88]}}}}]
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  volumes: [{}]
",
        volume(&folder)
    ));
    let restarted =
        |container: &Value| container["restartCount"] == 1 && container["ready"] == true;
    let pod = engine.until_one("pod/team", |pod| {
        let containers = pod["status"]["containerStatuses"].as_array();
        containers.is_some_and(|all| all.iter().all(restarted)) && is(pod, "Ready")
    });
    let status = &pod["status"];
    assert_eq!(notes(&folder), "setup\nsetup\n");
    let conditions = status["conditions"].as_array().unwrap();
    let all = conditions.iter().find(|c| c["type"] == "AllContainersRestarting").unwrap();
    assert_eq!(all["status"], "False", "{status:#}");
}

#[test]
fn grpc_and_tcp_probes_that_nobody_answers_keep_a_pod_from_being_ready() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: tcp, image: localhost/demo, args: [signal], readinessProbe: {tcpSocket: {port: 9000}, periodSeconds: 1}}
  - {name: grpc, image: localhost/demo, args: [signal], readinessProbe: {grpc: {port: 9001}, periodSeconds: 1}}
",
    );
    engine.wait_for_event("web", "Unhealthy", ":9000: connect: connection refused");
    // its client tries for as long as the probe may take
    let late = ":9001\" within 1s: context deadline exceeded";
    engine.wait_for_event("web", "Unhealthy", late);
    let conditions = engine.get("pod/web")["status"]["conditions"].clone();
    let ready = conditions.as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
    assert_eq!(ready["message"], "containers with unready status: [tcp grpc]");
}

#[test]
fn the_example_starts_slowly_and_becomes_ready() {
    let engine = Engine::start();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/probes.yaml");
    engine.kubectl(&["apply", "-f", example.to_str().unwrap()]);
    engine.wait_for("pod/health", ".status.phase", "Running");
    engine.wait_ready("health");
    assert_eq!(container(&engine, "health")["restartCount"], 0);
    engine.wait_for_event("health", "Unhealthy", "Startup probe failed");
}
