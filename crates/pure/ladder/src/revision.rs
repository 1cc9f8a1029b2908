//! Of which revision a pod is: what was exhausted, or in vain, says nothing of another one, and
//! only pods of the same one are compared.
//!
//! | controller | the revision |
//! |---|---|
//! | StatefulSet, DaemonSet | label `controller-revision-hash` |
//! | ReplicationController, ReplicaSet of no Deployment | what the pod's containers run: the template is edited in place, and nothing on the pods tells of which one they are |
//! | none | the same: somebody may mend the pod |
//! | of a group | the label or the ReplicaSet, while all of its pods have the same |
//! | ReplicaSet of a Deployment, Job, anything else | there is one only: another template is another controller. That of a Job can be changed while it is suspended, which has no pods |

use std::borrow::Cow;

use rekindle_types::held::HeldPod;
use rekindle_types::owners::controller_of;
use rekindle_types::revisions::{RevisionMark, mark_of};
use rekindle_types::v1alpha1::LedgerPhase;

use crate::decide::Decider;
use crate::draft::{ConditionStatus, EXHAUSTED};
use crate::{LadderGroup, LadderSubject, sentence};

/// The revision of a pod, to compare others of its controller with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PodRevision<'a> {
    /// The controller has one only.
    Only,
    /// This label; none is one, too.
    Label(Option<&'a str>),
    /// What it runs; with how much of the node's resources is left out, for that is changed of
    /// single pods while they run.
    Template(Option<u32>),
}

impl<'a> PodRevision<'a> {
    /// That of a pod.
    pub fn from_pod(pod: &'a HeldPod) -> Self {
        match mark_of(&pod.metadata) {
            RevisionMark::Only => Self::Only,
            RevisionMark::Label(label) => Self::Label(label),
            RevisionMark::Containers => {
                let runs = pod.spec.as_ref().and_then(|spec| spec.runs);
                Self::Template(runs.map(|runs| runs.without_resources))
            }
        }
    }

    /// In words, for a controller that has pods of several.
    pub fn name(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Only | Self::Label(None) => None,
            Self::Label(Some(label)) => Some(Cow::Owned(format!("at revision {label}"))),
            Self::Template(_) => Some(Cow::Borrowed("with the same template")),
        }
    }
}

/// As a ledger keeps it, which outlives the pod. Where the pod runs is left out: a ladder changes
/// that itself.
fn kept_in_ledger(pod: &HeldPod) -> Option<Cow<'_, str>> {
    match mark_of(&pod.metadata) {
        RevisionMark::Only => None,
        RevisionMark::Label(label) => label.map(Cow::Borrowed),
        RevisionMark::Containers => {
            let runs = pod.spec.as_ref()?.runs?;
            Some(Cow::Owned(format!("{:06x}", runs.all)))
        }
    }
}

/// That of a group: the one that all of its pods are of, where its controller has several. The
/// group of a Deployment has the pods of several ReplicaSets.
fn revision_of<'a>(group: &'a LadderGroup<'a>) -> Option<&'a str> {
    let mut revisions = group.pods().map(|pod| match mark_of(&pod.metadata) {
        RevisionMark::Label(label) => label,
        RevisionMark::Only | RevisionMark::Containers => controller_of(&pod.metadata)
            .filter(|controller| controller.kind == "ReplicaSet")
            .map(|controller| controller.uid.as_str()),
    });
    let first = revisions.next()??;
    revisions.all(|other| other == Some(first)).then_some(first)
}

impl Decider<'_> {
    /// The ledger may speak of an earlier revision: what was tried inside the window counts, that
    /// it was all in vain does not.
    pub(crate) fn note_revision(&mut self) {
        let ledger = &self.draft.ledger;
        let tells = ledger.phase == Some(LedgerPhase::Exhausted) || ledger.in_vain.is_some();
        let is_same_pod = ledger.pod_uid.as_deref() == Some(self.view.uid);
        if self.draft.is_blank() || (is_same_pod && !tells && ledger.revision.is_some()) {
            return;
        }
        let revision = match self.situation.subject {
            LadderSubject::Pod(pod) => kept_in_ledger(pod),
            // pods of several say nothing: while they are replaced, or always
            LadderSubject::Group(group) => match revision_of(group) {
                Some(revision) => Some(Cow::Borrowed(revision)),
                None => return,
            },
        };
        if ledger.revision.as_deref() == revision.as_deref() {
            return;
        }
        let is_another = ledger.revision.is_some() && revision.is_some();
        self.draft.ledger.revision = revision.map(Cow::into_owned);
        if is_another {
            self.draft.ledger.in_vain = None;
            self.draft.ledger.last_run_seconds = None;
            self.draft.ledger.failing_pod_uid = None;
            if self.draft.ledger.phase == Some(LedgerPhase::Exhausted) {
                let policy = self.situation.policy;
                let why = sentence::other_revision();
                self.draft.condition(EXHAUSTED, ConditionStatus::False, policy, &why.message);
                self.draft.decide(LedgerPhase::Climbing, None, &why);
            }
        }
    }
}
