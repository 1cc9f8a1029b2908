//! What a pod's claims say about where it may go. Reasons are worded as upstream's volume plugins
//! word them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use rekindle_types::held::HeldPod;
use rekindle_types::local_path::{PROVISIONER, SELECTED_NODE};
use serde_json::json;

use super::refusal::NodeRefusal;
use super::{affinity, volume_zones};
use crate::plan::{PatchTarget, WriteOperation};
use crate::volumes::{
    ClaimOrigin, annotation, candidates, claims_of, class_name, is_bound, is_of, makes_volumes,
    not_owner, users_of, waits_for_pod, wanted_size, wanted_volume,
};
use crate::{ClusterView, NamespacedName, ViewObject, cluster, owners};

/// The claims of a pod that may be scheduled.
#[derive(Default)]
pub(super) struct VolumeClaims<'v> {
    /// The volumes that are there.
    bound: Vec<&'v Arc<PersistentVolume>>,
    /// Claims whose volume is made or bound when a node is chosen, the smallest first.
    waiting: Vec<UnboundClaim<'v>>,
    /// Another pod has a volume that is for one pod only.
    taken: bool,
}

/// A claim whose volume is made or bound when a node is chosen.
struct UnboundClaim<'v> {
    claim: &'v Arc<PersistentVolumeClaim>,
    /// The volumes that it may have, the best first.
    candidates: Vec<&'v Arc<PersistentVolume>>,
    /// Who makes one for it where there is none.
    maker: VolumeProvisioner,
}

/// Who makes a volume for a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VolumeProvisioner {
    /// Nobody.
    None,
    /// The node where it is to lie.
    Node,
    /// Somebody who does not depend on a node.
    Other,
}

impl VolumeProvisioner {
    fn from_class(class: &StorageClass) -> Self {
        match (makes_volumes(class), class.provisioner.as_str()) {
            (false, _) => Self::None,
            (true, PROVISIONER) => Self::Node,
            (true, _) => Self::Other,
        }
    }

    /// Whether a volume can be had on this node: a node that is not heard of makes none.
    fn serves(self, node: &Node) -> bool {
        match self {
            Self::None => false,
            Self::Node => !cluster::is_silent(node),
            Self::Other => true,
        }
    }
}

impl<'v> VolumeClaims<'v> {
    /// Looks the claims up, or says why the pod cannot be scheduled whatever the node.
    pub(super) fn new(view: &'v ClusterView, pod: &HeldPod) -> Result<Self, String> {
        let mut claims = Self::default();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        for used in claims_of(pod) {
            let name = NamespacedName::new(namespace, used.claim.as_ref());
            let Some(claim) = view.persistent_volume_claim(&name) else {
                return Err(match used.origin {
                    ClaimOrigin::Named => {
                        format!("persistentvolumeclaim {:?} not found", used.claim)
                    }
                    ClaimOrigin::Ephemeral => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim {:?}",
                        used.claim
                    ),
                });
            };
            if used.origin == ClaimOrigin::Ephemeral && !is_of(claim, pod) {
                let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
                return Err(not_owner(&used.claim, pod_name));
            }
            if owners::is_terminating(&claim.metadata) {
                return Err(format!("persistentvolumeclaim {:?} is being deleted", used.claim));
            }
            claims.taken |= is_for_one_pod(claim) && is_taken(view, pod, &name);
            claims.add(view, claim)?;
        }
        claims.waiting.sort_by_key(|waiting| wanted_size(waiting.claim));
        Ok(claims)
    }

    fn add(
        &mut self,
        view: &'v ClusterView,
        claim: &'v Arc<PersistentVolumeClaim>,
    ) -> Result<(), String> {
        let volume = wanted_volume(claim).map(|name| NamespacedName::new("", name));
        if is_bound(view, claim) {
            self.bound.extend(volume.and_then(|name| view.persistent_volume(&name)));
            return Ok(());
        }
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Lost") {
            return Err(format!(
                "persistentvolumeclaim {:?} bound to non-existent persistentvolume {:?}",
                claim.metadata.name.as_deref().unwrap_or_default(),
                wanted_volume(claim).unwrap_or_default()
            ));
        }
        let class = view.storage_class(&NamespacedName::new("", class_name(claim)));
        // Once its node was chosen it may be named a volume before it is bound to that.
        let waits = volume.is_none() || annotation(claim, SELECTED_NODE).is_some();
        if let Some(class) = class.filter(|class| waits && waits_for_pod(class)) {
            // A claim behind two volumes of the pod waits for one.
            if !self.waiting.iter().any(|waiting| Arc::ptr_eq(waiting.claim, claim)) {
                let (candidates, maker) =
                    (candidates(view, claim), VolumeProvisioner::from_class(class));
                self.waiting.push(UnboundClaim { claim, candidates, maker });
            }
            return Ok(());
        }
        Err("pod has unbound immediate PersistentVolumeClaims".to_owned())
    }

    /// Why the pod's volumes keep it from this node.
    pub(super) fn refusal(&self, node: &Node) -> Option<NodeRefusal> {
        if !self.taken && self.bound.is_empty() && self.waiting.is_empty() {
            return None;
        }
        if self.taken {
            return Some(NodeRefusal::final_for(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            ));
        }
        if !self.bound.iter().all(|volume| affinity::fits_volume(volume, node)) {
            return Some(NodeRefusal::final_for(
                "node(s) didn't match PersistentVolume's node affinity",
            ));
        }
        if !self.get_volumes_on(node) {
            return Some(NodeRefusal::final_for(
                "node(s) didn't find available persistent volumes to bind",
            ));
        }
        let reach = self.bound.iter().all(|volume| volume_zones::reach(volume, node));
        (!reach).then(|| NodeRefusal::final_for("node(s) had no available volume zone"))
    }

    /// True when each claim that waits would get a volume on the node, and no two the same.
    fn get_volumes_on(&self, node: &Node) -> bool {
        let name = node.metadata.name.as_deref();
        let mut given: Vec<&Arc<PersistentVolume>> = Vec::new();
        self.waiting.iter().all(|waiting| {
            if annotation(waiting.claim, SELECTED_NODE).is_some_and(|node| Some(node) != name) {
                return false;
            }
            let found = waiting.candidates.iter().find(|volume| {
                affinity::fits_volume(volume, node)
                    && !given.iter().any(|given| Arc::ptr_eq(given, volume))
            });
            given.extend(found);
            found.is_some() || waiting.maker.serves(node)
        })
    }

    /// True when every claim has its volume.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What tells the claims that the pod goes to this node.
    pub(super) fn select(&self, node: &Node) -> impl Iterator<Item = WriteOperation> {
        let name = node.metadata.name.clone();
        let claims = self.waiting.iter().map(|waiting| waiting.claim);
        let unsaid = claims.filter(|claim| annotation(claim, SELECTED_NODE).is_none());
        unsaid.map(move |claim| {
            let object = ViewObject::from(claim.clone());
            let meta = object.meta();
            let patch = json!({"metadata": {
                "uid": meta.uid, "resourceVersion": meta.resource_version,
                "annotations": {SELECTED_NODE: name},
            }});
            WriteOperation::Patch { id: object.id(), part: PatchTarget::Whole, patch }
        })
    }
}

fn is_for_one_pod(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    modes.into_iter().any(|mode| mode == "ReadWriteOncePod")
}

fn is_taken(view: &ClusterView, pod: &HeldPod, claim: &NamespacedName) -> bool {
    users_of(view, claim).any(|other| other.metadata.uid != pod.metadata.uid)
}
