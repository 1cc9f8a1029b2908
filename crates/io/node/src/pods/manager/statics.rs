//! The manager's part of static pods: which are started and ended, and mirrors that show nothing.
//! What is wanted is in [`StaticPods`](crate::static_pods::StaticPods).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::Loss;
use rekindle_runtime::Runtime;
use rekindle_types::{PodRef, PodUid};

use super::super::recovery::delete_object;
use super::super::shown_by::PodSource;
use super::{Manager, ManagerPhase};
use crate::network::PodNetwork;
use crate::static_pods::{Listing, hash_of_mirror};

impl<R: Runtime, N: PodNetwork> Manager<R, N> {
    /// The folder of static pods was read.
    pub(super) fn statics_listed(&mut self, listing: Listing) {
        self.statics.list(listing);
        let unwanted: Vec<PodUid> = self
            .workers
            .iter()
            .filter(|(_, worker)| match worker.source {
                PodSource::Api => false,
                PodSource::File(_) => !self.statics.wants(&worker.pod_ref),
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in unwanted {
            self.pod_gone(&uid, Loss::Missing);
        }
        self.take_up();
    }

    /// Takes up the static pods that are not here yet. While an earlier one of the name still ends,
    /// the new one waits: they may not share what is theirs by name.
    pub(super) fn start_statics(&mut self) {
        let is_free = |pod: &PodRef| {
            let mut here = self.workers.values().filter(|w| matches!(w.source, PodSource::File(_)));
            !here.any(|w| (&w.pod_ref.namespace, &w.pod_ref.name) == (&pod.namespace, &pod.name))
        };
        let due: Vec<(PodRef, Arc<Pod>)> = self
            .statics
            .wanted()
            .filter(|(pod_ref, _)| is_free(pod_ref))
            .map(|(pod_ref, pod)| (pod_ref.clone(), self.statics.with_known_status(pod_ref, pod)))
            .collect();
        for (pod_ref, pod) in due {
            let source = PodSource::File(self.statics.follow(&pod_ref));
            let admission = self.static_admission(&pod, &source);
            self.start_worker(pod_ref, pod, source, admission);
        }
        self.remove_orphaned_mirrors();
    }

    pub(super) fn mirror_seen(&mut self, mirror: Pod) {
        let of = hash_of_mirror(&mirror).map(|hash| PodUid(hash.to_owned()));
        let uid = mirror.metadata.uid.clone().map(PodUid);
        if let Some((uid, of)) = uid.zip(of) {
            self.node.index.mirror_seen(uid, of);
        }
        self.statics.mirror_seen(mirror);
        self.remove_orphaned_mirrors();
    }

    /// A mirror that shows nothing is deleted, whoever made it.
    pub(super) fn remove_orphaned_mirrors(&mut self) {
        if self.phase != ManagerPhase::Serving {
            return;
        }
        for mirror in self.statics.orphans() {
            let client = self.node.client.clone();
            self.tasks.spawn(async move { delete_object(&client, &mirror).await });
        }
    }
}
