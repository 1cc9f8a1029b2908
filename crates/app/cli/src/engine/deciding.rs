//! What decides, beside the API: controllers and ladders, the number of nodes, and who is told when
//! a ladder is exhausted.

use std::sync::Arc;

use rekindle_operator::{
    Candidacy, ElectedParts, LadderFigures, NodeScaler, OperatorParts, RestartLimits,
    ScalingSettings, Webhook, no_longer_scaled,
};
use tokio::task::JoinSet;

use super::adding::NodeAdditionGate;
use super::auto_nodes::AutoNodes;
use super::opened::OpenedApi;
use super::phase::PhaseNotifier;
use crate::args::{NodesWanted, Up};

/// Whom controllers and ladder act as.
const OPERATOR: &str = "system:serviceaccount:kube-system:rekindle-operator";

/// The tasks that decide. They end where they are when this is dropped.
pub struct DecisionTasks {
    tasks: JoinSet<()>,
    /// What nodes are added through.
    gate: NodeAdditionGate,
}

impl DecisionTasks {
    /// Nobody decides yet.
    pub fn new(gate: NodeAdditionGate) -> Self {
        Self { tasks: JoinSet::new(), gate }
    }

    /// Controllers and ladders, as soon as nobody else runs them; none when they are to run
    /// elsewhere.
    pub fn control(
        &mut self,
        args: &Up,
        (limits, figures): (RestartLimits, Arc<LadderFigures>),
        candidacy: Candidacy,
        api: &OpenedApi,
        phases: &PhaseNotifier,
    ) {
        if args.no_controllers {
            return;
        }
        let parts = OperatorParts {
            client: api.client(OPERATOR),
            clock: api.clock.shared(),
            role: args.role.role(),
            limits,
            nodes: args.failing.settings(),
            figures,
        };
        // `tell` serves the webhook for longer: until the pods have ended
        let (elected, stopped) = (ElectedParts::default(), phases.stopped());
        self.tasks.spawn(rekindle_operator::run_elected(parts, candidacy, elected, stopped));
    }

    /// Adds and removes nodes from now on, if that is wanted; else what was decided of them before
    /// is no longer true.
    pub fn scale(&mut self, args: &Up, nodes: AutoNodes) {
        match args.nodes {
            Some(NodesWanted::Auto { min, max }) => {
                let settings = ScalingSettings {
                    unneeded_time: args.scale_down_unneeded_time.into(),
                    ..ScalingSettings::between(min.into(), max.into())
                };
                let (client, clock) = (nodes.client.clone(), nodes.clock.shared());
                self.tasks.spawn(NodeScaler::new(client, clock, nodes, settings).run());
            }
            Some(NodesWanted::AtLeast(_)) | None => {
                let client = nodes.client;
                self.tasks.spawn(async move {
                    if let Err(error) = no_longer_scaled(&client).await {
                        tracing::warn!(%error, "failed to uncordon the nodes that were being removed");
                    }
                });
            }
        }
    }

    /// Nothing is decided any more, and no further node begins.
    pub async fn stop(&mut self) {
        self.tasks.abort_all();
        let gate = self.gate.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || gate.close()).await {
            tracing::warn!(%error, "failed to wait for a node that is being added");
        }
    }
}

/// Tells of exhausted ladders until the engine has ended its pods: their ends may be news, too.
pub fn tell(webhook: Option<Webhook>, api: &OpenedApi, phases: &PhaseNotifier) {
    if let Some(webhook) = webhook {
        let (client, clock) = (api.client(OPERATOR), api.clock.shared());
        tokio::spawn(rekindle_operator::notify(client, clock, Arc::new(webhook), phases.stopped()));
    }
}
