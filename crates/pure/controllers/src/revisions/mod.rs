//! The history of a workload's template as ControllerRevisions, which `kubectl rollout history` and
//! `rollout undo` read.
//!
//! Source: upstream's `pkg/controller/history`. A revision holds a strategic merge patch that
//! replaces the template. The one that the workload has now is the newest: a template that was
//! there before gets a new number instead of a second revision. What is to be written comes back as
//! a write; the answer brings the next look.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use rekindle_types::ObjectJson;
use rekindle_types::held::HeldPod;
use rekindle_types::labels;
use serde_json::{Value, json};

use rekindle_types::revisions::{HASH_LABEL, hash_of};

use crate::plan::{DependentPolicy, PlannedWrite, WriteOperation};
use crate::replica_set::{OwnershipClaim, claim, claim_pods};
use crate::{
    ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan, names, owners,
};

/// The label of a StatefulSet's revision that holds its hash; pods are marked with the revision's
/// name.
const HASH: &str = "controller.kubernetes.io/hash";
/// Bytes of the workload's name that go into a revision's name, which has its hash behind it.
const NAME_BYTES_MAX: usize = 223;

/// The workload whose template is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevisedWorkload<'a> {
    pub(crate) kind: ResourceKind,
    pub(crate) meta: &'a ObjectMeta,
    pub(crate) selector: &'a LabelSelector,
    pub(crate) template: &'a PodTemplateSpec,
}

/// The revisions of a workload, the newest last.
#[derive(Clone, Debug)]
pub(crate) struct RevisionHistory {
    revisions: Vec<Arc<ControllerRevision>>,
}

/// The revision of the template as it is now.
#[derive(Debug)]
enum PresentRevision {
    /// It is recorded and the newest.
    Recorded(Arc<ControllerRevision>),
    /// This write makes it so.
    After(WriteOperation),
}

/// What a workload has: its pods, its history, and the revision of its template as it is now.
pub(crate) struct WorkloadRevisions<'a> {
    pub(crate) pods: Vec<&'a Arc<HeldPod>>,
    pub(crate) history: RevisionHistory,
    pub(crate) present: Arc<ControllerRevision>,
}

/// Adopts and releases pods and revisions, and records the template. None while that is still to be
/// written: what is being adopted or let go counts first. Nor for a workload that is being deleted,
/// whose end as a whole is the collector's.
pub(crate) fn holdings<'a>(
    view: &'a ClusterView,
    of: RevisedWorkload<'a>,
    is_member: impl Fn(&ObjectMeta) -> bool,
    plan: &mut WritePlan,
) -> Option<WorkloadRevisions<'a>> {
    let pods = claim_pods(view, of.kind, of.meta, is_member, plan);
    let history = claim_history(view, of, plan);
    if !plan.batches.is_empty() || owners::is_terminating(of.meta) {
        return None;
    }
    match history.present(view, of) {
        PresentRevision::Recorded(present) => Some(WorkloadRevisions { pods, history, present }),
        PresentRevision::After(write) => {
            plan.then(write);
            None
        }
    }
}

/// Adopts and releases revisions; the result is what the workload has now.
fn claim_history(
    view: &ClusterView,
    of: RevisedWorkload<'_>,
    plan: &mut WritePlan,
) -> RevisionHistory {
    let uid = of.meta.uid.as_deref().unwrap_or_default();
    let namespace = of.meta.namespace.as_deref().unwrap_or_default();
    let managed = view.dependents_of(uid, ResourceKind::ControllerRevision);
    let unmanaged = view.unmanaged(ResourceKind::ControllerRevision, namespace);
    let mut revisions = Vec::new();
    let mut patches = Vec::new();
    for object in managed.chain(unmanaged) {
        let ViewObject::ControllerRevision(revision) = object else { continue };
        let is_selected = !labels::is_empty(of.selector)
            && labels::matches(of.selector, revision.metadata.labels.as_ref());
        match claim(of.kind, of.meta, object, is_selected) {
            OwnershipClaim::Own => revisions.push(revision.clone()),
            OwnershipClaim::Adopt(write) | OwnershipClaim::Release(write) => {
                patches.push(PlannedWrite::from(write))
            }
            OwnershipClaim::Leave => {}
        }
    }
    plan.then_all(patches);
    revisions.sort_by(|a, b| order(a).cmp(&order(b)));
    RevisionHistory { revisions }
}

