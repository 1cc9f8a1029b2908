//! What ladders did and would have done on a cluster, workload by workload, with a ladder to begin
//! with: read from pods and ledgers, as `rekindle report` shows it. Pure, as the controllers are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use rekindle_controllers::{ClusterView, NamespacedName, ResourceKind, ViewObject, owners};
use rekindle_ladder::LadderPolicyError;
use rekindle_types::held::HeldPod;
use rekindle_types::labels;
use rekindle_types::v1alpha1::{
    LedgerPhase, RestartLadder, RestartLedger, RestartLedgerStatus, Rung,
};
use serde::Serialize;

use crate::planner_role::is_opted_in;
use crate::policies::{own_policy, policy_to_propose};
use crate::proposed_ladder::{proposed_name, proposed_spec};

/// The kinds that a report is read from.
pub const REPORT_KINDS: [ResourceKind; 11] = [
    ResourceKind::Namespace,
    ResourceKind::Deployment,
    ResourceKind::ReplicaSet,
    ResourceKind::StatefulSet,
    ResourceKind::DaemonSet,
    ResourceKind::ReplicationController,
    ResourceKind::CronJob,
    ResourceKind::Job,
    ResourceKind::Pod,
    ResourceKind::RestartLadder,
    ResourceKind::RestartLedger,
];

/// What ladders did and would have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Namespaces that are enabled, by name.
    pub namespaces: Vec<String>,
    /// Restarts of containers of all workloads below, as the kubelets count them.
    pub restarts: u64,
    /// Workloads with a restart or a ledger: those with the most restarts first.
    pub workloads: Vec<WorkloadReport>,
}

/// One workload, or a pod that has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReport {
    /// Its namespace.
    pub namespace: String,
    /// Its kind: Deployment, StatefulSet, …, or Pod.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Pods that it has now.
    pub pods: usize,
    /// Restarts of their containers, as the kubelets count them.
    pub restarts: u64,
    /// Failures that the ladder has seen.
    pub failures: u64,
    /// The ladder that selects its pods; absent when none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ladder: Option<String>,
    /// Restarts above Container that were asked for, as far as ledgers remember.
    pub done: BTreeMap<&'static str, u64>,
    /// The same that an operator which observed only noted.
    pub would_have_done: BTreeMap<&'static str, u64>,
    /// The gravest phase of its ledgers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<LedgerPhase>,
    /// What the ledger of that phase says in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The whole account of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A ladder to apply, where none selects its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<RestartLadder>,
}

/// The report of what a view shows; of one namespace, if it is given.
pub fn cluster_report(view: &ClusterView, namespace: Option<&str>) -> ClusterReport {
    let is_wanted = |name: &&str| namespace.is_none_or(|wanted| wanted == *name);
    let namespaces: Vec<&str> = enabled(view).filter(is_wanted).collect();
    let mut workloads: BTreeMap<String, WorkloadReport> = BTreeMap::new();
    // workloads with a pod that goes by the proposed ladder while an operator observes
    let mut to_propose: BTreeSet<String> = BTreeSet::new();
    for namespace in &namespaces {
        for object in view.in_namespace(ResourceKind::Pod, namespace) {
            let ViewObject::Pod(pod) = object else { continue };
            let workload = workload_of(&mut workloads, view, namespace, object);
            workload.pods += 1;
            workload.restarts += restarts(pod);
            let ladder = ladder_of(view, pod);
            if ladder.is_none() && policy_to_propose(pod).is_some() {
                to_propose.insert(owners::root_uid(view, object));
            }
            workload.ladder = workload.ladder.take().or(ladder);
        }
        for object in view.in_namespace(ResourceKind::RestartLedger, namespace) {
            let ViewObject::RestartLedger(ledger) = object else { continue };
            let workload = workload_of_ledger(&mut workloads, view, namespace, ledger);
            if let Some(status) = &ledger.status {
                workload.add(status);
            }
        }
    }
    workloads.retain(|_, workload| workload.is_worth_telling());
    let mut proposed: BTreeSet<NamespacedName> = BTreeSet::new();
    for (uid, workload) in &mut workloads {
        if workload.ladder.is_none() && to_propose.contains(uid) {
            workload.proposal = proposal(view, workload, &proposed);
            let made = workload.proposal.as_ref();
            proposed.extend(made.map(|ladder| NamespacedName::from_meta(&ladder.metadata)));
        }
    }
    let mut workloads: Vec<WorkloadReport> = workloads.into_values().collect();
    workloads.sort_by_key(|workload| std::cmp::Reverse(workload.restarts.max(workload.failures)));
    ClusterReport {
        namespaces: namespaces.into_iter().map(str::to_owned).collect(),
        restarts: workloads.iter().map(|workload| workload.restarts).sum(),
        workloads,
    }
}

impl WorkloadReport {
    fn is_worth_telling(&self) -> bool {
        self.restarts > 0 || self.failures > 0 || self.phase.is_some()
    }

    fn add(&mut self, ledger: &RestartLedgerStatus) {
        self.failures = self.failures.saturating_add(ledger.failures_total);
        for decision in ledger.decisions.iter().flatten() {
            let Some(rung) = decision.rung.filter(|rung| *rung > Rung::Container) else { continue };
            let counts =
                if decision.is_dry_run() { &mut self.would_have_done } else { &mut self.done };
            *counts.entry(rung.name()).or_default() += u64::from(decision.count);
        }
        if gravity(ledger.phase) >= gravity(self.phase) && ledger.phase.is_some() {
            self.phase = ledger.phase;
            self.summary.clone_from(&ledger.summary);
            self.message.clone_from(&ledger.message);
        }
    }
}

