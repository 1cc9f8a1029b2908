//! Everything between a pod's core and a runtime that is a decision, as a pure state machine. The
//! node's worker and the simulator's agent are loops around it. No IO, no clock, no async.
//!
//! ```text
//!   events, answers        ┌───────────┐   PodEffect, in order
//!  ──────────────► handle ─┤ PodDriver ├─ poll_effect ──────────────► carried out by the loop
//!   what became of writes  │ (PodCore) │
//!  ◄───────── poll_timeout ┴───────────┴
//! ```
//!
//! A loop gives every input to the driver. Then it polls effects until there are none, and waits
//! for the next input or for [`PodDriver::poll_timeout`].
//!
//! | rule | where |
//! |---|---|
//! | no action before the journal that covers it | `journal_gate` |
//! | no stop signal before new connections are kept away (P15) | `routing_gate` |
//! | no status is written that the next start replaces | `driver`, [`latest_write`] |
//! | one write in flight, the newest value wins, retries back off | [`latest_write`] |
//! | a status is written on the object as seen, and again after another writer | [`status_queue`] |
//! | which grace period a deletion has, and that the core hears of each once | `grace` |
//! | which pod of the node has taken up a PodRestart | [`RestartOwners`] |
//! | when a member of a group stops, and when it starts | [`KnownGroups`] |
//! | what a PodRestart's status says of its steps | `restart_progress` |
//! | what a stopping node, or a pod without an object, does not write | `driver` |
#![forbid(unsafe_code)]

mod driver;
mod effect;
mod grace;
mod journal_gate;
mod known_groups;
pub mod latest_write;
mod restart_owners;
mod restart_progress;
mod routing_gate;
pub mod status_queue;

pub use driver::PodDriver;
pub use effect::{Existence, JournalFailure, NotReadyCause, PodEffect};
pub use grace::{deletion_grace_seconds, spec_grace_seconds};
pub use known_groups::KnownGroups;
pub use latest_write::{LatestWrite, Urgency, WriteOutcome};
pub use restart_owners::RestartOwners;
pub use restart_progress::{
    lost_with_its_pod, reported_progress, restart_progress, restart_status_patch,
};
pub use status_queue::{StatusAnswer, StatusQueue, StatusToWrite};
