//! The workload that an autoscaler scales, as its scale says it.

use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::labels;

use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject};

/// What `/scale` of a workload says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScaleTarget<'a> {
    pub(super) object: &'a ViewObject,
    /// `spec.replicas`.
    pub(super) wanted: i32,
    /// `status.replicas`.
    pub(super) observed: i32,
    /// Absent where it would select everything.
    pub(super) selector: Option<LabelSelector>,
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
/// When it is not there, or its kind has no scale that is watched here.
pub(super) fn find<'a>(
    view: &'a ClusterView,
    namespace: &str,
    reference: &CrossVersionObjectReference,
) -> Result<ScaleTarget<'a>, NoScale> {
    let api_version = reference.api_version.as_deref().unwrap_or_default();
    let kind = ResourceKind::of_reference(api_version, &reference.kind)
        .ok_or_else(|| NoScale::unknown_kind(api_version, &reference.kind))?;
    if !kind.is_scalable() {
        return Err(NoScale::NotScalable);
    }
    let id = ObjectId::new(kind, NamespacedName::new(namespace, reference.name.as_str()));
    let found = view.get(&id).and_then(scale);
    found.ok_or_else(|| NoScale::NotFound {
        resource: kind.info().resource("/scale"),
        name: reference.name.clone(),
    })
}

fn scale(object: &ViewObject) -> Option<ScaleTarget<'_>> {
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
    Some(ScaleTarget { object, wanted, observed, selector })
}
