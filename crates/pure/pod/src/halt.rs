//! By when the containers of a pod have to end, and how that deadline moves.

use rekindle_types::{Tick, TickDuration};

use crate::journal::Halt;

/// What a container gets at least between its signal and SIGKILL when its hook or the sidecars'
/// order used the grace up (`minimumGracePeriodInSeconds` of the kubelet).
pub(crate) const GRACE_MIN: TickDuration = TickDuration::from_secs(2);

impl Halt {
    /// From now on, with this grace.
    pub(crate) fn with_grace(now: Tick, grace: TickDuration) -> Self {
        if grace == TickDuration::ZERO { Self::AtOnce } else { Self::with_signal(now, grace) }
    }

    /// The same, where none of it leaves time for the signal at least.
    pub(crate) fn with_signal(now: Tick, grace: TickDuration) -> Self {
        Self::By { deadline: now + grace, grace }
    }

    /// The same for an agent that takes it up now: no later than so long after `now`, as the clock
    /// may have been set back, and no sooner than the least that follows a hook. The deadline stays
    /// otherwise, or each agent that is killed would put the end off; for whom nobody has come to
    /// ask yet see `taken_up`.
    pub(crate) fn taken_up(self, now: Tick, grace: TickDuration) -> Self {
        match self {
            Self::AtOnce => Self::AtOnce,
            Self::By { deadline, grace: given } => {
                Self::By { deadline: deadline.min(now + grace).max(now + GRACE_MIN), grace: given }
            }
        }
    }

    pub(crate) fn put_off(&mut self, by: TickDuration) {
        match self {
            Self::AtOnce => {}
            Self::By { deadline, .. } => *deadline = *deadline + by,
        }
    }

    pub(crate) fn put_off_until(&mut self, at: Tick) {
        match self {
            Self::AtOnce => {}
            Self::By { deadline, .. } => *deadline = (*deadline).max(at),
        }
    }

    /// The one that ends sooner; with the shorter of both graces.
    pub(crate) fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::AtOnce, _) | (_, Self::AtOnce) => Self::AtOnce,
            (Self::By { deadline: a, grace: one }, Self::By { deadline: b, grace: other }) => {
                Self::By { deadline: a.min(b), grace: one.min(other) }
            }
        }
    }
}
