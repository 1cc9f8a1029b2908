//! What is the matter with a container: what ended it, or what keeps it from starting.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStateWaiting, Pod};
use rekindle_types::exit::signal_name;
use rekindle_types::pods::condition;
use rekindle_types::reasons::{event, waiting};
use rekindle_types::{EndedByNode, NodeStopEnd, OomKill, Tick, TickDuration};

use crate::account::{Cause, ContainerAccount, MemoryAccount};
use crate::events::Seen;
use crate::evidence::PodEvidence;
use crate::probe_errors;
use crate::restarts;
use crate::subject::Subject;
use crate::with_pod;
use crate::words::{line, show_bytes};

/// How long before a container's end a probe's verdict may have been its reason: the longest grace
/// that is usual.
const PROBE_BEFORE_END_SECONDS: u64 = 90;
/// After so long a run the kubelet forgets the ends before it: twice its longest back-off.
const FORGOTTEN_AFTER: TickDuration = TickDuration::from_secs(600);
/// A condition and a state of the same moment may differ by this: one is rounded down.
const SLACK: TickDuration = TickDuration::from_secs(1);
/// Lines of a dead container that are shown.
const LINES_MAX: usize = 10;

/// What was found, and what would help.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) account: ContainerAccount,
    /// How it ended last, as a sentence goes on after its name; that may be long past, and
    /// something else be the matter now.
    pub(crate) last_end: Option<String>,
    /// Whether it tells what was: the container is well again, or was meant to end.
    pub(crate) is_past: bool,
    /// `None` where nothing is wrong.
    pub(crate) advice: Option<String>,
}

