//! Evicted pods in whose place no other one comes: their workload was scaled down, is over, or was
//! deleted since. Who goes on waiting for one keeps its place in the budgets until its deadline.

use rekindle_types::v1alpha1::{PodReplacement, PodRestart, ReplacementStep};

use super::is_finished;
use crate::vacancy::{self, PodVacancy};
use crate::{
    ClusterView, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject, job, owners,
};

/// Why nothing comes in the pod's place.
pub(super) struct ReplacementFailure {
    pub(super) why: String,
    /// The workload that is gone, which is to be checked at the server: the view may be behind.
    pub(super) gone: Option<ObjectId>,
}

/// None while another pod may come.
pub(super) fn failure_without_successor(
    view: &ClusterView,
    restart: &PodRestart,
    replacement: &PodReplacement,
    workload: &str,
) -> Option<ReplacementFailure> {
    let Some(workload) = view.by_uid(workload) else { return deleted(restart, replacement) };
    let pod_name = restart.spec.pod_name.as_str();
    let node_name = Some(replacement.node_name.as_str());
    let vacancy = PodVacancy { pod_name, node_name };
    let is_to_be_filled = vacancy::is_to_be_filled(view, workload, vacancy);
    (!is_to_be_filled).then(|| ReplacementFailure { why: words(workload, vacancy), gone: None })
}

/// What is not in the view may be of a kind that is not looked at here.
fn deleted(restart: &PodRestart, replacement: &PodReplacement) -> Option<ReplacementFailure> {
    let (kind, name) =
        replacement.workload_kind.as_ref().zip(replacement.workload_name.as_ref())?;
    let known = ResourceKind::ALL.into_iter().find(|known| known.info().kind == kind)?;
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    let id = ObjectId::new(known, NamespacedName::new(namespace, name.as_str()));
    Some(ReplacementFailure { why: format!("{kind} {name} was deleted"), gone: Some(id) })
}

fn words(workload: &ViewObject, vacancy: PodVacancy<'_>) -> String {
    let kind = workload.kind().info().kind;
    let name = workload.meta().name.as_deref().unwrap_or_default();
    if owners::is_terminating(workload.meta()) {
        return format!("{kind} {name} is being deleted");
    }
    match workload {
        ViewObject::StatefulSet(_) => {
            format!("{kind} {name} was scaled down and does not want it any more")
        }
        ViewObject::DaemonSet(_) => {
            let node = vacancy.node_name.unwrap_or_default();
            format!("{kind} {name} wants no pod on node {node} any more")
        }
        ViewObject::Job(job) if job::is_over(job) => format!("{kind} {name} is over"),
        ViewObject::Job(job)
            if job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true)) =>
        {
            format!("{kind} {name} is suspended")
        }
        ViewObject::CronJob(_) => format!("no Job of {kind} {name} starts another one"),
        _ => format!("{kind} {name} has all the pods that it wants"),
    }
}

/// The requests that wait for another pod of a workload that may want it no more.
pub(super) fn affected<'a>(
    view: &'a ClusterView,
    change: &'a ObjectChange,
) -> impl Iterator<Item = NamespacedName> + 'a {
    let workload = is_news(change).then(|| owners::root_uid(view, change.latest()));
    workload.into_iter().flat_map(move |workload| {
        let requests = view.in_namespace(ResourceKind::PodRestart, &change.id.name.namespace);
        requests.filter_map(move |request| match request {
            ViewObject::PodRestart(restart) => {
                let waits_for = waits_for(restart)?.workload_uid.as_ref()?;
                (*waits_for == workload).then(|| NamespacedName::from_meta(&restart.metadata))
            }
            _ => None,
        })
    })
}

/// What a request waits with that has had its pod evicted.
pub(super) fn waits_for(restart: &PodRestart) -> Option<&PodReplacement> {
    let replacement = restart.status.as_ref()?.replacement.as_ref()?;
    let is_waiting = replacement.step == ReplacementStep::Evicting && !is_finished(restart);
    is_waiting.then_some(replacement)
}

fn is_news(change: &ObjectChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (was, is) = (before.meta(), after.meta());
    let is_over = matches!(after, ViewObject::Job(job) if job::is_over(job));
    is_over
        || was.generation != is.generation
        || owners::is_terminating(was) != owners::is_terminating(is)
}
