//! Resources that change while pods run (KEP-1287, KEP-2837, KEP-5419), with real containers, the
//! real kubectl, and the limits read from the machine's cgroup files.
use std::fs;
use std::path::{Path, PathBuf};

use rekindle_testkit::{Engine, text};

const MI: u64 = 1024 * 1024;

/// A container that sleeps, with these resources and resize policy (YAML).
fn pod(name: &str, resources: &str, policy: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: localhost/host
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    resources: {resources}
    resizePolicy: {policy}
"
    )
}

/// Limits of a cgroup as the kernel has them; `None` is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Limits {
    cpu_quota_us: Option<u64>,
    memory_bytes: Option<u64>,
}

/// Where the cgroups of this pod lie: on version 1 in two trees.
fn pod_folders(engine: &Engine, name: &str) -> (PathBuf, PathBuf) {
    let pod = engine.get(&format!("pod/{name}"));
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    let root = Path::new("/sys/fs/cgroup");
    let (cpu, memory) = match root.join("cgroup.controllers").exists() {
        true => (root.to_owned(), root.to_owned()),
        false => (root.join("cpu"), root.join("memory")),
    };
    let within = |tree: PathBuf| {
        let engines = fs::read_dir(tree.join("rekindle")).unwrap().flatten();
        let mut pods = engines.map(|engine| engine.path().join(format!("pod{uid}")));
        let pod = pods.find(|pod| pod.exists()).unwrap();
        // the newest sandbox
        let attempts = fs::read_dir(&pod).unwrap().flatten().filter(|e| e.path().is_dir());
        pod.join(
            attempts
                .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
                .max()
                .unwrap()
                .to_string(),
        )
    };
    (within(cpu), within(memory))
}

fn limits_in(cpu: &Path, memory: &Path) -> Limits {
    let read = |folder: &Path, file: &str| fs::read_to_string(folder.join(file)).ok();
    let number = |text: Option<String>| text?.split_whitespace().next()?.parse::<u64>().ok();
    let quota = read(cpu, "cpu.max").or_else(|| read(cpu, "cpu.cfs_quota_us"));
    let bytes = read(memory, "memory.max").or_else(|| read(memory, "memory.limit_in_bytes"));
    Limits {
        cpu_quota_us: number(quota),
        memory_bytes: number(bytes).filter(|bytes| *bytes < 1 << 60),
    }
}

/// Of the pod as a whole.
fn pod_limits(engine: &Engine, name: &str) -> Limits {
    let (cpu, memory) = pod_folders(engine, name);
    limits_in(&cpu, &memory)
}

/// Of the newest start of its container.
fn container_limits(engine: &Engine, name: &str, container: &str) -> Limits {
    let (cpu, memory) = pod_folders(engine, name);
    let pod = engine.get(&format!("pod/{name}"));
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let status = statuses.iter().find(|status| status["name"] == container).unwrap();
    let slot = format!("{container}-{}", status["restartCount"]);
    limits_in(&cpu.join(&slot), &memory.join(&slot))
}

fn both(cpu_millis: u64, memory_mi: u64) -> Limits {
    Limits { cpu_quota_us: Some(cpu_millis * 100), memory_bytes: Some(memory_mi * MI) }
}

/// `kubectl patch --subresource resize`, strategic.
fn resize(engine: &Engine, name: &str, container: &str, resources: &str) {
    let patch = format!(
        r#"{{"spec":{{"containers":[{{"name":"{container}","resources":{resources}}}]}}}}"#
    );
    engine.kubectl(&["patch", "pod", name, "--subresource", "resize", "--patch", &patch]);
}

/// Waits until the node has done what generation asks for.
fn wait_resized(engine: &Engine, name: &str) {
    let generation = engine.get(&format!("pod/{name}"))["metadata"]["generation"].to_string();
    let needle = format!("\"generation\":{generation}}}");
    engine.wait_for_event(name, "ResizeCompleted", &needle);
}

fn has_condition(pod: &serde_json::Value, type_: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == type_)
}

/// As upstream's "pod observedGeneration field set in pod conditions" expects them (KEP-5067): a
/// binding counts as no update.
fn every_condition_is_of_generation(engine: &Engine, name: &str, generation: i64) {
    let pod = engine.get(&format!("pod/{name}"));
    assert_eq!(pod["metadata"]["generation"], generation);
    let of_node =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    for type_ in of_node {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let observed = conditions.filter(|c| c["type"] == type_).map(|c| &c["observedGeneration"]);
        assert_eq!(observed.collect::<Vec<_>>(), [&generation], "{type_}: {pod}");
    }
}

