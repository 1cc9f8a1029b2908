//! The simulator: whole worlds in virtual time.
#![allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]

mod autoscaling;
mod cron_jobs;
mod crowds;
mod examples;
mod leaders;
mod restart_groups;
mod scenarios;
mod world;
