use serde_json::{Value, json};

use crate::cluster_node::{ClusterNode, NODE, containers};

fn shell(script: &str) -> Value {
    json!(["/bin/sh", "-c", script])
}

/// A container that ends by SIGTERM at once.
fn app(name: &str) -> Value {
    json!({"name": name, "image": "localhost/busybox:test",
        "command": shell("trap 'exit 3' TERM; while :; do sleep 1000 & wait; done")})
}

fn messages(status: &Value) -> Vec<&str> {
    let steps = status["steps"].as_array().unwrap();
    steps.iter().map(|step| step["message"].as_str().unwrap()).collect()
}

#[test]
fn a_whole_pod_gets_a_new_sandbox_under_its_uid_and_containers_restart_within_theirs() {
    let mut node = ClusterNode::new();
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().display().to_string();
    let mut hooked = app("app");
    hooked["lifecycle"] =
        json!({"preStop": {"exec": {"command": shell("echo stopped >> /out/hooks")}}});
    hooked["volumeMounts"] = json!([{"name": "out", "mountPath": "/out"}]);
    let mut sidecar = app("proxy");
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({
        "containers": [hooked, app("worker")], "initContainers": [sidecar],
        "volumes": [{"name": "out", "hostPath": {"path": host}}],
    });
    let before = node.pod("web", spec);
    node.start_agent();

    node.ask("whole", json!({"podName": "web", "rung": "Pod"}));
    let status = node.until_phase("whole", "Succeeded");
    let after = node.engine.get("pod/web");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(after["status"]["podIP"], before["status"]["podIP"], "a new network");
    for ((old, count), (new, later)) in containers(&before).iter().zip(containers(&after)) {
        assert_ne!(*old, new);
        // this kubelet lists so often that it may start one again before its sandbox ends
        assert!(later > *count, "the count goes on");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("hooks")).unwrap(), "stopped\n");
    assert_eq!(
        messages(&status),
        [
            "Restarting the whole pod in place",
            "everything has ended: the containers are starting in a new sandbox",
            "all containers are running again in a new sandbox",
        ]
    );
    assert_eq!(status["nodeName"], NODE);
    assert_eq!(status["podUID"], before["metadata"]["uid"]);
    let recorded = status["runtime"]["containers"].as_array().unwrap();
    assert_eq!(recorded.len(), 3, "{status:#}");

    node.ask("containers", json!({"podName": "web", "rung": "Containers"}));
    let status = node.until_phase("containers", "Succeeded");
    let later = node.engine.get("pod/web");
    assert_eq!(later["status"]["podIP"], after["status"]["podIP"], "the same sandbox");
    assert_ne!(containers(&later), containers(&after));
    assert_ne!(status["runtime"]["sandboxID"], Value::Null);

    node.ask("one", json!({"podName": "web", "rung": "Container", "containerName": "worker"}));
    let status = node.until_phase("one", "Succeeded");
    assert_eq!(status["message"], "container worker is running again");
    let last = node.engine.get("pod/web");
    assert_eq!(containers(&last)[0], containers(&later)[0], "the other one is left alone");
    assert_ne!(containers(&last)[1], containers(&later)[1]);
    // what the runtime forgets with the next whole restart is kept
    node.ask("again", json!({"podName": "web", "rung": "Pod"}));
    let status = node.until_phase("again", "Succeeded");
    let recorded = status["runtime"]["containers"].as_array().unwrap();
    let worker = recorded.iter().find(|container| container["name"] == "worker").unwrap();
    assert_eq!(worker["lastEnd"]["exitCode"], 3, "{status:#}");
}

#[test]
fn an_agent_that_is_killed_after_the_stop_of_a_sandbox_removes_that_one_and_no_other() {
    let mut node = ClusterNode::new();
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().display().to_string();
    let mut hooked = app("app");
    let hook = "mkfifo /out/line; echo > /out/begun; cat /out/line";
    hooked["lifecycle"] = json!({"preStop": {"exec": {"command": shell(hook)}}});
    hooked["volumeMounts"] = json!([{"name": "out", "mountPath": "/out"}]);
    let before = node.pod(
        "web",
        json!({
            "containers": [hooked], "terminationGracePeriodSeconds": 300,
            "volumes": [{"name": "out", "hostPath": {"path": host}}],
        }),
    );
    node.start_agent();
    node.ask("whole", json!({"podName": "web", "rung": "Pod"}));
    let asked = node.engine.until_one("podrestart/whole", |restart| {
        restart["status"]["runtime"]["sandboxID"].is_string()
    });
    let old = asked["status"]["runtime"]["sandboxID"].as_str().unwrap().to_owned();
    node.agent = None; // kill -9 while the hook runs
    let uid = before["metadata"]["uid"].as_str().unwrap().to_owned();
    // what the agent would have done next, and the answer of the kubelet
    node.runtime(async |calls| calls.stop_sandbox(&old).await).unwrap();
    // in the new sandbox: the kubelet may have started one in the old one before that had stopped
    let ip = |pod: &Value| pod["status"]["podIP"].clone();
    let again = node.engine.until_one("pod/web", |pod| ip(pod) != ip(&before));
    node.start_agent();
    node.until_phase("whole", "Succeeded");
    assert_eq!(containers(&node.engine.get("pod/web")), containers(&again), "not once more");
    let seen = node.runtime(async |calls| calls.look(&uid).await).unwrap();
    assert_eq!(seen.sandbox(&old), None);
    assert_eq!(seen.sandboxes.len(), 1);
}