/// What is the matter with a pod's containers: what is broken now, before what was broken once, and
/// of that the newest first.
pub(crate) fn findings<'a>(
    subjects: &[Subject<'a>],
    evidence: &PodEvidence,
    seen: &[Seen],
    now: Tick,
) -> Vec<(Subject<'a>, Finding)> {
    let mut findings: Vec<(Subject<'a>, Finding)> = subjects
        .iter()
        .filter_map(|subject| Some((*subject, examine(*subject, evidence, seen, now)?)))
        .collect();
    findings.sort_by_key(|(subject, finding)| {
        let ended = subject.told_end().and_then(|end| end.finished_at.clone());
        (finding.is_past, Reverse(ended.filter(|_| finding.is_past)))
    });
    findings
}

/// What is the matter; none with one that has nothing to tell.
fn examine(
    subject: Subject<'_>,
    evidence: &PodEvidence,
    events: &[Seen],
    now: Tick,
) -> Option<Finding> {
    let end = subject.told_end().map(|end| of_end(subject, end, evidence, events, now));
    let now_wrong = match subject.waiting().and_then(|waiting| held(subject, waiting)) {
        Some(held) => Some(held),
        None if end.as_ref().is_none_or(|end| end.is_past) => {
            probe_errors::of_container(subject, events, now).or_else(|| unready(subject, events))
        }
        None => None,
    };
    match (now_wrong, end) {
        (Some(finding), Some(end)) => Some(Finding { last_end: end.last_end, ..finding }),
        (Some(finding), None) => Some(finding),
        (None, end) => end,
    }
}

/// What its last end says.
fn of_end(
    subject: Subject<'_>,
    end: &ContainerStateTerminated,
    evidence: &PodEvidence,
    events: &[Seen],
    now: Tick,
) -> Finding {
    let (cause, what, advice) = why_it_ended(subject, end, evidence, events);
    let probe = match cause {
        Cause::LivenessFailed => Some("Liveness"),
        Cause::StartupFailed => Some("Startup"),
        _ => None,
    };
    let message = end.message.as_deref().unwrap_or_default();
    let by_node = EndedByNode::split(message);
    let message = by_node.map_or(message, |(_, own)| own);
    let message = NodeStopEnd::split(message).map_or(message, |(_, own)| own);
    // any container may write such words; of another end they are its own
    let is_oom = end.reason.as_deref() == Some("OOMKilled");
    let (oom, message) = match OomKill::split(message).filter(|_| is_oom) {
        Some((oom, own)) => (Some(oom), line(own)),
        None => (None, line(message)),
    };
    let mut evidence_lines: Vec<String> = oom.iter().map(memory_line).collect();
    if !message.is_empty() && !what.contains(&message) {
        evidence_lines.push(format!("termination message: {message}"));
    }
    let said = by_node.map(|(by_node, _)| by_node.said()).filter(|said| !said.is_empty());
    evidence_lines.extend(probe.and_then(|probe| {
        let last = probe_output(subject, probe, events);
        last.or_else(|| said.map(|said| format!("{probe} probe failed: {}", line(said))))
    }));
    let signal = end.signal.or((end.exit_code > 128).then_some(end.exit_code - 128));
    let lines = evidence.last_lines.get(subject.name).map(Vec::as_slice).unwrap_or_default();
    let account = ContainerAccount {
        name: subject.name.to_owned(),
        cause,
        what,
        ends: subject.ends(),
        exit_code: Some(end.exit_code),
        signal: signal.and_then(signal_name).map(str::to_owned),
        reason: end.reason.clone(),
        last_end: end.finished_at.clone(),
        memory: oom.map(|oom| MemoryAccount {
            oom_kills: oom.kills,
            limit_bytes: oom.limit_bytes,
            peak_bytes: oom.peak_bytes,
        }),
        evidence: evidence_lines,
        last_lines: lines[lines.len().saturating_sub(LINES_MAX)..]
            .iter()
            .map(|l| line(l))
            .collect(),
    };
    let was_meant = matches!(account.cause, Cause::Restarted | Cause::EndedWithPod);
    let is_past = was_meant || subject.is_done() || has_got_over(subject, &evidence.pod, now);
    Finding { last_end: Some(account.what.clone()), account, advice, is_past }
}

/// Who or what ended it, in words, and what would help.
fn why_it_ended(
    subject: Subject<'_>,
    end: &ContainerStateTerminated,
    evidence: &PodEvidence,
    events: &[Seen],
) -> (Cause, String, Option<String>) {
    if let Some(restart) = restarts::that_ended(subject.name, end, evidence, events) {
        return (Cause::Restarted, format!("was ended by {restart}"), None);
    }
    if let Some(who) = with_pod::that_ended(subject, end, evidence, events) {
        return (Cause::EndedWithPod, format!("was ended {who}"), None);
    }
    let (cause, what, advice) =
        killed_by_probe(subject, end, events).unwrap_or_else(|| ended(subject, end));
    (cause, what, Some(advice))
}

/// It runs again and is ready, or was so since; or it has run so long that what ended it before
/// says nothing of how it does now.
fn has_got_over(subject: Subject<'_>, pod: &Pod, now: Tick) -> bool {
    let Some(running) = subject.status.state.as_ref().and_then(|state| state.running.as_ref())
    else {
        return false;
    };
    let Some(started) = running.started_at.as_ref().map(Tick::from) else {
        return subject.status.ready;
    };
    let unready_since = condition(pod, "Ready")
        .filter(|ready| ready.status != "True")
        .and_then(|ready| ready.last_transition_time.as_ref().map(Tick::from));
    // a pod that turned not ready was ready until then, and so was each of its containers
    subject.status.ready
        || unready_since.is_some_and(|since| since > started + SLACK)
        || now.since(started) > FORGOTTEN_AFTER
}

/// What its cgroup said when it died.
fn memory_line(oom: &OomKill) -> String {
    let processes = match oom.kills {
        1 => "1 process was killed".to_owned(),
        kills => format!("{kills} processes were killed"),
    };
    let limit = match oom.limit_bytes {
        Some(limit) => format!("its limit was {}", show_bytes(limit)),
        None => "it had no limit of its own".to_owned(),
    };
    let peak =
        oom.peak_bytes.map_or_else(String::new, |peak| format!(", its peak {}", show_bytes(peak)));
    format!("its memory when it died: {processes}, {limit}{peak}")
}

/// It is kept from starting by something other than its own ends.
fn held(subject: Subject<'_>, state: &ContainerStateWaiting) -> Option<Finding> {
    let reason = state.reason.as_deref().unwrap_or_default();
    let message = line(state.message.as_deref().unwrap_or_default());
    let image = line(subject.spec.image.as_deref().unwrap_or_default());
    let (cause, what, advice) = match reason {
        waiting::ERR_IMAGE_PULL
        | waiting::IMAGE_PULL_BACK_OFF
        | waiting::ERR_IMAGE_NEVER_PULL
        | waiting::INVALID_IMAGE_NAME
        | "ImageInspectError"
        | "RegistryUnavailable" => (
            Cause::ImageUnavailable,
            format!("waits for its image {image:?}, which cannot be had"),
            "mend the image's name, the registry or the credentials; the node tries again by itself"
                .to_owned(),
        ),
        waiting::CREATE_CONTAINER_CONFIG_ERROR => (
            Cause::ConfigurationMissing,
            "cannot be configured".to_owned(),
            "create what it refers to, or mend the reference; the node goes on by itself".to_owned(),
        ),
        waiting::CREATE_CONTAINER_ERROR => (
            Cause::CreateError,
            "cannot be created".to_owned(),
            "mend what the message names; a restart would do the same again".to_owned(),
        ),
        waiting::RUN_CONTAINER_ERROR => (
            Cause::CreateError,
            "cannot be run".to_owned(),
            "mend what the message names; a restart would do the same again".to_owned(),
        ),
        _ => return None,
    };
    let evidence = if message.is_empty() { Vec::new() } else { vec![message] };
    Some(Finding {
        account: ContainerAccount {
            name: subject.name.to_owned(),
            cause,
            what,
            ends: subject.ends().saturating_sub(u32::from(subject.last_end().is_none())),
            exit_code: None,
            signal: None,
            reason: Some(reason.to_owned()),
            last_end: None,
            memory: None,
            evidence,
            last_lines: Vec::new(),
        },
        advice: Some(advice),
        last_end: None,
        is_past: false,
    })
}

/// It runs and is not ready because its probe says so.
fn unready(subject: Subject<'_>, events: &[Seen]) -> Option<Finding> {
    if !subject.is_running() || subject.status.ready {
        return None;
    }
    let output = probe_output(subject, "Readiness", events)?;
    Some(Finding {
        account: ContainerAccount {
            name: subject.name.to_owned(),
            cause: Cause::ReadinessFailed,
            what: "runs and is not ready: its readiness probe fails".to_owned(),
            ends: subject.ends(),
            exit_code: None,
            signal: None,
            reason: None,
            last_end: None,
            memory: None,
            evidence: vec![output],
            last_lines: Vec::new(),
        },
        advice: Some(
            "look at what the probe asks for; no restart follows from a failed readiness probe"
                .to_owned(),
        ),
        last_end: None,
        is_past: false,
    })
}

/// The probe or hook that had it killed: its status says so, or on a cluster of kubelets an event
/// near its end.
fn killed_by_probe(
    subject: Subject<'_>,
    end: &ContainerStateTerminated,
    events: &[Seen],
) -> Option<(Cause, String, String)> {
    let spec = subject.spec;
    let told = end.message.as_deref().and_then(EndedByNode::split).map(|(by_node, _)| by_node);
    Some(match told.or_else(|| killed_in_events(subject, end, events))? {
        EndedByNode::LivenessProbe { .. } => {
            let threshold = spec.liveness_probe.as_ref().and_then(|p| p.failure_threshold);
            let what =
                format!("was killed because its liveness probe failed{}", in_a_row(threshold));
            let advice = "find out why it does not answer; if it is slow and not stuck, raise the probe's timeoutSeconds or \
                          failureThreshold, or give it a startupProbe";
            (Cause::LivenessFailed, what, advice.to_owned())
        }
        EndedByNode::StartupProbe { .. } => {
            let threshold = spec.startup_probe.as_ref().and_then(|p| p.failure_threshold);
            let what =
                format!("was killed because its startup probe failed{}", in_a_row(threshold));
            let advice = "if it needs longer to start, raise the startup probe's failureThreshold; else mend what it asks for";
            (Cause::StartupFailed, what, advice.to_owned())
        }
        EndedByNode::PostStartHook => {
            let what = "was killed because its postStart hook failed".to_owned();
            (Cause::PostStartFailed, what, "mend its postStart hook".to_owned())
        }
    })
}

fn killed_in_events(
    subject: Subject<'_>,
    end: &ContainerStateTerminated,
    events: &[Seen],
) -> Option<EndedByNode<'static>> {
    let ended = Tick::from(end.finished_at.as_ref()?);
    // an event's time may be rounded up past an end that is rounded down
    let slack = rekindle_types::TickDuration::from_secs(1);
    let verdict = events.iter().rev().find(|seen| {
        seen.reason == event::KILLING
            && seen.is_of(subject.name)
            && seen.last <= ended + slack
            && ended.since(seen.last).as_secs() <= PROBE_BEFORE_END_SECONDS
    })?;
    if verdict.message.contains("failed liveness probe") {
        return Some(EndedByNode::LivenessProbe { said: "" });
    }
    if verdict.message.contains("failed startup probe") {
        return Some(EndedByNode::StartupProbe { said: "" });
    }
    (verdict.message == event::FAILED_POST_START_HOOK).then_some(EndedByNode::PostStartHook)
}

