//! How a pod's object went from the API while its node had not ended the pod, and the grace that it
//! has then.

/// Seconds of a pod that is forced out of the API: the small grace period that Kubernetes'
/// documentation promises, as at a hard eviction.
const FORCED_GRACE_SECONDS: i64 = 1;

/// How the object went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was deleted just now: with a grace of 0 (`kubectl delete --force`), as the API keeps an
    /// object until its grace is over.
    Deleted,
    /// It is not there any more: its pod is not known to be in a hurry.
    Missing,
}

impl Loss {
    /// The grace period, in seconds, of a pod that would have this one.
    pub fn grace_seconds(self, own: i64) -> i64 {
        match self {
            Self::Deleted => own.min(FORCED_GRACE_SECONDS),
            Self::Missing => own,
        }
    }
}
