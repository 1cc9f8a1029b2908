//! What ends and waits say: to the ladder, which asks whether a restart helps, and to `why`, which
//! tells the whole account.

use expect_test::expect;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStateWaiting};
use rekindle_diagnosis::{
    ContainerEnd, ContainerRestartPolicy, ContainerWait, Diagnosis, EndContext, MemoryLimit,
    Prognosis, SandboxAtEnd, StartedBy, diagnose_end, diagnose_missing_sandbox, diagnose_wait,
};
use rekindle_types::restart_rules::RuleAction;
use rekindle_types::{EndedByNode, NodeStopEnd, OomKill};

const ALWAYS: StartedBy = StartedBy::Policy(ContainerRestartPolicy::Always);
const CONTEXT: EndContext<'_> = EndContext {
    started_by: ALWAYS,
    sandbox: SandboxAtEnd::Stands,
    memory_limit: MemoryLimit::NotKnown,
    failure_threshold: None,
};

fn terminated(exit_code: i32, reason: &str, message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code,
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    }
}

fn read(exit_code: i32, reason: &str, message: &str, context: EndContext<'_>) -> Diagnosis {
    diagnose_end(&ContainerEnd::parse(&terminated(exit_code, reason, message)), context)
}

/// As the ladder tells it.
fn sentence(diagnosis: &Diagnosis) -> String {
    match (diagnosis.prognosis, diagnosis.why_futile()) {
        (Prognosis::Helps { from }, _) => format!("{}: from {from}\n", diagnosis.what),
        (_, Some(because)) => format!("{}: futile: {because}\n", diagnosis.what),
        (_, None) => format!("{}: not known\n", diagnosis.what),
    }
}

/// As `why` tells it.
fn account(diagnosis: &Diagnosis) -> String {
    format!("{:?}: {}: {}\n", diagnosis.cause, diagnosis.account, diagnosis.advice())
}

