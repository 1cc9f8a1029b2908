//! Which pods are here, for those who only look: log readers, and what reads usage.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::{PodRef, PodUid};
use tokio::sync::watch;

/// One pod as this node sees it.
#[derive(Clone, Debug)]
pub(crate) struct PodView {
    /// Which one.
    pub pod_ref: PodRef,
    /// Its object as the API gave it last.
    pub pod: watch::Receiver<Arc<Pod>>,
    /// Its status, as the node knows it: at least as new as the API's.
    pub status: watch::Receiver<Arc<PodStatus>>,
}

/// The pods of this node by UID. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodIndex {
    pods: Arc<RwLock<BTreeMap<PodUid, PodView>>>,
    /// UIDs of mirrors, and whose mirrors they are.
    mirrors: Arc<RwLock<BTreeMap<PodUid, PodUid>>>,
}

impl PodIndex {
    /// Adds or replaces a pod.
    pub(crate) fn insert(&self, view: PodView) {
        let mut pods = self.pods.write().unwrap_or_else(PoisonError::into_inner);
        pods.insert(view.pod_ref.uid.clone(), view);
    }

    /// Forgets a pod.
    pub(crate) fn remove(&self, uid: &PodUid) {
        self.pods.write().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Every pod, in the order of their UIDs.
    pub(crate) fn all(&self) -> Vec<PodView> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The pod with that UID, or whose mirror has it.
    pub(crate) fn get(&self, uid: &PodUid) -> Option<PodView> {
        let uid = self.resolve(uid);
        self.pods.read().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned()
    }

    /// An object of the API shows a static pod.
    pub(crate) fn mirror_seen(&self, mirror: PodUid, of: PodUid) {
        self.mirrors.write().unwrap_or_else(PoisonError::into_inner).insert(mirror, of);
    }

    /// It is gone.
    pub(crate) fn mirror_gone(&self, mirror: &PodUid) {
        self.mirrors.write().unwrap_or_else(PoisonError::into_inner).remove(mirror);
    }

    /// The UID that a pod has on this node: of a mirror's, that of the static pod.
    pub(crate) fn resolve(&self, uid: &PodUid) -> PodUid {
        let mirrors = self.mirrors.read().unwrap_or_else(PoisonError::into_inner);
        mirrors.get(uid).unwrap_or(uid).clone()
    }
}
