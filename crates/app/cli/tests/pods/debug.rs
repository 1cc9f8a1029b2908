//! `kubectl debug` in its three forms, and pods that share processes with each other or with the
//! node, on real containers.
use std::fs;
use std::os::fd::OwnedFd;

use rekindle_testkit::{Engine, TestTerminal, text};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

/// A command line that no other process of the machine has.
fn unique(number: u32) -> String {
    format!("sleep {}{number:04}", std::process::id())
}

fn pod(command: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - {{name: app, image: localhost/host, command: [{command}]}}
",
        command = command.replace(' ', ", '") + "'"
    )
}

fn engine_with(manifest: &str) -> Engine {
    let engine = Engine::start();
    engine.apply(manifest);
    engine.wait_ready("web");
    engine
}

/// What finds the process with this command line in a container, and does something about it.
fn for_process(command: &str, action: &str) -> String {
    format!(
        "for p in /proc/[0-9]*; do if test \"$(tr '\\0' ' ' < $p/cmdline 2>/dev/null)\" = '{command} '; \
         then pid=${{p#/proc/}}; {action}; fi; done"
    )
}

fn process(command: &str) -> Option<Pid> {
    let wanted = format!("{}\0", command.replace(' ', "\0"));
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let mut pids = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
    let is_it =
        |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|l| l == wanted.as_bytes());
    pids.find(is_it).and_then(Pid::from_raw)
}

fn pidfd(command: &str) -> OwnedFd {
    let pid = process(command).unwrap_or_else(|| panic!("{command} runs"));
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

fn wait_for_end(process: &OwnedFd) {
    let limit = Timespec { tv_sec: rekindle_testkit::PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ended = rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit));
    assert_eq!(ended.unwrap(), 1, "it ends");
}

fn ephemeral(engine: &Engine, number: usize) -> Value {
    engine.get("pod/web")["status"]["ephemeralContainerStatuses"][number].clone()
}