#[test]
fn an_end_says_which_restart_may_help() {
    let of = |started_by, sandbox| EndContext { started_by, sandbox, ..CONTEXT };
    let never = StartedBy::Policy(ContainerRestartPolicy::Never);
    let on_failure = StartedBy::Policy(ContainerRestartPolicy::OnFailure);
    let (rule, rule_of_all) =
        (StartedBy::Rule(RuleAction::Restart), StartedBy::Rule(RuleAction::RestartAllContainers));
    let mut text = String::new();
    for (code, reason, message, started_by, sandbox) in [
        (1, "Error", "", ALWAYS, SandboxAtEnd::Stands),
        (0, "Completed", "", ALWAYS, SandboxAtEnd::Stands),
        (137, "Error", "", ALWAYS, SandboxAtEnd::Stands),
        (137, "OOMKilled", "", ALWAYS, SandboxAtEnd::Missing),
        (137, "ContainerStatusUnknown", "", ALWAYS, SandboxAtEnd::Stands),
        (255, "Unknown", "", ALWAYS, SandboxAtEnd::Stands),
        (128, "StartError", "", ALWAYS, SandboxAtEnd::Stands),
        (128, "StartError", "exec:\n  no such file", on_failure, SandboxAtEnd::Stands),
        (128, "StartError", "exec: permission denied", ALWAYS, SandboxAtEnd::Stands),
        (128, "ContainerCannotRun", "cannot allocate memory", ALWAYS, SandboxAtEnd::Stands),
        (126, "Error", "", ALWAYS, SandboxAtEnd::Stands),
        (127, "Error", "", ALWAYS, SandboxAtEnd::Stands),
        (143, "Error", "", ALWAYS, SandboxAtEnd::Missing),
        (159, "seccomp killed", "", ALWAYS, SandboxAtEnd::Stands),
        (2, "Error", "", never, SandboxAtEnd::Stands),
        (200, "Error", "", ALWAYS, SandboxAtEnd::Stands),
        (3, "Sparkling", "", ALWAYS, SandboxAtEnd::Stands),
        (42, "Error", "", rule, SandboxAtEnd::Stands),
        (42, "Error", "", rule_of_all, SandboxAtEnd::Stands),
    ] {
        text.push_str(&sentence(&read(code, reason, message, of(started_by, sandbox))));
    }
    expect![[r#"
        exited with 1: from Container
        exited with 0 (restartPolicy Always wants it to keep running): from Container
        exited with 137 (SIGKILL): from Container
        was killed for lack of memory (OOMKilled): futile: it would need as much memory again; raise its memory limit, or make it use less
        was gone, nobody saw how it ended: from Container
        was gone, nobody saw how it ended: from Container
        could not be started: futile: the same command would fail to start again; mend the command, the working directory or the image
        could not be started (exec: no such file): futile: the same command would fail to start again; mend the command, the working directory or the image
        could not be started (exec: permission denied): futile: the same command would fail to start again; make the command executable in the image, or mend the command
        could not be started (cannot allocate memory): futile: the same command would fail to start again; mend what the message names
        exited with 126: futile: 126 is a shell's code for a command that is not executable; make the command executable in the image, or mend the command
        exited with 127: futile: 127 is a shell's code for a command that is missing; mend the command or the image
        exited with 143 (SIGTERM): from Pod
        was killed by seccomp: from Container
        exited with 2: futile: its restartPolicy is Never, so it stays as it ended
        exited with 200: from Container
        exited with 3 (Sparkling): from Container
        exited with 42 (a restart rule starts it again): from Container
        exited with 42 (a restart rule restarts all containers): from Container
    "#]]
    .assert_eq(&text);
}

#[test]
fn an_end_is_accounted_for_with_what_would_help() {
    let mut text = String::new();
    for (code, reason, message) in [
        (1, "Error", ""),
        (0, "Completed", ""),
        (137, "Error", ""),
        (139, "Error", ""),
        (134, "Error", ""),
        (159, "Error", ""),
        (143, "Error", ""),
        (137, "ContainerStatusUnknown", ""),
        (128, "StartError", ""),
        (128, "StartError", "exec: no such file"),
        (128, "StartError", "exec: permission denied"),
        (128, "StartError", "cannot allocate memory"),
        (126, "Error", ""),
        (127, "Error", ""),
    ] {
        text.push_str(&account(&read(code, reason, message, CONTEXT)));
    }
    expect![[r#"
        ExitCode: exited with 1: read its last lines; if they do not tell, the exit code is the app's own
        ExitedUnasked: exited with 0 (restartPolicy Always wants it to keep running): if it is meant to end, run it as a Job or with restartPolicy OnFailure; else find out why it ends
        Signal: was killed by SIGKILL (exit code 137), not for its own memory limit: look who killed it: a grace period that was too short, a process of its own, or the machine out of memory
        Signal: exited with 139 (SIGSEGV): a fault in the program or a library for another processor: look for a core dump or a backtrace
        Signal: exited with 134 (SIGABRT): it aborted by itself: its last lines say which assertion failed
        Signal: exited with 159 (SIGSYS): seccomp does not let it make a system call that it needs: look at the pod's seccompProfile
        Signal: exited with 143 (SIGTERM): look who sent the signal
        Unknown: was gone, nobody saw how it ended: look whether the machine was restarted or ran out of memory
        StartError: could not be started: mend the command, the working directory or the image; the same command would fail to start again
        CommandMissing: could not be started: exec: no such file: mend the command, the working directory or the image; no restart helps
        CommandNotExecutable: could not be started: exec: permission denied: make the command executable in the image, or mend the command; no restart helps
        StartError: could not be started: cannot allocate memory: mend what the message names; the same command would fail to start again
        CommandNotExecutable: exited with 126: a shell's code for a command that cannot be executed: make the command executable in the image, or mend the command; no restart helps
        CommandMissing: exited with 127: a shell's code for a command that is missing: mend the command or the image; no restart helps
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_container_that_ran_out_of_memory_is_told_its_limit_where_that_is_known() {
    let no_limit = OomKill { kills: 1, limit_bytes: None, peak_bytes: None }.to_string();
    let mut text = String::new();
    for (memory_limit, message) in [
        (MemoryLimit::Own("64Mi"), ""),
        (MemoryLimit::NoneOfItsOwn, ""),
        (MemoryLimit::NotKnown, ""),
        (MemoryLimit::NotKnown, no_limit.as_str()),
    ] {
        let told = read(137, "OOMKilled", message, EndContext { memory_limit, ..CONTEXT });
        text.push_str(&account(&told));
        text.push_str(&sentence(&told));
    }
    expect![[r#"
        OutOfMemory: was killed for lack of memory (OOMKilled): its limit is 64Mi: raise resources.limits.memory above 64Mi, or make it use less; no restart helps
        was killed for lack of memory (OOMKilled): futile: it would need as much memory again; raise resources.limits.memory above 64Mi, or make it use less
        OutOfMemory: was killed for lack of memory (OOMKilled): it has no limit of its own: the pod's limit or the machine was full: give it a memory request and a limit that it fits in
        was killed for lack of memory (OOMKilled): futile: it would need as much memory again; the pod's limit or the machine was full: give it a memory request and a limit that it fits in
        OutOfMemory: was killed for lack of memory (OOMKilled): raise its memory limit, or make it use less; no restart helps
        was killed for lack of memory (OOMKilled): futile: it would need as much memory again; raise its memory limit, or make it use less
        OutOfMemory: was killed for lack of memory (OOMKilled): it has no limit of its own: the pod's limit or the machine was full: give it a memory request and a limit that it fits in
        was killed for lack of memory (OOMKilled): futile: it would need as much memory again; the pod's limit or the machine was full: give it a memory request and a limit that it fits in
    "#]]
    .assert_eq(&text);
}

#[test]
fn what_its_node_ended_for_a_probe_or_a_hook_is_told_as_that_and_not_by_its_exit_code() {
    let mut text = String::new();
    for (by_node, code, reason, policy) in [
        (
            EndedByNode::LivenessProbe { said: "stale lock" },
            137,
            "Error",
            ContainerRestartPolicy::Always,
        ),
        (EndedByNode::LivenessProbe { said: "" }, 0, "Completed", ContainerRestartPolicy::Always),
        (EndedByNode::LivenessProbe { said: "" }, 137, "OOMKilled", ContainerRestartPolicy::Always),
        (
            EndedByNode::StartupProbe { said: "not yet" },
            127,
            "Error",
            ContainerRestartPolicy::OnFailure,
        ),
        (EndedByNode::PostStartHook, 137, "Error", ContainerRestartPolicy::Never),
    ] {
        let context = EndContext {
            started_by: StartedBy::Policy(policy),
            failure_threshold: Some(3),
            ..CONTEXT
        };
        let told = read(code, reason, &by_node.to_string(), context);
        text.push_str(&format!("{:?} {}{}", told.said, sentence(&told), account(&told)));
    }
    expect![[r#"
        Some("stale lock") was killed because its liveness probe failed: from Container
        LivenessFailed: was killed because its liveness probe failed 3 times in a row: find out why it does not answer; if it is slow and not stuck, raise the probe's timeoutSeconds or failureThreshold, or give it a startupProbe
        None was killed because its liveness probe failed: from Container
        LivenessFailed: was killed because its liveness probe failed 3 times in a row: find out why it does not answer; if it is slow and not stuck, raise the probe's timeoutSeconds or failureThreshold, or give it a startupProbe
        None was killed because its liveness probe failed: from Container
        LivenessFailed: was killed because its liveness probe failed 3 times in a row: find out why it does not answer; if it is slow and not stuck, raise the probe's timeoutSeconds or failureThreshold, or give it a startupProbe
        Some("not yet") was killed because its startup probe failed: from Container
        StartupFailed: was killed because its startup probe failed 3 times in a row: if it needs longer to start, raise the startup probe's failureThreshold; else mend what it asks for
        None was killed because its postStart hook failed: futile: its restartPolicy is Never, so it stays as it ended
        PostStartFailed: was killed because its postStart hook failed: mend its postStart hook
    "#]]
    .assert_eq(&text);
}

#[test]
fn what_keeps_a_container_from_starting_is_told_from_what_merely_waits() {
    let mut text = String::new();
    for (reason, message) in [
        ("ImagePullBackOff", "Back-off pulling image"),
        ("InvalidImageName", ""),
        ("ErrImageNeverPull", ""),
        ("SignatureValidationFailed", ""),
        ("CreateContainerConfigError", "secret \"db\" not found"),
        ("CreateContainerConfigError", ""),
        ("CreateContainerError", "overlay: no space left"),
        ("RunContainerError", "shim: no answer"),
        ("CreatePodSandboxError", "no address left"),
        ("KillContainerError", "no answer"),
        ("Sparkling", ""),
        ("ContainerCreating", ""),
        ("PodInitializing", ""),
        ("CrashLoopBackOff", "back-off 10s"),
        ("PostStartHookError", ""),
    ] {
        let waiting = ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        };
        match diagnose_wait(&ContainerWait::parse(&waiting), "registry/app:1") {
            Some(told) => text.push_str(&format!("{}{}", sentence(&told), account(&told))),
            None => text.push_str(&format!("{reason}: on its way\n")),
        }
    }
    text.push_str(&sentence(&diagnose_missing_sandbox()));
    expect![[r#"
        waits for its image "registry/app:1", which cannot be had: futile: the node tries the image again by itself; mend the image's name, the registry or the credentials
        ImageUnavailable: waits for its image "registry/app:1", which cannot be had: mend the image's name, the registry or the credentials; the node tries again by itself
        waits for its image "registry/app:1", which cannot be had: futile: the node tries the image again by itself; mend the image's name, the registry or the credentials
        ImageUnavailable: waits for its image "registry/app:1", which cannot be had: mend the image's name, the registry or the credentials; the node tries again by itself
        waits for its image "registry/app:1", which cannot be had: futile: the node tries the image again by itself; load the image on the node, or let imagePullPolicy pull it
        ImageUnavailable: waits for its image "registry/app:1", which cannot be had: load the image on the node, or let imagePullPolicy pull it; the node tries again by itself
        waits for its image "registry/app:1", which cannot be had: futile: the node tries the image again by itself; sign the image, or mend the node's signature policy
        ImageUnavailable: waits for its image "registry/app:1", which cannot be had: sign the image, or mend the node's signature policy; the node tries again by itself
        cannot be configured (secret "db" not found): futile: what it refers to is absent or refused, and the node goes on by itself when it is there; create what it refers to, or mend the reference
        ConfigurationMissing: cannot be configured: create what it refers to, or mend the reference; the node goes on by itself
        cannot be configured: futile: what it refers to is absent or refused, and the node goes on by itself when it is there; create what it refers to, or mend the reference
        ConfigurationMissing: cannot be configured: create what it refers to, or mend the reference; the node goes on by itself
        cannot be created (overlay: no space left): futile: the node tries again by itself, and a restart would do the same; mend what the message names
        CreateError: cannot be created: mend what the message names; a restart would do the same again
        cannot be run (shim: no answer): futile: the node tries again by itself, and a restart would do the same; mend what the message names
        CreateError: cannot be run: mend what the message names; a restart would do the same again
        has no sandbox: its node cannot make one, its network or its volumes: from Recreate
        CreateError: has no sandbox: its node cannot make one, its network or its volumes: look at the node: its network, its runtime and its disk; the node tries again by itself
        waits for what ran before, which the node cannot end or remove: futile: the node tries again by itself, and a restart would do the same; look at the node and its runtime
        CreateError: waits for what ran before, which the node cannot end or remove: look at the node and its runtime; the node tries again by itself
        waits for a reason that is not known here: Sparkling: not known
        UnknownWait: waits for a reason that is not known here: Sparkling: look at its message, and at what runs the node: no kubelet gives this reason
        ContainerCreating: on its way
        PodInitializing: on its way
        CrashLoopBackOff: on its way
        PostStartHookError: on its way
        has no sandbox: its node cannot make one, its network or its volumes: from Recreate
    "#]]
    .assert_eq(&text);
}

#[test]
fn what_our_node_wrote_into_the_message_is_taken_apart() {
    let oom = OomKill { kills: 2, limit_bytes: Some(1), peak_bytes: None };
    let probe = EndedByNode::LivenessProbe { said: "no" };
    let stop = NodeStopEnd { code: 143 };
    for (reason, message, own) in [
        ("OOMKilled", format!("{oom}: bye"), "bye"),
        // any container may write such words; of another end they are its own
        ("Error", format!("{oom}: bye"), "OOM killer: 2 kills, limit 1 bytes: bye"),
        ("Error", format!("{probe}: bye"), "bye"),
        ("Error", format!("{stop}: bye"), "bye"),
        ("Error", "bye".to_owned(), "bye"),
    ] {
        let status = terminated(143, reason, &message);
        let end = ContainerEnd::parse(&status);
        assert_eq!(end.message, own, "{message}");
        assert_eq!(end.oom.is_some(), reason == "OOMKilled", "{message}");
        assert_eq!(end.ended_by_node.is_some(), message.contains("probe"), "{message}");
        assert_eq!(end.node_stop.is_some(), message.contains("stopped"), "{message}");
    }
}

#[test]
fn what_a_stop_of_the_node_ended_has_not_failed() {
    for (code, message, is_failure) in [
        (143, NodeStopEnd { code: 143 }.to_string(), false),
        (143, String::new(), true),
        (0, EndedByNode::LivenessProbe { said: "" }.to_string(), true),
        (0, String::new(), false),
    ] {
        let status = terminated(code, "Error", &message);
        let end = ContainerEnd::parse(&status);
        let on_failure = StartedBy::Policy(ContainerRestartPolicy::OnFailure);
        assert_eq!(end.is_failure(on_failure), is_failure, "{code} {message}");
    }
}

#[test]
fn what_answers_a_stop_was_ended_by_a_signal_and_not_for_memory() {
    for (code, reason, may) in [
        (137, "Error", true),
        (143, "Error", true),
        // what a restart of the sandbox ended on a cluster of kubelets
        (137, "ContainerStatusUnknown", true),
        (137, "OOMKilled", false),
        (1, "Error", false),
    ] {
        let status = terminated(code, reason, "");
        assert_eq!(ContainerEnd::parse(&status).may_answer_stop(), may, "{code} {reason}");
    }
}
