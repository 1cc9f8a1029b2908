//! Keeps aggregated cluster roles up to date: whenever a cluster role has changed, and for nothing
//! else.

use std::future::Future;

use futures::StreamExt;

use super::front::Front;

/// Runs until `stop` resolves, or the store ends.
pub async fn keep_roles_aggregated(front: Front, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let Some(mut changes) = changes(&front) else { return };
        // what changed before the watch began
        aggregate(&front);
        loop {
            let change = tokio::select! {
                () = &mut stop => return,
                change = changes.next() => change,
            };
            match change {
                // one look at what stands covers every change that is there
                Some(Ok(_)) => {
                    while let Some(Ok(_)) = changes.try_next() {}
                    aggregate(&front);
                }
                // fell behind the store's history: begin again
                Some(Err(_)) => break,
                None => return,
            }
        }
    }
}

fn changes(front: &Front) -> Option<rekindle_store::StoreWatch> {
    let watch = front.api().watch_cluster_roles();
    watch.inspect_err(|error| tracing::warn!(%error, "failed to watch cluster roles")).ok()?
}

fn aggregate(front: &Front) {
    if let Err(error) = front.api().aggregate_roles(front.now()) {
        tracing::warn!(%error, "failed to update aggregated cluster roles");
    }
}
