//! Drives `rekindle_controllers::node_scaling`: looks when pods wait for a node, when a node comes
//! or goes, and now and then while a node could go; has nodes added and removed by whoever supplies
//! them; and writes what `rekindle_reconcile::scaling` says of it.
//!
//! Nobody polls while there is nothing to remove and nobody waits.
//!
//! ```text
//!   to be removed ─► the Node says so ─► cordoned, drained ─► gone
//!                                            └─ it fails, or the engine ends meanwhile ─► the next look gives it back
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{self, Node};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use rekindle_controllers::events::{EventCorrelator, EventNote};
use rekindle_controllers::node_scaling::{
    BEING_REMOVED, ScalableNodes, Scaling, ScalingAction, ScalingOutlook, ScalingSettings,
    broken_off, shown,
};
use rekindle_controllers::{ClusterView, ViewObject};
use rekindle_reconcile::scaling::{
    LOOK_PERIOD, SETTLE_TIME, ScaleUp, ScalingNotes, being_removed_patch, give_back_patch,
    next_look, no_longer_scaled_patch, scale_down_note, standings_to_show,
};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};

use crate::Clock;
use crate::snapshot::snapshot;
use crate::writer::PlanWriter;

/// What goes wrong with nodes, in the words of whoever supplies them.
pub type SupplyError = Box<dyn std::error::Error + Send + Sync>;

/// Adds and removes nodes.
pub trait NodeSupply: Send + Sync + 'static {
    /// The node that stays.
    fn first(&self) -> String;

    /// The others, in the order in which they came.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn further(&self) -> Result<Vec<String>, SupplyError>;

    /// Adds one, and answers its name when it is Ready. One that is not in time does not stay.
    fn add(&self) -> impl Future<Output = Result<String, SupplyError>> + Send;

    /// Drains a node by eviction and takes it away. When that cannot be done in time it may leave
    /// the node cordoned: who asked for it gives the node back.
    fn remove(&self, name: &str) -> impl Future<Output = Result<(), SupplyError>> + Send;
}

/// Keeps as many nodes as are needed.
pub struct NodeScaler<S> {
    client: Client,
    clock: Clock,
    supply: Arc<S>,
    scaling: Scaling,
    recorder: EventCorrelator,
    notes: ScalingNotes,
    /// The node that is being removed.
    removing: Option<String>,
    /// That removal; it ends where it is when this is dropped.
    removal: JoinSet<Result<(), SupplyError>>,
}

impl<S: NodeSupply> NodeScaler<S> {
    /// Between the bounds that the user set.
    pub fn new(client: Client, clock: Clock, supply: S, settings: ScalingSettings) -> Self {
        Self {
            client,
            clock,
            supply: Arc::new(supply),
            scaling: Scaling::new(settings),
            recorder: EventCorrelator::new(),
            notes: ScalingNotes::default(),
            removing: None,
            removal: JoinSet::new(),
        }
    }