fn container_id(engine: &Engine, name: &str) -> String {
    engine.get(&format!("pod/{name}"))["status"]["containerStatuses"][0]["containerID"].to_string()
}

#[test]
fn cpu_and_memory_go_up_and_down_under_a_running_container_and_survive_kill_9() {
    let mut engine = Engine::start();
    let guaranteed = "{requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}";
    engine.apply(&pod("web", guaranteed, "[]"));
    engine.wait_ready("web");
    every_condition_is_of_generation(&engine, "web", 1);
    let id = container_id(&engine, "web");
    assert_eq!(container_limits(&engine, "web", "main"), both(100, 64));
    assert_eq!(pod_limits(&engine, "web"), both(100, 64));

    let same = |cpu: &str, memory: &str| {
        let list = format!(r#"{{"cpu":"{cpu}","memory":"{memory}"}}"#);
        format!(r#"{{"requests":{list},"limits":{list}}}"#)
    };
    for (cpu, memory) in [(200, 128), (150, 32), (300, 32), (50, 96)] {
        resize(&engine, "web", "main", &same(&format!("{cpu}m"), &format!("{memory}Mi")));
        wait_resized(&engine, "web");
        assert_eq!(container_limits(&engine, "web", "main"), both(cpu, memory));
        assert_eq!(pod_limits(&engine, "web"), both(cpu, memory));
    }
    let pod = engine.until_one("pod/web", |pod| {
        let container = &pod["status"]["containerStatuses"][0];
        container["allocatedResources"]["cpu"] == "50m"
            && container["resources"]["limits"]["memory"] == "96Mi"
    });
    let status = &pod["status"];
    let container = &status["containerStatuses"][0];
    assert_eq!(container["restartCount"], 0);
    assert_eq!(container["containerID"].to_string(), id, "it is the same container");
    assert_eq!(status["observedGeneration"], pod["metadata"]["generation"]);
    every_condition_is_of_generation(&engine, "web", 5);

    // asked for, and the engine dies before or after it was done
    resize(&engine, "web", "main", &same("400m", "256Mi"));
    engine.kill();
    engine.launch(&[]);
    // the status, not the event: one of the last milliseconds dies with the engine. The pod's
    // limits rose before these.
    let shown = ".status.containerStatuses[0].resources.limits.memory";
    engine.wait_for("pod/web", shown, "256Mi");
    assert_eq!(container_limits(&engine, "web", "main"), both(400, 256));
    assert_eq!(pod_limits(&engine, "web"), both(400, 256));
    assert_eq!(container_id(&engine, "web"), id, "it still is");

    // the whole pod starts again with what it was granted
    let output = engine.rekindle(&["restart", "pod/web", "--rung", "pod", "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_for("pod/web", ".status.containerStatuses[0].restartCount", "1");
    assert_eq!(container_limits(&engine, "web", "main"), both(400, 256));
    assert_eq!(pod_limits(&engine, "web"), both(400, 256));
}

#[test]
fn a_policy_of_restart_restarts_and_what_cannot_be_is_said() {
    let engine = Engine::start();
    let resources = "{requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 64Mi}}";
    let policy = "[{resourceName: memory, restartPolicy: RestartContainer}]";
    engine.apply(&pod("picky", resources, policy));
    engine.wait_ready("picky");
    resize(&engine, "picky", "main", r#"{"requests":{"cpu":"150m"}}"#);
    wait_resized(&engine, "picky");
    engine.wait_for("pod/picky", ".status.containerStatuses[0].restartCount", "0");

    resize(&engine, "picky", "main", r#"{"limits":{"memory":"96Mi"}}"#);
    engine.wait_for("pod/picky", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_for_event("picky", "Killing", "Container main resize requires restart");
    wait_resized(&engine, "picky");
    assert_eq!(container_limits(&engine, "picky", "main").memory_bytes, Some(96 * MI));

    resize(&engine, "picky", "main", r#"{"requests":{"cpu":"1000"}}"#);
    engine.wait_for_event(
        "picky",
        "ResizeInfeasible",
        "Node didn't have enough capacity: cpu, requested: 1000000",
    );
    engine.wait_for(
        "pod/picky",
        ".status.conditions[?(@.type=='PodResizePending')].reason",
        "Infeasible",
    );
    let status = engine.get("pod/picky")["status"].clone();
    assert_eq!(status["containerStatuses"][0]["allocatedResources"]["cpu"], "150m");
    resize(&engine, "picky", "main", r#"{"requests":{"cpu":"160m"}}"#);
    wait_resized(&engine, "picky");
    engine.until_one("pod/picky", |pod| !has_condition(pod, "PodResizePending"));

    // the whole object read and written by the subresource; what else it changes is dropped
    let shown = engine.kubectl(&["get", "pod", "picky", "--subresource", "resize", "-o", "json"]);
    let mut object: serde_json::Value = serde_json::from_str(&shown).unwrap();
    object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "170m".into();
    object["spec"]["containers"][0]["image"] = "localhost/other".into();
    object["metadata"]["resourceVersion"].take();
    engine.kubectl_with(&["replace", "--subresource", "resize", "-f", "-"], &object.to_string());
    wait_resized(&engine, "picky");
    let container = engine.get("pod/picky")["spec"]["containers"][0].clone();
    assert_eq!(
        (&container["resources"]["requests"]["cpu"], &container["image"]),
        (&"170m".into(), &"localhost/host".into())
    );

    what_no_resize_may_change_is_refused(&engine);
}

fn what_no_resize_may_change_is_refused(engine: &Engine) {
    let refused = |patch: &str| {
        let arguments = ["patch", "pod", "picky", "--subresource", "resize", "--patch", patch];
        engine.kubectl_fails(&arguments, "")
    };
    let removed = refused(
        r#"{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":null}}}]}}"#,
    );
    assert!(removed.contains("resource limits cannot be removed"), "{removed}");
    let class = refused(
        r#"{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"170m","memory":"96Mi"},"limits":{"cpu":"170m"}}}]}}"#,
    );
    assert!(class.contains("Pod QOS Class may not change as a result of resizing"), "{class}");
    let main = engine.kubectl_fails(
        &[
            "patch",
            "pod",
            "picky",
            "--patch",
            r#"{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]}}"#,
        ],
        "",
    );
    assert!(main.contains("pod updates may not change fields other than"), "{main}");
}

#[test]
fn memory_in_use_is_not_taken_away_and_deferred_requests_wait_for_room() {
    let engine = Engine::start();
    let eater = "
apiVersion: v1
kind: Pod
metadata: {name: eater}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/host
    command: [sh, -c, 'head -c 50000000 /dev/zero > /dev/shm/full; sleep 100000']
    resources: {requests: {memory: 128Mi}, limits: {memory: 128Mi}}
    readinessProbe: {exec: {command: [sh, -c, 'test $(stat -c %s /dev/shm/full) = 50000000']}, periodSeconds: 1}
";
    engine.apply(eater);
    engine.wait_ready("eater");
    resize(
        &engine,
        "eater",
        "main",
        r#"{"requests":{"memory":"32Mi"},"limits":{"memory":"32Mi"}}"#,
    );
    let words =
        "attempting to set container \\\"main\\\" memory limit (33554432) below current usage";
    engine.wait_for_event("eater", "ResizeError", words);
    assert_eq!(container_limits(&engine, "eater", "main").memory_bytes, Some(128 * MI));
    engine.kubectl(&["exec", "eater", "--", "rm", "/dev/shm/full"]);
    wait_resized(&engine, "eater");
    assert_eq!(container_limits(&engine, "eater", "main").memory_bytes, Some(32 * MI));
    assert_eq!(pod_limits(&engine, "eater").memory_bytes, Some(32 * MI));

    let node = engine.get("nodes")["items"][0].clone();
    let cpus: u64 = node["status"]["allocatable"]["cpu"].as_str().unwrap().parse().unwrap();
    let most = format!("{{requests: {{cpu: {}m}}}}", cpus * 1000 - 100);
    engine.apply(&pod("large", &most, "[]"));
    engine.wait_ready("large");
    engine.apply(&pod("small", "{requests: {cpu: 50m}}", "[]"));
    engine.wait_ready("small");
    resize(&engine, "small", "main", r#"{"requests":{"cpu":"500m"}}"#);
    engine.wait_for_event(
        "small",
        "ResizeDeferred",
        "Node didn't have enough resource: cpu, requested: 500, used: ",
    );
    engine.kubectl(&["delete", "pod", "large"]);
    wait_resized(&engine, "small");

    engine.apply(&pod("gpu", "{limits: {example.com/gpu: 1}}", "[]"));
    engine.wait_for_event("gpu", "FailedScheduling", "Insufficient example.com/gpu");
}

#[test]
fn a_pod_has_limits_of_its_own_and_they_change_too() {
    let engine = Engine::start();
    let whole = "
apiVersion: v1
kind: Pod
metadata: {name: whole}
spec:
  terminationGracePeriodSeconds: 1
  resources: {limits: {cpu: 500m, memory: 100Mi}}
  containers:
  - {name: a, image: localhost/host, command: [sleep, '100000'], resources: {requests: {cpu: 100m}, limits: {memory: 50Mi}}}
  - {name: b, image: localhost/host, command: [sleep, '100000']}
";
    let output = engine.try_kubectl(&["apply", "-f", "-"], whole);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing to warn of");
    engine.wait_ready("whole");
    let spec = engine.get("pod/whole")["spec"].clone();
    assert_eq!(
        spec["resources"]["requests"]["cpu"], "100m",
        "what the containers ask for together"
    );
    assert_eq!(pod_limits(&engine, "whole"), both(500, 100));
    assert_eq!(container_limits(&engine, "whole", "a"), both(500, 50));
    assert_eq!(container_limits(&engine, "whole", "b"), both(500, 100));
    let patch = r#"{"spec":{"resources":{"limits":{"cpu":"800m"}}}}"#;
    engine.kubectl(&["patch", "pod", "whole", "--subresource", "resize", "--patch", patch]);
    wait_resized(&engine, "whole");
    assert_eq!(pod_limits(&engine, "whole"), both(800, 100));
    engine.wait_for("pod/whole", ".status.resources.limits.cpu", "800m");
    let bad = whole
        .replace("name: whole", "name: bad")
        .replace("requests: {cpu: 100m}", "requests: {cpu: 2}");
    let error = engine.kubectl_fails(&["apply", "-f", "-"], &bad);
    assert!(error.contains("must be"), "{error}");
}

#[test]
fn a_pod_that_has_used_up_its_processes_disturbs_nobody() {
    let engine = Engine::start_with(&["--pod-pids-limit", "40"]);
    let pods = "
apiVersion: v1
kind: Pod
metadata: {name: bomb}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/host
    # told to, it forks until it cannot, and says so
    command: [sh, -c, 'until test -e /told/to; do sleep 0.05; done; i=0; while [ $i -lt 100 ]; do sleep 100000 & i=$((i+1)); done; sleep 100000']
    terminationMessagePolicy: FallbackToLogsOnError
    volumeMounts: [{name: told, mountPath: /told}]
  - name: witness
    image: localhost/demo
    args: [server, --port, '8080']
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30}
  volumes: [{name: told, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/host
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}
";
    engine.apply(pods);
    engine.wait_ready("other");
    engine.wait_ready("bomb");
    engine.exec_and_end(&["bomb", "-c", "main", "--", "touch", "/told/to"]);
    engine.wait_for("pod/bomb", ".status.containerStatuses[0].lastState.terminated.exitCode", "2");
    let logs = engine.kubectl(&["logs", "bomb", "-c", "main", "--previous"]);
    let refused = ["Cannot fork", "Resource temporarily unavailable"];
    assert!(refused.iter().any(|words| logs.contains(words)), "{logs}");
    // the agent, commands and probes elsewhere, and the container beside it
    assert_eq!(
        engine.kubectl(&["exec", "other", "--", "sh", "-c", "echo well; true | cat"]).trim(),
        "well"
    );
    engine.wait_for("pod/bomb", ".status.containerStatuses[1].ready", "true");
    engine.wait_for("pod/bomb", ".status.containerStatuses[1].restartCount", "0");
    engine.wait_for("pod/other", ".status.containerStatuses[0].restartCount", "0");
}

#[test]
fn a_pod_that_reaches_its_limit_of_processes_is_told_so() {
    let engine = Engine::start_with(&["--pod-pids-limit", "30"]);
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: forker}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/host
    # a server that goes on when it cannot fork
    command: [perl, -e, 'while (1) { my $pid = fork; sleep 100000 if defined $pid && !$pid; sleep 1 if !defined $pid }']
",
    );
    let told = "the pod reached its limit of 30 processes and threads (--pod-pids-limit)";
    engine.wait_for_event("forker", "ProcessLimitReached", told);
    let account = engine.rekindle(&["why", "pod/forker"]);
    assert!(text(&account.stdout).contains(told), "{}", text(&account.stdout));
}
