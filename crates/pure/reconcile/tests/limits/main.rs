//! What is decided together keeps to the limits (promise P5).
#![allow(clippy::expect_used, reason = "a test says by failing what it expected")]

mod cluster_limit;
mod failing;
mod held_crowd;
mod late_failures;
