//! What a machine that is gone for good keeps: volumes of the class local-path lie on it, and who
//! has a claim to one waits for it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject, owners};
use rekindle_types::held::{self, HeldVolumeSource};

use super::World;
use super::volumes::node_of;

impl World {
    /// True of what cannot come to rest without its machine: a volume whose folder nobody can
    /// remove, a pod whose claim has its volume there, and the StatefulSet that has such a pod. One
    /// that makes its pods in order makes none behind it.
    pub(super) fn is_stranded(&self, object: &ViewObject) -> bool {
        match object {
            ViewObject::PersistentVolume(volume) => {
                node_of(volume).is_some_and(|node| !self.nodes.contains(node))
            }
            ViewObject::Pod(pod) => self.waits_for_gone_volume(pod),
            ViewObject::StatefulSet(set) => self.has_stranded_pod(set),
            _ => false,
        }
    }

    fn has_stranded_pod(&self, set: &StatefulSet) -> bool {
        let is_parallel = set.spec.pod_management_policy.as_deref() == Some("Parallel");
        let is_whole = set.status.as_ref().map(|status| status.replicas) == set.spec.replicas;
        let of_set = |pod: &Arc<Pod>| {
            let owner = owners::controller_of(&pod.metadata).map(|owner| &owner.uid);
            owner.is_some() && owner == set.metadata.uid.as_ref()
        };
        let mut pods = self.server.pods().into_iter().filter(of_set);
        pods.any(|pod| self.waits_for_gone_volume(&held::HeldPod::from(&*pod)))
            && (is_whole || !is_parallel)
    }

    fn waits_for_gone_volume(&self, pod: &held::HeldPod) -> bool {
        let Some(spec) = &pod.spec else { return false };
        if pod.node_name.is_some() || pod.metadata.deletion_timestamp.is_some() {
            return false;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        spec.volumes.iter().any(|volume| match &volume.source {
            HeldVolumeSource::Claim(claim) => {
                self.volume_is_gone(&NamespacedName::new(namespace, claim.as_str()))
            }
            HeldVolumeSource::Ephemeral(_)
            | HeldVolumeSource::Image(_)
            | HeldVolumeSource::Disk => false,
        })
    }

    /// Whether the claim is bound to a volume on a machine that is gone.
    fn volume_is_gone(&self, claim: &NamespacedName) -> bool {
        let claim = ObjectId::new(ResourceKind::PersistentVolumeClaim, claim.clone());
        let Some(ViewObject::PersistentVolumeClaim(claim)) = self.server.get(&claim) else {
            return false;
        };
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        let Some(volume) = volume else { return false };
        let volume = ObjectId::new(ResourceKind::PersistentVolume, NamespacedName::new("", volume));
        let volume = self.server.get(&volume);
        matches!(&volume, Some(object @ ViewObject::PersistentVolume(_)) if self.is_stranded(object))
    }
}
