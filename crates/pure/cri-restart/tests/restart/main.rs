//! What a PodRestart does on a cluster, step by step and under crashes.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod crashes;
mod freeze;
mod groups;
mod refusals;
mod steps;
mod world;
