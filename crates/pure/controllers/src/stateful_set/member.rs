//! The pods of a StatefulSet as one look finds them. What is asked of them more than once is asked
//! of each pod only once: a thousand of them are more than a processor keeps at hand.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};

use super::identity::{self, MemberLabels};
use crate::pods::{self, PodAvailability};
use crate::revisions;

/// How a pod that exists is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    /// It is being deleted.
    Terminating,
    /// It has ended for good.
    Ended,
    /// It is not ready.
    Unready,
    /// It is ready, and available from then on.
    Ready(Tick),
    /// It is available.
    Available,
}

/// A pod of the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatefulMember<'a> {
    pub(super) ordinal: i32,
    pub(super) pod: &'a Arc<HeldPod>,
    pub(super) standing: MemberState,
    /// Whether it runs and is ready, and counts as available, be it that it is being deleted.
    pub(super) availability: PodAvailability,
    /// It was made from the current revision.
    pub(super) is_current: bool,
    /// It was made from the new revision.
    pub(super) is_new: bool,
    /// Its labels say its name and its ordinal.
    pub(super) is_labelled: bool,
}

/// The pods of the set at `now`, in the order of their ordinals.
pub(super) fn members<'a>(
    set: &StatefulSet,
    pods: &[&'a Arc<HeldPod>],
    (current, new): (&ControllerRevision, &ControllerRevision),
    now: Tick,
) -> Vec<StatefulMember<'a>> {
    let min_ready = TickDuration::of_field(set.spec.min_ready_seconds.unwrap_or(0));
    let (current, new) = (revisions::name(current), revisions::name(new));
    let mut ordered: Vec<(i32, &Arc<HeldPod>)> = Vec::with_capacity(pods.len());
    let ordinals = pods.iter().map(|pod| (identity::ordinal_of(set, &pod.metadata), *pod));
    ordered.extend(ordinals.filter_map(|(ordinal, pod)| Some((ordinal?, pod))));
    ordered.sort_unstable_by_key(|(ordinal, _)| *ordinal);
    let members = ordered.into_iter().map(|(ordinal, pod)| {
        let availability = availability(pod, min_ready, now);
        let marks = MemberLabels::from_pod(pod);
        StatefulMember {
            ordinal,
            pod,
            standing: standing(pod, availability),
            availability,
            is_current: marks.revision == current,
            is_new: marks.revision == new,
            is_labelled: marks.are_complete(pod),
        }
    });
    members.collect()
}

fn standing(pod: &HeldPod, availability: PodAvailability) -> MemberState {
    if pods::is_terminating(pod) {
        return MemberState::Terminating;
    }
    if pods::is_finished(pod) {
        return MemberState::Ended;
    }
    match availability {
        PodAvailability::NotReady => MemberState::Unready,
        PodAvailability::From(at) => MemberState::Ready(at),
        PodAvailability::Available => MemberState::Available,
    }
}

fn availability(pod: &HeldPod, min_ready: TickDuration, now: Tick) -> PodAvailability {
    match pods::phase(pod) {
        "Running" => pods::availability(pod, min_ready, now),
        _ => PodAvailability::NotReady,
    }
}
