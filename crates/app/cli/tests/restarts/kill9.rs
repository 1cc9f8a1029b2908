//! Promise P1: kill -9 of the engine at any moment; no container dies, none is started twice, what
//! died meanwhile is seen.
use std::process::Command;

use rekindle_testkit::Engine;

/// Two pods; the second one's process can be told from all others on the machine by what it is told
/// to do.
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: steady}
spec:
  containers:
  - {name: one, image: localhost/demo, args: [signal]}
  - {name: two, image: localhost/demo, args: [signal]}
---
apiVersion: v1
kind: Pod
metadata: {name: victim}
spec:
  containers:
  - {name: one, image: localhost/host, command: [sleep, '86399PID']}
";

#[test]
fn pods_run_on_while_the_engine_is_killed_and_are_found_again_unrestarted() {
    let mut engine = Engine::start();
    let pid = std::process::id().to_string();
    engine.apply(&PODS.replace("PID", &pid));
    engine.wait_ready("steady");
    engine.wait_ready("victim");
    let steady = engine.get("pod/steady");
    let victim = engine.get("pod/victim");

    engine.kill();
    // While nobody looks, one container dies; by its pid alone, found in the process table by its
    // unusual argument.
    let killed = Command::new("pkill")
        .args(["-KILL", "-xf", &format!("sleep 86399{pid}")])
        .status()
        .unwrap();
    assert!(killed.success(), "the pods run on without the engine");
    engine.launch(&[]);

    engine.wait_for("pod/victim", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_ready("victim");
    let after = engine.get("pod/victim");
    let last = &after["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["exitCode"], 137);
    assert_eq!(last["containerID"], victim["status"]["containerStatuses"][0]["containerID"]);

    let after = engine.get("pod/steady");
    for container in [0, 1] {
        for field in ["containerID", "restartCount", "state"] {
            assert_eq!(
                after["status"]["containerStatuses"][container][field],
                steady["status"]["containerStatuses"][container][field],
                "{field} of a container that nobody touched"
            );
        }
    }
    assert_eq!(after["status"]["podIP"], steady["status"]["podIP"]);
}

#[test]
fn objects_acknowledged_before_a_kill_are_there_after_it() {
    let mut engine = Engine::start();
    for number in 0..20 {
        engine.kubectl(&["create", "configmap", &format!("kept-{number}"), "--from-literal=a=b"]);
    }
    let before = engine.get("configmaps");
    engine.kill();
    engine.launch(&[]);
    assert_eq!(engine.get("configmaps")["items"], before["items"]);
}

/// The parent of the process that was started so: its shim, in the host's numbers.
fn shim_of(command: &str) -> String {
    let is_it = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ") == command
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let mut pids = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let pid = pids.find(is_it).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    parent.trim().to_owned()
}

#[test]
fn a_pod_without_probes_whose_shim_is_stopped_gets_a_new_sandbox() {
    let engine = Engine::start();
    let seconds = 1_000_000 + engine.pid();
    engine.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: quiet}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: app, image: localhost/host, command: [sleep, '{seconds}']}}
"
    ));
    engine.wait_ready("quiet");
    let uid = engine.get("pod/quiet")["metadata"]["uid"].clone();
    let shim = shim_of(&format!("sleep {seconds}"));
    assert!(Command::new("kill").args(["-STOP", &shim]).status().unwrap().success());
    engine.wait_for("pod/quiet", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_ready("quiet");
    engine.wait_for_event("quiet", "SandboxChanged", "");
    assert_eq!(engine.get("pod/quiet")["metadata"]["uid"], uid);
    assert_ne!(shim_of(&format!("sleep {seconds}")), shim);
    let said = engine.kubectl(&["exec", "quiet", "--", "echo", "well"]);
    assert_eq!(said.trim(), "well");
    engine.wait_for("pod/quiet", ".status.containerStatuses[0].restartCount", "1");
}
