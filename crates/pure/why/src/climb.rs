//! What the ladder did about a pod, and what comes next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_diagnosis::ContainerEnd;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{
    CarriedOutBy, HoldReason, LedgerMember, LedgerPhase, PodRestart, PodRestartPhase,
    ReplacementHold, ReplacementStep, RestartLedger, RestartLedgerStatus, Rung,
};

use crate::account::{HistorySource, LadderAccount, MemberAccount, NextEvent};
use crate::evidence::PodEvidence;
use crate::history::{AccountHistory, OccurrenceTimes};
use crate::subject::ContainerSubject;
use crate::words::line;

/// Where the pod is on its ladder. A ledger of an earlier pod of that name counts: its history goes
/// on.
pub(crate) fn ladder(ledger: &RestartLedger) -> Option<LadderAccount> {
    let status = ledger.status.as_ref()?;
    Some(LadderAccount {
        name: ledger.spec.ladder_name.clone(),
        phase: status.phase,
        rung: status.rung,
        held_rung: status.held_rung,
        message: status.message.as_deref().map(line),
        failures_total: status.failures_total,
        attempts: status.attempts.clone().unwrap_or_default(),
        group: ledger.is_of_group().then(|| ledger.spec.pod_name.clone()),
        members: status.members.iter().flatten().map(member).collect(),
    })
}

fn member(member: &LedgerMember) -> MemberAccount {
    MemberAccount {
        pod: member.pod_name.clone(),
        failures: member.failures,
        message: member.message.as_deref().map(line),
    }
}

/// What the ladder alone remembers of a pod that is well: the API keeps the last two runs of a
/// container.
pub(crate) fn counted(evidence: &PodEvidence) -> Option<String> {
    let ledger = evidence.ledger.as_ref()?;
    let failures = ledger.status.as_ref()?.failures_total;
    let how_many = match failures {
        0 => return None,
        1 => "1 failure".to_owned(),
        many => format!("{many} failures"),
    };
    Some(format!("ladder {:?} has counted {how_many}", ledger.spec.ladder_name))
}

/// Whether restarts are told by their names: of many pods at once they would be as many lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartNaming {
    ByName,
    Together,
}

/// The ladder's decisions and the restarts that were asked for.
pub(crate) fn tell(
    ledger: Option<&RestartLedger>,
    restarts: &[PodRestart],
    told: RestartNaming,
    history: &mut AccountHistory,
) {
    let status = ledger.and_then(|ledger| ledger.status.as_ref());
    for decision in status.and_then(|status| status.decisions.as_ref()).into_iter().flatten() {
        let last = Tick::from(&decision.at);
        let first = decision.first_at.as_ref().map_or(last, Tick::from);
        let when = OccurrenceTimes { first, last, count: decision.count.max(1) };
        let rung = decision.rung.map_or("ladder", |rung| rung.name());
        history.add(HistorySource::Ladder, when, &format!("{rung}: {}", decision.reason));
    }
    for restart in restarts {
        let rung = restart.spec.rung().name();
        let of = match &restart.spec.container_name {
            Some(container) => format!(" of container {container:?}"),
            None => String::new(),
        };
        let Some(created) = restart.metadata.creation_timestamp.as_ref().map(Tick::from) else {
            continue;
        };
        // objects tell whole seconds: no request comes before its decision
        let decided = status.and_then(|status| decided_at(status, restart));
        let asked = created.max(decided.unwrap_or(created));
        let status = restart.status.as_ref();
        let phase = match status.and_then(|status| status.phase) {
            None => "not taken up yet",
            Some(PodRestartPhase::Running) => "running",
            Some(PodRestartPhase::Succeeded) => "succeeded",
            Some(PodRestartPhase::Failed) => "failed",
            Some(PodRestartPhase::Refused) => "refused",
            Some(PodRestartPhase::Withdrawn) => "withdrawn",
        };
        let words = match status.and_then(|status| status.message.as_deref()) {
            Some(message) => format!(": {message}"),
            None => String::new(),
        };
        let reason = match restart.spec.reason.as_deref() {
            Some(reason) if !reason.is_empty() => format!(" (asked because: {reason})"),
            Some(_) | None => String::new(),
        };
        let name = match (told, restart.metadata.name.as_deref()) {
            (RestartNaming::ByName, Some(name)) => format!(" {name}"),
            (RestartNaming::ByName, None) | (RestartNaming::Together, _) => String::new(),
        };
        let rest = format!(", rung {rung}{of}, {phase}{words}{reason}");
        let text = format!("PodRestart{name}{rest}");
        // alike but for their names, they are one entry
        history.add_alike(HistorySource::PodRestart, OccurrenceTimes::once(asked), &text, &rest);
    }
}

