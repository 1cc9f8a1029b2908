//! The workload controllers, as pure functions of what was observed.
//!
//! A driver keeps a [`ClusterView`] up to date from watches, asks [`affected`] which
//! [`ControllerKey`]s a change touches, and calls [`reconcile`] for each of them. The answer is a
//! [`WritePlan`]: writes in batches, events, and the time at which the key wants to be looked at
//! again. The driver carries the plan out and tells the view how each write went
//! ([`ClusterView::settle`]).
//!
//! ```text
//!   watch event ─► View::apply ─► Change ─► affected ─► Key ─► reconcile ─► Plan ─► driver ─► View::settle ─► Change ─► …
//! ```
//!
//! What keeps a stale view from doing harm:
//! - **Own writes are in the view at once.** The server's answer to a write goes into the view
//!   before its key is looked at again, and an older watch event does not take it back
//!   (`view::own_writes`). This replaces client-go's expectations.
//! - **Names of created objects are deterministic** ([`names`]): creating the same pod twice is a
//!   conflict, never a double.
//! - **Deletes name the UID, updates the resourceVersion** they were decided on.
//! - **Absence is checked at the server** before anything is deleted because of it
//!   ([`WriteOperation::CheckAbsent`]).
//!
//! What is created again and again waits ever longer, whatever the cause: every plan passes
//! [`creation_brake::hold_back`].
#![forbid(unsafe_code)]

pub mod avoidance;
pub mod change;
pub mod cluster;
pub mod creation_brake;
pub mod cron_job;
pub mod daemon_set;
mod definition;
pub mod deployment;
mod dispatch;
pub mod disruption;
pub mod endpoints;
pub mod events;
mod failed_pods;
pub mod garbage;
pub mod horizontal_autoscaler;
pub mod job;
pub mod key;
pub mod kind;
pub mod leader_election;
mod load_balancer;
mod memories;
pub mod metric_query;
pub mod names;
pub mod namespace;
pub mod node_lifecycle;
pub mod node_scaling;
pub mod object;
pub mod owners;
mod patches;
pub mod plan;
pub mod pod_gc;
pub mod pod_restart;
pub mod pods;
pub mod readings;
pub mod replica_set;
pub mod resource_quota;
mod revisions;
pub mod scheduler;
pub mod stateful_set;
pub mod vacancy;
pub mod view;
pub mod volumes;

pub use change::ObjectChange;
pub use dispatch::{
    affected, affected_by_first_list, affected_restarts, depends_on_unlisted, reconcile, turn,
};
pub use key::ControllerKey;
pub use kind::ResourceKind;
pub use object::{ObjectId, ViewObject};
pub use plan::{
    NewObject, PlannedWrite, Settlement, WriteNotes, WriteOperation, WritePlan, WriteRefusal,
    WriteResult,
};
pub use rekindle_types::NamespacedName;
pub use scheduler::SchedulingRank;
pub use view::ClusterView;