fn gravity(phase: Option<LedgerPhase>) -> u8 {
    match phase {
        None => 0,
        Some(LedgerPhase::Healthy) => 1,
        Some(LedgerPhase::Climbing) => 2,
        Some(LedgerPhase::Holding) => 3,
        Some(LedgerPhase::Exhausted) => 4,
    }
}

/// The namespaces that are opted in. That of the operator may be among them, which a report does
/// not know; it has no ledgers.
fn enabled(view: &ClusterView) -> impl Iterator<Item = &str> {
    view.of_kind(ResourceKind::Namespace)
        .filter(|(_, object)| is_opted_in(object.meta()))
        .map(|(id, _)| id.name.name.as_str())
}

/// What decides for a pod: a ladder, or its own annotations.
fn ladder_of(view: &ClusterView, pod: &HeldPod) -> Option<String> {
    match own_policy(view, pod) {
        Ok(policy) => policy.map(|policy| policy.name),
        Err(LadderPolicyError::Ladder { ladder, .. }) => Some(ladder),
        Err(LadderPolicyError::Annotations { pod, .. }) => Some(format!("pod/{pod}")),
    }
}

fn restarts(pod: &HeldPod) -> u64 {
    let Some(status) = &pod.status else { return 0 };
    let init = status.init_container_statuses.iter().flatten();
    let all = status.container_statuses.iter().flatten().chain(init);
    all.map(|container| u64::try_from(container.restart_count).unwrap_or(0)).sum()
}

fn workload_of<'a>(
    workloads: &'a mut BTreeMap<String, WorkloadReport>,
    view: &ClusterView,
    namespace: &str,
    object: &ViewObject,
) -> &'a mut WorkloadReport {
    let uid = owners::root_uid(view, object);
    // a workload of a kind that is not read is known by what refers to it
    let (kind, name) = match view.by_uid(&uid) {
        Some(root) => (root.kind().info().kind.to_owned(), root.id().name.name),
        None => match owners::controller_of(object.meta()) {
            Some(owner) => (owner.kind.clone(), owner.name.clone()),
            None => (object.kind().info().kind.to_owned(), object.id().name.name),
        },
    };
    workloads.entry(uid).or_insert_with(|| WorkloadReport {
        namespace: namespace.to_owned(),
        kind,
        name,
        ..WorkloadReport::default()
    })
}

/// A ledger belongs to what controls its pod; that of a pod without a controller to the pod, which
/// may be gone.
fn workload_of_ledger<'a>(
    workloads: &'a mut BTreeMap<String, WorkloadReport>,
    view: &ClusterView,
    namespace: &str,
    ledger: &RestartLedger,
) -> &'a mut WorkloadReport {
    let owner = owners::references(&ledger.metadata).first();
    if let Some(owner) = owner.and_then(|owner| view.by_uid(&owner.uid)) {
        return workload_of(workloads, view, namespace, owner);
    }
    let (uid, kind, name) = match owner {
        Some(owner) => (owner.uid.clone(), owner.kind.clone(), owner.name.clone()),
        None => {
            let spec = &ledger.spec;
            (spec.pod_uid.clone(), ResourceKind::Pod.info().kind.to_owned(), spec.pod_name.clone())
        }
    };
    workloads.entry(uid).or_insert_with(|| WorkloadReport {
        namespace: namespace.to_owned(),
        kind,
        name,
        ..WorkloadReport::default()
    })
}

/// A ladder for a workload that none selects, under a name that neither a ladder nor one of the
/// other proposals has.
fn proposal(
    view: &ClusterView,
    workload: &WorkloadReport,
    proposed: &BTreeSet<NamespacedName>,
) -> Option<RestartLadder> {
    let selector = selector_of(view, workload).filter(|selector| !labels::is_empty(selector))?;
    let namespace = workload.namespace.as_str();
    let name = proposed_name(&workload.name, &workload.kind, |name| {
        let name = NamespacedName::new(namespace, name);
        view.restart_ladder(&name).is_some() || proposed.contains(&name)
    });
    Some(RestartLadder {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: proposed_spec(selector),
        ..RestartLadder::default()
    })
}

fn selector_of(view: &ClusterView, workload: &WorkloadReport) -> Option<LabelSelector> {
    let of_labels = |labels: Option<&labels::Labels>| LabelSelector {
        match_labels: labels.cloned(),
        ..LabelSelector::default()
    };
    let kind = ResourceKind::ALL.into_iter().find(|kind| kind.info().kind == workload.kind)?;
    let mut all = view.in_namespace(kind, &workload.namespace);
    match all.find(|object| object.id().name.name == workload.name)? {
        ViewObject::Deployment(object) => Some(object.spec.selector.clone()),
        ViewObject::ReplicaSet(object) => Some(object.spec.selector.clone()),
        ViewObject::StatefulSet(object) => Some(object.spec.selector.clone()),
        ViewObject::DaemonSet(object) => Some(object.spec.selector.clone()),
        ViewObject::ReplicationController(object) => {
            let spec = object.spec.as_ref();
            Some(of_labels(spec.and_then(|spec| spec.selector.as_ref())))
        }
        ViewObject::Pod(pod) => Some(of_labels(pod.metadata.labels.as_ref())),
        _ => None,
    }
}
