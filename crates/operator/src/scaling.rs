//! Drives `rekindle_controllers::node_scaling`: looks when pods wait for a node, and now and then while a node could go; has nodes
//! added and removed by whoever supplies them; and tells of it in events and on the Nodes.
//!
//! Nobody polls while there is nothing to remove and nobody waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rekindle_controllers::events::{Note, Recorder, Severity};
use rekindle_controllers::node_scaling::{Deed, Nodes, Outlook, Scaling, Settings};
use rekindle_controllers::{NamespacedName, Object, View};
use rekindle_types::reasons::event;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Clock;
use crate::snapshot::snapshot;
use crate::writer::Writer;

/// The annotation of a Node that says whether it may go, and why not.
pub const SCALE_DOWN: &str = "rekindle.dev/scale-down";
/// `source.component` of the events: the words are its, and so is the name.
const NAME: &str = "cluster-autoscaler";
/// Between two looks while a node could go, at most (cluster-autoscaler's `--scan-interval`).
const LOOK_PERIOD: Duration = Duration::from_secs(10);
/// What happens within this time is one look's.
const SETTLE: Duration = Duration::from_millis(200);

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

    /// Adds one, and answers its name when it is Ready.
    fn add(&self) -> impl Future<Output = Result<String, SupplyError>> + Send;

    /// Drains a node by eviction and takes it away. When that cannot be done in time the node stays as it was.
    fn remove(&self, name: &str) -> impl Future<Output = Result<(), SupplyError>> + Send;
}

/// Keeps as many nodes as are needed.
pub struct Scaler<S> {
    client: Client,
    clock: Clock,
    supply: Arc<S>,
    settings: Settings,
    scaling: Scaling,
    recorder: Recorder,
    /// What was told of each pod, by its UID.
    told: BTreeMap<String, String>,
    removing: JoinSet<(String, Result<(), SupplyError>)>,
}

impl<S: NodeSupply> Scaler<S> {
    /// Between the bounds that the user set.
    pub fn new(client: Client, clock: Clock, supply: S, settings: Settings) -> Self {
        Self {
            client,
            clock,
            supply: Arc::new(supply),
            scaling: Scaling::new(settings.clone()),
            settings,
            recorder: Recorder::new(),
            told: BTreeMap::new(),
            removing: JoinSet::new(),
        }
    }

    /// Until it is dropped.
    pub async fn run(mut self) {
        let mut waiting = self.waiting_pods();
        loop {
            let next_look = match self.look().await {
                Ok(next_look) => next_look,
                Err(error) => {
                    tracing::warn!(%error, "decide about nodes");
                    Some(LOOK_PERIOD)
                }
            };
            let due = async {
                match next_look {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = waiting.next() => {}
                Some(removed) = self.removing.join_next() => match removed {
                    Ok((node, removed)) => self.removed(&node, removed),
                    Err(error) => tracing::error!(%error, "the removal of a node failed inside"),
                },
                () = due => {}
            }
            tokio::time::sleep(SETTLE).await;
            while waiting.next().now_or_never().is_some() {}
        }
    }

    /// One look, and what follows from it; answers when the next is due by itself.
    async fn look(&mut self) -> Result<Option<Duration>, SupplyError> {
        let (first, further) = (self.supply.first(), self.supply.further()?);
        let now = (self.clock)();
        let view = snapshot(&self.client, now).await?;
        let nodes = Nodes { first: &first, further: &further };
        let outlook = self.scaling.look(&view, nodes, now);
        self.tell(&view, &outlook).await;
        let is_quiet = outlook.nodes.is_empty() || further.len() < self.settings.min;
        let somebody_waits = !outlook.not_helped.is_empty();
        match outlook.deed {
            Deed::Nothing => {}
            Deed::Add(pods) => {
                let count = further.len() + 1;
                let max = self.settings.max;
                let node = self.supply.add().await?;
                tracing::info!(node, pods = pods.len(), "added a node");
                let message = format!(
                    "pod triggered scale-up: [{{{first} {count}->{} (max: {max})}}]",
                    count + 1
                );
                for pod in pods {
                    let about = Object::Pod(pod);
                    self.say(&about, Severity::Normal, event::TRIGGERED_SCALE_UP, &message).await;
                }
                return Ok(Some(Duration::ZERO));
            }
            // one at a time: the pods of the one before may need the next one
            Deed::Remove(node) if self.removing.is_empty() => {
                let message = "marked the node as toBeDeleted/unschedulable";
                if let Some(object) = view.node(&NamespacedName::new("", node.as_str())) {
                    let about = Object::Node(Arc::clone(object));
                    self.say(&about, Severity::Normal, event::SCALE_DOWN, message).await;
                }
                let supply = Arc::clone(&self.supply);
                self.removing.spawn(async move {
                    let removed = supply.remove(&node).await;
                    (node, removed)
                });
            }
            Deed::Remove(_) => {}
        }
        let period = LOOK_PERIOD.min((self.settings.unneeded_time.to_std() / 10).max(SETTLE));
        Ok((!is_quiet || somebody_waits).then(|| {
            let due = outlook.again_at.map(|at| at.since(now).to_std());
            due.map_or(period, |due| due.min(period))
        }))
    }

    fn removed(&mut self, node: &str, removed: Result<(), SupplyError>) {
        match removed {
            Ok(()) => tracing::info!(node, "removed a node that was not needed"),
            Err(error) => tracing::warn!(node, error, "the node stays"),
        }
        self.scaling.stays(node);
    }

    /// Says what is news.
    async fn tell(&mut self, view: &View, outlook: &Outlook) {
        let mut told = BTreeMap::new();
        for (pod, why) in &outlook.not_helped {
            let about = Object::Pod(Arc::clone(pod));
            if self.told.get(about.uid()) != Some(why) {
                let message = format!("pod didn't trigger scale-up: {why}");
                self.say(&about, Severity::Normal, event::NOT_TRIGGER_SCALE_UP, &message).await;
            }
            told.insert(about.uid().to_owned(), why.clone());
        }
        self.told = told;
        for (name, standing) in &outlook.nodes {
            let Some(node) = view.node(&NamespacedName::new("", name.as_str())) else { continue };
            let (shown, text) = (shown(node), standing.to_string());
            if shown != Some(text.as_str()) {
                let patch = json!({"metadata": {"annotations": { (SCALE_DOWN): text }}});
                self.annotate(name, &patch).await;
            }
        }
    }

    async fn annotate(&self, node: &str, patch: &serde_json::Value) {
        let nodes = Api::<Node>::all(self.client.clone());
        let patched = nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Err(error) = patched {
            tracing::debug!(node, %error, "say how the node stands");
        }
    }

    async fn say(&mut self, about: &Object, severity: Severity, reason: &'static str, text: &str) {
        let note = Note::new(about, severity, reason, text, NAME);
        if let Some(event) = self.recorder.record(note, (self.clock)()) {
            Writer::new(self.client.clone()).record(event).await;
        }
    }

    /// Something happened to a pod without a node.
    fn waiting_pods(&self) -> BoxStream<'static, ()> {
        let unscheduled = watcher::Config::default().fields("spec.nodeName=");
        let seen = watcher(Api::<Pod>::all(self.client.clone()), unscheduled).default_backoff();
        seen.map(drop).boxed()
    }
}

fn shown(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(SCALE_DOWN).map(String::as_str)
}