fn restart(engine: &Engine, rung: &str) {
    let output = engine.rekindle(&["restart", "pod/web", "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_container_is_debugged_with_its_processes_in_sight() {
    let app = unique(1);
    let engine = engine_with(&pod(&app));
    let before = engine.get("pod/web")["status"]["containerStatuses"][0].clone();
    let command = engine.kubectl_command(&[
        "debug",
        "-it",
        "web",
        "--image=localhost/host",
        "--target=app",
        "--container=debugger",
        "--",
        "sh",
    ]);
    let mut terminal = TestTerminal::run(&command, 160, 40);
    terminal.wait_for("invitation", |screen| screen.contains("command prompt"));
    // kubectl tells the size a moment after it has attached
    terminal.enter(
        "tr '\\0' '+' < /proc/1/cmdline; readlink /proc/1/root/etc && echo open; \
         until stty size | grep '^40.160$'; do sleep 0.05; done",
    );
    let seen = app.replace(' ', "+");
    let screen = terminal.wait_for("answer", |s| s.contains(&seen) && s.contains("40 160"));
    assert!(screen.contains("Targeting container \"app\""), "{screen}");
    terminal.enter("exit 3");
    let (_, screen) = terminal.wait_for_end();
    assert!(screen.contains("will not be restarted"), "{screen}");

    engine.wait_for(
        "pod/web",
        ".status.ephemeralContainerStatuses[0].state.terminated.exitCode",
        "3",
    );
    let status = ephemeral(&engine, 0);
    assert_eq!(status["restartCount"], 0);
    assert_eq!(status["ready"], false);
    let pod = engine.get("pod/web");
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["containerStatuses"][0], before, "the app was left alone");
    assert!(engine.kubectl(&["logs", "web", "-c", "debugger"]).contains(&seen));
    engine.wait_ready("web");

    let refused = engine.kubectl_fails(
        &["debug", "web", "--image=localhost/host", "--target=nobody", "--", "true"],
        "",
    );
    assert!(refused.contains("targetContainerName: Not found: \"nobody\""), "{refused}");
    let edit = r#"{"spec":{"ephemeralContainers":[{"name":"debugger","image":"localhost/demo"}]}}"#;
    let refused = engine.kubectl_fails(
        &["patch", "pod", "web", "--subresource=ephemeralcontainers", "-p", edit],
        "",
    );
    assert!(refused.contains("may not be changed"), "{refused}");
    engine.kubectl(&["label", "pod", "web", "still=editable"]);
}

#[test]
fn a_debug_container_is_started_once_and_ends_with_the_sandbox() {
    let mut engine = engine_with(&pod(&unique(2)));
    let command = unique(3);
    let mut arguments =
        vec!["debug", "web", "--image=localhost/host", "--container=debugger", "--"];
    arguments.extend(command.split(' '));
    engine.kubectl(&arguments);
    let shown = ".status.ephemeralContainerStatuses[0].state.running";
    engine.kubectl(&[
        "wait",
        "pod/web",
        &format!("--for=jsonpath={{{shown}}}"),
        rekindle_testkit::TIMEOUT,
    ]);
    let before = ephemeral(&engine, 0);
    let running = pidfd(&command);

    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("web");
    assert_eq!(ephemeral(&engine, 0), before, "another engine finds it as it was");

    restart(&engine, "containers");
    assert_eq!(ephemeral(&engine, 0), before, "a restart of all containers passes it by");
    assert_eq!(engine.get("pod/web")["status"]["containerStatuses"][0]["restartCount"], 1);

    restart(&engine, "pod");
    wait_for_end(&running);
    engine.wait_ready("web");
    let after = ephemeral(&engine, 0);
    assert_eq!(after["containerID"], before["containerID"]);
    assert!(after["state"]["terminated"]["exitCode"].is_i64(), "{after}");
    assert_eq!(after["restartCount"], 0);
    assert!(process(&command).is_none(), "it is not started again");
}

#[test]
fn a_copy_of_a_pod_shares_its_processes_and_outlives_one_of_them() {
    let (app, debugger) = (unique(4), unique(5));
    let engine = engine_with(&pod(&app));
    let mut arguments = vec![
        "debug",
        "web",
        "--copy-to=copy",
        "--share-processes",
        "--image=localhost/host",
        "--container=debugger",
        "--",
    ];
    arguments.extend(debugger.split(' '));
    engine.kubectl(&arguments);
    engine.wait_ready("copy");
    assert_eq!(engine.get("pod/copy")["spec"]["shareProcessNamespace"], true);
    let script = format!(
        "cat /proc/1/comm; {}",
        for_process(&app, "ls -d $p/root/etc | sed 's|.*root|root|'; kill -9 $pid")
    );
    let before = engine.get("pod/copy");
    let output = engine.kubectl(&["exec", "copy", "-c", "debugger", "--", "sh", "-c", &script]);
    assert_eq!(output, "pause\nroot/etc\n", "it sees the app's process and files");
    engine.wait_for("pod/copy", ".status.containerStatuses[?(@.name==\"app\")].restartCount", "1");
    engine.wait_ready("copy");
    let after = engine.get("pod/copy");
    let status = |pod: &Value, name: &str| -> Value {
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
        statuses.iter().find(|status| status["name"] == name).unwrap().clone()
    };
    assert_eq!(status(&after, "debugger"), status(&before, "debugger"), "the other one lives on");
    let last = &status(&after, "app")["lastState"]["terminated"];
    assert_eq!(last["exitCode"], 137, "{last}");
    // Its next start is in the same namespace.
    let script = for_process(&app, "echo seen");
    let output = engine.kubectl(&["exec", "copy", "-c", "debugger", "--", "sh", "-c", &script]);
    assert_eq!(output, "seen\n");
    let copy = pidfd(&debugger);
    engine.kubectl(&["delete", "pod", "copy", rekindle_testkit::TIMEOUT]);
    wait_for_end(&copy);
}

#[test]
fn a_node_is_debugged_from_a_pod_on_it() {
    let engine = Engine::start();
    let mark = tempfile::Builder::new().prefix("rekindle-debug-").tempfile().unwrap();
    fs::write(mark.path(), "of the node\n").unwrap();
    let script = format!(
        "for kind in pid net ipc; do readlink /proc/self/ns/$kind; done; cat /host{}",
        mark.path().display()
    );
    let said = engine.kubectl(&[
        "debug",
        "node/node-1",
        "--image=localhost/host",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let name = said.split_whitespace().find(|word| word.starts_with("node-debugger-"));
    let name = name.unwrap_or_else(|| panic!("{said}"));
    engine.wait_for(&format!("pod/{name}"), ".status.phase", "Succeeded");
    let ours = ["pid", "net", "ipc"].map(|kind| {
        let link = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        format!("{}\n", link.display())
    });
    assert_eq!(engine.kubectl(&["logs", name]), format!("{}of the node\n", ours.concat()));
}

#[test]
fn what_a_container_leaves_among_the_nodes_processes_ends_with_it() {
    let (app, left) = (unique(6), unique(7));
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  hostPID: true
  terminationGracePeriodSeconds: 10
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'setsid {left} & exec {app}']
    volumeMounts: [{{name: marks, mountPath: /marks}}]
    readinessProbe: {{exec: {{command: [sh, -c, 'test -d /proc/{pid} && {runs}']}}, periodSeconds: 1, timeoutSeconds: 30}}
    lifecycle: {{preStop: {{exec: {{command: [sh, -c, 'readlink /proc/self/ns/pid > /marks/hook']}}}}}}
  volumes: [{{name: marks, hostPath: {{path: {folder}}}}}]
",
        pid = std::process::id(),
        runs = [&app, &left].map(|command| format!("pgrep -xf \"{command}\"")).join(" && "),
        folder = folder.path().display()
    );
    let mut engine = engine_with(&manifest);
    let first = (pidfd(&app), pidfd(&left));
    let before = engine.get("pod/web")["status"]["containerStatuses"].clone();
    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("web");
    assert_eq!(engine.get("pod/web")["status"]["containerStatuses"], before);

    // The end of its first process alone: what it left goes, too, and both are there again.
    // The command ends with its container, too, maybe before it has ended by itself.
    let kill = for_process(&app, "kill -9 $pid");
    let _ = engine.try_kubectl(&["exec", "web", "--", "sh", "-c", &kill], "");
    wait_for_end(&first.0);
    wait_for_end(&first.1);
    engine.wait_for("pod/web", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_ready("web");
    restart(&engine, "pod");
    engine.wait_ready("web");

    let second = (pidfd(&app), pidfd(&left));
    engine.kubectl(&["delete", "pod", "web", rekindle_testkit::TIMEOUT]);
    wait_for_end(&second.0);
    wait_for_end(&second.1);
    let hook = fs::read_to_string(folder.path().join("hook")).unwrap();
    let ours = fs::read_link("/proc/self/ns/pid").unwrap();
    assert_eq!(hook.trim_end(), ours.as_os_str(), "the hook runs in the container's namespaces");
}
