//! Which static pods are wanted, which mirrors the API has, and what follows. No IO: the manager
//! asks, and acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::PodRef;
use rekindle_types::pods::is_final;
use rekindle_types::reasons::pod::TERMINATED;
use tokio::sync::watch;

use super::manifest::hash_of_mirror;
use crate::pods::pod_ref;

/// Namespace and name.
type FullName = (String, String);
/// The static pods that the folder asks for.
pub(crate) type Listing = Vec<Arc<Pod>>;
/// The mirror of one static pod as the API has it.
pub(crate) type MirrorView = watch::Receiver<Option<Arc<Pod>>>;

/// What the folder and the API say.
#[derive(Debug, Default)]
pub(crate) struct StaticPods {
    /// `None` until the folder was read for the first time.
    wanted: Option<BTreeMap<FullName, (PodRef, Arc<Pod>)>>,
    /// Kept for a name as long as somebody follows it, whether or not there is a mirror.
    mirrors: BTreeMap<FullName, watch::Sender<Option<Arc<Pod>>>>,
    /// Mirrors of the list that is being received.
    listed: BTreeSet<FullName>,
}

impl StaticPods {
    /// Of a node that has no folder for them.
    pub(crate) fn none() -> Self {
        Self { wanted: Some(BTreeMap::new()), ..Self::default() }
    }

    /// Whether it is known what is wanted.
    pub(crate) fn is_known(&self) -> bool {
        self.wanted.is_some()
    }

    /// The folder was read.
    pub(crate) fn list(&mut self, pods: Listing) {
        let named = pods.into_iter().filter_map(|pod| {
            let pod_ref = pod_ref(&pod)?;
            Some((name_of(&pod_ref), (pod_ref, pod)))
        });
        self.wanted = Some(named.collect());
    }

    /// True when the folder asks for this very pod.
    pub(crate) fn wants(&self, pod: &PodRef) -> bool {
        self.wanted().any(|(wanted, _)| wanted == pod)
    }

    /// Everything that the folder asks for, each with the status that its mirror had.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (&PodRef, &Arc<Pod>)> {
        self.wanted.iter().flat_map(BTreeMap::values).map(|(pod_ref, pod)| (pod_ref, pod))
    }

    /// A pod of the folder as its worker begins with it: what its mirror shows of it is what an
    /// earlier agent knew. What a shutdown of the node ended begins anew with the node: the file
    /// has no status. That it has ended its journal says, and its containers: a mirror may be
    /// declared finished by anybody, who ends no static pod by it.
    pub(crate) fn with_known_status(&self, pod_ref: &PodRef, pod: &Arc<Pod>) -> Arc<Pod> {
        let mirror = self.mirrors.get(&name_of(pod_ref)).and_then(|mirror| mirror.borrow().clone());
        match mirror.filter(|mirror| hash_of_mirror(mirror) == Some(pod_ref.uid.0.as_str())) {
            Some(mirror) if mirror.status.as_ref().is_some_and(was_ended_by_shutdown) => {
                pod.clone()
            }
            Some(mirror) => {
                let status = mirror.status.clone().map(without_final_phase);
                Arc::new(Pod { status, ..pod.as_ref().clone() })
            }
            None => pod.clone(),
        }
    }

    /// A complete list of the API's pods begins.
    pub(crate) fn begin_mirrors(&mut self) {
        self.listed.clear();
    }

    /// A mirror was seen in the API.
    pub(crate) fn mirror_seen(&mut self, mirror: Pod) {
        let Some(pod_ref) = pod_ref(&mirror) else { return };
        let name = name_of(&pod_ref);
        self.listed.insert(name.clone());
        self.mirrors.entry(name).or_default().send_replace(Some(Arc::new(mirror)));
    }

    /// A mirror is gone from the API.
    pub(crate) fn mirror_gone(&mut self, mirror: &Pod) {
        let Some(gone) = pod_ref(mirror) else { return };
        if let Some(shown) = self.mirrors.get(&name_of(&gone)) {
            let is_same =
                shown.borrow().as_ref().is_some_and(|m| m.metadata.uid == mirror.metadata.uid);
            if is_same {
                shown.send_replace(None);
            }
        }
        self.forget_unused();
    }

    /// The list was complete: mirrors that were not in it are gone.
    pub(crate) fn mirrors_listed(&mut self) {
        for (name, mirror) in &self.mirrors {
            if !self.listed.contains(name) && mirror.borrow().is_some() {
                mirror.send_replace(None);
            }
        }
        self.forget_unused();
    }

    /// Follows the mirror of a static pod.
    pub(crate) fn follow(&mut self, pod: &PodRef) -> MirrorView {
        self.mirrors.entry(name_of(pod)).or_default().subscribe()
    }

    /// Mirrors that nobody looks after: the pod that they showed is not here any more.
    pub(crate) fn orphans(&self) -> Vec<PodRef> {
        let unfollowed = self.mirrors.values().filter(|mirror| mirror.receiver_count() == 0);
        unfollowed.filter_map(|mirror| pod_ref(mirror.borrow().as_deref()?)).collect()
    }

    fn forget_unused(&mut self) {
        self.mirrors.retain(|_, mirror| mirror.receiver_count() > 0 || mirror.borrow().is_some());
    }
}

fn without_final_phase(status: PodStatus) -> PodStatus {
    if status.phase.as_deref().is_some_and(is_final) {
        return PodStatus { phase: None, reason: None, message: None, ..status };
    }
    status
}

fn was_ended_by_shutdown(status: &PodStatus) -> bool {
    status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some(TERMINATED)
}

fn name_of(pod: &PodRef) -> FullName {
    (pod.namespace.clone(), pod.name.clone())
}
