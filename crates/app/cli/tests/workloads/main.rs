//! Controllers on real containers: workloads, budgets, evictions, scheduling, leaders, volumes that
//! are claimed.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod autoscaling;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod disruption;
mod endpoints;
mod eviction;
mod jobs;
mod leaders;
mod resource_quotas;
mod scenarios_of_workloads;
mod scheduling;
mod stateful_sets;
mod storage;
