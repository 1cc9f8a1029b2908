//! The account of an object that makes pods: its own conditions, and its pods that are not well,
//! alike ones folded.

use rekindle_types::Tick;
use rekindle_types::reasons::event;

use crate::account::{Account, AccountState, HistorySource, PodGroup};
use crate::condition::{WorkloadCondition, conditions, identity};
use crate::course;
use crate::events;
use crate::evidence::{PodEvidence, WorkloadEvidence, WorkloadObjects};
use crate::gone;
use crate::groups::{PodGroups, PodNaming, group};
use crate::history::{AccountHistory, OccurrenceTimes};
use crate::job;
use crate::words::{line, show_span, times};

/// Why the workload is as it is.
pub fn explain_workload(evidence: &WorkloadEvidence, now: Tick) -> Account {
    let workload = &evidence.workload;
    let (kind, metadata) = identity(workload);
    let groups = group(&evidence.pods, PodNaming::InNamespace, now);
    let conditions = conditions(workload);
    let failed = conditions.iter().find(|c| {
        matches!((c.type_, c.status), ("ReplicaFailure", "True") | ("Progressing", "False"))
    });
    let (state, summary) = match workload {
        WorkloadObjects::CronJob(cron_job, jobs) => job::judge_cron(cron_job, jobs),
        WorkloadObjects::Job(job) => job::judge(job, groups.state()),
        WorkloadObjects::DaemonSet(_)
        | WorkloadObjects::Deployment(..)
        | WorkloadObjects::ReplicaSet(_)
        | WorkloadObjects::ReplicationController(_)
        | WorkloadObjects::StatefulSet(_) => replicas(evidence, failed, &groups, now),
    };
    Account {
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
        state,
        summary,
        containers: Vec::new(),
        nodes: Vec::new(),
        history: tell(evidence, &conditions, &groups, now).finish(),
        ladder: None,
        next: match workload {
            WorkloadObjects::Job(job) => job::next(job),
            WorkloadObjects::CronJob(..)
            | WorkloadObjects::DaemonSet(_)
            | WorkloadObjects::Deployment(..)
            | WorkloadObjects::ReplicaSet(_)
            | WorkloadObjects::ReplicationController(_)
            | WorkloadObjects::StatefulSet(_) => None,
        },
        advice: advice(evidence, &groups.unwell, failed.map(|condition| condition.reason)),
        pods: groups.unwell.into_iter().chain(gone::group(&evidence.gone)).collect(),
    }
}

/// How something does that keeps a number of pods running.
fn replicas(
    evidence: &WorkloadEvidence,
    failed: Option<&WorkloadCondition<'_>>,
    groups: &PodGroups,
    now: Tick,
) -> (AccountState, String) {
    let worst = groups.state();
    let (unwell, well) = (groups.unwell(), groups.well);
    let is_daemon_set = matches!(evidence.workload, WorkloadObjects::DaemonSet(_));
    match (failed, wanted(&evidence.workload)) {
        (Some(c), _) => (AccountState::Failing, format!("{}: {}", c.reason, line(c.message))),
        (None, 0) if evidence.pods.is_empty() && is_daemon_set => {
            (AccountState::Healthy, "no node should have a pod of it".to_owned())
        }
        (None, 0) if evidence.pods.is_empty() => {
            (AccountState::Healthy, "it is scaled to 0: there are no pods".to_owned())
        }
        (None, wanted) if unwell == 0 && well >= wanted => {
            let recovered = recovered(&evidence.pods, now);
            let all = match wanted {
                1 => "its pod is well".to_owned(),
                _ => format!("all {wanted} pods are well"),
            };
            (AccountState::Healthy, format!("{all}{recovered}"))
        }
        (None, wanted) if unwell == 0 => {
            (AccountState::Starting, format!("{well} of {wanted} pods are there so far"))
        }
        (None, 1) if well == 0 && unwell == 1 => (worst, "its pod is not well".to_owned()),
        // those of two revisions, or one that ended and stays to be looked at
        (None, wanted) if well + unwell > wanted => {
            (worst, format!("{wanted} wanted; of its pods {well} well, {unwell} not"))
        }
        (None, wanted) => (worst, format!("{well} of {wanted} pods are well, {unwell} not")),
    }
}

