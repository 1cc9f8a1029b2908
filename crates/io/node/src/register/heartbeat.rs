//! The one task with a timer on an idle node: every 10 s, or as it is set, it renews the lease; the
//! status is written when it changed, or after 5 minutes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ContainerImage, Node, NodeCondition, NodeStatus, ObjectReference,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration, nodes};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::conditions::{ConditionInputs, NodeFitness, conditions, is_own};
use super::lease::{self, LeaseHolder};
use super::machine::MachineFacts;
use super::object::{labels, node_object, node_status};
use crate::config::NodeConfig;
use crate::context::NodeContext;
use crate::eviction::Standing;
use crate::pods::EventRecorder;

/// Between two heartbeats while the node is not registered yet or the API refuses, at most.
const RETRY: Duration = Duration::from_secs(1);
/// How long the last status may take.
const LAST_WORD: Duration = Duration::from_secs(2);
/// After which a status is written though nothing changed.
const STATUS_PERIOD: TickDuration = TickDuration::from_secs(300);

/// The running task.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// What was told to the API last; `None` before the node is registered.
    told: watch::Receiver<Option<NodeFitness>>,
    fitness: watch::Sender<NodeFitness>,
    node: watch::Receiver<Option<Arc<Node>>>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct HeartbeatTask {
    client: ApiClient,
    config: NodeConfig,
    machine: MachineFacts,
    images: watch::Receiver<Vec<ContainerImage>>,
    fitness: watch::Receiver<NodeFitness>,
    pressures: watch::Receiver<Standing>,
    /// The object as the API showed it last.
    node: watch::Sender<Option<Arc<Node>>>,
    recorder: EventRecorder,
    /// The node, for events about it.
    about: ObjectReference,
}

/// A client that can be shown in debug output.
#[derive(Clone)]
struct ApiClient(Client);

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// What was written last.
#[derive(Clone, Debug, Default)]
struct LastHeartbeat {
    node_uid: Option<String>,
    shown: Option<ConditionInputs>,
    conditions: Vec<NodeCondition>,
    /// What the API showed last of the condition Ready; others write it, too.
    readiness: Option<String>,
    images: Vec<ContainerImage>,
    at: Tick,
}

impl Heartbeat {
    /// Registers the node and goes on from there; `images` are those that its status lists,
    /// `pressures` what it is under.
    pub(crate) fn start<R, N>(
        node: &NodeContext<R, N>,
        config: &NodeConfig,
        machine: MachineFacts,
        images: watch::Receiver<Vec<ContainerImage>>,
        pressures: watch::Receiver<Standing>,
    ) -> Self {
        let (sender, told) = watch::channel(None);
        let (fitness, receiver) = watch::channel(NodeFitness::Ready);
        let (shown, object) = watch::channel(None);
        let beat = HeartbeatTask {
            client: ApiClient(node.client.clone()),
            config: config.clone(),
            machine,
            images,
            fitness: receiver,
            pressures,
            node: shown,
            recorder: node.recorder.clone(),
            about: node.object_reference(),
        };
        Self { told, fitness, node: object, task: tokio::spawn(beat.run(sender)) }
    }

    /// Waits until the node stands in the API.
    pub(crate) async fn ready(&mut self) {
        // an error means that the task has ended, and there is nothing to wait for
        let _ended = self.told.wait_for(Option::is_some).await;
    }

    /// The node's object as the API showed it at the last beat; `None` before it is registered.
    pub(crate) fn node(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.node.clone()
    }

    /// Says at once, and from now on, how fit the node is.
    pub(crate) fn say(&self, fitness: NodeFitness) {
        self.fitness.send_replace(fitness);
    }

    /// Stops at once.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }

    /// Stops when it has said that the node is not ready any more, or an API that does not answer
    /// had its time.
    pub(crate) async fn stop_not_ready(&mut self) {
        self.say(NodeFitness::ShuttingDown);
        let told = self.told.wait_for(|told| *told == Some(NodeFitness::ShuttingDown));
        match tokio::time::timeout(LAST_WORD, told).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => tracing::debug!("the node's last status could not be written"),
        }
        self.task.abort();
    }
}

