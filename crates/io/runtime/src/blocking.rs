//! Work that blocks (files, locks), on a thread where that is no harm.

/// Runs it there; a panic in it goes on here.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only at the end of the whole process: nobody needs the answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Whether others go on elsewhere while a task blocks its thread by
/// [`tokio::task::block_in_place`], which such a runtime alone knows.
pub(crate) fn may_run_here() -> bool {
    tokio::runtime::Handle::current().runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread
}
