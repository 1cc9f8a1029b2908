//! The workload that an autoscaler scales, as its scale says it. That of a built-in kind follows
//! from the object; that of a custom resource is read with the metrics.

use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::labels;

use crate::readings::WorkloadScale;
use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject};

/// A workload, and what its `/scale` says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScaleTarget {
    pub(super) id: ObjectId,
    pub(super) scale: WorkloadScale,
}

/// Why there is no scale. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoScale {
    #[error("no matches for kind {kind:?} in group {group:?}")]
    UnknownKind { kind: String, group: String },
    #[error("the server could not find the requested resource")]
    NotScalable,
    #[error("{resource} {name:?} not found")]
    NotFound { resource: String, name: String },
    /// What the server said.
    #[error("{0}")]
    Refused(String),
    /// It is not known yet.
    #[error("the scale has not been read yet")]
    Unread,
}

impl NoScale {
    /// Nothing of this kind is served.
    pub(super) fn unknown_kind(api_version: &str, kind: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::UnknownKind { kind: kind.to_owned(), group: group.to_owned() }
    }
}

/// The target of a reference in this namespace.
///
/// # Errors
/// When it is not there, or its kind has no scale.
pub(super) fn find(
    view: &ClusterView,
    namespace: &str,
    reference: &CrossVersionObjectReference,
) -> Result<ScaleTarget, NoScale> {
    let id = id(view, namespace, reference)?;
    if let ResourceKind::Custom(_) = id.kind {
        let reading = view.reading(namespace).and_then(|reading| reading.scales.get(&id));
        return match reading {
            Some(Ok(scale)) => Ok(ScaleTarget { id, scale: scale.clone() }),
            Some(Err(why)) => Err(NoScale::Refused(why.clone())),
            None => Err(NoScale::Unread),
        };
    }
    if !id.kind.is_scalable() {
        return Err(NoScale::NotScalable);
    }
    match view.get(&id).and_then(scale) {
        Some(scale) => Ok(ScaleTarget { id, scale }),
        None => Err(NoScale::NotFound {
            resource: id.kind.info().resource("/scale"),
            name: reference.name.clone(),
        }),
    }
}

/// The custom resource whose scale has to be read for this reference; none where the view has it.
pub(super) fn unwatched(
    view: &ClusterView,
    namespace: &str,
    reference: &CrossVersionObjectReference,
) -> Option<ObjectId> {
    let id = id(view, namespace, reference).ok();
    id.filter(|id| matches!(id.kind, ResourceKind::Custom(_)))
}

fn id(
    view: &ClusterView,
    namespace: &str,
    reference: &CrossVersionObjectReference,
) -> Result<ObjectId, NoScale> {
    let api_version = reference.api_version.as_deref().unwrap_or_default();
    let kind = view
        .kind_of_reference(api_version, &reference.kind)
        .ok_or_else(|| NoScale::unknown_kind(api_version, &reference.kind))?;
    Ok(ObjectId::new(kind, NamespacedName::new(namespace, reference.name.as_str())))
}

fn scale(object: &ViewObject) -> Option<WorkloadScale> {
    let (wanted, observed, selector) = match object {
        ViewObject::Deployment(of) => {
            let observed = of.status.as_ref().and_then(|status| status.replicas);
            (of.spec.replicas, observed, Some(of.spec.selector.clone()))
        }
        ViewObject::ReplicaSet(of) => {
            let observed = of.status.as_ref().map(|status| status.replicas);
            (of.spec.replicas, observed, Some(of.spec.selector.clone()))
        }
        ViewObject::StatefulSet(of) => {
            let observed = of.status.as_ref().map(|status| status.replicas);
            (of.spec.replicas, observed, Some(of.spec.selector.clone()))
        }
        ViewObject::ReplicationController(of) => {
            let spec = of.spec.as_ref()?;
            let match_labels = spec.selector.clone();
            let selector = LabelSelector { match_labels, ..LabelSelector::default() };
            let observed = of.status.as_ref().map(|status| status.replicas);
            (spec.replicas, observed, Some(selector))
        }
        ViewObject::DaemonSet(_)
        | ViewObject::HorizontalPodAutoscaler(_)
        | ViewObject::CustomResourceDefinition(_)
        | ViewObject::ControllerRevision(_)
        | ViewObject::CronJob(_)
        | ViewObject::Job(_)
        | ViewObject::Pod(_)
        | ViewObject::RestartLadder(_)
        | ViewObject::PodRestart(_)
        | ViewObject::RestartLedger(_)
        | ViewObject::PodDisruptionBudget(_)
        | ViewObject::PersistentVolumeClaim(_)
        | ViewObject::Service(_)
        | ViewObject::EndpointSlice(_)
        | ViewObject::Endpoints(_)
        | ViewObject::Lease(_)
        | ViewObject::PersistentVolume(_)
        | ViewObject::StorageClass(_)
        | ViewObject::Node(_)
        | ViewObject::Namespace(_)
        | ViewObject::ResourceQuota(_)
        | ViewObject::Metadata(..) => return None,
    };
    let selector = selector.filter(|selector| !labels::is_empty(selector));
    let (wanted, observed) = (wanted.unwrap_or(1), observed.unwrap_or_default());
    Some(WorkloadScale {
        uid: object.uid().to_owned(),
        resource_version: object.meta().resource_version.clone().unwrap_or_default(),
        wanted,
        observed,
        selector,
    })
}
