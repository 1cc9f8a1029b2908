//! API priority and fairness: which requests run, which wait, and which are refused.
//!
//! ```text
//!  FlowSchemas, PriorityLevelConfigurations -> FlowConfiguration
//!                                                  | configure
//!  RequestDigest -> classify -> RequestClass       v
//!                                  +- arrive -> FlowControl -+-> FlowSeat -- finished -+
//!                                       ^                    +-> waits for a decision  |
//!                                       |                    +-> refused: 429          |
//!                                       +------------- a seat is free <----------------+
//! ```
//!
//! A FlowSchema chooses the priority level of a request, and the flow that it belongs to. A level
//! has seats. A request that finds none waits in one of its level's queues, or is refused. Queues
//! are served by the seat time that they have used (`fair_queues`). Levels lend each other seats
//! that they do not need (`seat_limits`). docs/adr/0092 says where this differs from upstream.
//!
//! Sources: KEP-1040; the documentation "API Priority and Fairness"; the API reference of
//! FlowSchema and PriorityLevelConfiguration.
#![forbid(unsafe_code)]

mod configuration;
mod control;
mod dangling;
pub mod defaults;
mod fair_queues;
mod level;
mod matching;
mod request;
mod schema;
mod seat_limits;
mod shuffle_sharding;
#[cfg(test)]
mod tests;
mod upkeep;

pub use configuration::{FlowConfiguration, RequestClass};
pub use control::{
    FlowAdmission, FlowArrival, FlowControl, FlowDecision, FlowRefusal, FlowSeat, LevelFigures,
    WaitingId,
};
pub use dangling::{DANGLING, dangling_status};
pub use request::{RequestDigest, RequestTarget};
pub use shuffle_sharding::{HASH_BITS_MAX, entropy_bits};
pub use upkeep::{AUTO_UPDATE, MaintainedObject, ObjectUpkeep, maintain};

use rekindle_types::TickDuration;

/// How long a request waits for a seat: a quarter of a request's 60 seconds, as upstream.
pub const WAIT_MAX: TickDuration = TickDuration::from_secs(15);

/// Seats of the server: kube-apiserver's 400 (`--max-requests-inflight`) and 200
/// (`--max-mutating-requests-inflight`).
pub const SERVER_SEATS: u32 = 600;
