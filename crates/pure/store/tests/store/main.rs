//! The store on a disk in memory.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test may panic and start threads"
)]

mod behaviour;
mod model;
mod support;
