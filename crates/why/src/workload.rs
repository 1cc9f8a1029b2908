//! The account of a DaemonSet, a Deployment, a ReplicaSet or a StatefulSet: its own conditions, and its pods that are not well, alike ones folded.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;

use crate::account::{Account, PodGroup, Source, State};
use crate::events;
use crate::evidence::{PodEvidence, WorkloadEvidence};
use crate::history::{History, When};
use crate::pod::of_pod;
use crate::words::{line, shape};

/// Pods of a group that are named.
const NAMES_MAX: usize = 10;

/// A condition of any workload.
struct Condition<'a> {
    type_: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
    since: Option<Tick>,
}

/// Why the workload is as it is.
pub fn of_workload(evidence: &WorkloadEvidence, now: Tick) -> Account {
    let (kind, metadata) = target(evidence);
    let (pods, well) = group(&evidence.pods, now);
    let wanted = wanted(evidence);
    let conditions = conditions(evidence);
    let failed = conditions.iter().find(|c| {
        matches!((c.type_, c.status), ("ReplicaFailure", "True") | ("Progressing", "False"))
    });
    let worst = pods.iter().map(|group| group.state).max().unwrap_or(State::Healthy);
    let unwell: usize = pods.iter().map(|group| group.count).sum();
    let (state, summary) = match (failed, wanted) {
        (Some(c), _) => (State::Failing, format!("{}: {}", c.reason, line(c.message))),
        (None, 0) if evidence.pods.is_empty() && evidence.daemon_set.is_some() => {
            (State::Healthy, "no node should have a pod of it".to_owned())
        }
        (None, 0) if evidence.pods.is_empty() => {
            (State::Healthy, "it is scaled to 0: there are no pods".to_owned())
        }
        (None, wanted) if unwell == 0 && well >= wanted => {
            (State::Healthy, format!("all {wanted} pods are well"))
        }
        (None, wanted) if unwell == 0 => {
            (State::Starting, format!("{well} of {wanted} pods are there so far"))
        }
        (None, wanted) => (worst, format!("{well} of {wanted} pods are well, {unwell} not")),
    };
    let mut history = History::default();
    for condition in &conditions {
        if let Some(since) = condition.since {
            let text = format!(
                "{} {}: {}: {}",
                condition.type_, condition.status, condition.reason, condition.message
            );
            history.add(Source::Status, When::once(since), &text);
        }
    }
    history.add_events(&events::read(&evidence.events));
    Account {
        kind: kind.to_owned(),
        namespace: metadata.namespace,
        name: metadata.name.unwrap_or_default(),
        state,
        summary,
        containers: Vec::new(),
        history: history.finish(),
        ladder: None,
        next: None,
        advice: advice(&pods, failed.map(|condition| condition.reason)),
        pods,
    }
}

/// The kind of the target, and its metadata.
fn target(evidence: &WorkloadEvidence) -> (&'static str, ObjectMeta) {
    if let Some(deployment) = &evidence.deployment {
        return ("Deployment", deployment.metadata.clone());
    }
    if let Some(set) = evidence.replica_sets.first() {
        return ("ReplicaSet", set.metadata.clone());
    }
    if let Some(set) = &evidence.daemon_set {
        return ("DaemonSet", set.metadata.clone());
    }
    match &evidence.stateful_set {
        Some(set) => ("StatefulSet", set.metadata.clone()),
        None => ("Deployment", ObjectMeta::default()),
    }
}

/// What would help its pods, or whoever makes them.
fn advice(pods: &[PodGroup], failed: Option<&str>) -> Vec<String> {
    let mut advice: Vec<String> = Vec::new();
    if failed == Some("FailedCreate") {
        advice.push(
            "mend what refuses the pods: a quota, an admission rule or a missing service account"
                .to_owned(),
        );
    }
    for line in pods.iter().flat_map(|group| &group.advice) {
        if !advice.contains(line) {
            advice.push(line.clone());
        }
    }
    if let [only] = pods
        && only.count > 1
        && only.state > State::NotReady
    {
        advice.push(
            "all pods that are not well have the same trouble: look at the revision or at what they all depend on".to_owned(),
        );
    }
    advice
}

fn wanted(evidence: &WorkloadEvidence) -> usize {
    if let Some(set) = &evidence.daemon_set {
        let nodes = set.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
        return usize::try_from(nodes).unwrap_or(0);
    }
    let replicas = match (&evidence.deployment, &evidence.stateful_set) {
        (Some(deployment), _) => deployment.spec.replicas,
        (None, Some(set)) => set.spec.replicas,
        (None, None) => evidence.replica_sets.first().and_then(|set| set.spec.replicas),
    };
    replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(1)
}

fn conditions(evidence: &WorkloadEvidence) -> Vec<Condition<'_>> {
    let deployment = evidence.deployment.as_ref().and_then(|d| d.status.as_ref());
    let of_deployment =
        deployment.and_then(|status| status.conditions.as_ref()).into_iter().flatten().map(|c| {
            Condition {
                type_: c.type_.as_deref().unwrap_or_default(),
                status: c.status.as_deref().unwrap_or_default(),
                reason: c.reason.as_deref().unwrap_or_default(),
                message: c.message.as_deref().unwrap_or_default(),
                since: c.last_transition_time.as_ref().map(Tick::from),
            }
        });
    let of_sets = evidence
        .replica_sets
        .iter()
        .filter(|_| evidence.deployment.is_none())
        .filter_map(|set: &ReplicaSet| set.status.as_ref()?.conditions.as_ref())
        .flatten()
        .map(|c| Condition {
            type_: c.type_.as_deref().unwrap_or_default(),
            status: c.status.as_deref().unwrap_or_default(),
            reason: c.reason.as_deref().unwrap_or_default(),
            message: c.message.as_deref().unwrap_or_default(),
            since: c.last_transition_time.as_ref().map(Tick::from),
        });
    of_deployment.chain(of_sets).collect()
}

/// The pods that are not well, the worst first, alike ones in one group; and how many are well.
pub(crate) fn group(pods: &[PodEvidence], now: Tick) -> (Vec<PodGroup>, usize) {
    let mut groups: BTreeMap<(std::cmp::Reverse<State>, String), PodGroup> = BTreeMap::new();
    let mut well = 0;
    for account in pods.iter().map(|evidence| of_pod(evidence, now)) {
        match account.state {
            State::Healthy | State::Completed => {
                well += 1;
                continue;
            }
            State::Starting
            | State::Terminating
            | State::NotReady
            | State::Blocked
            | State::Failing
            | State::Failed => {}
        }
        let shape = shape(&account.summary);
        let group =
            groups.entry((std::cmp::Reverse(account.state), shape)).or_insert_with(|| PodGroup {
                state: account.state,
                summary: account.summary,
                names: Vec::new(),
                count: 0,
                advice: account.advice,
            });
        group.count += 1;
        if group.names.len() < NAMES_MAX {
            group.names.push(account.name);
            group.names.sort();
        }
    }
    (groups.into_values().collect(), well)
}
