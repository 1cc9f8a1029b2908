//! The account of a pod that is not there any more: what its ledger, its events and the restarts
//! that were asked for still tell.

use std::collections::BTreeMap;

use rekindle_types::v1alpha1::{
    PodReplacement, PodRestart, PodRestartPhase, ReplacementStep, RollbackStatus,
};

use crate::account::{Account, AccountState, ExamplePod, PodGroup};
use crate::climb::{self, RestartNaming};
use crate::events;
use crate::evidence::GoneEvidence;
use crate::history::AccountHistory;
use crate::words::{shape, show_time};

/// Why the pod went, and who goes on in its place.
pub fn explain_gone(evidence: &GoneEvidence) -> Account {
    let seen = events::read(&evidence.events);
    let successor = successor(evidence);
    let summary = summary(evidence, &seen, successor.as_deref());
    let mut history = AccountHistory::default();
    history.add_events_of_the_gone(&seen);
    climb::tell(evidence.ledger.as_ref(), &evidence.restarts, RestartNaming::ByName, &mut history);
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
        state: AccountState::Gone,
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

fn summary(evidence: &GoneEvidence, seen: &[events::SeenEvent], successor: Option<&str>) -> String {
    let why = why(evidence, seen).map_or_else(String::new, |why| format!(": {why}"));
    let successor =
        successor.map_or_else(String::new, |pod| format!("; pod {pod} goes on in its place"));
    format!("it is not there any more{why}{successor}")
}

/// The pods of a workload that are gone, alike ones in one group: those that went for the same
/// reason, of which the ladders say the same.
pub(crate) fn group(gone: &[GoneEvidence]) -> Vec<PodGroup> {
    let mut groups: BTreeMap<String, PodGroup> = BTreeMap::new();
    for evidence in gone {
        let seen = events::read(&evidence.events);
        let successor = successor(evidence);
        let summary = summary(evidence, &seen, successor.as_deref());
        let ladder = evidence.ledger.as_ref().and_then(climb::ladder);
        let words = ladder.as_ref().and_then(|ladder| ladder.message.as_deref());
        let alike = format!("{summary} {}", words.unwrap_or_default());
        let group = groups.entry(nameless(&alike, evidence, successor.as_deref()));
        let group = group.or_insert_with(|| PodGroup {
            state: AccountState::Gone,
            summary,
            names: Vec::new(),
            count: 0,
            example: ladder.map(|ladder| ExamplePod {
                name: evidence.name.clone(),
                containers: Vec::new(),
                nodes: Vec::new(),
                ladder: Some(ladder),
                next: None,
            }),
            advice: Vec::new(),
        });
        group.count += 1;
        group.names.push(evidence.name.clone());
    }
    groups.into_values().collect()
}

/// A text without the names of the pod, of its successor and of its restarts, and without numbers.
fn nameless(text: &str, evidence: &GoneEvidence, successor: Option<&str>) -> String {
    let restarts = evidence.restarts.iter().filter_map(|r| r.metadata.name.as_deref());
    // those of restarts and successors may begin with the pod's
    let names = restarts.chain(successor).chain([evidence.name.as_str()]);
    let text = names
        .filter(|name| !name.is_empty())
        .fold(text.to_owned(), |text, name| text.replace(name, ""));
    shape(&text)
}

/// The course of a pod that is gone among those of its workload.
pub(crate) fn tell_together(evidence: &GoneEvidence, history: &mut AccountHistory) {
    history.add_events_of_the_lost(&events::read(&evidence.events));
    climb::tell(evidence.ledger.as_ref(), &evidence.restarts, RestartNaming::Together, history);
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

/// What ended it: the restart that replaced it, else the last event that says who did, else the
/// last that says that somebody did.
fn why(evidence: &GoneEvidence, seen: &[events::SeenEvent]) -> Option<String> {
    if let Some((restart, _)) = replacement(evidence) {
        let name = restart.metadata.name.as_deref().unwrap_or_default();
        let rung = restart.spec.rung().name();
        return Some(format!("PodRestart {name}, rung {rung}, evicted it"));
    }
    if let Some(back) = evidence.restarts.iter().find_map(taken_back) {
        return Some(back);
    }
    let last = |tells: fn(&events::SeenEvent) -> bool| seen.iter().rev().find(|seen| tells(seen));
    let end = last(events::tells_who_ended_it).or_else(|| last(events::tells_of_an_end))?;
    let at = show_time(&end.last.to_time());
    Some(format!("{} at {at}: {}", end.reason, end.message))
}

/// A rollback that was carried out: its revision's pods went with it.
fn taken_back(restart: &PodRestart) -> Option<String> {
    let status = restart.status.as_ref()?;
    let rollback = status.rollback.as_ref()?;
    let name = restart.metadata.name.as_deref().unwrap_or_default();
    (status.phase == Some(PodRestartPhase::Succeeded)).then(|| {
        let RollbackStatus { deployment_name, to_revision, .. } = rollback;
        format!("PodRestart {name}, rung Rollback, took Deployment {deployment_name} back to revision {to_revision}")
    })
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
