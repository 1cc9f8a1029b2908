//! One priority level: its seats, and the queues of those that wait for one.

use k8s_openapi::api::flowcontrol::v1::{PriorityLevelConfiguration, QueuingConfiguration};

use crate::fair_queues::FairQueues;
use crate::seat_limits::SeatLimits;

/// Shares of a level that says none.
const SHARES: i32 = 30;
const QUEUES: i32 = 64;
const HAND_SIZE: i32 = 8;
const QUEUE_LENGTH: i32 = 50;

/// What a PriorityLevelConfiguration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LevelSettings {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) shares: u32,
    pub(crate) lendable_percent: u32,
    pub(crate) kind: LevelKind,
}

/// Whether a level is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelKind {
    /// Its requests never wait.
    Exempt,
    /// Its requests need seats.
    Limited {
        /// Seats that it may borrow, in percent of its own; none for as many as others lend.
        borrowing_percent: Option<u32>,
        response: OverloadResponse,
    },
}

/// What happens to a request that finds no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverloadResponse {
    Reject,
    Queue(QueueShape),
}

/// The queues of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueShape {
    pub(crate) queues: u32,
    pub(crate) hand_size: u32,
    /// Requests that wait in one queue at most.
    pub(crate) length_max: usize,
}

impl LevelSettings {
    pub(crate) fn new(level: &PriorityLevelConfiguration) -> Self {
        let spec = &level.spec;
        let exempt = spec.exempt.as_ref();
        let (shares, lendable, kind) = match &spec.limited {
            Some(limited) if spec.type_ != "Exempt" => {
                let queuing = limited.limit_response.queuing.as_ref();
                let response = queuing
                    .filter(|_| limited.limit_response.type_ == "Queue")
                    .map_or(OverloadResponse::Reject, |queuing| {
                        OverloadResponse::Queue(shape(queuing))
                    });
                let borrowing_percent = limited.borrowing_limit_percent.map(whole);
                (
                    limited.nominal_concurrency_shares.unwrap_or(SHARES),
                    limited.lendable_percent,
                    LevelKind::Limited { borrowing_percent, response },
                )
            }
            _ => (
                exempt.and_then(|exempt| exempt.nominal_concurrency_shares).unwrap_or(0),
                exempt.and_then(|exempt| exempt.lendable_percent),
                LevelKind::Exempt,
            ),
        };
        Self {
            name: level.metadata.name.clone().unwrap_or_default(),
            uid: level.metadata.uid.clone().unwrap_or_default(),
            shares: whole(shares),
            lendable_percent: whole(lendable.unwrap_or(0)),
            kind,
        }
    }

    /// The queues; none where nothing waits.
    pub(crate) fn queues(&self) -> Option<QueueShape> {
        match self.kind {
            LevelKind::Limited { response: OverloadResponse::Queue(shape), .. } => Some(shape),
            LevelKind::Limited { response: OverloadResponse::Reject, .. } | LevelKind::Exempt => {
                None
            }
        }
    }
}

fn shape(queuing: &QueuingConfiguration) -> QueueShape {
    let length = whole(queuing.queue_length_limit.unwrap_or(QUEUE_LENGTH));
    QueueShape {
        queues: whole(queuing.queues.unwrap_or(QUEUES)),
        hand_size: whole(queuing.hand_size.unwrap_or(HAND_SIZE)),
        length_max: usize::try_from(length).unwrap_or(usize::MAX),
    }
}

/// A number that validation lets be no less than zero.
fn whole(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// A level at work.
#[derive(Clone, Debug)]
pub(crate) struct PriorityLevel {
    pub(crate) settings: LevelSettings,
    pub(crate) limits: SeatLimits,
    /// Seats in use.
    pub(crate) used: u32,
    /// Requests that run.
    pub(crate) running: u32,
    pub(crate) queues: FairQueues,
    /// Whether its object is gone: it ends with what it holds.
    pub(crate) is_retiring: bool,
}

impl PriorityLevel {
    pub(crate) fn new(settings: LevelSettings) -> Self {
        Self {
            settings,
            limits: SeatLimits::default(),
            used: 0,
            running: 0,
            queues: FairQueues::default(),
            is_retiring: false,
        }
    }

    pub(crate) fn is_exempt(&self) -> bool {
        self.settings.kind == LevelKind::Exempt
    }

    /// Whether nothing of it is left to wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_retiring && self.running == 0 && self.queues.waiting() == 0
    }

    /// The seats that a request of this width takes: no more than the level has.
    pub(crate) fn seats_for(&self, width: u32) -> u32 {
        width.clamp(1, self.limits.nominal.max(1))
    }

    /// What it takes from the pool now. An exempt level takes no more than it has lent.
    pub(crate) fn pool_seats(&self) -> u32 {
        let taken = self.limits.pool_part(self.used);
        if self.is_exempt() { taken.min(self.limits.lendable()) } else { taken }
    }
}
