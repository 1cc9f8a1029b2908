//! Keeps sandboxes ready that are no pod's yet, on the network already: a pod that is created or
//! restarted as a whole takes one, and the next is made when there is time.

use std::sync::Arc;
use std::time::Duration;

use rekindle_runtime::{Runtime, RuntimeError};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::network::PodNetwork;

/// How long after one was taken the next is made: by then the pod that took it is likely to run.
const REFILL_DELAY: Duration = Duration::from_millis(20);
/// How long after one could not be made the next try is.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The task that makes them. Dropping it is like a crash: they stay, and the next agent's runtime
/// ends them.
#[derive(Debug)]
pub(crate) struct SpareKeeper {
    task: JoinHandle<()>,
    end: oneshot::Sender<SparesAtStop>,
}

/// What becomes of the spares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SparesAtStop {
    /// They end with the agent.
    End,
    /// They stay.
    Stay,
}

impl SpareKeeper {
    /// Makes the first ones, and another whenever `taken` tells of one that is gone.
    pub(crate) fn start<R: Runtime, N: PodNetwork>(
        runtime: Arc<R>,
        network: Arc<N>,
        taken: Arc<Notify>,
    ) -> Self {
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let leaving = tokio::select! {
                leaving = ended => leaving.unwrap_or(SparesAtStop::Stay),
                () = keep(runtime.as_ref(), network.as_ref(), &taken) => SparesAtStop::Stay,
            };
            match leaving {
                SparesAtStop::End => runtime.end_prepared().await,
                SparesAtStop::Stay => {}
            }
        });
        Self { task, end }
    }

    /// Ends it.
    pub(crate) async fn stop(self, leaving: SparesAtStop) {
        // A task that has failed has been heard of by its panic.
        let _ = self.end.send(leaving);
        let _ = self.task.await;
    }

    /// Ends it without waiting.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}

async fn keep<R: Runtime, N: PodNetwork>(runtime: &R, network: &N, taken: &Notify) {
    loop {
        let wait = match fill(runtime, network).await {
            Ok(()) => {
                taken.notified().await;
                REFILL_DELAY
            }
            Err(error) => {
                tracing::warn!(error = error.chain(), "failed to create a spare sandbox");
                RETRY_DELAY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

async fn fill<R: Runtime, N: PodNetwork>(runtime: &R, network: &N) -> Result<(), RuntimeError> {
    while let Some(spare) = runtime.prepare_sandbox().await? {
        // A pod that takes it meets no network then, and has its own try and its own error.
        if let Err(error) = network.prepare(&spare.id, &spare.netns).await {
            tracing::debug!(%error, id = spare.id, "a spare sandbox is not on the network");
        }
    }
    Ok(())
}
