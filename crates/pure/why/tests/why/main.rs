//! The accounts that `rekindle why` gives, by what happened.
#![allow(clippy::unwrap_used, reason = "a test")]

mod accounts;
mod alike;
mod asked_restarts;
mod ends;
mod gone;
mod never_placed;
mod not_ready;
mod oom_killing;
mod reasons;
mod remembered;
mod support;
mod workloads;