fn order(revision: &ControllerRevision) -> (i64, Option<&str>) {
    (number(revision), revision.metadata.name.as_deref())
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or(0)
}

/// Its name.
pub(crate) fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// The hash of its template, as a DaemonSet's pods are marked with it.
pub(crate) fn daemon_hash(revision: &ControllerRevision) -> &str {
    hash_of(revision.metadata.labels.as_ref())
}

/// The template that a revision holds; none when it holds something else.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    PodTemplateSpec::from_value(&template).ok()
}

fn data(template: &PodTemplateSpec) -> Value {
    let mut template = template.to_value();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

impl RevisionHistory {
    /// The revision of this name.
    pub(crate) fn find(&self, wanted: &str) -> Option<&Arc<ControllerRevision>> {
        self.revisions.iter().find(|revision| name(revision) == wanted)
    }

    /// The revision of the workload's template.
    fn present(&self, view: &ClusterView, of: RevisedWorkload<'_>) -> PresentRevision {
        let data = data(of.template);
        let newest = self.revisions.last();
        let next = newest.map_or(0, |newest| number(newest)).saturating_add(1);
        match self.revisions.iter().rfind(|revision| revision.data.0 == data) {
            Some(found) if newest.is_some_and(|newest| Arc::ptr_eq(newest, found)) => {
                PresentRevision::Recorded(found.clone())
            }
            Some(found) => {
                let mut again = found.as_ref().clone();
                again.revision = Some(next);
                PresentRevision::After(WriteOperation::Update(again.into()))
            }
            None => {
                PresentRevision::After(WriteOperation::Create(new(view, of, data, next).into()))
            }
        }
    }

    /// Deletes the oldest revisions beyond the limit; those that `is_live` stay and do not count.
    pub(crate) fn truncate(
        &self,
        limit: Option<i32>,
        is_live: impl Fn(&ControllerRevision) -> bool,
    ) -> Vec<PlannedWrite> {
        let kept = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
        let idle: Vec<_> = self
            .revisions
            .iter()
            .filter(|revision| !is_live(revision) && !owners::is_terminating(&revision.metadata))
            .collect();
        let excess = idle.len().saturating_sub(kept);
        idle.into_iter()
            .take(excess)
            .map(|revision| ViewObject::ControllerRevision(revision.clone()))
            .map(|object| {
                PlannedWrite::from(WriteOperation::delete(&object, DependentPolicy::Background))
            })
            .collect()
    }
}

/// A new revision under a name that no other object has.
fn new(
    view: &ClusterView,
    of: RevisedWorkload<'_>,
    data: Value,
    number: i64,
) -> ControllerRevision {
    let namespace = of.meta.namespace.clone().unwrap_or_default();
    let owner = of.meta.name.as_deref().unwrap_or_default();
    let base = &owner[..owner.len().min(NAME_BYTES_MAX)];
    let is_free = |name: &str| {
        let name = NamespacedName::new(namespace.as_str(), name);
        view.get(&ObjectId::new(ResourceKind::ControllerRevision, name)).is_none()
    };
    let (hash, name) = (0i32..)
        .map(|collisions| {
            let hash = names::template_hash(of.template, Some(collisions).filter(|n| *n > 0));
            let name = format!("{base}-{hash}");
            (hash, name)
        })
        .find(|(_, name)| is_free(name))
        .expect("there are more numbers than objects in a namespace");
    let template_labels = of.template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    let mut labels = template_labels.unwrap_or_default();
    let label = if of.kind == ResourceKind::DaemonSet { HASH_LABEL } else { HASH };
    labels.insert(label.to_owned(), hash);
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: of.meta.namespace.clone(),
            labels: Some(labels),
            // the cause of a change is told by an annotation
            annotations: of.meta.annotations.clone(),
            owner_references: Some(vec![owners::controller_reference(of.kind, of.meta)]),
            ..ObjectMeta::default()
        },
        data: RawExtension(data),
        revision: Some(number),
    }
}
