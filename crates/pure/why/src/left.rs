//! Which pods a workload had that are gone, and what speaks of them still: their pods tell nothing
//! any more, and a Job that gives up, a rollback or an eviction takes them away together with the
//! reason.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger};

use crate::condition::identity;
use crate::evidence::{GoneEvidence, WorkloadObjects};
use crate::remembered::asked_for;

/// Pods that are told of: those that were heard of last.
const PODS_MAX: usize = 10;
/// How events of controllers name a pod that they made or deleted.
const NAMED_BY: [&str; 2] = ["Created pod: ", "Deleted pod: "];

/// What there is in a namespace beside a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadRemains<'a> {
    /// Events about the workload and what it made, its pods aside.
    pub events: &'a [Event],
    /// Its pods that are there.
    pub pods: &'a [Pod],
    /// The ledgers of the namespace.
    pub ledgers: &'a [RestartLedger],
    /// The restarts that were asked for in the namespace.
    pub restarts: &'a [PodRestart],
}

/// A pod in the making, and when it was heard of last.
#[derive(Default)]
struct DepartedPod {
    last: Tick,
    ledger: Option<RestartLedger>,
}

/// The workload's pods that are gone and left something, with all that is left but their own
/// events. Of a Job, whose pods go when it gives up, those that its events name as well; others
/// make and delete pods all the time.
pub fn left_behind(workload: &WorkloadObjects, remains: WorkloadRemains<'_>) -> Vec<GoneEvidence> {
    let there: BTreeSet<&str> =
        remains.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let owners = owners(workload);
    let mut gone: BTreeMap<String, DepartedPod> = BTreeMap::new();
    let mut hear = |pod: &str, at: Tick| {
        if !there.contains(pod) {
            let heard = gone.entry(pod.to_owned()).or_default();
            heard.last = heard.last.max(at);
        }
    };
    let is_owned = |of: &ObjectMeta| {
        let mut references = of.owner_references.iter().flatten();
        references.any(|reference| owners.contains(reference.uid.as_str()))
    };
    let own = || remains.ledgers.iter().filter(|ledger| is_owned(&ledger.metadata));
    own().for_each(|ledger| hear(&ledger.spec.pod_name, last_word(ledger)));
    for restart in remains.restarts {
        if is_owned(&restart.metadata) || is_for(restart, workload, &owners) {
            hear(&restart.spec.pod_name, created(&restart.metadata));
        }
    }
    match workload {
        WorkloadObjects::CronJob(..) | WorkloadObjects::Job(_) => {
            remains.events.iter().filter_map(named).for_each(|(pod, at)| hear(pod, at));
        }
        WorkloadObjects::DaemonSet(_)
        | WorkloadObjects::Deployment(..)
        | WorkloadObjects::ReplicaSet(_)
        | WorkloadObjects::ReplicationController(_)
        | WorkloadObjects::StatefulSet(_) => {}
    }
    for ledger in own() {
        if let Some(heard) = gone.get_mut(&ledger.spec.pod_name) {
            heard.ledger = Some(ledger.clone());
        }
    }
    let mut newest: Vec<(String, DepartedPod)> = gone.into_iter().collect();
    newest.sort_by_key(|(_, heard)| std::cmp::Reverse(heard.last));
    newest.truncate(PODS_MAX);
    newest.sort_by(|(one, _), (other, _)| one.cmp(other));
    let namespace = identity(workload).1.namespace.clone().unwrap_or_default();
    let evidence = newest.into_iter().map(|(name, DepartedPod { ledger, .. })| {
        let there = remains.restarts.iter().filter(|r| r.spec.pod_name == name).cloned().collect();
        GoneEvidence {
            namespace: namespace.clone(),
            restarts: asked_for(&name, there, ledger.as_ref()),
            ledger,
            events: Vec::new(),
            name,
        }
    });
    evidence.collect()
}

/// The UIDs of the workload and of what makes its pods for it.
fn owners(workload: &WorkloadObjects) -> BTreeSet<&str> {
    let made: Vec<&ObjectMeta> = match workload {
        WorkloadObjects::CronJob(_, jobs) => jobs.iter().map(|job| &job.metadata).collect(),
        WorkloadObjects::Deployment(_, sets) => sets.iter().map(|set| &set.metadata).collect(),
        WorkloadObjects::DaemonSet(_)
        | WorkloadObjects::Job(_)
        | WorkloadObjects::ReplicaSet(_)
        | WorkloadObjects::ReplicationController(_)
        | WorkloadObjects::StatefulSet(_) => Vec::new(),
    };
    made.into_iter().chain([identity(workload).1]).filter_map(|meta| meta.uid.as_deref()).collect()
}

/// A request that replaced one of its pods, or took it back to an earlier revision: a person's has
/// no owner.
fn is_for(restart: &PodRestart, workload: &WorkloadObjects, owners: &BTreeSet<&str>) -> bool {
    let Some(status) = &restart.status else { return false };
    let replaced = status.replacement.as_ref().and_then(|by| by.workload_uid.as_deref());
    let rolled_back = status.rollback.as_ref().map(|rollback| rollback.deployment_name.as_str());
    replaced.is_some_and(|workload| owners.contains(workload))
        || match workload {
            WorkloadObjects::Deployment(deployment, _) => {
                rolled_back.is_some() && rolled_back == deployment.metadata.name.as_deref()
            }
            WorkloadObjects::CronJob(..)
            | WorkloadObjects::DaemonSet(_)
            | WorkloadObjects::Job(_)
            | WorkloadObjects::ReplicaSet(_)
            | WorkloadObjects::ReplicationController(_)
            | WorkloadObjects::StatefulSet(_) => false,
        }
}

/// The pod that a controller's event names.
fn named(event: &Event) -> Option<(&str, Tick)> {
    let message = event.message.as_deref()?;
    let pod = NAMED_BY.iter().find_map(|begin| message.strip_prefix(begin))?;
    let at = event.last_timestamp.as_ref().map(Tick::from);
    let at = at.or_else(|| event.event_time.as_ref().map(Tick::from));
    Some((pod, at.unwrap_or_else(|| created(&event.metadata))))
}

fn created(meta: &ObjectMeta) -> Tick {
    meta.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from)
}

/// When a ledger was written last, as far as its decisions tell.
fn last_word(ledger: &RestartLedger) -> Tick {
    created(&ledger.metadata).max(ledger.last_decided().unwrap_or(Tick::ZERO))
}
