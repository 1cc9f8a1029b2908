//! Runs the controllers and the restart ladder against any Kubernetes API, through a
//! `kube::Client`: ours in process, or a cluster's over HTTPS.
//!
//! ```text
//!        watches          what they show             tasks           requests
//!   API ────────► feed ───────────────► Planner ─────────────► writer ────────► API
//!                                          ▲                     │
//!                                          └────── outcomes ─────┘
//! ```
//!
//! Everything is decided in pure crates: [`rekindle_reconcile`] has the planner, and what a write
//! asks the API for. Here are only one loop that owns the planner, and the tasks that talk to the
//! API. The loop sleeps until a watch, an answer or a deadline wakes it.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a driver: it talks to an API and keeps time")]

mod api_resource;
mod elector;
mod engine;
mod feed;
mod in_term;
mod leadership;
mod metric_reader;
mod preview;
mod report;
mod scaling;
mod snapshot;
mod webhook;
mod writer;

use std::sync::Arc;

use futures::future::OptionFuture;
use kube::Client;
pub use leadership::{Leadership, LeadershipState};
pub use preview::{PreviewError, preview};
pub use rekindle_controllers::NamespacedName;
pub use rekindle_controllers::leader_election::{Candidacy, ElectionTiming, ElectionTimingError};
pub use rekindle_controllers::node_scaling::{SCALE_DOWN, ScalingSettings};
pub use rekindle_controllers::pod_restart::RestartPreview;
pub use rekindle_reconcile::{
    ClusterLadders, ClusterReport, LADDER_LABEL, LADDER_LABEL_ENABLED, LadderFigures, LadderMode,
    NodeLifecycleSettings, PlannerRole, RestartLimits, TokenBucket, WorkloadReport,
};
use rekindle_types::Tick;
pub use report::{ReportError, report};
pub use scaling::{NodeScaler, NodeSupply, SupplyError, no_longer_scaled, say_being_removed};
pub use webhook::{Webhook, WebhookError, notify};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Tick + Send + Sync>;

/// What controllers and ladder are given.
#[derive(Clone)]
pub struct OperatorParts {
    /// The API.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// What is run.
    pub role: PlannerRole,
    /// Over all ladders.
    pub limits: RestartLimits,
    /// Over nodes that fail.
    pub nodes: NodeLifecycleSettings,
    /// Count what ladders do.
    pub figures: Arc<LadderFigures>,
}

/// What goes with the operator that is elected.
#[derive(Clone, Default)]
pub struct ElectedParts {
    /// Who hears of exhausted ladders while this process leads.
    pub webhook: Option<Arc<Webhook>>,
    /// Says whether this process leads.
    pub leadership: Arc<Leadership>,
}

/// Runs until `stop` resolves, without asking whether anybody else does. Dropping the future stops
/// it at any point; whatever was begun is put right by the next run.
pub async fn run(parts: OperatorParts, stop: impl Future<Output = ()>) {
    tokio::select! {
        () = engine::OperatorLoop::new(parts, None).run() => {}
        () = stop => {}
    }
}

/// Runs while this candidate leads, until `stop` resolves; then the Lease is given back. Dropping
/// the future stops it at any point, and keeps the Lease for as long as it lasts.
pub async fn run_elected(
    parts: OperatorParts,
    candidacy: Candidacy,
    elected: ElectedParts,
    stop: impl Future<Output = ()>,
) {
    let ElectedParts { webhook, leadership } = elected;
    let (client, clock) = (parts.client.clone(), Arc::clone(&parts.clock));
    let act = move |in_term| {
        let notices = webhook.clone().map(|webhook| {
            let (client, clock) = (parts.client.clone(), Arc::clone(&parts.clock));
            notify(client, clock, webhook, std::future::pending())
        });
        let decisions = engine::OperatorLoop::new(parts.clone(), Some(in_term)).run();
        async move {
            tokio::select! {
                () = decisions => {}
                Some(()) = OptionFuture::from(notices) => {}
            }
        }
    };
    elector::Elector::new(client, clock, candidacy, leadership).run(act, stop).await;
}