/// When the ladder decided on a request.
fn decided_at(ledger: &RestartLedgerStatus, restart: &PodRestart) -> Option<Tick> {
    let mut asked = ledger.asked();
    let decision = asked.find(|decision| decision.pod_restart == restart.metadata.name)?;
    Some(Tick::from(&decision.at))
}

/// How a restart stands that was asked for and is not over.
enum RestartState<'a> {
    /// With what the controllers say of it, if they do.
    NotTakenUp(Option<&'a str>),
    /// It is tried again; with what holds it back, where the controllers say that, and their words.
    Held(Option<ReplacementHold>, &'a str),
    /// With their words while the pod ends.
    CarriedOut(Option<&'a str>),
}

/// The restart that was asked for and is not over: of several the one that is furthest. One in
/// place that was taken up for an earlier pod of the name is none of this one.
fn under_way(evidence: &PodEvidence) -> Option<(&PodRestart, RestartState<'_>)> {
    let uid = evidence.pod.metadata.uid.as_deref().unwrap_or_default();
    let is_of_pod = |restart: &&PodRestart| match restart.carried_out_by() {
        CarriedOutBy::Node => restart.is_for(uid),
        CarriedOutBy::Operator => true,
    };
    let open = evidence.restarts.iter().filter(is_of_pod).filter_map(|restart| {
        let status = restart.status.as_ref();
        let words = status.and_then(|status| status.message.as_deref());
        let stand = match status.and_then(|status| status.phase) {
            None => RestartState::NotTakenUp(words),
            Some(phase) if phase.is_final() => return None,
            Some(_) => match status.and_then(|status| status.replacement.as_ref()) {
                Some(replacement) => match replacement.step {
                    ReplacementStep::Held => {
                        RestartState::Held(replacement.held_by, words.unwrap_or_default())
                    }
                    ReplacementStep::Evicting => RestartState::CarriedOut(words),
                    ReplacementStep::Starting => RestartState::CarriedOut(None),
                },
                None => RestartState::CarriedOut(None),
            },
        };
        Some((restart, stand))
    });
    open.max_by_key(|(_, stand)| match stand {
        RestartState::NotTakenUp(_) => 0,
        RestartState::Held(..) => 1,
        RestartState::CarriedOut(_) => 2,
    })
}

/// What would let a restart go on that was asked for.
pub(crate) fn advice(evidence: &PodEvidence) -> Option<String> {
    let (restart, stand) = under_way(evidence)?;
    match stand {
        RestartState::CarriedOut(_) => None,
        RestartState::NotTakenUp(_) => Some(match restart.carried_out_by() {
            CarriedOutBy::Node => {
                let node = evidence.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
                let node = node.map_or_else(String::new, |node| format!(" {node}"));
                format!("look whether the pod's node{node} answers: it carries the restart out")
            }
            CarriedOutBy::Operator => {
                "look whether the controllers run: they carry the restart out".to_owned()
            }
        }),
        RestartState::Held(by, _) => advice_for_hold(by?).map(str::to_owned),
    }
}

/// What would let a replacement go on.
fn advice_for_hold(by: ReplacementHold) -> Option<&'static str> {
    match by {
        ReplacementHold::DeadlockedBudget => Some(
            "change the disruption budget, or delete it: it never lets a pod go, however healthy the others are",
        ),
        ReplacementHold::DisruptionBudget => Some(
            "make other pods of its workload healthy, or let the disruption budget allow one more to be away",
        ),
        ReplacementHold::NoOtherNode => Some(
            "add a node that takes the pod, or mend what keeps the others away; a node that is avoided takes it again when the finished PodRestart that it is avoided for is deleted",
        ),
        ReplacementHold::PodNotTaken => Some(
            "make what the pod refers to there again, or change what refuses it: it would be lost if it were evicted now",
        ),
        ReplacementHold::EvictionRefused | ReplacementHold::LadderLimits => None,
    }
}

/// What comes next: a restart that is asked for, the ladder's next attempt, or the end of a
/// container's back-off.
pub(crate) fn next(
    evidence: &PodEvidence,
    subjects: &[ContainerSubject<'_>],
    now: Tick,
) -> Option<NextEvent> {
    if let Some((restart, stand)) = under_way(evidence) {
        let name = restart.metadata.name.as_deref().unwrap_or_default();
        let what = match stand {
            RestartState::NotTakenUp(words) => with_words("is not taken up yet", words),
            RestartState::Held(_, why) => format!("waits, and is tried again: {}", line(why)),
            RestartState::CarriedOut(words) => with_words("is being carried out", words),
        };
        return Some(NextEvent { at: None, what: format!("PodRestart {name} {what}") });
    }
    let status = evidence.ledger.as_ref().and_then(|ledger| ledger.status.as_ref());
    let backoff = subjects.iter().find_map(|subject| backoff_ends(*subject));
    let due = status.and_then(|status| status.next_attempt_at.as_ref()).map(Tick::from);
    if let Some((status, due)) = status.zip(due.filter(|due| *due > now)) {
        let own = "the container's own back-off ends and it is started again";
        let what = match (status.held_rung, status.phase, status.rung) {
            (Some(rung), _, _) => {
                format!("the ladder looks again whether there is room for rung {rung}")
            }
            (None, Some(LedgerPhase::Exhausted), _) => format!("{own}; the ladder tries no more"),
            (None, Some(LedgerPhase::Holding), _) => format!("{own}; the ladder holds"),
            (None, _, Some(Rung::Container)) => own.to_owned(),
            (None, _, _) => "the ladder's next attempt".to_owned(),
        };
        return Some(NextEvent { at: Some(due.to_time()), what });
    }
    if let Some(rung) = status.and_then(|status| status.held_rung) {
        let on_trial = status.and_then(|status| status.held_by) == Some(HoldReason::Trial);
        let what = if on_trial {
            format!("rung {rung}, when it has helped the pod of its workload that it is tried on")
        } else {
            format!("rung {rung}, as soon as its budget has room")
        };
        return Some(NextEvent { at: None, what });
    }
    if let Some((container, at)) = backoff {
        let what = format!("the back-off of container {container:?} ends and it is started again");
        return Some(NextEvent { at: Some(at), what });
    }
    let exhausted = status.and_then(|status| status.phase) == Some(LedgerPhase::Exhausted);
    exhausted.then(|| NextEvent { at: None, what: "nothing: its ladder is exhausted".to_owned() })
}

fn with_words(what: &str, words: Option<&str>) -> String {
    words.map_or_else(|| what.to_owned(), |words| format!("{what}: {}", line(words)))
}

/// When a crash's back-off is over.
fn backoff_ends(subject: ContainerSubject<'_>) -> Option<(String, Time)> {
    let last_end = ContainerEnd::parse(subject.last_end()?);
    let ends_at = subject.waiting()?.backoff_ends_at(&last_end)?;
    Some((subject.name.to_owned(), ends_at.to_time()))
}
