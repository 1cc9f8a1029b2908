//! The agent of one node of a cluster that is not Rekindle's: it runs beside the kubelet and
//! carries out PodRestarts in place, by the calls of the container runtime.
//!
//! ```text
//! API --watch--> observed --> carry_out (cri-restart decides) --> runtime: stop, remove
//!  ^                             |                                kubelet: makes it again
//!  +--- status of PodRestarts ---+
//! ```
//! It keeps nothing on disk. What it has begun stands in the status of the PodRestart before it is
//! done, and the kubelet starts again what was ended. Nothing is listed but when a watch begins.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the agent is a driver: it does the IO and reads the clock for the pure procedure"
)]

mod carry_out;
pub mod cri;
mod figures;
mod kubelet_folders;
mod node_access;
mod observed;
mod pod_calls;
mod pod_cgroups;
mod pod_events;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

pub use figures::AgentFigures;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self};
use kube::{Api, Client};
pub use kubelet_folders::KubeletFolders;
pub use node_access::NodeAccess;
pub use pod_calls::PodCalls;
pub use pod_cgroups::PodCgroups;
pub use rekindle_cri_restart::RuntimeContainer;
use rekindle_cri_restart::{RestartEnd, RestartSlots};
use rekindle_node::Clock;
use rekindle_object_watch::watcher;
use rekindle_types::v1alpha1::PodRestart;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::carry_out::RestartTask;
use crate::observed::SharedObjects;

/// How long a request waits that could not be answered.
const LATER: Duration = Duration::from_secs(10);

/// What an agent is given.
#[derive(Clone)]
pub struct ClusterAgent {
    /// The API.
    pub client: Client,
    /// The node's name.
    pub node: String,
    /// The namespace that the agent runs in; none of its pods is restarted.
    pub own_namespace: Option<String>,
    /// The node's runtime.
    pub calls: PodCalls,
    /// What it sees of the node beside the runtime.
    pub access: NodeAccess,
    /// So many pods of the node are restarted at once.
    pub restarts_max: usize,
    /// What monitoring sees of it.
    pub figures: Arc<AgentFigures>,
}

impl ClusterAgent {
    /// Runs until `stop` resolves. Dropping the future stops it at any point: the next agent goes
    /// on with what was begun.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let objects = SharedObjects::default();
        tokio::select! {
            () = self.watch_pods(&objects) => {}
            () = self.watch_restarts(&objects) => {}
            () = self.dispatch(&objects) => {}
            () = stop => {}
        }
    }

    /// The pods of the node alone.
    async fn watch_pods(&self, objects: &SharedObjects) {
        let of_node = watcher::Config::default().fields(&format!("spec.nodeName={}", self.node));
        let pods = Api::<Pod>::all(self.client.clone());
        let mut events = watcher(pods, of_node).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => objects.see_pod(event),
                Err(error) => tracing::warn!(%error, "failed to watch pods"),
            }
        }
    }

    /// Those of all namespaces: a request names its pod, and no node.
    async fn watch_restarts(&self, objects: &SharedObjects) {
        let restarts = Api::<PodRestart>::all(self.client.clone());
        let mut events = watcher(restarts, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => objects.see_restart(event),
                Err(error) => tracing::warn!(%error, "failed to watch PodRestarts"),
            }
        }
    }

    /// Thaws the pods that lost their request while no agent ran.
    async fn thaw_for_nothing(&self, objects: &SharedObjects) {
        match self.access.frozen().await {
            Ok(frozen) => {
                for cgroup in objects.frozen_for_nothing(frozen) {
                    carry_out::thaw(&self.access, &cgroup, "no PodRestart names it").await;
                }
            }
            Err(error) => tracing::warn!(%error, "failed to look for frozen pods"),
        }
    }

    /// Works on each request that is this node's, as far as there are slots.
    async fn dispatch(&self, objects: &SharedObjects) {
        let clock = Clock::system();
        let mut changes = objects.changes();
        let mut slots = RestartSlots::new(self.restarts_max);
        let mut tasks = JoinSet::new();
        let mut later: Option<Instant> = None;
        let mut was_listed = false;
        loop {
            if objects.is_listed() && !was_listed {
                was_listed = true;
                self.thaw_for_nothing(objects).await;
                self.figures.informed();
            }
            let open = objects.open_restarts(&self.node);
            for uid in slots.take(&open, |uid| objects.has_restart(uid)) {
                let task = RestartTask {
                    agent: self.clone(),
                    objects: objects.clone(),
                    clock,
                    uid: uid.clone(),
                };
                tasks.spawn(async move { (uid, end_of(task.run()).await) });
            }
            let pause = || Instant::now() + LATER;
            later = slots.has_later().then(|| later.unwrap_or_else(pause));
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => slots.changed(),
                    Err(_) => return,
                },
                Some(Ok((uid, end))) = tasks.join_next() => slots.ended(&uid, end),
                () = tokio::time::sleep_until(later.unwrap_or_else(pause)), if later.is_some() => {
                    later = None;
                    slots.pause_is_over();
                }
            }
        }
    }
}

/// How a task ends. One that panics is tried again later: it was not answered.
async fn end_of(task: impl Future<Output = RestartEnd>) -> RestartEnd {
    match AssertUnwindSafe(task).catch_unwind().await {
        Ok(end) => end,
        Err(_) => {
            tracing::error!("failed to carry out PodRestart: its task panicked; it is tried again");
            RestartEnd::Later
        }
    }
}
