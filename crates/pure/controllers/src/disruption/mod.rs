//! The disruption controller: how many pods of a budget may be evicted now.
//!
//! It calculates the status of a PodDisruptionBudget; the Eviction API counts `disruptionsAllowed`
//! down by itself and notes the pod in `disruptedPods`, so that it is not taken for healthy before
//! its deletion has been seen here. Both write with the resourceVersion that they decided on:
//! whoever is late looks again. Source of behaviour: the API reference of policy/v1 and upstream's
//! controller (`pkg/controller/disruption`).
//!
//! ```text
//!  allowed = healthy pods − desiredHealthy, at least 0; 0 when no pods are expected
//!  healthy = Ready, not being deleted, not in disruptedPods (for 2 minutes, seen or not)
//! ```

mod departures;
mod disrupted;
mod expected;
mod status;
mod target;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rekindle_types::held::HeldPod;
use rekindle_types::{EventSeverity, Tick, labels};

use crate::events::EventNote;
use crate::plan::WriteOperation;
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners, pods,
};
pub(crate) use departures::PodDepartures;
use disrupted::BudgetPods;
pub(crate) use target::{affected as affected_targets, reconcile as reconcile_target};

/// `source.component` of its events, as upstream.
const COMPONENT: &str = "controllermanager";
/// Pods about which one look at a budget says something, at most.
const NOTES_MAX: usize = 20;

/// The budgets that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.latest() {
        ViewObject::PodDisruptionBudget(_) if !change.is_removal() => {
            keys.insert(ControllerKey::Disruption(change.id.name.clone()));
        }
        ViewObject::Pod(_) if is_relevant(change) => {
            for side in change.sides() {
                keys.extend(covering(view, side.meta().labels.as_ref(), &change.id.name.namespace));
            }
        }
        // What a controller wants is what a budget's percentage is of.
        ViewObject::ReplicaSet(set) => {
            let template = set.spec.template.as_ref().and_then(|t| t.metadata.as_ref());
            keys.extend(covering(
                view,
                template.and_then(|meta| meta.labels.as_ref()),
                &change.id.name.namespace,
            ));
        }
        ViewObject::ReplicationController(set) => {
            let spec = set.spec.as_ref();
            let template = spec.and_then(|spec| spec.template.as_ref()?.metadata.as_ref());
            keys.extend(covering(
                view,
                template.and_then(|meta| meta.labels.as_ref()),
                &change.id.name.namespace,
            ));
        }
        ViewObject::StatefulSet(set) => {
            let template = set.spec.template.metadata.as_ref();
            keys.extend(covering(
                view,
                template.and_then(|meta| meta.labels.as_ref()),
                &change.id.name.namespace,
            ));
        }
        ViewObject::Deployment(deployment) => {
            let template = deployment.spec.template.metadata.as_ref();
            keys.extend(covering(
                view,
                template.and_then(|meta| meta.labels.as_ref()),
                &change.id.name.namespace,
            ));
        }
        ViewObject::PodDisruptionBudget(_)
        | ViewObject::CronJob(_)
        | ViewObject::HorizontalPodAutoscaler(_)
        | ViewObject::DaemonSet(_)
        | ViewObject::EndpointSlice(_)
        | ViewObject::Endpoints(_)
        | ViewObject::Service(_)
        | ViewObject::Job(_)
        | ViewObject::Pod(_)
        | ViewObject::ControllerRevision(_)
        | ViewObject::ResourceQuota(_)
        | ViewObject::RestartLadder(_)
        | ViewObject::PodRestart(_)
        | ViewObject::RestartLedger(_)
        | ViewObject::PersistentVolumeClaim(_)
        | ViewObject::Lease(_)
        | ViewObject::PersistentVolume(_)
        | ViewObject::StorageClass(_)
        | ViewObject::Node(_)
        | ViewObject::Namespace(_)
        | ViewObject::CustomResourceDefinition(_)
        | ViewObject::Metadata(..) => {}
    }
}

/// True when something changed that a budget looks at.
fn is_relevant(change: &ObjectChange) -> bool {
    seen(change.before.as_ref()) != seen(change.after.as_ref())
}

/// What it looks at.
fn seen(side: Option<&ViewObject>) -> impl PartialEq {
    let Some(ViewObject::Pod(pod)) = side else { return None };
    let meta = &pod.metadata;
    Some((
        (pods::is_ready(pod), pods::is_terminating(pod)),
        (&meta.uid, &meta.labels, owners::controller_of(meta).map(|owner| &owner.uid)),
    ))
}

