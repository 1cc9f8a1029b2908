//! Which pods go, when a look is over.

use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_types::{PodUid, TickDuration};

use super::figures::EvictionFigures;
use super::judge::Reclaim;
use super::policy::{EvictionPolicy, ThresholdKind};
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
    /// What evicted it, as it is counted: see [`EvictionSignal::name`](super::EvictionSignal::name)
    /// and [`StorageLimitScope::signal`](storage::StorageLimitScope::signal).
    pub(crate) signal: &'static str,
    pub(crate) eviction: PodEviction,
}

/// Every pod that uses more local storage than it may. Critical ones stay.
pub(crate) fn over_their_limits(pods: &[EvictionFigures]) -> Vec<Victim> {
    let pods = pods.iter().filter(|pod| !pod.is_critical());
    let victim = |pod: &EvictionFigures| {
        let (limit, message) = storage::over_limit(pod)?;
        let cause = EvictionCause::StorageLimit;
        let eviction = PodEviction { cause, message, grace: GRACE_HARD };
        Some(Victim { uid: pod.uid.clone(), signal: limit.signal(), eviction })
    };
    pods.filter_map(victim).collect()
}

/// The one pod that goes so that something is had back; none when only critical ones are left.
pub(crate) fn victim(
    policy: &EvictionPolicy,
    reclaim: &Reclaim,
    pods: Vec<EvictionFigures>,
) -> Option<Victim> {
    let ranked = ranking::ranked(pods, reclaim.signal.resource());
    let pod = ranked.into_iter().find(|pod| !pod.is_critical())?;
    let grace = match reclaim.kind {
        ThresholdKind::Hard => GRACE_HARD,
        ThresholdKind::Soft { .. } => policy.max_pod_grace.min(own_grace(&pod)),
    };
    let message = messages::node_was_low(&pod, reclaim);
    let eviction = PodEviction { cause: EvictionCause::NodePressure, message, grace };
    Some(Victim { uid: pod.uid, signal: reclaim.signal.name(), eviction })
}

fn own_grace(pod: &EvictionFigures) -> TickDuration {
    let seconds = pod.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    TickDuration::of_field(seconds.unwrap_or(GRACE_DEFAULT_SECONDS))
}
