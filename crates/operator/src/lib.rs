//! Runs the controllers and the restart ladder against any Kubernetes API, through a
//! `kube::Client`: ours in process, or a cluster's over HTTPS.
//!
//! ```text
//!            watches                        plans                     writes
//!   API ────────────► feed ─► View ─► queue ─────► executor ─► writer ────────► API
//!                              ▲                       │
//!                              └──── settle ───────────┘  the answers to our own writes
//! ```
//!
//! Everything is decided in pure crates ([`rekindle_controllers`], [`rekindle_ladder`]); here are
//! only one loop that owns the view, and the tasks that talk to the API. The loop sleeps until a
//! watch, an answer or a deadline wakes it.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a driver: it talks to an API and keeps time")]

mod elector;
mod engine;
mod feed;
mod figures;
mod in_term;
mod ladder;
mod ledgers;
mod orphans;
mod overlaps;
mod peers;
mod planner;
mod policies;
mod preview;
mod queue;
mod resumption;
mod revisions;
mod scaling;
mod snapshot;
mod surroundings;
mod turns;
mod watched;
mod webhook;
pub mod wire;
mod work;
mod writer;

use std::sync::Arc;

pub use figures::LadderFigures;
use kube::Client;
pub use planner::{Planner, Task};
pub use preview::{PreviewError, preview};
pub use rekindle_controllers::NamespacedName;
pub use rekindle_controllers::leader_election::{Candidacy, Timing, TimingError};
pub use rekindle_controllers::node_lifecycle::Settings as NodeSettings;
pub use rekindle_controllers::node_scaling::{SCALE_DOWN, Settings as ScalingSettings};
pub use rekindle_controllers::pod_restart::Preview;
pub use rekindle_ladder::{Limits, TokenBucket};
use rekindle_types::Tick;
pub use scaling::{NodeSupply, Scaler, SupplyError, no_longer_scaled, say_being_removed};
pub use watched::{Seen, kinds};
pub use webhook::{Webhook, WebhookError, notify};
pub use wire::{
    NoPath, RequestError, collection, event_requests, object_from_json, object_from_value,
    outcome_of_refusal, outcome_of_success, path, request_for, stored_kind,
};
pub use work::Work;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Tick + Send + Sync>;

/// What controllers and ladder are given.
#[derive(Clone)]
pub struct Parts {
    /// The API.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Over all ladders.
    pub limits: Limits,
    /// Over nodes that fail.
    pub nodes: NodeSettings,
    /// Count what ladders do.
    pub figures: Arc<LadderFigures>,
}

/// Runs until `stop` resolves, without asking whether anybody else does. Dropping the future stops
/// it at any point; whatever was begun is put right by the next run.
pub async fn run(parts: Parts, stop: impl Future<Output = ()>) {
    tokio::select! {
        () = engine::Engine::new(parts, None).run() => {}
        () = stop => {}
    }
}

/// Runs while this candidate leads, until `stop` resolves; then the Lease is given back. Dropping
/// the future stops it at any point, and keeps the Lease for as long as it lasts.
pub async fn run_elected(parts: Parts, candidacy: Candidacy, stop: impl Future<Output = ()>) {
    let (client, clock) = (parts.client.clone(), Arc::clone(&parts.clock));
    let act = move |in_term| engine::Engine::new(parts.clone(), Some(in_term)).run();
    elector::Elector::new(client, clock, candidacy).run(act, stop).await;
}
