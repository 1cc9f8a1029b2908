//! Whether the engine runs, as it is told to the parts that run beside it.

use tokio::sync::watch;

/// Told to the parts that run beside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnginePhase {
    Running,
    Stopping,
}

/// Tells them. Dropped, it tells them to stop.
pub struct PhaseNotifier(watch::Sender<EnginePhase>);

impl PhaseNotifier {
    /// The engine runs.
    pub fn running() -> Self {
        Self(watch::Sender::new(EnginePhase::Running))
    }

    /// Everybody stops.
    pub fn stop(&self) {
        self.0.send_replace(EnginePhase::Stopping);
    }

    /// Resolves when the engine stops, also when it is dropped.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut phase = self.0.subscribe();
        async move {
            let _ = phase.wait_for(|phase| *phase == EnginePhase::Stopping).await;
        }
    }
}
