//! What a ReplicaSet has to do with its members and with pods that nobody manages.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use rekindle_types::labels::Labels;

use super::{OwnershipClaim, selects};
use crate::plan::PlannedWrite;
use crate::view::ManagedPod;
use crate::{ClusterView, ResourceKind, ViewObject, WritePlan};

/// A question to labels, which is asked once of labels that pods share.
pub(super) struct LabelQuestion<'a, F> {
    question: F,
    last: Option<(&'a Arc<Labels>, bool)>,
}

impl<'a, F: Fn(&Labels) -> bool> LabelQuestion<'a, F> {
    pub(super) const fn new(question: F) -> Self {
        Self { question, last: None }
    }

    pub(super) fn ask(&mut self, labels: &'a Arc<Labels>) -> bool {
        if let Some((known, answer)) = self.last
            && Arc::ptr_eq(known, labels)
        {
            return answer;
        }
        let answer = (self.question)(labels);
        self.last = Some((labels, answer));
        answer
    }
}

/// Claims the pods that should be the ReplicaSet's and lets go those that should not; the result is
/// what is its own now.
pub(super) fn claim<'a>(
    view: &'a ClusterView,
    kind: ResourceKind,
    rs: &ReplicaSet,
    plan: &mut WritePlan,
) -> Vec<&'a ManagedPod> {
    let owner = &rs.metadata;
    let uid = owner.uid.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let selector = &rs.spec.selector;
    let mut is_selected = LabelQuestion::new(|labels: &Labels| selects(selector, Some(labels)));
    let (mut own, mut patches) = (Vec::new(), Vec::new());
    for member in view.members_of(uid) {
        if is_selected.ask(&member.labels) {
            own.push(member);
            continue;
        }
        match super::claim::claim(kind, owner, &ViewObject::Pod(member.pod.clone()), false) {
            OwnershipClaim::Own => own.push(member),
            OwnershipClaim::Adopt(write) | OwnershipClaim::Release(write) => {
                patches.push(PlannedWrite::from(write))
            }
            OwnershipClaim::Leave => {}
        }
    }
    for object in view.unmanaged(ResourceKind::Pod, namespace) {
        let is_selected = selects(selector, object.meta().labels.as_ref());
        match super::claim::claim(kind, owner, object, is_selected) {
            // An adopted pod counts once the patch is answered; that answer brings us here again.
            OwnershipClaim::Adopt(write) | OwnershipClaim::Release(write) => {
                patches.push(PlannedWrite::from(write))
            }
            OwnershipClaim::Own | OwnershipClaim::Leave => {}
        }
    }
    plan.then_all(patches);
    own
}
