//! Keeps the FlowSchemas and priority levels that every server has, and lets a change act on those
//! that wait already.

use std::future::Future;

use rekindle_api::FlowControlFeed;

use crate::front::Front;

/// Runs until `stop` resolves, or the store ends.
pub async fn keep_flow_control(front: Front, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let Some(mut feed) = follow(&front) else { return };
        // what changed before the feed began
        maintain(&front).await;
        loop {
            let changed = tokio::select! {
                () = &mut stop => return,
                changed = feed.changed() => changed,
            };
            match changed {
                Ok(true) => {
                    front.refresh_flow_control();
                    maintain(&front).await;
                }
                Ok(false) => return,
                // fell behind the store's history: begin again
                Err(_) => break,
            }
        }
    }
}

fn follow(front: &Front) -> Option<FlowControlFeed> {
    let feed = front.api().follow_flow_control();
    feed.inspect_err(|error| tracing::warn!(%error, "failed to watch FlowSchemas")).ok()
}

/// Writes what lacks. What becomes durable is a change, which brings the keeper here again.
async fn maintain(front: &Front) {
    let written = async {
        for write in front.api().maintain_flow_control(front.now())? {
            write.await?;
        }
        Ok::<_, rekindle_api::status::ApiError>(())
    };
    if let Err(error) = written.await {
        tracing::warn!(%error, "failed to keep the default FlowSchemas");
    }
}
