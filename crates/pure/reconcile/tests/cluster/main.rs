//! Ladders on a cluster that is not ours: an API that stores custom resources as a cluster's does,
//! controllers and kubelets that are played by what they write, and the planner of production.
#![allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]

mod acting;
mod agents;
mod nodes;
mod observing;
mod reach;
mod report;
mod whole_cluster;
mod world;
