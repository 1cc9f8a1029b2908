//! Controllers and restart ladder at work, without a client: what watches show comes in, writes
//! come out, and their answers come back.
//!
//! ```text
//!   Seen ─► Planner::see ─► View ─► queue ─► Planner::begin_due ─► Planner::poll_task ─► Task
//!                            ▲                                                            │
//!                            └──── Planner::settle ◄── Outcome ◄── wire ◄── (driver) ◄────┘
//! ```
//!
//! - [`Planner`] owns the view, the work queue and the plans under way.
//! - [`WorkItem`] is a unit of it: a controller at an object, or the ladder at a pod.
//! - [`wire`] turns a write into a request to the API, and the answer into an outcome.
//!
//! The crate does no IO and keeps no time. Its drivers are the operator, which has a client and a
//! clock, and the simulator.
#![forbid(unsafe_code)]

mod avoided_nodes;
mod cluster_report;
mod cluster_requests;
mod custom_lists;
mod exhaustion;
mod figures;
mod group_ladder;
mod groups;
mod ladder;
mod ledgers;
mod orphans;
mod overlaps;
mod peers;
mod planner;
mod planner_role;
mod policies;
mod proposed_ladder;
mod queue;
mod reading_schedule;
mod restart_context;
mod restart_queue;
mod resumption;
mod revisions;
pub mod scaling;
mod watched;
pub mod wire;
mod work;

pub use cluster_report::{ClusterReport, REPORT_KINDS, WorkloadReport, cluster_report};
pub use exhaustion::{
    DeliveryResult, DeliveryStep, ExhaustionNotice, LedgerRef, NoticeDelivery, NoticeOutbox,
};
pub use figures::LadderFigures;
pub use planner::{Planner, PlannerTask};
pub use planner_role::{
    AGENT_LABEL, AGENT_LABEL_VALUE, ClusterLadders, FREEZES_PODS_LABEL, FREEZES_PODS_LABEL_VALUE,
    LADDER_LABEL, LADDER_LABEL_ENABLED, PlannerRole,
};
pub use policies::INCLUDES_ANNOTATION;
pub use proposed_ladder::proposed_spec;
pub use rekindle_controllers::node_lifecycle::NodeLifecycleSettings;
pub use rekindle_ladder::{LadderMode, RestartLimits, TokenBucket};
pub use watched::{WatchUpdate, kinds};
pub use work::WorkItem;