impl HeartbeatTask {
    async fn run(mut self, told: watch::Sender<Option<NodeFitness>>) {
        let mut written = LastHeartbeat::default();
        let period = self.config.heartbeat_period.to_std();
        loop {
            let fitness = *self.fitness.borrow_and_update();
            let shown =
                ConditionInputs { fitness, pressures: self.pressures.borrow_and_update().clone() };
            let wait = match self.once(&mut written, &shown).await {
                Ok(()) => {
                    told.send_replace(Some(fitness));
                    period
                }
                Err(error) => {
                    tracing::warn!(node = self.config.name, %error, "failed to send the heartbeat; trying again");
                    RETRY.min(period)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(()) = self.fitness.changed() => {}
                Ok(()) = self.pressures.changed() => {}
            }
        }
    }

    async fn once(
        &self,
        written: &mut LastHeartbeat,
        shown: &ConditionInputs,
    ) -> Result<(), kube::Error> {
        let now = self.config.clock.now();
        let name = &self.config.name;
        if written.node_uid.is_none() {
            self.register(written, shown).await?;
        } else if written.shown.as_ref() != Some(shown)
            || written.images != *self.images.borrow()
            || now.since(written.at) >= STATUS_PERIOD
            || self.is_overwritten(written).await?
        {
            match self.write_status(written, shown).await {
                // somebody deleted the Node: it registers again at the next beat
                Err(kube::Error::Api(answer)) if answer.code == 404 => written.node_uid = None,
                answer => answer?,
            }
        }
        let holder = LeaseHolder {
            node: name,
            uid: written.node_uid.as_deref(),
            period: self.config.heartbeat_period,
        };
        lease::renew(&self.client.0, &holder, now).await
    }

    /// True when the API does not show the conditions that were written: while nobody heard of this
    /// node, because it or the way to the API stood still, the node lifecycle controller has made
    /// them Unknown.
    async fn is_overwritten(&self, written: &mut LastHeartbeat) -> Result<bool, kube::Error> {
        let Some(node) = self.api().get_opt(&self.config.name).await? else { return Ok(true) };
        written.readiness = nodes::readiness(&node).map(str::to_owned);
        let shown: Vec<_> =
            node.status.iter().flat_map(|s| s.conditions.iter().flatten()).collect();
        let says = |wanted: &NodeCondition| {
            shown.iter().any(|c| c.type_ == wanted.type_ && c.status == wanted.status)
        };
        let is_overwritten = !written.conditions.iter().all(says);
        self.node.send_replace(Some(Arc::new(node)));
        Ok(is_overwritten)
    }

    fn status(&self, written: &LastHeartbeat, shown: &ConditionInputs) -> NodeStatus {
        let now = self.config.clock.now();
        let conditions = conditions(now, shown, &written.conditions);
        node_status(&self.config, &self.machine, conditions, self.images.borrow().clone())
    }

    fn api(&self) -> Api<Node> {
        Api::all(self.client.0.clone())
    }

    /// Creates the object, or takes over the one that stands.
    async fn register(
        &self,
        written: &mut LastHeartbeat,
        shown: &ConditionInputs,
    ) -> Result<(), kube::Error> {
        let status = self.status(written, shown);
        let images = status.images.clone().unwrap_or_default();
        let object = node_object(&self.config, status);
        match self.api().create(&PostParams::default(), &object).await {
            Ok(created) => {
                let complete = created.status.as_ref().is_some_and(|s| s.conditions.is_some());
                written.readiness = None;
                self.remember(written, created, shown);
                written.images = images;
                // an API server may drop the status of an object that is created
                if complete { Ok(()) } else { self.write_status(written, shown).await }
            }
            Err(kube::Error::Api(answer)) if answer.code == 409 => {
                let labels = json!({ "metadata": { "labels": labels(&self.config) } });
                let params = PatchParams::default();
                let node =
                    self.api().patch(&self.config.name, &params, &Patch::Merge(labels)).await?;
                written.readiness = nodes::readiness(&node).map(str::to_owned);
                self.remember(written, node, shown);
                self.write_status(written, shown).await
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the node's own part of the status: what others say of it stays, such as the
    /// conditions of a node-problem-detector.
    async fn write_status(
        &self,
        written: &mut LastHeartbeat,
        shown: &ConditionInputs,
    ) -> Result<(), kube::Error> {
        let status = self.status(written, shown);
        let mut patch = json!({ "status": status });
        // conditions merge by their type; so would addresses, of which those that are gone are to
        // go
        if let Some(Value::Array(addresses)) = patch.pointer_mut("/status/addresses") {
            addresses.push(json!({ "$patch": "replace" }));
        }
        let params = PatchParams::default();
        let node =
            self.api().patch_status(&self.config.name, &params, &Patch::Strategic(patch)).await?;
        self.remember(written, node, shown);
        written.images = status.images.unwrap_or_default();
        Ok(())
    }

    /// Takes in what the API answered to a write, and says when the node has become ready or not
    /// ready by it.
    fn remember(&self, written: &mut LastHeartbeat, node: Node, shown: &ConditionInputs) {
        let readiness = nodes::readiness(&node).map(str::to_owned);
        if written.readiness != readiness {
            self.tell(readiness.as_deref());
            written.readiness = readiness;
        }
        written.node_uid.clone_from(&node.metadata.uid);
        written.shown = Some(shown.clone());
        written.at = self.config.clock.now();
        let conditions = node.status.as_ref().and_then(|status| status.conditions.clone());
        let own = conditions.into_iter().flatten().filter(|condition| is_own(&condition.type_));
        written.conditions = own.collect();
        self.node.send_replace(Some(Arc::new(node)));
    }

    /// An event in the kubelet's words. One that registers says that it is ready, as a kubelet
    /// does, which begins as not ready.
    fn tell(&self, readiness: Option<&str>) {
        let reason = match readiness {
            Some("True") => event::NODE_READY,
            Some(_) => event::NODE_NOT_READY,
            None => return,
        };
        let message = format!("Node {} status is now: {reason}", self.config.name);
        self.recorder.record(self.about.clone(), EventSeverity::Normal, reason, message);
    }
}
