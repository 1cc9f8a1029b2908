//! The driver against a runtime, a disk and an API that obey, fail or take their time.
#![allow(clippy::unwrap_used, reason = "a test says so when it fails")]

mod properties;
mod rules;
#[path = "../../../pod/tests/world/runtime.rs"]
#[allow(dead_code, unreachable_pub, reason = "the strict runtime of the core's own tests")]
mod runtime;
mod world;

/// What becomes of the processes of a sandbox that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "for the runtime of the core's own tests")]
pub(crate) enum Processes {
    DieToo,
    LiveOn,
}
