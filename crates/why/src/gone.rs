//! The account of a pod that is not there any more: what its ledger, its events and the restarts that were asked for still tell.

use rekindle_types::v1alpha1::{PodReplacement, PodRestart, ReplacementStep};

use crate::account::{Account, State};
use crate::climb::{self, Told};
use crate::events;
use crate::evidence::GoneEvidence;
use crate::history::History;
use crate::words::show_time;

/// Why the pod went, and who goes on in its place.
pub fn of_gone(evidence: &GoneEvidence) -> Account {
    let seen = events::read(&evidence.events);
    let successor = successor(evidence);
    let why = why(evidence, &seen);
    let mut summary = match &why {
        Some(why) => format!("it is not there any more: {why}"),
        None => "it is not there any more".to_owned(),
    };
    if let Some(pod) = &successor {
        summary = format!("{summary}; pod {pod} goes on in its place");
    }
    let mut history = History::default();
    history.add_events_of_the_gone(&seen);
    climb::tell(evidence.ledger.as_ref(), &evidence.restarts, Told::ByName, &mut history);
    let mut advice = Vec::new();
    if let Some(pod) = successor {
        advice.push(format!(
            "rekindle why pod/{pod} -n {} tells how its successor does",
            evidence.namespace
        ));
    }
    advice.extend(owner_advice(evidence));
    Account {
        kind: "Pod".to_owned(),
        namespace: Some(evidence.namespace.clone()),
        name: evidence.name.clone(),
        state: State::Gone,
        summary,
        containers: Vec::new(),
        nodes: Vec::new(),
        history: history.finish(),
        ladder: evidence.ledger.as_ref().and_then(climb::ladder),
        next: None,
        advice,
        pods: Vec::new(),
    }
}

/// The pod that took its place: the restart that replaced it names it, or the ledger that goes on.
fn successor(evidence: &GoneEvidence) -> Option<String> {
    let by_restart = replacement(evidence).and_then(|(_, by)| by.new_pod_name.clone());
    let by_ledger = evidence.ledger.as_ref().map(|ledger| ledger.spec.pod_name.clone());
    by_restart.or(by_ledger).filter(|pod| *pod != evidence.name)
}

/// The last restart that took the pod away, and how far it came.
fn replacement(evidence: &GoneEvidence) -> Option<(&PodRestart, &PodReplacement)> {
    let replacements = evidence.restarts.iter().filter_map(|restart| {
        let replacement = restart.status.as_ref()?.replacement.as_ref()?;
        (replacement.step != ReplacementStep::Held).then_some((restart, replacement))
    });
    replacements.max_by_key(|(restart, _)| restart.metadata.creation_timestamp.clone())
}

/// What ended it: the restart that replaced it, else the last event that says who did, else the last that says that somebody did.
fn why(evidence: &GoneEvidence, seen: &[events::Seen]) -> Option<String> {
    if let Some((restart, _)) = replacement(evidence) {
        let name = restart.metadata.name.as_deref().unwrap_or_default();
        let rung = restart.spec.rung().name();
        return Some(format!("PodRestart {name}, rung {rung}, evicted it"));
    }
    let last = |tells: fn(&events::Seen) -> bool| seen.iter().rev().find(|seen| tells(seen));
    let end = last(events::tells_who_ended_it).or_else(|| last(events::tells_of_an_end))?;
    let at = show_time(&end.last.to_time());
    Some(format!("{} at {at}: {}", end.reason, end.message))
}

fn owner_advice(evidence: &GoneEvidence) -> Option<String> {
    let ledger = evidence.ledger.as_ref()?;
    let owner = ledger.metadata.owner_references.as_ref()?.first()?;
    let kind = owner.kind.to_lowercase();
    Some(format!(
        "rekindle why {kind}/{} -n {} tells how its workload does",
        owner.name, evidence.namespace
    ))
}
