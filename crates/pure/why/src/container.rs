//! What is the matter with a container: what ended it, or what keeps it from starting.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use rekindle_diagnosis::{
    self as diagnosis, Cause, CauseFamily, ContainerEnd, ContainerWait, EndContext, MemoryLimit,
    SandboxAtEnd, WaitingReason, diagnose_wait,
};
use rekindle_types::exit::signal_name;
use rekindle_types::pods::condition;
use rekindle_types::reasons::event;
use rekindle_types::{EndedByNode, OomKill, Tick, TickDuration};

use crate::account::{ContainerAccount, MemoryAccount};
use crate::events::SeenEvent;
use crate::evidence::PodEvidence;
use crate::probe_errors;
use crate::restarts;
use crate::subject::ContainerSubject;
use crate::with_pod;
use crate::words::{line, show_bytes};

/// How long before a container's end a probe's verdict may have been its reason: the longest grace
/// that is usual.
const PROBE_BEFORE_END_SECONDS: u64 = 90;
/// After so long a run the kubelet forgets the ends before it: twice its longest back-off.
const FORGOTTEN_AFTER: TickDuration = TickDuration::from_secs(600);
/// A condition and a state of the same moment may differ by this: one is rounded down.
const SLACK: TickDuration = TickDuration::from_secs(1);
/// `failureThreshold` of a probe that has none.
const FAILURE_THRESHOLD: i32 = 3;
/// Lines of a dead container that are shown.
const LINES_MAX: usize = 10;

