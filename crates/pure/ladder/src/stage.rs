//! How far a PodRestart is, as the budgets see it. A request that a disruption budget or the lack
//! of a node holds back restarts nothing: it takes no room, and asks for room again before it goes
//! on ([`crate::room_to_go_on`]).

use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, ReplacementStep};
use rekindle_types::{Tick, TickDuration};

/// A request that begins later than this after its creation was held back meanwhile. Both times are
/// whole seconds.
const BEGINS_WITHIN: TickDuration = TickDuration::from_secs(2);

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    /// Asked for at this time, where that is known.
    Asked(Option<Tick>),
    /// Held back.
    Held,
    /// The node began to stop containers then, or the pod's eviction or the rollback began.
    Begun { at: Tick, after: RequestWait },
}

/// What was between a request and its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestWait {
    /// Nothing: the room that it takes was asked for when it was decided.
    None,
    /// It was held back, and asked for room again.
    HeldBack,
}

impl RequestStage {
    pub(crate) fn from_restart(restart: &PodRestart) -> Self {
        let created = restart.metadata.creation_timestamp.as_ref().map(Tick::from);
        let status = restart.status.as_ref();
        let step = status.and_then(|status| Some(status.replacement.as_ref()?.step));
        let started = status.and_then(|status| status.started_at.as_ref()).map(Tick::from);
        match (restart.carried_out_by(), started) {
            // a node may be slow to begin, and its pod is down from then on
            (CarriedOutBy::Node, Some(at)) => {
                return RequestStage::Begun { at, after: RequestWait::None };
            }
            (CarriedOutBy::Node, None) => return RequestStage::Asked(created),
            (CarriedOutBy::Operator, _) => {}
        }
        match (step, started) {
            (Some(ReplacementStep::Held), _) => RequestStage::Held,
            (Some(ReplacementStep::Evicting | ReplacementStep::Starting) | None, Some(at)) => {
                let is_late = created.is_some_and(|created| at.since(created) > BEGINS_WITHIN);
                // a group that is slow to gather was held back by nothing
                let asks_again =
                    is_late && restart.spec.ladder_name.is_some() && !restart.is_of_group();
                RequestStage::Begun {
                    at,
                    after: if asks_again { RequestWait::HeldBack } else { RequestWait::None },
                }
            }
            (Some(ReplacementStep::Evicting | ReplacementStep::Starting) | None, None) => {
                RequestStage::Asked(created)
            }
        }
    }

    /// Since when it takes room; none when it takes none.
    pub(crate) fn takes_room_since(self, now: Tick) -> Option<Tick> {
        match self {
            RequestStage::Asked(created) => Some(created.unwrap_or(now)),
            RequestStage::Held => None,
            RequestStage::Begun { at, .. } => Some(at),
        }
    }

    /// When it went on after it was held back: that counts against rates as its decision did.
    pub(crate) fn went_on_at(self) -> Option<Tick> {
        match self {
            RequestStage::Begun { at, after: RequestWait::HeldBack } => Some(at),
            RequestStage::Asked(_)
            | RequestStage::Held
            | RequestStage::Begun { after: RequestWait::None, .. } => None,
        }
    }
}
