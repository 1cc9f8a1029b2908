//! The embedded runtime on real namespaces. Needs root.
#![allow(
    clippy::disallowed_methods,
    clippy::result_large_err,
    clippy::unwrap_used,
    reason = "a test that drives real processes, and has failed when it cannot go on"
)]

mod exec;
mod host_image;
mod lifecycle;
mod mounts;
mod namespaces;
mod privileges;
mod processes;
mod reconnect;
mod roots_ahead;
mod spares;
mod users;
mod world;
