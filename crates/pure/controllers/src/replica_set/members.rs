//! What a ReplicaSet has to do with its members and with pods that nobody manages.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use rekindle_types::labels::Labels;

use super::{Claim, selects};
use crate::plan::Step;
use crate::view::Member;
use crate::{Kind, Object, Plan, View};

/// A question to labels, which is asked once of labels that pods share.
pub(super) struct Shared<'a, F> {
    question: F,
    last: Option<(&'a Arc<Labels>, bool)>,
}

impl<'a, F: Fn(&Labels) -> bool> Shared<'a, F> {
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
    view: &'a View,
    kind: Kind,
    rs: &ReplicaSet,
    plan: &mut Plan,
) -> Vec<&'a Member> {
    let owner = &rs.metadata;
    let uid = owner.uid.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let selector = &rs.spec.selector;
    let mut is_selected = Shared::new(|labels: &Labels| selects(selector, Some(labels)));
    let (mut own, mut patches) = (Vec::new(), Vec::new());
    for member in view.members_of(uid) {
        if is_selected.ask(&member.labels) {
            own.push(member);
            continue;
        }
        match super::claim::claim(kind, owner, &Object::Pod(member.pod.clone()), false) {
            Claim::Own => own.push(member),
            Claim::Adopt(write) | Claim::Release(write) => patches.push(Step::from(write)),
            Claim::Leave => {}
        }
    }
    for object in view.unmanaged(Kind::Pod, namespace) {
        let is_selected = selects(selector, object.meta().labels.as_ref());
        match super::claim::claim(kind, owner, object, is_selected) {
            // An adopted pod counts once the patch is answered; that answer brings us here again.
            Claim::Adopt(write) | Claim::Release(write) => patches.push(Step::from(write)),
            Claim::Own | Claim::Leave => {}
        }
    }
    plan.then_all(patches);
    own
}
