//! When an engine ends, and what becomes of its pods.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What becomes of the pods when the engine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineStopMode {
    /// Their containers are ended gracefully.
    EndPods,
    /// They go on, and the next engine on this data directory finds them.
    LeavePods,
}

/// The signals that end an engine: SIGINT (Ctrl-C) and SIGTERM end the pods, SIGQUIT leaves them.
/// Listened to from before the start, so that one that comes during it counts as soon as there is
/// something to end.
pub struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
}

impl EndSignals {
    /// Must be called inside a tokio runtime.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            quit: listen(SignalKind::quit())?,
        })
    }

    /// The next of them.
    pub async fn next(&mut self) -> EngineStopMode {
        tokio::select! {
            _ = self.interrupt.recv() => EngineStopMode::EndPods,
            _ = self.terminate.recv() => EngineStopMode::EndPods,
            _ = self.quit.recv() => EngineStopMode::LeavePods,
        }
    }
}
