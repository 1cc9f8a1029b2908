//! How many pods there should be, and how many of them must be healthy.
//!
//! A plain number in `minAvailable` is compared with the pods that there are. A percentage, and
//! `maxUnavailable` whatever its form, is of what the pods' controllers want: the sum of
//! `spec.replicas` over all of them, so that a pod that is just being replaced is missed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::disruption::UncountablePods;
use rekindle_types::held::HeldPod;
use rekindle_types::int_or_percent::{Rounding, scaled};

use crate::{ClusterView, ResourceKind, ViewObject, owners};

/// What a budget wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BudgetTarget {
    /// Pods that there should be.
    pub(super) expected: i32,
    /// Pods that must be healthy.
    pub(super) desired: i32,
    /// Pods that no controller manages, where controllers are what counts.
    pub(super) unmanaged: usize,
}

/// What the budget wants of the pods that it covers.
pub(super) fn count(
    view: &ClusterView,
    budget: &PodDisruptionBudget,
    covered: &[&Arc<HeldPod>],
) -> Result<BudgetTarget, UncountablePods> {
    let none = PodDisruptionBudgetSpec::default();
    let spec = budget.spec.as_ref().unwrap_or(&none);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(max), _) => {
            let (expected, unmanaged) = wanted(view, covered)?;
            let desired = expected.saturating_sub(scaled(max, expected, Rounding::Up)).max(0);
            Ok(BudgetTarget { expected, desired, unmanaged })
        }
        (None, Some(IntOrString::Int(min))) => {
            let expected = i32::try_from(covered.len()).unwrap_or(i32::MAX);
            Ok(BudgetTarget { expected, desired: *min, unmanaged: 0 })
        }
        (None, Some(min @ IntOrString::String(_))) => {
            let (expected, unmanaged) = wanted(view, covered)?;
            Ok(BudgetTarget { expected, desired: scaled(min, expected, Rounding::Up), unmanaged })
        }
        (None, None) => Ok(BudgetTarget::default()),
    }
}

/// What the controllers of the pods want, all together, and how many pods have none.
fn wanted(view: &ClusterView, covered: &[&Arc<HeldPod>]) -> Result<(i32, usize), UncountablePods> {
    let mut unmanaged = 0;
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut scales: BTreeMap<&str, i32> = BTreeMap::new();
    for pod in covered {
        let Some(controller) = owners::controller_of(&pod.metadata) else {
            unmanaged += 1;
            continue;
        };
        if !known.insert(&controller.uid) {
            continue;
        }
        let (uid, scale) = scale_of(view, pod, controller)?;
        scales.insert(uid, scale);
    }
    let sum = scales.values().fold(0, |sum: i32, scale| sum.saturating_add(*scale));
    Ok((sum, unmanaged))
}

/// The workload that decides how many pods like this there are, by its UID, and their number: the
/// Deployment of a ReplicaSet before the ReplicaSet itself.
fn scale_of<'a>(
    view: &'a ClusterView,
    pod: &HeldPod,
    controller: &'a OwnerReference,
) -> Result<(&'a str, i32), UncountablePods> {
    let gone =
        || UncountablePods::NoController { pod: pod.metadata.name.clone().unwrap_or_default() };
    let OwnerReference { api_version, kind, .. } = controller;
    match ResourceKind::of_reference(api_version, kind) {
        Some(kind) if kind.is_scalable() => {}
        Some(kind) => {
            return Err(UncountablePods::NoScale { resource: kind.info().resource("") });
        }
        None => {
            let (kind, api_version) = (kind.clone(), api_version.clone());
            return Err(UncountablePods::UnknownKind { kind, api_version });
        }
    }
    match view.by_uid(&controller.uid) {
        Some(ViewObject::ReplicaSet(set)) => {
            let above = owners::controller_of(&set.metadata);
            match above.and_then(|above| view.by_uid(&above.uid)) {
                Some(ViewObject::Deployment(deployment)) => Ok((
                    deployment.metadata.uid.as_deref().unwrap_or_default(),
                    deployment.spec.replicas.unwrap_or(1),
                )),
                _ => Ok((&controller.uid, set.spec.replicas.unwrap_or(1))),
            }
        }
        Some(ViewObject::Deployment(deployment)) => {
            Ok((&controller.uid, deployment.spec.replicas.unwrap_or(1)))
        }
        Some(ViewObject::ReplicationController(set)) => {
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
            Ok((&controller.uid, replicas.unwrap_or(1)))
        }
        Some(ViewObject::StatefulSet(set)) => Ok((&controller.uid, set.spec.replicas.unwrap_or(1))),
        _ => Err(gone()),
    }
}