fn in_a_row(threshold: Option<i32>) -> String {
    match threshold.unwrap_or(3) {
        1 => String::new(),
        n => format!(" {n} times in a row"),
    }
}

/// What this probe said last.
fn probe_output(subject: Subject<'_>, probe: &str, events: &[Seen]) -> Option<String> {
    let begin = format!("{probe} probe ");
    let mut about = events.iter().rev().filter(|seen| seen.is_of(subject.name));
    about
        .find(|seen| seen.reason == event::UNHEALTHY && seen.message.starts_with(&begin))
        .map(|seen| seen.message.clone())
}

/// What its end says by itself.
fn ended(subject: Subject<'_>, end: &ContainerStateTerminated) -> (Cause, String, String) {
    let message = line(end.message.as_deref().unwrap_or_default());
    let own_log = "read its last lines; if they do not tell, the exit code is the app's own";
    let (cause, what, advice) = match (end.reason.as_deref().unwrap_or_default(), end.exit_code) {
        ("OOMKilled", _) => return out_of_memory(subject),
        ("StartError" | "ContainerCannotRun", _) => return start_error(&message),
        ("ContainerStatusUnknown", _) => (
            Cause::Unknown,
            "was gone, nobody saw how it ended".to_owned(),
            "look whether the machine was restarted or ran out of memory",
        ),
        (_, 127) => (
            Cause::CommandMissing,
            "exited with 127: a shell's code for a command that is missing".to_owned(),
            "mend the command or the image; no restart helps",
        ),
        (_, 126) => (
            Cause::CommandNotExecutable,
            "exited with 126: a shell's code for a command that cannot be executed".to_owned(),
            "make the command executable in the image, or mend the command; no restart helps",
        ),
        (_, 0) if subject.restart_policy == "Always" => (
            Cause::ExitedUnasked,
            "exited with 0, and restartPolicy Always wants it to run for ever".to_owned(),
            "if it is meant to end, run it as a Job or with restartPolicy OnFailure; else find out why it ends",
        ),
        (_, 0) => (Cause::ExitCode, "exited with 0".to_owned(), own_log),
        (_, 137) => (
            Cause::Signal,
            "was killed by SIGKILL (exit code 137), not for its own memory limit".to_owned(),
            "look who killed it: a grace period that was too short, a process of its own, or the machine out of memory",
        ),
        (_, code) => match signal_name(code - 128) {
            Some(signal) => {
                (Cause::Signal, format!("exited with {code} ({signal})"), signal_advice(code - 128))
            }
            None => (Cause::ExitCode, format!("exited with {code}"), own_log),
        },
    };
    (cause, what, advice.to_owned())
}

