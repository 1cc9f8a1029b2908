//! Which pods go, when a look is over.

use rekindle_pod::{Eviction, EvictionCause};
use rekindle_types::{PodUid, TickDuration};

use super::figures::PodFigures;
use super::judge::Reclaim;
use super::policy::{EvictionPolicy, Kind};
use super::{messages, ranking, storage};

/// What a pod gets at a hard threshold, and over a limit of its own [kubelet
/// `immediateEvictionGracePeriodSeconds`].
const GRACE_HARD: TickDuration = TickDuration::from_secs(1);
/// Grace of a pod that gives none.
const GRACE_DEFAULT_SECONDS: i64 = 30;

/// A pod that has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) uid: PodUid,
    /// What evicted it, as it is counted: see [`Signal::name`](super::Signal::name) and
    /// [`Limit::signal`](storage::Limit::signal).
    pub(crate) signal: &'static str,
    pub(crate) eviction: Eviction,
}

/// Every pod that uses more local storage than it may. Critical ones stay.
pub(crate) fn over_their_limits(pods: &[PodFigures]) -> Vec<Victim> {
    let pods = pods.iter().filter(|pod| !pod.is_critical());
    let victim = |pod: &PodFigures| {
        let (limit, message) = storage::over_limit(pod)?;
        let cause = EvictionCause::StorageLimit;
        let eviction = Eviction { cause, message, grace: GRACE_HARD };
        Some(Victim { uid: pod.uid.clone(), signal: limit.signal(), eviction })
    };
    pods.filter_map(victim).collect()
}

/// The one pod that goes so that something is had back; none when only critical ones are left.
pub(crate) fn victim(
    policy: &EvictionPolicy,
    reclaim: &Reclaim,
    pods: Vec<PodFigures>,
) -> Option<Victim> {
    let ranked = ranking::ranked(pods, reclaim.signal.resource());
    let pod = ranked.into_iter().find(|pod| !pod.is_critical())?;
    let grace = match reclaim.kind {
        Kind::Hard => GRACE_HARD,
        Kind::Soft { .. } => policy.max_pod_grace.min(own_grace(&pod)),
    };
    let message = messages::node_was_low(&pod, reclaim);
    let eviction = Eviction { cause: EvictionCause::NodePressure, message, grace };
    Some(Victim { uid: pod.uid, signal: reclaim.signal.name(), eviction })
}

fn own_grace(pod: &PodFigures) -> TickDuration {
    let seconds = pod.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    TickDuration::of_field(seconds.unwrap_or(GRACE_DEFAULT_SECONDS))
}
