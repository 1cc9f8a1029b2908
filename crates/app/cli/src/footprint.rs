//! What a process that runs for long takes up.

use std::time::Duration;

use rekindle_api_server::Front;
use rekindle_shim::{heap, own_code};

/// How long after the start its own work is over.
const START_IS_OVER: Duration = Duration::from_secs(1);

/// How long after a burst of requests what it took is free; and how often, at most, free memory is
/// given back.
const BURST_IS_OVER: Duration = Duration::from_secs(10);

/// Gives back the memory that bursts of clients' requests have freed, until `stopped` resolves.
pub async fn shrink_after_bursts(front: Front, stopped: impl Future<Output = ()>) {
    let mut stopped = std::pin::pin!(stopped);
    let shrink = async {
        loop {
            front.burst().await;
            tokio::time::sleep(BURST_IS_OVER).await;
            // the panic hook tells of a failure
            let given_back = tokio::task::spawn_blocking(heap::give_back).await.unwrap_or_default();
            tracing::debug!(given_back, "free memory was given back");
        }
    };
    tokio::select! {
        () = &mut stopped => {}
        () = shrink => {}
    }
}

/// Gives back the code that only the start needed, once it is over. Must be called inside a tokio
/// runtime.
pub fn shrink_after_start() {
    tokio::spawn(async {
        tokio::time::sleep(START_IS_OVER).await;
        match tokio::task::spawn_blocking(own_code::give_back).await {
            Ok(Ok(bytes)) => tracing::debug!(bytes, "code that is not used is not mapped any more"),
            // The process is only larger than it has to be.
            Ok(Err(error)) => tracing::debug!(%error, "code that is not used stays mapped"),
            // The panic hook has told where.
            Err(_) => {}
        }
    });
}
