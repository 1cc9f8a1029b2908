//! Runs the controllers and the restart ladder against any Kubernetes API, through a `kube::Client`: ours in process, or a
//! cluster's over HTTPS.
//!
//! ```text
//!            watches                        plans                     writes
//!   API ────────────► feed ─► View ─► queue ─────► executor ─► writer ────────► API
//!                              ▲                       │
//!                              └──── settle ───────────┘  the answers to our own writes
//! ```
//!
//! Everything is decided in pure crates ([`rekindle_controllers`], [`rekindle_ladder`]); here are only one loop that owns the
//! view, and the tasks that talk to the API. The loop sleeps until a watch, an answer or a deadline wakes it.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a driver: it talks to an API and keeps time")]

mod desk;
mod engine;
mod feed;
mod figures;
mod ladder;
mod ledgers;
mod peers;
mod policies;
mod queue;
mod revisions;
mod turns;
mod webhook;
mod work;
mod writer;

use std::sync::Arc;

pub use desk::{Desk, Task};
pub use feed::{Seen, kinds};
pub use figures::LadderFigures;
use kube::Client;
pub use kube::core::Status;
pub use rekindle_controllers::node_lifecycle::Settings as NodeSettings;
pub use rekindle_ladder::{Limits, TokenBucket};
use rekindle_types::Tick;
pub use webhook::{Webhook, WebhookError, notify};
pub use work::Work;
pub use writer::{
    Answer, Transport, Writer, collection, object_from_json, object_of, path, refused,
};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Tick + Send + Sync>;

/// Runs until `stop` resolves; `limits` hold over all ladders, `nodes` over nodes that fail, and `figures` count what ladders do. Dropping
/// the future stops it at any point; whatever was begun is put right by the next run.
pub async fn run(
    client: Client,
    clock: Clock,
    limits: Limits,
    nodes: NodeSettings,
    figures: Arc<LadderFigures>,
    stop: impl Future<Output = ()>,
) {
    tokio::select! {
        () = engine::Engine::new(client, clock, limits, nodes, figures).run() => {}
        () = stop => {}
    }
}
