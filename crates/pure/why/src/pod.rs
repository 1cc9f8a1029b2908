//! The account of a pod.

use k8s_openapi::api::core::v1::Pod;
use rekindle_diagnosis::{CauseFamily, EventReading, PodReason};
use rekindle_types::Tick;
use rekindle_types::pods::condition;
use rekindle_types::v1alpha1::{HoldReason, LedgerPhase};

use crate::account::{Account, AccountState};
use crate::climb;
use crate::condition::GATED;
use crate::container::{ContainerFinding, findings};
use crate::course::{self, ends};
use crate::events::{self, SeenEvent};
use crate::evidence::PodEvidence;
use crate::history::average;
use crate::node_size;
use crate::oom_events;
use crate::placement;
use crate::stranded_volumes;
use crate::subject::{ContainerSubject, subjects};
use crate::words::{line, show_span, times};

/// Why the pod is as it is.
pub fn explain_pod(evidence: &PodEvidence, now: Tick) -> Account {
    let pod = &evidence.pod;
    let seen = events::read(&evidence.events);
    let subjects = subjects(pod);
    let findings = findings(&subjects, evidence, &seen, now);
    let verdict = judge(evidence, &findings, &seen, now);
    let closed = placement::closed(evidence);
    // what opens a node that is there helps more than what opens any, unless no node that is there
    // can ever take it
    let mut advice = match (verdict.is_of_all_nodes, closed.advice.is_empty()) {
        (true, _) | (false, true) => verdict.advice,
        (false, false) => closed.advice,
    };
    if verdict.state > AccountState::Terminating {
        for (_, finding) in &findings {
            if let Some(line) = &finding.advice
                && !finding.is_past
                && !advice.contains(line)
            {
                advice.push(line.clone());
            }
        }
    }
    if verdict.state > AccountState::Terminating {
        advice.extend(climb::advice(evidence));
    }
    Account {
        kind: "Pod".to_owned(),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        state: verdict.state,
        summary: verdict.summary,
        history: course::pod_course(evidence, &findings, &seen, now),
        containers: findings.into_iter().map(|(_, finding)| finding.account).collect(),
        nodes: closed.nodes,
        ladder: evidence.ledger.as_ref().and_then(climb::ladder),
        next: climb::next(evidence, &subjects, now),
        advice,
        pods: Vec::new(),
    }
}

struct PodVerdict {
    state: AccountState,
    summary: String,
    advice: Vec<String>,
    /// No node that is there can ever take the pod.
    is_of_all_nodes: bool,
}

impl PodVerdict {
    fn new(state: AccountState, summary: impl Into<String>) -> Self {
        Self { state, summary: summary.into(), advice: Vec::new(), is_of_all_nodes: false }
    }

    fn advise(mut self, advice: &str) -> Self {
        self.advice.push(advice.to_owned());
        self
    }
}

