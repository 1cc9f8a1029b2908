//! How containers end: by their signal or by SIGKILL, hooks before signals, sidecars after apps.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::{Engine, TIMEOUT, until_hung};

use crate::apply;

/// The lines of a container from its start until it has ended, with the time of each. To be asked
/// for before the end: the log goes with the pod.
struct ContainerLog(GuardedChild);

impl ContainerLog {
    fn follow(engine: &Engine, pod: &str, container: &str) -> Self {
        let mut command = engine.kubectl_command(&["logs", "--follow", "--timestamps", pod]);
        command.args(["-c", container, &until_hung()]).stderr(Stdio::null());
        Self(GuardedChild::start(&mut command))
    }

    /// Text and time of all lines. Times are RFC 3339 in one zone: they sort as text.
    fn read_all(mut self) -> Vec<(String, String)> {
        let lines = self.0.lines().map(Result::unwrap);
        let parts = |line: String| {
            let (time, text) = line.split_once(' ').unwrap();
            (text.to_owned(), time.to_owned())
        };
        lines.map(parts).collect()
    }
}

#[track_caller]
fn time_of(log: &[(String, String)], begin: &str) -> String {
    let line = log.iter().find(|(text, _)| text.starts_with(begin));
    line.unwrap_or_else(|| panic!("no line {begin:?} in {log:?}")).1.clone()
}

/// Starts a pod and waits until its app has installed its signal handlers.
fn start(manifest: &str, pod: &str) -> Engine {
    let engine = Engine::start();
    apply(&engine, manifest);
    engine.wait_ready(pod);
    engine.first_lines(&[pod, "-c", "app"], 2);
    engine
}

/// How a container has ended, and how long it took.
struct ContainerEnd {
    exit_code: i64,
    took: Duration,
}

/// Deletes a pod; the end of its only container, as its last status has it.
fn end(engine: &Engine, pod: &str) -> ContainerEnd {
    // with a finalizer the pod's last status stays to be read
    engine.kubectl(&[
        "patch",
        "pod",
        pod,
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":["example.com/read"]}}"#,
    ]);
    let begun = Instant::now();
    engine.kubectl(&["delete", "pod", pod, "--wait=false"]);
    let ended = |pod: &serde_json::Value| {
        pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object()
    };
    let last = engine.until_one(&format!("pod/{pod}"), ended);
    let took = begun.elapsed();
    let exit_code = &last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    let exit_code = exit_code.as_i64().unwrap();
    engine.kubectl(&[
        "patch",
        "pod",
        pod,
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":[]}}"#,
    ]);
    engine.kubectl(&["wait", "--for=delete", &format!("pod/{pod}"), TIMEOUT]);
    println!("{pod} ended with {exit_code} after {took:?}");
    ContainerEnd { exit_code, took }
}

/// 128 + SIGKILL.
const KILLED: i64 = 137;

#[test]
fn an_app_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let engine = start("signal-before", "signal");
    let log = ContainerLog::follow(&engine, "signal", "app");
    let end = end(&engine, "signal");
    assert_eq!(end.exit_code, KILLED);
    assert!(end.took >= Duration::from_secs(3), "{:?}", end.took);
    time_of(&log.read_all(), "ignored SIGTERM");
}

#[test]
fn an_app_that_handles_sigterm_ends_by_itself() {
    let engine = start("signal-after", "signal");
    let log = ContainerLog::follow(&engine, "signal", "app");
    assert_eq!(end(&engine, "signal").exit_code, 0);
    time_of(&log.read_all(), "ended");
}

/// 4 s of hook and 3 s of the app's own end do not fit into 6 s.
#[test]
fn a_hook_that_uses_up_the_grace_period_has_the_app_killed() {
    let engine = start("prestop-before", "prestop");
    let log = ContainerLog::follow(&engine, "prestop", "app");
    let end = end(&engine, "prestop");
    assert_eq!(end.exit_code, KILLED);
    assert!(end.took >= Duration::from_secs(6), "{:?}", end.took);
    let log = log.read_all();
    time_of(&log, "got SIGTERM");
    assert!(!log.iter().any(|(text, _)| text == "ended"), "{log:?}");
}

/// One after the other: the hook, then the signal.
#[test]
fn a_grace_period_for_hook_and_app_lets_the_app_end() {
    let engine = start("prestop-after", "prestop");
    let log = ContainerLog::follow(&engine, "prestop", "app");
    let end = end(&engine, "prestop");
    assert_eq!(end.exit_code, 0);
    assert!(end.took >= Duration::from_secs(7), "{:?}", end.took);
    time_of(&log.read_all(), "ended");
}

/// Logs of proxy, logs and app of the pod, to their ends.
fn sidecars_end(manifest: &str) -> [Vec<(String, String)>; 3] {
    let engine = start(manifest, "sidecar");
    let logs = ["proxy", "logs", "app"].map(|container| {
        engine.first_lines(&["sidecar", "-c", container], 2);
        ContainerLog::follow(&engine, "sidecar", container)
    });
    engine.kubectl(&["delete", "pod", "sidecar", TIMEOUT]);
    logs.map(ContainerLog::read_all)
}

#[test]
fn ordinary_helpers_end_while_the_app_still_works() {
    let [proxy, logs, app] = sidecars_end("sidecar-before");
    for helper in [proxy, logs] {
        assert!(time_of(&helper, "ended") < time_of(&app, "ended"), "{helper:?} {app:?}");
    }
}

#[test]
fn sidecars_end_after_the_app_in_reverse_order() {
    let [proxy, logs, app] = sidecars_end("sidecar-after");
    let order = [
        time_of(&proxy, "started"),
        time_of(&logs, "started"),
        time_of(&app, "started"),
        time_of(&app, "got SIGTERM"),
        time_of(&app, "ended"),
        time_of(&logs, "got SIGTERM"),
        time_of(&logs, "ended"),
        time_of(&proxy, "got SIGTERM"),
        time_of(&proxy, "ended"),
    ];
    assert!(order.is_sorted(), "{proxy:#?} {logs:#?} {app:#?}");
}