fn signal_advice(signal: i32) -> &'static str {
    match signal {
        4 | 7 | 8 | 11 => {
            "a fault in the program or a library for another processor: look for a core dump or a backtrace"
        }
        6 => "it aborted by itself: its last lines say which assertion failed",
        31 => {
            "seccomp does not let it make a system call that it needs: look at the pod's seccompProfile"
        }
        _ => "look who sent the signal",
    }
}

fn out_of_memory(subject: Subject<'_>) -> (Cause, String, String) {
    let limit = subject
        .spec
        .resources
        .as_ref()
        .and_then(|resources| resources.limits.as_ref()?.get("memory"))
        .map(|limit| limit.0.clone());
    let (what, advice) = match limit {
        Some(limit) => (
            format!("was killed for lack of memory (OOMKilled): its limit is {limit}"),
            format!("raise resources.limits.memory above {limit}, or make it use less; no restart helps"),
        ),
        None => (
            "was killed for lack of memory (OOMKilled): it has no limit of its own".to_owned(),
            "the pod's limit or the machine was full: give it a memory request and a limit that it fits in".to_owned(),
        ),
    };
    (Cause::OutOfMemory, what, advice)
}

fn start_error(message: &str) -> (Cause, String, String) {
    let lower = message.to_lowercase();
    let missing = ["no such file", "not found"].iter().any(|text| lower.contains(text));
    let (cause, advice) = if missing {
        (
            Cause::CommandMissing,
            "mend the command, the working directory or the image; no restart helps",
        )
    } else if lower.contains("permission denied") {
        (
            Cause::CommandNotExecutable,
            "make the command executable in the image, or mend the command; no restart helps",
        )
    } else {
        (
            Cause::StartError,
            "mend what the message names; the same command would fail to start again",
        )
    };
    let what = match message {
        "" => "could not be started".to_owned(),
        message => format!("could not be started: {message}"),
    };
    (cause, what, advice.to_owned())
}