fn judge(
    evidence: &PodEvidence,
    findings: &[(ContainerSubject<'_>, ContainerFinding)],
    seen: &[SeenEvent],
    now: Tick,
) -> PodVerdict {
    let pod = &evidence.pod;
    if let Some(deleted) = &pod.metadata.deletion_timestamp {
        let due = Tick::from(deleted);
        let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
        return match (finalizers, due < now) {
            ([], false) => PodVerdict::new(AccountState::Terminating, "it is being deleted"),
            ([], true) => PodVerdict::new(
                AccountState::Terminating,
                "it is being deleted and its grace period is over",
            )
            .advise("look whether its node answers; nothing else can end its containers"),
            (names, _) => PodVerdict::new(
                AccountState::Terminating,
                format!("it is being deleted and waits for its finalizers: {}", names.join(", ")),
            )
            .advise("whoever set the finalizers has to take them away"),
        };
    }
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => {
            let done = "all its containers ran to their end";
            return PodVerdict::new(
                AccountState::Completed,
                match findings.first() {
                    Some((subject, finding)) => {
                        format!("{done}; {}", ends_sentence(*subject, finding, pod, now))
                    }
                    None => done.to_owned(),
                },
            );
        }
        Some("Failed") => return failed(pod, findings, now),
        _ => {}
    }
    if let Some(verdict) = unscheduled(evidence) {
        return verdict;
    }
    match findings.first() {
        Some((subject, finding)) if !finding.is_past => {
            verdict_from_finding(evidence, *subject, finding, now)
        }
        first => not_broken(evidence, first, seen, now),
    }
}

fn failed(
    pod: &Pod,
    findings: &[(ContainerSubject<'_>, ContainerFinding)],
    now: Tick,
) -> PodVerdict {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let message = line(status.and_then(|s| s.message.as_deref()).unwrap_or_default());
    if !reason.is_empty() {
        let summary = format!("it ended as Failed ({reason}): {message}");
        let verdict = PodVerdict::new(AccountState::Failed, summary);
        return match PodReason::parse(reason).remedy(&message) {
            Some(remedy) => verdict.advise(remedy),
            None => verdict,
        };
    }
    match findings.first() {
        Some((subject, finding)) => {
            let sentence = ends_sentence(*subject, finding, pod, now);
            PodVerdict::new(AccountState::Failed, format!("it ended as Failed: {sentence}"))
        }
        None => PodVerdict::new(AccountState::Failed, "it ended as Failed"),
    }
}

fn unscheduled(evidence: &PodEvidence) -> Option<PodVerdict> {
    let condition = condition(&evidence.pod, "PodScheduled")?;
    if condition.status != "False" {
        return None;
    }
    let message = line(condition.message.as_deref().unwrap_or_default());
    if let Some(verdict) = never_scheduled(evidence, &message) {
        return Some(verdict);
    }
    let advice = if condition.reason.as_deref() == Some(GATED) {
        "take its scheduling gates away"
    } else if message.contains("Insufficient") || message.contains("Too many pods") {
        "make room: lower its requests or those of others, end what is not needed, or add a node"
    } else if message.contains("free ports") {
        "another pod has the node's port: give this one another hostPort, end the other one, or add a machine"
    } else if message.contains("taint") || message.contains("unschedulable") {
        "uncordon a node, take its taint away, or give the pod a toleration"
    } else if message.to_ascii_lowercase().contains("volume") {
        "look at its PersistentVolumeClaims"
    } else if message.contains("affinity") || message.contains("selector") {
        "label a node so that the pod's nodeSelector or affinity finds it, or mend these"
    } else {
        "mend what the message names; the scheduler tries again whenever something changes"
    };
    Some(
        PodVerdict::new(AccountState::Blocked, format!("no node takes it: {message}"))
            .advise(advice),
    )
}

/// It asks for what none of the nodes that are there can ever give it.
fn never_scheduled(evidence: &PodEvidence, message: &str) -> Option<PodVerdict> {
    let oversizes = node_size::oversizes(evidence);
    let stranded = stranded_volumes::stranded(evidence);
    let sentences = oversizes.iter().map(|one| one.sentence());
    let sentences: Vec<String> =
        sentences.chain(stranded.iter().map(|one| one.sentence())).collect();
    if sentences.is_empty() {
        return None;
    }
    let summary = format!("no node takes it: {message}; {}", sentences.join("; "));
    let advice = oversizes.iter().map(|one| one.advice());
    let advice = advice.chain(stranded.iter().map(|one| one.advice())).collect();
    Some(PodVerdict { state: AccountState::Blocked, summary, advice, is_of_all_nodes: true })
}

fn verdict_from_finding(
    evidence: &PodEvidence,
    subject: ContainerSubject<'_>,
    finding: &ContainerFinding,
    now: Tick,
) -> PodVerdict {
    let sentence = ends_sentence(subject, finding, &evidence.pod, now);
    let state = match finding.account.cause.family() {
        CauseFamily::KeptFromStarting => AccountState::Blocked,
        CauseFamily::NotReady => AccountState::NotReady,
        CauseFamily::Unchecked if is_ready(&evidence.pod) => AccountState::Unchecked,
        CauseFamily::Unchecked => AccountState::NotReady,
        CauseFamily::Failed | CauseFamily::KilledByNode => AccountState::Failing,
        CauseFamily::EndedOnPurpose | CauseFamily::Waiting => AccountState::Starting,
    };
    let ledger = evidence.ledger.as_ref().and_then(|ledger| ledger.status.as_ref());
    let verdict = PodVerdict::new(state, sentence);
    match ledger.map(|status| (status.phase, status.held_rung)) {
        Some((Some(LedgerPhase::Exhausted), _)) => PodVerdict {
            summary: format!("{}; its ladder is exhausted", verdict.summary),
            ..verdict
        },
        Some((_, Some(rung))) => {
            let on_trial = ledger.and_then(|status| status.held_by) == Some(HoldReason::Trial);
            let what = if on_trial {
                "waits for what comes of it on another pod"
            } else {
                "held by a budget"
            };
            let summary = format!("{}; rung {rung} is due and {what}", verdict.summary);
            PodVerdict { summary, ..verdict }
        }
        Some(_) | None => verdict,
    }
}

/// Nothing is known to be wrong with a container.
fn not_broken(
    evidence: &PodEvidence,
    past: Option<&(ContainerSubject<'_>, ContainerFinding)>,
    seen: &[SeenEvent],
    now: Tick,
) -> PodVerdict {
    let pod = &evidence.pod;
    if is_ready(pod) {
        let before = match past {
            Some((subject, finding)) => Some(ends_sentence(*subject, finding, pod, now)),
            None => climb::counted(evidence),
        };
        let verdict = match before {
            None => {
                PodVerdict::new(AccountState::Healthy, "it runs and is ready; nothing has ended")
            }
            Some(before) => PodVerdict::new(
                AccountState::Healthy,
                format!("it runs and is ready now; {before}"),
            ),
        };
        return match oom_events::oom_of_running(&subjects(pod), seen) {
            None => verdict,
            Some(killing) => {
                let summary = format!("{}; {}", verdict.summary, killing.sentence);
                PodVerdict { summary, ..verdict }.advise(&killing.advice)
            }
        };
    }
    let started = subjects(pod).iter().any(|s| s.is_running() || s.last_end().is_some());
    let mut obstacles = seen.iter().rev().filter_map(|seen| match seen.reading() {
        EventReading::Obstacle(obstacle) => Some((seen, obstacle)),
        EventReading::StepOfStart
        | EventReading::LadderDecision
        | EventReading::Restart
        | EventReading::ToldByStatus
        | EventReading::Failure
        | EventReading::Stop
        | EventReading::ControllerStep
        | EventReading::EndOfPod
        | EventReading::Probe
        | EventReading::OomKilling
        | EventReading::News
        | EventReading::Unknown => None,
    });
    match obstacles.next().filter(|_| !started) {
        Some((seen, obstacle)) => {
            let count = times(seen.count);
            let summary = format!("it cannot begin: {}, {count}: {}", seen.reason, seen.message);
            let advice = format!("{}; {}", obstacle.remedy(), obstacle.outlook());
            PodVerdict::new(AccountState::Blocked, summary).advise(&advice)
        }
        None if started => unready(pod),
        None => {
            PodVerdict::new(AccountState::Starting, "it is starting; nothing has failed so far")
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Its containers have begun, and it is not ready.
fn unready(pod: &Pod) -> PodVerdict {
    let message = condition(pod, "Ready").and_then(|ready| ready.message.as_deref());
    let message = message.map(line).filter(|message| !message.is_empty());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    match (message, node.filter(|_| all_are_ready(pod))) {
        (Some(message), _) => {
            PodVerdict::new(AccountState::NotReady, format!("it is not ready: {message}"))
        }
        // no kubelet says so without a word: it is whoever waits to hear of its node
        (None, Some(node)) => {
            let summary = format!("it is not ready: its node {node:?} is not heard of");
            let advice = format!("rekindle why node/{node} tells how its node does");
            PodVerdict::new(AccountState::NotReady, summary).advise(&advice)
        }
        (None, None) => PodVerdict::new(
            AccountState::NotReady,
            "it is not ready: its containers are on their way",
        ),
    }
}

/// True when all of its containers run and are ready, by what its node said last.
fn all_are_ready(pod: &Pod) -> bool {
    let names = pod.spec.iter().flat_map(|spec| &spec.containers).map(|c| c.name.as_str());
    let subjects = subjects(pod);
    names.into_iter().all(|name| {
        let subject = subjects.iter().find(|subject| subject.name == name);
        subject.is_some_and(|subject| subject.is_running() && subject.status.ready)
    })
}

/// `container "app" exited with 1; it ended 5,941 times in 20d15h, every 5m`.
fn ends_sentence(
    subject: ContainerSubject<'_>,
    finding: &ContainerFinding,
    pod: &Pod,
    now: Tick,
) -> String {
    let account = &finding.account;
    let sentence = format!("container {:?} {}", account.name, account.what);
    match account.cause.family() {
        CauseFamily::KeptFromStarting
        | CauseFamily::Waiting
        | CauseFamily::NotReady
        | CauseFamily::Unchecked => match account.evidence.first() {
            Some(line) => format!("{sentence}: {line}"),
            None => sentence,
        },
        CauseFamily::Failed | CauseFamily::KilledByNode | CauseFamily::EndedOnPurpose => {
            let when = ends(subject, pod, now);
            match when.count {
                0 | 1 if subject.is_done() => format!("{sentence} before it was done"),
                0 | 1 => sentence,
                count if subject.is_done() => {
                    format!("{sentence}; it ended {} before it was done", times(count))
                }
                count => {
                    let age = show_span(now.since(when.first));
                    let every = average(when)
                        .map_or_else(String::new, |every| format!(", every {}", show_span(every)));
                    format!(
                        "{sentence}; it ended {} since the pod's start {age} ago{every}",
                        times(count)
                    )
                }
            }
        }
    }
}
