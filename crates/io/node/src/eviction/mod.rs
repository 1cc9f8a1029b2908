//! What a node does when it runs out of memory, disk or processes: it evicts pods, one a round, and
//! takes no new ones.
//!
//! ```text
//!  usage ─► Observations ─► Watch::judge (thresholds, grace, minimum reclaim, transition period) ─► pressures: conditions, admission
//!                                │ a threshold is met
//!                                ▼
//!                           node level: unused images ─► still met? ─► ranking ─► one pod ─► again when it is gone
//!  figures of a pod ─► storage limits ─► evicted whatever the node has left
//!                    └► refused forks ─► an event
//! ```
//! Source: Kubernetes documentation, "Node-pressure Eviction"; the kubelet's eviction manager. All
//! but `driver` is pure.

mod admission;
mod choice;
mod driver;
mod figures;
mod judge;
mod messages;
mod policy;
mod process_limits;
mod ranking;
mod signal;
mod storage;
#[cfg(test)]
mod tests;

pub(crate) use admission::{Standing, refusal};
pub(crate) use driver::{EvictionManager, EvictionOrder};
pub(crate) use policy::{Amounts, Defaults, ThresholdSettings};
pub use policy::{
    EvictionPolicy, EvictionPolicyError, Threshold, ThresholdAmount, ThresholdKind, ThresholdScope,
};
pub use signal::{EvictionSignal, PressureKind};
