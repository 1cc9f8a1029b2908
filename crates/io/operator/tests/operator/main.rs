//! The operator on the real API, on a memory disk.
#![allow(
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test drives a whole API, and keeps real time"
)]

mod broken_removals;
mod budget;
mod crashes;
mod elections;
mod previews;
mod replacements;
mod rollbacks;
mod world;
