//! Restarts on request: what each rung throws away, and what stays.
use std::collections::BTreeMap;
use std::fs::File;

use rekindle_testkit::{Engine, TIMEOUT, process, text};
use serde_json::Value;

/// Two containers that print what they see of the shared context, then wait. The init container
/// leaves a file; so does each start of `one`.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: subject}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: init, image: localhost/host, command: [sh, -c, 'echo init >> /shared/starts'], volumeMounts: [{name: shared, mountPath: /shared}, {name: kept, mountPath: /kept}]}
  containers:
  - name: one
    image: localhost/host
    command: [sh, -c, 'echo one >> /shared/starts; cat /shared/starts | tr \"\\n\" \" \"; echo; for ns in net ipc uts; do readlink /proc/self/ns/$ns; done; exec sleep 1000']
    env: [{name: REKINDLE_TEST_RESTART, value: MARK}]
    volumeMounts: [{name: shared, mountPath: /shared}, {name: kept, mountPath: /kept}]
  - {name: two, image: localhost/demo, args: [signal]}
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: kept, hostPath: {path: /tmp, type: Directory}}
";

/// What no process outside the test has in its environment.
fn mark(engine: &Engine) -> String {
    engine.data_dir().display().to_string()
}

fn apply_pod(engine: &Engine) {
    engine.apply(&POD.replace("MARK", &mark(engine)));
}

/// The namespaces of `one`, held open so that their numbers are not given again.
fn hold_namespaces(engine: &Engine) -> Vec<File> {
    let pid = process::find("REKINDLE_TEST_RESTART", &mark(engine)).expect("the container runs");
    process::hold_namespaces(pid)
}

struct Seen {
    starts: String,
    namespaces: Vec<String>,
    uid: Value,
    restarts: BTreeMap<String, i64>,
}

fn look(engine: &Engine) -> Seen {
    engine.kubectl(&["wait", "--for=condition=Ready", "pod/subject", TIMEOUT]);
    // what is on the way from a container that has just started is waited for
    let mut lines = engine.first_lines(&["subject", "-c", "one"], 4).into_iter();
    let pod = engine.get("pod/subject");
    Seen {
        starts: lines.next().unwrap_or_default().trim().to_owned(),
        namespaces: lines.collect(),
        uid: pod["metadata"]["uid"].clone(),
        restarts: pod["status"]["containerStatuses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|status| {
                (
                    status["name"].as_str().unwrap().to_owned(),
                    status["restartCount"].as_i64().unwrap(),
                )
            })
            .collect(),
    }
}

fn restart(engine: &Engine, rung: &str) {
    let output = engine.rekindle(&[
        "restart",
        "pod/subject",
        "--rung",
        rung,
        "--wait",
        "--reason",
        "a test",
    ]);
    assert!(output.status.success(), "{rung}: {}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn each_rung_throws_away_what_it_says_and_keeps_the_rest() {
    let engine = Engine::start();
    apply_pod(&engine);
    let at_first = look(&engine);
    assert_eq!(at_first.starts, "init one");

    restart(&engine, "container");
    let containers = look(&engine);
    assert_eq!(containers.starts, "init one one", "the volume stays, init does not run again");
    assert_eq!(containers.namespaces, at_first.namespaces, "the sandbox stays");
    assert_eq!(containers.uid, at_first.uid);

    let held = hold_namespaces(&engine);
    restart(&engine, "pod");
    let pod = look(&engine);
    assert_eq!(pod.starts, "init one", "the emptyDir is new, init runs again");
    for (namespace, before) in pod.namespaces.iter().zip(&at_first.namespaces) {
        assert_ne!(namespace, before, "every namespace is new");
    }
    drop(held);
    assert_eq!(pod.uid, at_first.uid, "it is the same pod");
    assert!(
        pod.restarts.iter().all(|(name, count)| *count == at_first.restarts[name] + 2),
        "{:?}",
        pod.restarts
    );
    engine.wait_for_event("subject", "PodRestarting", "a test");
}

/// It notes each start, its hook and its signal in a file of the host.
fn noting_pod(notes: &std::path::Path) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: noting}}
spec:
  terminationGracePeriodSeconds: 300
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'trap \"echo signal >> /notes/file; exit 0\" TERM; echo start >> /notes/file; touch /up; while :; do sleep 0.05; done']
    lifecycle:
      postStart: {{exec: {{command: [sh, -c, 'until test -e /up; do sleep 0.05; done']}}}}
      preStop: {{exec: {{command: [sh, -c, 'echo hook >> /notes/file']}}}}
    volumeMounts: [{{name: notes, mountPath: /notes}}]
  volumes: [{{name: notes, hostPath: {{path: {}, type: Directory}}}}]
",
        notes.display()
    )
}

