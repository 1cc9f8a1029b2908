//! Restarts on every rung, and what survives them: ladders, kill -9, privileges, `why`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod group_ladders;
mod kill9;
mod node_local_fault;
mod operator;
mod poisoned;
mod privilege;
mod restart;
mod restart_ahead;
mod restart_groups;
mod restart_many;
mod restart_output;
mod rungs;
mod scenarios;
mod webhook;
mod why;
