//! Of which revision a pod is, as far as its ledger outlives that. The ledger of a Deployment's pod goes with its ReplicaSet, which is one revision;
//! that of a StatefulSet's or a DaemonSet's, and of a pod without a controller, goes on when somebody mends the template or the pod. What was
//! exhausted, or in vain, says nothing of another revision then.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Container;
use rekindle_types::held::Pod;
use rekindle_types::owners::{controller_of, is_controlled_by};
use rekindle_types::revisions::HASH_LABEL;
use rekindle_types::service_account;
use rekindle_types::v1alpha1::LedgerPhase;

use crate::decide::{Decider, fold};
use crate::draft::{EXHAUSTED, Holds};
use crate::sentence;

/// The revision of a pod whose controller has pods of several: a StatefulSet or a DaemonSet.
pub fn revision_of(pod: &Pod) -> Option<&str> {
    let has_several =
        ["StatefulSet", "DaemonSet"].into_iter().any(|kind| is_controlled_by(&pod.metadata, kind));
    let labels = pod.metadata.labels.as_ref().filter(|_| has_several)?;
    labels.get(HASH_LABEL).map(String::as_str)
}

/// The same, or what a pod without a controller runs. Where it runs is left out: a ladder changes that itself.
fn revision(pod: &Pod) -> Option<Cow<'_, str>> {
    match controller_of(&pod.metadata) {
        Some(_) => revision_of(pod).map(Cow::Borrowed),
        None => {
            let spec = pod.whole_spec()?;
            let all = spec.init_containers.iter().flatten().chain(&spec.containers);
            let texts: Vec<String> = all.filter_map(what_it_runs).collect();
            Some(Cow::Owned(format!("{:06x}", fold(&texts.join("\n")))))
        }
    }
}

fn what_it_runs(container: &Container) -> Option<String> {
    let mut container = container.clone();
    if let Some(mounts) = &mut container.volume_mounts {
        // The API server mounts it from a volume with a name that is made up for each pod.
        mounts.retain(|mount| mount.mount_path != service_account::MOUNT_PATH);
    }
    container.volume_mounts.take_if(|mounts| mounts.is_empty());
    serde_json::to_string(&container).ok()
}

impl Decider<'_> {
    /// The ledger may speak of an earlier revision: what was tried inside the window counts, that it was all in vain does not.
    pub(crate) fn note_revision(&mut self) {
        let ledger = &self.draft.ledger;
        let tells = ledger.phase == Some(LedgerPhase::Exhausted) || ledger.in_vain.is_some();
        let is_same_pod = ledger.pod_uid.as_deref() == Some(self.view.uid);
        if self.draft.is_blank() || (is_same_pod && !tells && ledger.revision.is_some()) {
            return;
        }
        let revision = revision(self.situation.pod);
        if ledger.revision.as_deref() == revision.as_deref() {
            return;
        }
        let is_another = ledger.revision.is_some() && revision.is_some();
        self.draft.ledger.revision = revision.map(Cow::into_owned);
        if is_another {
            self.draft.ledger.in_vain = None;
            self.draft.ledger.failing_pod_uid = None;
            if self.draft.ledger.phase == Some(LedgerPhase::Exhausted) {
                let policy = self.situation.policy;
                self.draft.condition(EXHAUSTED, Holds::No, policy, sentence::OTHER_REVISION);
                self.draft.decide(LedgerPhase::Climbing, None, sentence::OTHER_REVISION);
            }
        }
    }
}