#[test]
fn a_fast_restart_runs_no_hook_sends_no_signal_and_waits_for_no_grace() {
    let engine = Engine::start();
    let notes = tempfile::tempdir().unwrap();
    engine.apply(&noting_pod(notes.path()));
    engine.wait_ready("noting");
    let noted = || std::fs::read_to_string(notes.path().join("file")).unwrap();
    let run = |arguments: &[&str]| {
        let output = engine.rekindle(&[&["restart", "pod/noting", "--wait"], arguments].concat());
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    };
    run(&["--fast"]);
    assert_eq!(noted(), "start\nstart\n");
    run(&["--rung", "containers"]);
    assert_eq!(noted(), "start\nstart\nhook\nsignal\nstart\n", "without it they are asked");
    let refused = engine.rekindle(&["restart", "pod/noting", "--fast", "--rung", "pod"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("on the rung Containers"), "{said}");
}

#[test]
fn a_pod_restart_object_is_carried_out_once_and_tells_how_it_went() {
    let engine = Engine::start();
    apply_pod(&engine);
    look(&engine);
    let request = "
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: by-hand}
spec: {podName: subject, rung: Pod, reason: stale network, gracePeriodSeconds: 1}
";
    engine.apply(request);
    engine.wait_for("podrestart/by-hand", ".status.phase", "Succeeded");
    let steps = engine.get("podrestart/by-hand")["status"]["steps"].clone();
    let steps = steps.as_array().unwrap();
    let phases: Vec<&str> = steps.iter().map(|s| s["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["Running", "Running", "Succeeded"], "stopped, started, runs: {steps:?}");
    let times: Vec<&str> = steps.iter().map(|s| s["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let once = look(&engine);
    engine.apply(request);
    assert_eq!(look(&engine).restarts, once.restarts, "the same request again changes nothing");

    engine.apply(&request.replace("by-hand", "nobody").replace("subject", "absent"));
    engine.wait_for("podrestart/nobody", ".status.phase", "Refused");
    let refused = engine.get("podrestart/nobody");
    assert!(refused["status"]["message"].as_str().unwrap().contains("absent"), "{refused}");
}

/// Two containers and a sidecar, of which each is restarted by itself.
const PARTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: parts}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: setup, image: localhost/host, command: ['true']}
  - {name: proxy, image: localhost/demo, args: [signal], restartPolicy: Always}
  containers:
  - {name: app, image: localhost/demo, args: [signal]}
  - {name: metrics, image: localhost/demo, args: [signal]}
";

/// The id and the restarts of each container that runs.
fn parts(engine: &Engine) -> BTreeMap<String, (String, i64)> {
    engine.kubectl(&["wait", "--for=condition=Ready", "pod/parts", TIMEOUT]);
    let status = engine.get("pod/parts")["status"].clone();
    let lists = [&status["initContainerStatuses"], &status["containerStatuses"]];
    let all = lists.into_iter().flat_map(|list| list.as_array().unwrap());
    let running = all.filter(|part| !part["state"]["running"].is_null());
    running
        .map(|part| {
            let text = |key: &str| part[key].as_str().unwrap().to_owned();
            (text("name"), (text("containerID"), part["restartCount"].as_i64().unwrap()))
        })
        .collect()
}

#[test]
fn one_container_is_restarted_and_the_others_are_left_as_they_are() {
    let engine = Engine::start();
    engine.apply(PARTS);
    let mut before = parts(&engine);
    assert_eq!(before.len(), 3, "{before:?}");
    for name in ["app", "proxy"] {
        let output = engine.rekindle(&["restart", "pod/parts", "-c", name, "--wait"]);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let mut after = parts(&engine);
        let (old, new) = (before.remove(name).unwrap(), after.remove(name).unwrap());
        assert_eq!((old.1, new.1), (0, 1), "{name}");
        assert_ne!(old.0, new.0, "{name}");
        assert_eq!(after, before, "the others");
        before = after;
        before.insert(name.to_owned(), new);
    }
    engine.wait_for_event("parts", "PodRestarted", "container proxy is running again");

    let output = engine.rekindle(&["restart", "pod/parts", "--container", "ap"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("it has app, metrics, proxy"), "{said}");
    for (name, container, why) in [
        ("by-nobody", "ap", "pod parts has no container ap: it has app, metrics, proxy"),
        ("of-init", "setup", "container setup of pod parts is an init container"),
    ] {
        engine.apply(&format!(
            "{{apiVersion: rekindle.dev/v1alpha1, kind: PodRestart, metadata: {{name: {name}}}, \
             spec: {{podName: parts, rung: Container, containerName: {container}}}}}"
        ));
        engine.wait_for(&format!("podrestart/{name}"), ".status.phase", "Refused");
        let told = engine.get(&format!("podrestart/{name}"))["status"]["message"].clone();
        assert!(told.as_str().unwrap().starts_with(why), "{told}");
    }
    let whole = "{apiVersion: rekindle.dev/v1alpha1, kind: PodRestart, metadata: {name: whole}, \
                 spec: {podName: parts, containerName: app}}";
    let refused = engine.try_kubectl(&["apply", "-f", "-"], whole);
    let said = text(&refused.stderr);
    assert!(
        said.contains("spec.containerName: Forbidden: may only be set on the rung Container"),
        "{said}"
    );
    assert_eq!(parts(&engine), before, "what is refused ends nothing");
}

#[test]
fn a_whole_pod_restart_that_keeps_empty_dirs_renews_the_namespaces() {
    let engine = Engine::start();
    apply_pod(&engine);
    let at_first = look(&engine);
    let request = "
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: keeps-volumes}
spec: {podName: subject, rung: Pod, emptyDirs: Keep, gracePeriodSeconds: 1}
";
    let held = hold_namespaces(&engine);
    engine.apply(request);
    engine.wait_for("podrestart/keeps-volumes", ".status.phase", "Succeeded");
    let after = look(&engine);
    assert_eq!(after.starts, "init one init one", "the volume's content stays");
    for (namespace, before) in after.namespaces.iter().zip(&at_first.namespaces) {
        assert_ne!(namespace, before, "every namespace is new");
    }
    drop(held);
}
