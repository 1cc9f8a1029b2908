//! The pods of a workload, decided for as one: their containers count as those of a single pod.
//! One ledger, one attempt, one unit of budget.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{
    LedgerMember, MEMBER_MESSAGE_BYTES_MAX, ObservedContainer, RestartLedgerStatus, RestartWorkload,
};

use crate::draft::DecisionDraft;
use crate::failures::{self, CountedFailure, ExpectedEnds, FailedPart};
use crate::observation::{ContainerView, ObservedMember, ObservedPod};

/// What a ladder decides for.
#[derive(Clone, Copy, Debug)]
pub enum LadderSubject<'a> {
    /// One pod.
    Pod(&'a HeldPod),
    /// The pods of a workload, as one.
    Group(&'a LadderGroup<'a>),
}

/// The pods of a workload that one ladder selects.
#[derive(Clone, Debug)]
pub struct LadderGroup<'a> {
    /// The workload, as its PodRestarts name it.
    pub(crate) workload: RestartWorkload,
    /// The UID of the workload; of pods without a controller, of the ladder.
    pub(crate) uid: String,
    /// With what the names of its PodRestarts begin.
    pub(crate) stem: String,
    /// The selector of the ladder.
    pub(crate) selector: LabelSelector,
    pub(crate) members: Vec<GroupMember<'a>>,
}

/// A pod of the group, and the names of its containers among those of the others.
#[derive(Clone, Debug)]
pub(crate) struct GroupMember<'a> {
    pub(crate) pod: &'a HeldPod,
    /// `POD/CONTAINER`, init containers first, as in the spec.
    pub(crate) names: Vec<String>,
}

impl<'a> LadderGroup<'a> {
    /// A group of these pods, which are there and have not ended. `workload` says which they are.
    /// The ledger is that of `uid`. The names of PodRestarts begin with `stem`.
    pub fn new(
        workload: RestartWorkload,
        uid: &str,
        stem: String,
        selector: LabelSelector,
        pods: impl IntoIterator<Item = &'a HeldPod>,
    ) -> Self {
        let mut members: Vec<GroupMember<'a>> = pods.into_iter().map(GroupMember::new).collect();
        members.sort_by(|one, other| one.pod.metadata.name.cmp(&other.pod.metadata.name));
        Self { workload, uid: uid.to_owned(), stem, selector, members }
    }

    /// The pods, by name.
    pub fn pods(&self) -> impl Iterator<Item = &'a HeldPod> {
        self.members.iter().map(|member| member.pod)
    }
}

impl<'a> GroupMember<'a> {
    fn new(pod: &'a HeldPod) -> Self {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let spec = pod.spec.iter();
        let containers =
            spec.flat_map(|spec| spec.init_containers.iter().chain(spec.containers.iter()));
        let names = containers.map(|container| format!("{name}/{}", container.name)).collect();
        Self { pod, names }
    }
}

/// What a ledger knows of a member: nothing of a later pod of that name.
pub(crate) fn known_member<'l>(
    ledger: &'l RestartLedgerStatus,
    member: &ObservedMember<'_>,
) -> Option<&'l LedgerMember> {
    let mut members = ledger.members.iter().flatten();
    members.find(|known| known.pod_uid == member.uid)
}

/// The members as they are now, with how far each was accounted for.
pub(crate) fn observe_members(
    view: &ObservedPod<'_>,
    ledger: &RestartLedgerStatus,
    excuse: ExpectedEnds<'_>,
) -> Vec<LedgerMember> {
    let members = view.members.iter().enumerate().map(|(index, member)| {
        let known = known_member(ledger, member).cloned().unwrap_or_default();
        let before: &[ObservedContainer] = known.observed.as_deref().unwrap_or_default();
        let own = |container: &&ContainerView<'_>| container.member == index;
        let observed = failures::observe(view.containers.iter().filter(own), before, excuse);
        LedgerMember {
            pod_name: member.name.to_owned(),
            pod_uid: member.uid.to_owned(),
            observed: Some(observed),
            ..known
        }
    });
    members.collect()
}

/// Takes back how far those containers were accounted for that have a failure to be answered later.
pub(crate) fn leave_unanswered(
    draft: &mut DecisionDraft,
    before: Option<&[LedgerMember]>,
    view: &ObservedPod<'_>,
    unanswered: &[CountedFailure<'_>],
) {
    for failure in unanswered {
        let own = view.containers.iter().find(|container| {
            container.member == failure.member
                && failure.part == FailedPart::Container(container.name)
        });
        let Some((container, pod)) = own.zip(view.members.get(failure.member)) else { continue };
        let is_it = |entry: &&ObservedContainer| entry.name == container.own_name;
        let known = before.into_iter().flatten().find(|known| known.pod_uid == pod.uid);
        let known = known.and_then(|known| known.observed.iter().flatten().find(is_it)).cloned();
        let left = known.unwrap_or_else(|| ObservedContainer {
            name: container.own_name.to_owned(),
            ended_attempts: container.ended.saturating_sub(failure.count),
            excused_attempt: None,
        });
        let mut members = draft.ledger.members.iter_mut().flatten();
        let member = members.find(|member| member.pod_uid == pod.uid);
        let mut observed =
            member.into_iter().flat_map(|member| member.observed.iter_mut().flatten());
        if let Some(entry) = observed.find(|entry| entry.name == left.name) {
            *entry = left;
        }
    }
}

/// Says of each member what of it has failed.
pub(crate) fn note_failures(
    draft: &mut DecisionDraft,
    view: &ObservedPod<'_>,
    counted: &[CountedFailure<'_>],
    now: Tick,
) {
    for failure in counted {
        let Some(uid) = view.members.get(failure.member).map(|member| member.uid) else { continue };
        let mut members = draft.ledger.members.iter_mut().flatten();
        let Some(member) = members.find(|member| member.pod_uid == uid) else { continue };
        member.failures = member.failures.saturating_add(u64::from(failure.count));
        member.failed_at = Some(now.to_micro_time());
        let mut message = failure.in_words();
        message.truncate(message.floor_char_boundary(MEMBER_MESSAGE_BYTES_MAX));
        member.message = Some(message);
    }
}
