//! What a process that runs for long takes up.

use std::time::Duration;

use rekindle_shim::own_code;

/// How long after the start its own work is over.
const START_IS_OVER: Duration = Duration::from_secs(1);

/// Gives back the code that only the start needed, once it is over. Must be called inside a tokio runtime.
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