#[test]
fn an_agent_that_is_killed_again_and_again_restarts_a_pod_once_for_each_request() {
    let mut node = ClusterNode::new();
    node.pod("web", json!({"containers": [app("app")]}));
    for round in 1..=4 {
        node.start_agent();
        let name = format!("round-{round}");
        node.ask(&name, json!({"podName": "web", "rung": "Pod"}));
        node.engine.until_one(&format!("podrestart/{name}"), |restart| {
            restart["status"]["phase"].is_string()
        });
        node.start_agent();
        node.until_phase(&name, "Succeeded");
        let made = node.kubelet.as_ref().unwrap().sandboxes();
        assert_eq!(made, 1 + round, "one sandbox for each request");
    }
}

#[test]
fn what_cannot_be_restarted_in_place_is_refused_and_a_network_that_stays_ends_it() {
    let mut node = ClusterNode::new();
    node.start_agent();
    let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
    for (name, pod, request, expected) in [
        ("never", json!({"restartPolicy": "Never"}), json!({}), "restartPolicy Never"),
        (
            "onfailure",
            json!({"restartPolicy": "OnFailure"}),
            json!({}),
            "restart-includes: OnFailure",
        ),
        ("host", json!({"hostNetwork": true}), json!({}), "restart-includes: HostNetwork"),
        ("scratch", json!({"volumes": scratch}), json!({}), "set emptyDirs: Keep"),
        ("another", json!({}), json!({"podUID": "of-another"}), "it was re-created"),
    ] {
        let before = node.pod(name, pod);
        let mut spec = json!({"podName": name, "rung": "Pod"});
        for (key, value) in request.as_object().unwrap() {
            spec[key] = value.clone();
        }
        node.ask(name, spec);
        let status = node.until_phase(name, "Refused");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(expected), "{name}: {message}");
        assert_eq!(status["nodeName"], NODE);
        let after = node.engine.get(&format!("pod/{name}"));
        assert_eq!(containers(&after), containers(&before), "{name}: it was not touched");
    }

    node.pod("web", json!({}));
    node.containerd.set_network_is_stubborn(true);
    node.ask("stubborn", json!({"podName": "web", "rung": "Pod"}));
    let status = node.until_phase("stubborn", "Failed");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("the network stays"), "{message}");
    assert!(message.ends_with("it was tried 2 times"), "{message}");
    node.containerd.set_network_is_stubborn(false);
}

#[test]
fn a_runtime_that_is_gone_for_a_while_holds_a_restart_up_and_loses_none() {
    let mut node = ClusterNode::new();
    let before = node.pod("web", json!({"containers": [app("app")]}));
    node.start_agent();
    node.kubelet = None;
    node.containerd.kill();
    node.ask("whole", json!({"podName": "web", "rung": "Pod"}));
    node.agent.as_ref().unwrap().says("failed to ask the runtime");
    node.containerd.launch();
    node.start_kubelet();
    let status = node.until_phase("whole", "Succeeded");
    assert_ne!(containers(&node.engine.get("pod/web")), containers(&before));
    assert_eq!(messages(&status).len(), 3, "{status:#}");
}

/// When a call of a kind began, or returned, by the runtime's log; the latest one.
fn logged(log: &str, call: &str, has_returned: bool) -> jiff::Timestamp {
    let begin = format!("msg=\"{call} ");
    let mut lines = log.lines().filter(|line| {
        let returns = line.contains("returns successfully");
        line.contains(&begin) && returns == has_returned
    });
    let time = lines.next_back().unwrap().split('"').nth(1).unwrap();
    time.parse().unwrap()
}

/// It prints figures: what the agent adds to a restart, and its memory.
#[test]
fn a_pod_without_grace_is_ended_at_once() {
    let mut node = ClusterNode::new();
    node.start_agent();
    let mut own = Vec::new();
    let mut all = Vec::new();
    node.pod("web", json!({"containers": [app("app")], "terminationGracePeriodSeconds": 0}));
    for round in 0..5 {
        let name = format!("round-{round}");
        node.ask(&name, json!({"podName": "web", "rung": "Pod"}));
        let status = node.until_phase(&name, "Succeeded");
        let at = |step: usize| {
            let at = status["steps"][step]["at"].as_str().unwrap();
            at.parse::<jiff::Timestamp>().unwrap()
        };
        let log = node.containerd.log();
        let calls = ["StopContainer", "StopPodSandbox", "RemovePodSandbox"];
        let of_runtime = calls.map(|call| {
            logged(&log, call, true).duration_since(logged(&log, call, false)).as_millis()
        });
        let ended = logged(&log, "RemovePodSandbox", true).duration_since(at(0)).as_millis();
        own.push(ended - of_runtime.iter().sum::<i128>());
        all.push(at(2).duration_since(at(0)).as_millis());
    }
    let pid = node.agent.as_ref().unwrap().pid();
    let memory = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory =
        memory.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("RssAnon"));
    let memory: Vec<&str> = memory.collect();
    eprintln!("the agent's own ms: {own:?}; until all run again: {all:?}; {memory:?}");
    assert!(own.iter().all(|ms| *ms < 5_000), "{own:?}");
}
