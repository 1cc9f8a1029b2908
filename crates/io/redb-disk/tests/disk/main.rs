//! The store on real files: under load, killed, and on a full disk.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test may panic; some start a child process and threads"
)]

#[path = "../../../../pure/store/tests/store/support.rs"]
mod support;

mod concurrency;
mod full;
mod kill;
