//! The binder: which PersistentVolume a PersistentVolumeClaim gets, and what becomes of both.
//!
//! ```text
//!  claim   Pending ──────────────► Bound ──────► Lost (its volume is gone)
//!  volume  Pending ─► Available ─► Bound ──────► Released (its claim is gone) ─► deleted, or kept as it is
//! ```
//!
//! Binding is four writes, each made by a look of its own at the claim, each with the
//! resourceVersion that it was decided on: `claimRef` of the volume (whoever gets that in has the
//! volume), `volumeName` of the claim, then the two statuses. A crash between any two is gone on
//! from. A volume with a `claimRef` is given to no other claim until somebody takes that out.
//!
//! Volumes of the class local-path are made, and their folders removed, by the node that the
//! scheduler chose; here that is only asked for (annotation storage-provisioner). Source of
//! behaviour: upstream's `pkg/controller/volume`.

mod claim;
mod ephemeral;
mod matching;
mod volume;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use rekindle_types::held::{HeldPod, HeldVolume, HeldVolumeSource};
use rekindle_types::local_path;

use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    cluster, owners, pods,
};
pub(crate) use claim::{
    annotation, class_name, makes_volumes, reconcile as reconcile_claim, waits_for_pod,
};
pub(crate) use ephemeral::{is_of, not_owner, reconcile as reconcile_ephemeral};
pub(crate) use matching::{candidates, wanted_size};
pub(crate) use rekindle_types::local_path::STORAGE_PROVISIONER;
pub(crate) use volume::reconcile as reconcile_volume;

/// `source.component` of its events, as upstream.
const COMPONENT: &str = "persistentvolume-controller";
/// The binding was the controller's, not the user's.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The claim has been bound once.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// One use of a claim by a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim<'p> {
    /// The volume in the pod.
    pub volume: &'p str,
    /// The claim's name.
    pub claim: Cow<'p, str>,
    /// Whose it is.
    pub origin: ClaimOrigin,
}

/// Whose a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOrigin {
    /// Somebody made it.
    Named,
    /// It is made for this pod and goes with it.
    Ephemeral,
}

/// The claims that a pod uses.
pub fn claims_of(pod: &HeldPod) -> impl Iterator<Item = PodClaim<'_>> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    volumes.filter_map(|volume| claim_of(pod, volume))
}

/// The claim behind one volume of a pod, if it is of that kind.
pub fn claim_of<'p>(pod: &'p HeldPod, volume: &'p HeldVolume) -> Option<PodClaim<'p>> {
    let (claim, origin) = match &volume.source {
        HeldVolumeSource::Claim(name) => (Cow::Borrowed(name.as_str()), ClaimOrigin::Named),
        HeldVolumeSource::Ephemeral(_) => {
            let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
            (Cow::Owned(format!("{pod_name}-{}", volume.name)), ClaimOrigin::Ephemeral)
        }
        HeldVolumeSource::Image(_) | HeldVolumeSource::Disk => return None,
    };
    Some(PodClaim { volume: &volume.name, claim, origin })
}

/// The claims, volumes and pods that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let name = &change.id.name;
    match change.latest() {
        ViewObject::PersistentVolumeClaim(_) => {
            if !change.is_removal() {
                keys.insert(ControllerKey::Claim(name.clone()));
            }
            keys.extend(volumes_of(view, name));
        }
        ViewObject::PersistentVolume(_) => {
            if !change.is_removal() {
                keys.insert(ControllerKey::Volume(name.name.clone()));
            }
            for side in change.sides() {
                let ViewObject::PersistentVolume(volume) = side else { continue };
                keys.extend(claim_ref(volume).map(|claim| ControllerKey::Claim(claim_name(claim))));
            }
            keys.extend(claims_that_may_want(view, &name.name));
        }
        ViewObject::StorageClass(_) => keys.extend(claims_that_may_want(view, "")),
        ViewObject::Node(node) if change.is_removal() || is_lost(change, node) => {
            keys.extend(claims_selected_for(view, &name.name))
        }
        ViewObject::Pod(pod) => {
            let claims = claims_of(pod).map(|used| {
                ControllerKey::Claim(NamespacedName::new(
                    name.namespace.clone(),
                    used.claim.as_ref(),
                ))
            });
            keys.extend(claims);
            if claims_of(pod).any(|used| used.origin == ClaimOrigin::Ephemeral)
                && !change.is_removal()
            {
                keys.insert(ControllerKey::EphemeralClaims(name.clone()));
            }
        }
        ViewObject::DaemonSet(_)
        | ViewObject::Deployment(_)
        | ViewObject::EndpointSlice(_)
        | ViewObject::Endpoints(_)
        | ViewObject::ReplicationController(_)
        | ViewObject::Service(_)
        | ViewObject::StatefulSet(_)
        | ViewObject::ControllerRevision(_)
        | ViewObject::ReplicaSet(_)
        | ViewObject::CronJob(_)
        | ViewObject::HorizontalPodAutoscaler(_)
        | ViewObject::Job(_)
        | ViewObject::ResourceQuota(_)
        | ViewObject::RestartLadder(_)
        | ViewObject::PodRestart(_)
        | ViewObject::RestartLedger(_)
        | ViewObject::PodDisruptionBudget(_)
        | ViewObject::Lease(_)
        | ViewObject::Node(_)
        | ViewObject::Namespace(_)
        | ViewObject::CustomResourceDefinition(_)
        | ViewObject::Metadata(..) => {}
    }
}

