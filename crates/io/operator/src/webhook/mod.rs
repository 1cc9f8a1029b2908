//! Tells somebody outside the cluster when a ladder is exhausted: one POST of JSON for each
//! exhaustion, until it is taken.
//!
//! ```text
//!   RestartLedgers ──watch──► outbox ──► POST ──2xx──► status.exhaustionToldAt ──watch──► done
//!                               ▲          │ else             │ else
//!                               └──────────┴──── later ───────┘
//! ```
//! What was told stands in the ledger, so that neither a restart nor another operator tells it
//! again. Only a crash between the answer and that write does: the notice has an `id` by which the
//! receiver knows it (docs/how-to/report-an-exhausted-ladder.md).

mod delivery;

pub use delivery::{Webhook, WebhookError};

use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use rekindle_object_watch::watcher;
use rekindle_reconcile::{DeliveryResult, NoticeDelivery, NoticeOutbox};
use rekindle_types::v1alpha1::RestartLedger;
use tokio::task::JoinSet;

use crate::Clock;

/// Notices that are under way at the same time: a receiver that hangs must not hold up all others,
/// nor be flooded.
const UNDER_WAY_MAX: usize = 4;

/// Tells `webhook` of exhausted ladders until `stop` resolves. Dropping the future stops it at any
/// point.
pub async fn notify(
    client: Client,
    clock: Clock,
    webhook: Arc<Webhook>,
    stop: impl Future<Output = ()>,
) {
    let messenger = NoticeMessenger { client, clock, webhook, outbox: NoticeOutbox::default() };
    tokio::select! {
        () = messenger.run() => {}
        () = stop => {}
    }
}

struct NoticeMessenger {
    client: Client,
    clock: Clock,
    webhook: Arc<Webhook>,
    outbox: NoticeOutbox,
}

impl NoticeMessenger {
    /// Ends only when the watch does, which is never.
    async fn run(mut self) {
        let ledgers = Api::<RestartLedger>::all(self.client.clone());
        let events = watcher(ledgers, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut under_way: JoinSet<(NoticeDelivery, DeliveryResult)> = JoinSet::new();
        loop {
            let now = (self.clock)();
            let due = self.outbox.next_due().filter(|_| under_way.len() < UNDER_WAY_MAX);
            let wait = async move {
                match due {
                    Some(due) => tokio::time::sleep(due.since(now).to_std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.next() => match event {
                    None => return,
                    Some(Ok(event)) => self.see(event),
                    Some(Err(error)) => tracing::warn!(%error, "failed to watch ledgers for the webhook"),
                },
                Some(done) = under_way.join_next() => match done {
                    Ok((delivery, told)) => self.outbox.settle(&delivery, told, (self.clock)()),
                    // a send does not panic; if it does, its notice is found again by the next
                    // start
                    Err(error) => tracing::error!(%error, "failed to send a notice: the task panicked"),
                },
                () = wait => {}
            }
            let room = UNDER_WAY_MAX - under_way.len();
            for delivery in self.outbox.take_due((self.clock)(), room) {
                let (client, webhook) = (self.client.clone(), std::sync::Arc::clone(&self.webhook));
                under_way.spawn(async move {
                    let told = webhook.carry_out(&client, &delivery).await;
                    (delivery, told)
                });
            }
        }
    }

    fn see(&mut self, event: Event<RestartLedger>) {
        let now = (self.clock)();
        match event {
            Event::Init => self.outbox.begin_list(),
            Event::InitApply(ledger) | Event::Apply(ledger) => self.outbox.see(&ledger, now),
            Event::InitDone => self.outbox.end_list(),
            Event::Delete(ledger) => self.outbox.gone(&ledger),
        }
    }
}