/// What was found, and what would help.
#[derive(Clone, Debug)]
pub(crate) struct ContainerFinding {
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
    subjects: &[ContainerSubject<'a>],
    evidence: &PodEvidence,
    seen: &[SeenEvent],
    now: Tick,
) -> Vec<(ContainerSubject<'a>, ContainerFinding)> {
    let mut findings: Vec<(ContainerSubject<'a>, ContainerFinding)> = subjects
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
    subject: ContainerSubject<'_>,
    evidence: &PodEvidence,
    events: &[SeenEvent],
    now: Tick,
) -> Option<ContainerFinding> {
    let end = subject.told_end().map(|end| finding_from_end(subject, end, evidence, events, now));
    let now_wrong = match subject.waiting().and_then(|wait| held(subject, &wait)) {
        Some(held) => Some(held),
        None if end.as_ref().is_none_or(|end| end.is_past) => {
            probe_errors::probe_error(subject, events, now).or_else(|| unready(subject, events))
        }
        None => None,
    };
    match (now_wrong, end) {
        (Some(finding), Some(end)) => Some(ContainerFinding { last_end: end.last_end, ..finding }),
        (Some(finding), None) => Some(finding),
        (None, end) => end,
    }
}

/// What its last end says.
fn finding_from_end(
    subject: ContainerSubject<'_>,
    terminated: &ContainerStateTerminated,
    evidence: &PodEvidence,
    events: &[SeenEvent],
    now: Tick,
) -> ContainerFinding {
    let end = ContainerEnd::parse(terminated);
    let ended_by_node = end.ended_by_node.or_else(|| killed_in_status(subject));
    let ended_by_node = ended_by_node.or_else(|| killed_in_events(subject, &end, events));
    let end = ContainerEnd { ended_by_node, ..end };
    let told = why_it_ended(subject, &end, evidence, events);
    let message = line(end.message);
    let mut evidence_lines: Vec<String> = end.oom.iter().map(memory_line).collect();
    if !message.is_empty() && !told.what.contains(&message) {
        evidence_lines.push(format!("termination message: {message}"));
    }
    let by_node = end.ended_by_node.filter(|_| told.cause.family() == CauseFamily::KilledByNode);
    let probe = by_node.and_then(|by_node| match by_node {
        EndedByNode::LivenessProbe { .. } => Some("Liveness"),
        EndedByNode::StartupProbe { .. } => Some("Startup"),
        EndedByNode::PostStartHook => None,
    });
    let said = end.ended_by_node.map(|by_node| by_node.said()).filter(|said| !said.is_empty());
    evidence_lines.extend(probe.and_then(|probe| {
        let last = probe_output(subject, probe, events);
        last.or_else(|| said.map(|said| format!("{probe} probe failed: {}", line(said))))
    }));
    let signal = end.signal.or((end.exit_code > 128).then_some(end.exit_code - 128));
    let lines = evidence.last_lines.get(subject.name).map(Vec::as_slice).unwrap_or_default();
    let account = ContainerAccount {
        name: subject.name.to_owned(),
        cause: told.cause,
        what: told.what,
        ends: subject.ends(),
        exit_code: Some(end.exit_code),
        signal: signal.and_then(signal_name).map(str::to_owned),
        reason: terminated.reason.clone(),
        last_end: terminated.finished_at.clone(),
        memory: end.oom.map(|oom| MemoryAccount {
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
    let was_meant = account.cause.family() == CauseFamily::EndedOnPurpose;
    let is_past = was_meant || subject.is_done() || has_got_over(subject, &evidence.pod, now);
    ContainerFinding { last_end: Some(account.what.clone()), account, advice: told.advice, is_past }
}

/// Who or what ended a container, in words, and what would help.
struct EndAccount {
    cause: Cause,
    what: String,
    advice: Option<String>,
}

fn why_it_ended(
    subject: ContainerSubject<'_>,
    end: &ContainerEnd<'_>,
    evidence: &PodEvidence,
    events: &[SeenEvent],
) -> EndAccount {
    if let Some(restart) = restarts::that_ended(subject.name, end, evidence, events) {
        let what = format!("was ended by {restart}");
        return EndAccount { cause: Cause::Restarted, what, advice: None };
    }
    if let Some(who) = with_pod::that_ended(subject, end, evidence, events) {
        let what = format!("was ended {who}");
        return EndAccount { cause: Cause::EndedWithPod, what, advice: None };
    }
    let limits = subject.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limit = limits.and_then(|limits| limits.get("memory"));
    let context = EndContext {
        started_by: subject.started_by(end),
        sandbox: SandboxAtEnd::Stands, // whether it does decides which rung helps, not what is told
        memory_limit: limit.map_or(MemoryLimit::NoneOfItsOwn, |limit| MemoryLimit::Own(&limit.0)),
        failure_threshold: Some(failure_threshold(subject, end)),
    };
    let diagnosis = diagnosis::diagnose_end(end, context);
    let advice = Some(diagnosis.advice());
    EndAccount { cause: diagnosis.cause, what: diagnosis.account, advice }
}

/// How often in a row the probe that it was ended for must fail.
fn failure_threshold(subject: ContainerSubject<'_>, end: &ContainerEnd<'_>) -> i32 {
    let probe = match end.ended_by_node {
        Some(EndedByNode::LivenessProbe { .. }) => subject.spec.liveness_probe.as_ref(),
        Some(EndedByNode::StartupProbe { .. }) => subject.spec.startup_probe.as_ref(),
        Some(EndedByNode::PostStartHook) | None => None,
    };
    probe.and_then(|probe| probe.failure_threshold).unwrap_or(FAILURE_THRESHOLD)
}

/// It runs again and is ready, or was so since; or it has run so long that what ended it before
/// says nothing of how it does now.
fn has_got_over(subject: ContainerSubject<'_>, pod: &Pod, now: Tick) -> bool {
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
fn held(subject: ContainerSubject<'_>, wait: &ContainerWait<'_>) -> Option<ContainerFinding> {
    let diagnosis = diagnose_wait(wait, subject.spec.image.as_deref().unwrap_or_default())?;
    let message = line(wait.message);
    let advice = Some(diagnosis.advice());
    Some(ContainerFinding {
        account: ContainerAccount {
            name: subject.name.to_owned(),
            cause: diagnosis.cause,
            what: diagnosis.account,
            ends: subject.ends().saturating_sub(u32::from(subject.last_end().is_none())),
            exit_code: None,
            signal: None,
            reason: Some(wait.reason.as_str().to_owned()),
            last_end: None,
            memory: None,
            evidence: if message.is_empty() { Vec::new() } else { vec![message] },
            last_lines: Vec::new(),
        },
        advice,
        last_end: None,
        is_past: false,
    })
}

/// It runs and is not ready because its probe says so.
fn unready(subject: ContainerSubject<'_>, events: &[SeenEvent]) -> Option<ContainerFinding> {
    if !subject.is_running() || subject.status.ready {
        return None;
    }
    let output = probe_output(subject, "Readiness", events)?;
    Some(ContainerFinding {
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

/// The kubelet says of one that waits that its postStart hook failed, and killed it for that.
fn killed_in_status(subject: ContainerSubject<'_>) -> Option<EndedByNode<'static>> {
    let is_for_hook = subject.waiting()?.reason == WaitingReason::PostStartHookError;
    is_for_hook.then_some(EndedByNode::PostStartHook)
}

/// On a cluster of kubelets an event near its end tells of the probe or hook that had it killed.
fn killed_in_events(
    subject: ContainerSubject<'_>,
    end: &ContainerEnd<'_>,
    events: &[SeenEvent],
) -> Option<EndedByNode<'static>> {
    let ended = end.finished_at?;
    // an event's time may be rounded up past an end that is rounded down
    let verdict = events.iter().rev().find(|seen| {
        seen.reason == event::KILLING
            && seen.is_of(subject.name)
            && seen.last <= ended + SLACK
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

/// What this probe said last.
fn probe_output(
    subject: ContainerSubject<'_>,
    probe: &str,
    events: &[SeenEvent],
) -> Option<String> {
    let begin = format!("{probe} probe ");
    let mut about = events.iter().rev().filter(|seen| seen.is_of(subject.name));
    about
        .find(|seen| seen.reason == event::UNHEALTHY && seen.message.starts_with(&begin))
        .map(|seen| seen.message.clone())
}