    /// Until it is dropped.
    pub async fn run(mut self) {
        let mut news = stream::select(self.waiting_pods(), self.nodes_come_and_go());
        loop {
            let next_look = match self.look().await {
                Ok(next_look) => next_look,
                Err(error) => {
                    tracing::warn!(%error, "failed to decide how many nodes there should be");
                    Some(LOOK_PERIOD)
                }
            };
            let due = async {
                match next_look {
                    Some(after) => tokio::time::sleep(after.to_std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = news.next() => {}
                Some(removed) = self.removal.join_next() => self.removed(removed),
                () = due => {}
            }
            tokio::time::sleep(SETTLE_TIME.to_std()).await;
            while news.next().now_or_never().is_some() {}
        }
    }

    /// One look, and what follows from it; answers when the next is due by itself.
    async fn look(&mut self) -> Result<Option<TickDuration>, SupplyError> {
        let (first, further) = (self.supply.first(), self.supply.further()?);
        let now = (self.clock)();
        let mut view = snapshot(&self.client, now).await?;
        let nodes = ScalableNodes { first: &first, further: &further };
        for node in broken_off(&view, nodes, self.removing.as_deref()) {
            // from here on it is seen as it is
            if let Some(changed) = give_back(&self.client, &node.name_any()).await? {
                view.apply(ViewObject::from(changed));
            }
        }
        let outlook = self.scaling.look(&view, nodes, now);
        self.tell(&view, &outlook).await;
        let next_look = next_look(&outlook, self.scaling.settings().unneeded_time, now);
        match outlook.deed {
            ScalingAction::Nothing => {}
            ScalingAction::Add(pods) => {
                let (count, max) = (further.len() + 1, self.scaling.settings().max);
                self.add(pods, ScaleUp { first: &first, count, max }).await;
                return Ok(Some(TickDuration::default()));
            }
            // one at a time: the pods of the one before may need the next one
            ScalingAction::Remove(node) if self.removing.is_none() => {
                self.remove(node, &view).await?
            }
            ScalingAction::Remove(_) => {}
        }
        Ok(next_look)
    }

    /// Has a node added for these pods, and tells them what came of it.
    async fn add(&mut self, pods: Vec<Arc<HeldPod>>, scale_up: ScaleUp<'_>) {
        let notes = match self.supply.add().await {
            Ok(node) => {
                tracing::info!(node, pods = pods.len(), "added a node");
                self.scaling.added(&node, (self.clock)());
                scale_up.done(&pods)
            }
            Err(error) => {
                tracing::warn!(error, pods = pods.len(), "failed to add a node");
                self.scaling.not_added((self.clock)());
                scale_up.failed(&pods, error)
            }
        };
        self.record(notes).await;
    }

    /// Begins to remove a node. It says so before anything is done to it, so that whoever finds it
    /// afterwards knows whose cordon it has.
    async fn remove(&mut self, node: String, view: &ClusterView) -> Result<(), SupplyError> {
        say_being_removed(&self.client, &node).await?;
        self.record(view.node(node.as_str()).map(scale_down_note)).await;
        let (supply, name) = (Arc::clone(&self.supply), node.clone());
        self.removal.spawn(async move { supply.remove(&name).await });
        self.removing = Some(node);
        Ok(())
    }

    fn removed(&mut self, removed: Result<Result<(), SupplyError>, JoinError>) {
        let Some(node) = self.removing.take() else { return };
        match removed {
            Ok(Ok(())) => tracing::info!(node, "removed a node that was not needed"),
            Ok(Err(error)) => tracing::warn!(node, error, "failed to remove node"),
            Err(error) => tracing::error!(node, %error, "failed to remove node: the task panicked"),
        }
        self.scaling.stays(&node);
    }

    /// Says what is news.
    async fn tell(&mut self, view: &ClusterView, outlook: &ScalingOutlook) {
        let notes = self.notes.not_helped(outlook);
        self.record(notes).await;
        for (node, patch) in standings_to_show(view, outlook, self.removing.as_deref()) {
            if let Err(error) = change(&self.client, &node, &patch).await {
                tracing::debug!(node, %error, "say how the node stands");
            }
        }
    }

    async fn record(&mut self, notes: impl IntoIterator<Item = EventNote>) {
        for note in notes {
            if let Some(event) = self.recorder.record(note, (self.clock)()) {
                PlanWriter::new(self.client.clone()).record(event).await;
            }
        }
    }

    /// Something happened to a pod without a node.
    fn waiting_pods(&self) -> BoxStream<'static, ()> {
        let pods = Api::<PartialObjectMeta<v1::Pod>>::all(self.client.clone());
        let unscheduled = watcher::Config::default().fields("spec.nodeName=");
        let seen = watcher(pods, unscheduled).default_backoff();
        seen.map(drop).boxed()
    }

    /// A node came or went, whoever brought it. What else happens to nodes wakes nobody: each says
    /// all the time that it lives.
    fn nodes_come_and_go(&self) -> BoxStream<'static, ()> {
        let nodes = Api::<PartialObjectMeta<Node>>::all(self.client.clone());
        let seen = watcher(nodes, watcher::Config::default()).default_backoff();
        let (mut known, mut listed) = (BTreeSet::new(), BTreeSet::new());
        let news = seen.filter_map(move |event| {
            let is_news = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    false
                }
                Ok(Event::InitApply(node)) => {
                    listed.insert(node.name_any());
                    false
                }
                Ok(Event::InitDone) => {
                    let before = std::mem::replace(&mut known, std::mem::take(&mut listed));
                    before != known
                }
                Ok(Event::Apply(node)) => known.insert(node.name_any()),
                Ok(Event::Delete(node)) => known.remove(&node.name_any()),
                // the watch lists anew
                Err(_) => false,
            };
            std::future::ready(is_news.then_some(()))
        });
        news.boxed()
    }
}

/// Says on a Node that it is being removed: before it is cordoned for that, so that the next look
/// of a [`NodeScaler`] gives it back when nobody goes on with it.
///
/// # Errors
/// When the API refuses it, or cannot be asked.
pub async fn say_being_removed(client: &Client, node: &str) -> kube::Result<()> {
    change(client, node, &being_removed_patch()).await.map(drop)
}

/// No [`NodeScaler`] runs any more: what one of before said of the Nodes goes, and one that it was
/// removing takes pods again.
///
/// # Errors
/// When the API refuses it, or cannot be asked.
pub async fn no_longer_scaled(client: &Client) -> kube::Result<()> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    for node in nodes {
        match shown(&node) {
            None => {}
            Some(BEING_REMOVED) => drop(give_back(client, &node.name_any()).await?),
            Some(_) => {
                let patch = no_longer_scaled_patch();
                unless_gone(change(client, &node.name_any(), &patch).await)?;
            }
        }
    }
    Ok(())
}

/// A node whose removal was broken off takes pods again. Answers it, unless it is gone.
async fn give_back(client: &Client, node: &str) -> kube::Result<Option<Node>> {
    let changed = unless_gone(change(client, node, &give_back_patch()).await)?;
    if changed.is_some() {
        tracing::info!(node, "the node's removal was broken off: it takes pods again");
    }
    Ok(changed)
}

fn unless_gone(changed: kube::Result<Node>) -> kube::Result<Option<Node>> {
    match changed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        changed => changed.map(Some),
    }
}

async fn change(client: &Client, node: &str, patch: &Value) -> kube::Result<Node> {
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await
}