/// How often their containers ended before they were well; nothing when none did.
fn recovered(pods: &[PodEvidence], now: Tick) -> String {
    let ends = pods.iter().map(|pod| course::ends_of(pod, now)).filter(|ends| ends.count > 0);
    let (count, last) =
        ends.fold((0_u32, Tick::ZERO), |(n, t), e| (n.saturating_add(e.count), t.max(e.last)));
    match count {
        0 => String::new(),
        _ => {
            let ago = show_span(now.since(last));
            format!("; their containers ended {}, the last time {ago} ago", times(count))
        }
    }
}

/// What happened to it, and to its pods: those that are not well, or all when they all are, and
/// those that are gone.
fn tell(
    evidence: &WorkloadEvidence,
    conditions: &[WorkloadCondition<'_>],
    groups: &PodGroups,
    now: Tick,
) -> AccountHistory {
    let mut history = AccountHistory::default();
    for condition in conditions {
        if let Some(since) = condition.since {
            let text = format!(
                "{} {}: {}: {}",
                condition.type_, condition.status, condition.reason, condition.message
            );
            history.add(HistorySource::Status, OccurrenceTimes::once(since), &text);
        }
    }
    if let WorkloadObjects::CronJob(_, jobs) = &evidence.workload {
        job::tell_jobs(jobs, &mut history);
    }
    history.add_events(&events::read(&evidence.events));
    let unwell = groups.places.iter().map(|place| &evidence.pods[*place]);
    // when nobody has trouble now, what they had is worth telling
    let recovered = evidence.pods.iter().filter(|_| groups.places.is_empty());
    unwell.chain(recovered).for_each(|pod| course::tell_together(pod, now, &mut history));
    evidence.gone.iter().for_each(|pod| gone::tell_together(pod, &mut history));
    history
}

/// What would help its pods, or whoever makes them.
fn advice(evidence: &WorkloadEvidence, pods: &[PodGroup], failed: Option<&str>) -> Vec<String> {
    let mut advice: Vec<String> = Vec::new();
    if pods.is_empty() && job::takes_its_pods_along(&evidence.workload) {
        let is_told_by_ladder = evidence.gone.iter().any(|gone| gone.ledger.is_some());
        let what_went = match is_told_by_ladder {
            true => "its pods went when it gave up, and their last lines with them",
            false => {
                "how its containers ended is not known any more: exit codes and last lines are told by pods alone, and its pods went when it gave up"
            }
        };
        advice.push(format!(
            "{what_went}: under restartPolicy Never those that fail stay to be looked at"
        ));
    }
    if failed == Some(event::FAILED_CREATE) {
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
        && only.state > AccountState::NotReady
    {
        advice.push(
            "all pods that are not well have the same trouble: look at the revision or at what they all depend on".to_owned(),
        );
    }
    advice
}

/// The pods that there should be; 0 of what does not keep a number of them.
fn wanted(workload: &WorkloadObjects) -> usize {
    let replicas = match workload {
        WorkloadObjects::DaemonSet(set) => {
            Some(set.status.as_ref().map_or(0, |status| status.desired_number_scheduled))
        }
        WorkloadObjects::Deployment(deployment, _) => deployment.spec.replicas,
        WorkloadObjects::ReplicaSet(set) => set.spec.replicas,
        WorkloadObjects::ReplicationController(controller) => {
            controller.spec.as_ref().and_then(|spec| spec.replicas)
        }
        WorkloadObjects::StatefulSet(set) => set.spec.replicas,
        WorkloadObjects::CronJob(..) | WorkloadObjects::Job(_) => Some(0),
    };
    replicas.map_or(1, |replicas| usize::try_from(replicas).unwrap_or(0))
}
