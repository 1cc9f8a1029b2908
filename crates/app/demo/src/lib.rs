//! `rekindle demo`: an app that misbehaves on demand, so that examples, drills and tests need no
//! other image.
//!
//! It is the program of the built-in image `localhost/demo`. It runs as the first process of a
//! container, where the kernel ignores every signal that has no handler: each subcommand therefore
//! says what it does on SIGTERM.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "a demo app is all IO: files, timers, sockets and signals"
)]

mod candidate;
mod connections;
mod controller;
mod crash;
mod lease_client;
mod seed;
mod server;
mod signal;

use std::time::Duration;

pub use lease_client::LeaseClientError;

/// The exit code of a program that SIGTERM ends, as shells and runtimes count it: 128 + 15.
const EXIT_CODE_TERMINATED: u8 = 143;

/// What the demo app does.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Demo {
    /// Wait, and obey or ignore SIGTERM
    Signal(signal::SignalDemo),
    /// Serve HTTP on /, /startz, /readyz and /healthz; drain on SIGTERM
    Server(server::ServerDemo),
    /// Lead, or stand by: hold a Lease of the pod's namespace
    Controller(controller::ControllerDemo),
    /// Crash after a while, on a schedule, or when a file is there
    Crash(crash::Crash),
    /// Leave a file behind, once: how a shared volume gets poisoned
    Seed(seed::Seed),
}

/// Why the demo app could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The asynchronous runtime could not be made.
    #[error("start the event loop")]
    Runtime(#[source] std::io::Error),
    /// A signal handler could not be installed.
    #[error("listen for signals")]
    Signals(#[source] std::io::Error),
    /// The port could not be had.
    #[error("listen on port {port}")]
    Listen {
        /// Which port.
        port: u16,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The Lease could not be read or written.
    #[error(transparent)]
    Lease(#[from] LeaseClientError),
    /// The periods of a leader election do not fit together.
    #[error(
        "--retry-period must be above zero and shorter than --renew-deadline, which must be \
         shorter than --lease-duration, in whole seconds"
    )]
    ElectionPeriods,
    /// A file could not be written.
    #[error("write {path}")]
    Write {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Runs the demo until it ends; answers the exit code.
pub fn run(demo: Demo) -> Result<u8, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DemoError::Runtime)?;
    runtime.block_on(async {
        match demo {
            Demo::Signal(signal) => signal.run().await,
            Demo::Server(server) => server.run().await,
            Demo::Controller(controller) => controller.run().await,
            Demo::Crash(crash) => crash.run().await,
            Demo::Seed(seed) => seed.run(),
        }
    })
}

/// SIGTERM and SIGINT, whichever comes first.
struct Termination {
    term: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Termination {
    fn listen() -> Result<Self, DemoError> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            term: signal(SignalKind::terminate()).map_err(DemoError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(DemoError::Signals)?,
        })
    }

    /// The name of the signal that came.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Reads a duration such as `200ms` or `1h 30m` for clap.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| error.to_string())
}
