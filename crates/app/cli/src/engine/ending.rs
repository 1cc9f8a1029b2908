//! When an engine ends, and what becomes of its pods.

use anyhow::Context;
use rekindle_node::AgentStopMode;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
    pub async fn next(&mut self) -> AgentStopMode {
        tokio::select! {
            _ = self.interrupt.recv() => AgentStopMode::EndPods,
            _ = self.terminate.recv() => AgentStopMode::EndPods,
            _ = self.quit.recv() => AgentStopMode::LeavePods,
        }
    }
}
