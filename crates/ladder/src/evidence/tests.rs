use expect_test::expect;

use rekindle_types::{EndedByNode, ExitStatus};

use super::*;
use crate::observation::{Role, Waiting};

fn end<'a>(code: i32, reason: &'a str, message: &'a str) -> End<'a> {
    End { exit_code: code, reason, message, by_node: None, started_at: None, finished_at: None }
}

fn told(diagnosis: &Diagnosis) -> String {
    match diagnosis.verdict {
        Verdict::Helps { from } => format!("{}: from {from}\n", diagnosis.what),
        Verdict::Futile { because } => format!("{}: futile: {because}\n", diagnosis.what),
    }
}

#[test]
fn an_end_says_which_restart_may_help() {
    let mut text = String::new();
    for (code, reason, message, policy, sandbox) in [
        (1, "Error", "", RestartPolicy::Always, Sandbox::Stands),
        (0, "Completed", "", RestartPolicy::Always, Sandbox::Stands),
        (137, "Error", "", RestartPolicy::Always, Sandbox::Stands),
        (137, "OOMKilled", "", RestartPolicy::Always, Sandbox::Missing),
        (137, "ContainerStatusUnknown", "", RestartPolicy::Always, Sandbox::Stands),
        (128, "StartError", "", RestartPolicy::Always, Sandbox::Stands),
        (128, "StartError", "exec:\n  no such file", RestartPolicy::OnFailure, Sandbox::Stands),
        (126, "Error", "", RestartPolicy::Always, Sandbox::Stands),
        (127, "Error", "", RestartPolicy::Always, Sandbox::Stands),
        (143, "Error", "", RestartPolicy::Always, Sandbox::Missing),
        (2, "Error", "", RestartPolicy::Never, Sandbox::Stands),
        (200, "Error", "", RestartPolicy::Always, Sandbox::Stands),
    ] {
        text.push_str(&told(&of_end(&end(code, reason, message), Then::Policy(policy), sandbox)));
    }
    expect![[r#"
        exited with 1: from Container
        exited with 0 (restartPolicy Always wants it to keep running): from Container
        exited with 137 (SIGKILL): from Container
        was killed for lack of memory (OOMKilled): futile: it would need as much memory again; raise its memory limit, or make it use less
        was gone, nobody saw how it ended: from Container
        could not be started: futile: the same command would fail to start again; mend the command, the working directory or the image
        could not be started (exec: no such file): futile: the same command would fail to start again; mend the command, the working directory or the image
        exited with 126: futile: 126 is a shell's code for a command that is not executable; mend the command or the image
        exited with 127: futile: 127 is a shell's code for a command that is missing; mend the command or the image
        exited with 143 (SIGTERM): from Pod
        exited with 2: futile: its restartPolicy is Never, so it stays as it ended
        exited with 200: from Container
    "#]]
    .assert_eq(&text);
    let rule = |action| told(&of_end(&end(42, "Error", ""), Then::Rule(action), Sandbox::Stands));
    assert_eq!(
        rule(RuleAction::Restart),
        "exited with 42 (a restart rule starts it again): from Container\n"
    );
    assert_eq!(
        rule(RuleAction::RestartAllContainers),
        "exited with 42 (a restart rule restarts all containers): from Container\n"
    );
}

fn waits<'a>(reason: &'a str, message: &'a str) -> ContainerView<'a> {
    ContainerView {
        name: "app",
        role: Role::Regular,
        restarts: RestartPolicy::Always,
        rules: Vec::new(),
        ended: 0,
        live: None,
        last_end: None,
        waiting: Some(Waiting { reason, message }),
        ready: false,
        image: "registry/app:1",
    }
}

/// `why` has the same test: crates/why/tests/reasons.rs.
#[test]
fn every_reason_that_a_node_writes_is_known() {
    for &reason in waiting::ALL {
        let is_known = of_waiting(&waits(reason, "x")).is_some();
        assert_eq!(is_known, !waiting::ON_THE_WAY.contains(&reason), "{reason}");
    }
    for status in [ExitStatus::OomKilled, ExitStatus::StartError, ExitStatus::Unknown] {
        let end = end(status.code(), status.reason(), "");
        let what = of_end(&end, Then::Policy(RestartPolicy::Always), Sandbox::Stands).what;
        assert!(!what.to_string().starts_with("exited with"), "{}: {what}", status.reason());
    }
}

#[test]
fn what_keeps_a_container_from_starting_is_told_from_what_merely_waits() {
    let mut text = String::new();
    for (reason, message) in [
        ("ImagePullBackOff", "Back-off pulling image"),
        ("InvalidImageName", ""),
        ("CreateContainerConfigError", "secret \"db\" not found"),
        ("CreateContainerError", "overlay: no space left"),
        ("RunContainerError", "shim: no answer"),
        ("ContainerCreating", ""),
        ("PodInitializing", ""),
        ("CrashLoopBackOff", "back-off 10s"),
    ] {
        match of_waiting(&waits(reason, message)) {
            Some(diagnosis) => text.push_str(&told(&diagnosis)),
            None => text.push_str(&format!("{reason}: on its way\n")),
        }
    }
    expect![[r#"
        waits for its image "registry/app:1", which cannot be had: futile: the node tries the image again by itself; mend its name, the registry or the credentials
        waits for its image "registry/app:1", which cannot be had: futile: the node tries the image again by itself; mend its name, the registry or the credentials
        cannot be configured (secret "db" not found): futile: what it refers to is absent or refused; mend the spec or create it, and the node goes on by itself
        cannot be created (overlay: no space left): futile: the node tries again by itself, and a restart would do the same
        cannot be run (shim: no answer): futile: the node tries again by itself, and a restart would do the same
        ContainerCreating: on its way
        PodInitializing: on its way
        CrashLoopBackOff: on its way
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_foreign_message_is_one_line_and_cut_at_a_letter() {
    assert_eq!(quote(" a\n\tb "), "a b");
    let long = quote(&"é".repeat(500));
    assert!(long.len() <= QUOTE_MAX + 4 && long.ends_with("é…"), "{long}");
}

#[test]
fn what_its_node_ended_for_a_probe_or_a_hook_is_told_as_that_and_not_by_its_exit_code() {
    let mut text = String::new();
    for (by_node, code, policy) in [
        (EndedByNode::LivenessProbe { said: "stale\nlock" }, 137, RestartPolicy::Always),
        (EndedByNode::LivenessProbe { said: "" }, 0, RestartPolicy::Always),
        (EndedByNode::StartupProbe { said: "not yet" }, 127, RestartPolicy::OnFailure),
        (EndedByNode::PostStartHook, 137, RestartPolicy::Never),
    ] {
        let end = End { by_node: Some(by_node), ..end(code, "Error", "") };
        let diagnosis = of_end(&end, Then::Policy(policy), Sandbox::Stands);
        text.push_str(&format!("{:?} {}", diagnosis.said, told(&diagnosis)));
    }
    expect![[r#"
        Some("stale lock") was killed after its liveness probe failed: from Container
        None was killed after its liveness probe failed: from Container
        Some("not yet") was killed after its startup probe failed: from Container
        None was killed after its postStart hook failed: futile: its restartPolicy is Never, so it stays as it ended
    "#]]
    .assert_eq(&text);
}
