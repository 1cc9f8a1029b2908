//! What black-box tests share: the engine as a process with real kubectl on real containers, and
//! what a test needs beside it. It knows the product from outside, by its command line and its API,
//! and uses no crate of it. Every crate may have it as a dev-dependency, and no crate otherwise
//! (`crates/app/cli/tests/house.rs`).
//!
//! Each test has a data directory, port, bridge, subnet and cgroups of its own. The runner gives it
//! a process of its own, and [`claims`] keeps tests apart that run at the same time. Dropping an
//! [`Engine`] ends everything that it made, also when the test fails. Nothing here sleeps: tests
//! wait for `kubectl wait`, for watches and for the engine's own reports.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a black-box test drives processes and files, and has failed when it cannot go on"
)]

pub mod archive;
pub mod claims;
pub mod containerd;
mod engine;
pub mod guarded_child;
mod kept_connection;
pub mod load;
mod network;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod registry;

pub mod shims;
mod terminal;
mod watch;

use std::time::Duration;

pub use engine::{Engine, kubectl_path, rekindle, rekindle_path};
pub use network::{EngineNetwork, free_port};
pub use terminal::{TestTerminal, on_terminal};
pub use watch::{Objects, is, until_hung};

/// How long anything may take before the test calls it hung: what takes a second here may take a
/// minute on a machine that is busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The same as an argument of kubectl, helm and the like.
pub const TIMEOUT: &str = "--timeout=180s";

/// What a program has written, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