/// The budgets of a namespace whose selector matches the labels.
pub(crate) fn covering<'a>(
    view: &'a ClusterView,
    labels: Option<&'a labels::Labels>,
    namespace: &'a str,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let budgets = view.covering(ResourceKind::PodDisruptionBudget, namespace, labels);
    budgets.map(|budget| ControllerKey::Disruption(budget.id().name))
}

/// An absent selector selects nothing, an empty one every pod of the namespace.
pub(crate) fn selects(budget: &PodDisruptionBudget, labels: Option<&labels::Labels>) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| labels::matches(selector, labels))
}

/// What is to be done for a budget: its status, when it is not as it should be.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(budget) = view.pod_disruption_budget(name) else { return plan };
    if owners::is_terminating(&budget.metadata) {
        return plan;
    }
    let covered: Vec<&Arc<HeldPod>> = view.covered_by(name).collect();
    let (status, notes) = match expected::count(view, budget, &covered) {
        Ok(counts) => {
            let disrupted = BudgetPods::new(view, budget, &covered, now);
            if let Some(at) = disrupted.again_at {
                plan.look_again(at);
            }
            let notes = notes(view, budget, &covered, &counts, &disrupted);
            (status::calculated(budget, &counts, disrupted, now), notes)
        }
        Err(problem) => {
            let text = format!("Failed to calculate the number of expected pods: {problem}");
            let note =
                note(budget, EventSeverity::Warning, "CalculateExpectedPodCountFailed", text);
            (status::failed(budget, &problem.to_string(), now), vec![note])
        }
    };
    if status::is_same(budget.status.as_ref(), &status) {
        return plan; // what there is to say has been said
    }
    plan.notes = notes;
    let mut updated = budget.as_ref().clone();
    updated.status = Some(status);
    plan.then(WriteOperation::UpdateStatus(updated.into()));
    plan
}

/// What people should know about a budget that changed.
fn notes(
    view: &ClusterView,
    budget: &Arc<PodDisruptionBudget>,
    covered: &[&Arc<HeldPod>],
    counts: &expected::BudgetTarget,
    disrupted: &BudgetPods<'_>,
) -> Vec<EventNote> {
    let mut notes = Vec::new();
    if covered.is_empty() {
        notes.push(note(
            budget,
            EventSeverity::Normal,
            "NoPods",
            "No matching pods found".to_owned(),
        ));
    }
    if counts.unmanaged > 0 {
        let text = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of \
                    the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
                    these pods please set \".spec.minAvailable\" field of the PDB to an integer value.";
        notes.push(note(budget, EventSeverity::Warning, "UnmanagedPods", text.to_owned()));
    }
    let name = NamespacedName::from_meta(&budget.metadata);
    for pod in disrupted.not_deleted.iter().take(NOTES_MAX) {
        let text = format!("Pod was expected by PDB {name} to be deleted but it wasn't");
        notes.push(pod_note(pod, "NotDeleted", text));
    }
    for pod in twice_covered(view, &name, covered).take(NOTES_MAX) {
        let of = NamespacedName::from_meta(&pod.metadata);
        let text = format!(
            "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  None of them lets it be evicted.",
            of.namespace, of.name
        );
        notes.push(pod_note(pod, "MultiplePodDisruptionBudgets", text));
    }
    notes
}

/// The pods that another budget covers, too.
fn twice_covered<'a>(
    view: &'a ClusterView,
    name: &'a NamespacedName,
    covered: &'a [&'a Arc<HeldPod>],
) -> impl Iterator<Item = &'a Arc<HeldPod>> {
    let is_other = |budget: &ViewObject| budget.meta().name.as_deref() != Some(&name.name);
    covered.iter().copied().filter(move |pod| {
        let labels = pod.metadata.labels.as_ref();
        view.covering(ResourceKind::PodDisruptionBudget, &name.namespace, labels).any(is_other)
    })
}

fn note(
    budget: &Arc<PodDisruptionBudget>,
    severity: EventSeverity,
    reason: &'static str,
    text: String,
) -> EventNote {
    EventNote::new(&ViewObject::from(budget.clone()), severity, reason, text, COMPONENT)
}

fn pod_note(pod: &Arc<HeldPod>, reason: &'static str, text: String) -> EventNote {
    EventNote::new(&ViewObject::from(pod.clone()), EventSeverity::Warning, reason, text, COMPONENT)
}
