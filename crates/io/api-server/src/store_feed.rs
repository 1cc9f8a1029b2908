//! How parts of the server follow the store: from the beginning again when they fall behind, and
//! after a while when something failed.

use std::future::Future;
use std::time::Duration;

use rekindle_api::status::ApiError;

/// After a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Why no more changes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedEnd {
    /// The watch fell behind the store's history: begin again.
    Behind,
    /// What was seen could not be handled: begin again later.
    Failed,
    /// The store has ended.
    StoreClosed,
}

/// Follows until `stop` resolves, or the store ends. There is nothing to `begin` where the kind is
/// not served.
pub(crate) async fn follow<T, R: Future<Output = FeedEnd>>(
    stop: impl Future<Output = ()>,
    what: &'static str,
    begin: impl Fn() -> Result<Option<T>, ApiError>,
    run: impl Fn(T) -> R,
) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let pause = match begin() {
            Ok(Some(feed)) => tokio::select! {
                () = &mut stop => return,
                end = run(feed) => match end {
                    FeedEnd::Behind => Duration::ZERO,
                    FeedEnd::Failed => AFTER_FAILURE,
                    FeedEnd::StoreClosed => return,
                },
            },
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, what, "failed to follow changes");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