/// True when the node is not heard of any more.
fn is_lost(change: &ObjectChange, node: &Node) -> bool {
    let was_lost =
        matches!(&change.before, Some(ViewObject::Node(before)) if cluster::is_silent(before));
    cluster::is_silent(node) && !was_lost
}

fn volumes_of<'a>(
    view: &'a ClusterView,
    claim: &NamespacedName,
) -> impl Iterator<Item = ControllerKey> + use<'a> {
    let claim = ObjectId::new(ResourceKind::PersistentVolumeClaim, claim.clone());
    let volumes = view.naming(&claim, ResourceKind::PersistentVolume);
    volumes.map(|volume| ControllerKey::Volume(volume.id().name.name))
}

/// Claims without a volume, and those of this one.
fn claims_that_may_want(view: &ClusterView, volume: &str) -> impl Iterator<Item = ControllerKey> {
    view.of_kind(ResourceKind::PersistentVolumeClaim).filter_map(move |(id, object)| match object {
        ViewObject::PersistentVolumeClaim(claim)
            if wanted_volume(claim).is_none_or(|wanted| wanted == volume) =>
        {
            Some(ControllerKey::Claim(id.name.clone()))
        }
        _ => None,
    })
}

/// Claims without a volume that are to have one on this node.
fn claims_selected_for(view: &ClusterView, node: &str) -> impl Iterator<Item = ControllerKey> {
    view.of_kind(ResourceKind::PersistentVolumeClaim).filter_map(move |(id, object)| match object {
        ViewObject::PersistentVolumeClaim(claim)
            if wanted_volume(claim).is_none()
                && annotation(claim, local_path::SELECTED_NODE) == Some(node) =>
        {
            Some(ControllerKey::Claim(id.name.clone()))
        }
        _ => None,
    })
}

fn all_volumes(view: &ClusterView) -> impl Iterator<Item = &Arc<PersistentVolume>> {
    view.of_kind(ResourceKind::PersistentVolume).filter_map(|(_, object)| match object {
        ViewObject::PersistentVolume(volume) => Some(volume),
        _ => None,
    })
}

/// The pods that may have the claim's volume mounted. A pod that no node has is not let in any more
/// once the claim is being deleted; one that has ended has let go.
pub(crate) fn users_of<'a>(
    view: &'a ClusterView,
    claim: &NamespacedName,
) -> impl Iterator<Item = &'a Arc<HeldPod>> + use<'a> {
    let claim = ObjectId::new(ResourceKind::PersistentVolumeClaim, claim.clone());
    view.naming(&claim, ResourceKind::Pod).filter_map(|object| match object {
        ViewObject::Pod(pod) if pods::node(pod).is_some() && !pods::is_finished(pod) => Some(pod),
        _ => None,
    })
}

pub(crate) fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref())
}

pub(crate) fn claim_name(claim: &ObjectReference) -> NamespacedName {
    NamespacedName::new(
        claim.namespace.as_deref().unwrap_or_default(),
        claim.name.as_deref().unwrap_or_default(),
    )
}

/// The UID in a `claimRef`; without one it is a wish for whatever claim has that name.
fn claim_uid(claim: &ObjectReference) -> Option<&str> {
    claim.uid.as_deref().filter(|uid| !uid.is_empty())
}

fn volume_name(volume: &PersistentVolume) -> &str {
    volume.metadata.name.as_deref().unwrap_or_default()
}

/// `spec.volumeName`: the volume that the claim has, or wants.
pub(crate) fn wanted_volume(claim: &PersistentVolumeClaim) -> Option<&str> {
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    name.filter(|name| !name.is_empty())
}

/// True when the claim has its volume and both know it.
pub(crate) fn is_bound(view: &ClusterView, claim: &PersistentVolumeClaim) -> bool {
    let volume = wanted_volume(claim)
        .and_then(|name| view.persistent_volume(&NamespacedName::new("", name)));
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Bound") && volume.is_some_and(|volume| belongs_to(volume, claim))
}

fn belongs_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of = claim_ref(volume).and_then(claim_uid);
    of.is_some() && of == claim.metadata.uid.as_deref()
}

fn is_protected(object: &ViewObject, finalizer: &str) -> bool {
    owners::has_finalizer(object.meta(), finalizer)
}
