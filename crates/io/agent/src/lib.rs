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
mod observed;
mod pod_calls;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
pub use pod_calls::PodCalls;
pub use rekindle_cri_restart::RuntimeContainer;
use rekindle_node::Clock;
use rekindle_types::v1alpha1::PodRestart;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::carry_out::{RestartEnd, RestartTask};
use crate::observed::SharedObjects;

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
    /// So many pods of the node are restarted at once.
    pub restarts_max: usize,
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

    /// Begins a task for each request that is this node's, once.
    async fn dispatch(&self, objects: &SharedObjects) {
        let turns = Arc::new(Semaphore::new(self.restarts_max));
        let clock = Clock::system();
        let mut changes = objects.changes();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut tasks = JoinSet::new();
        loop {
            changes.mark_unchanged();
            taken.retain(|uid| objects.has_restart(uid));
            for uid in objects.open_restarts(&self.node) {
                if taken.insert(uid.clone()) {
                    let task = RestartTask {
                        agent: self.clone(),
                        objects: objects.clone(),
                        clock,
                        uid: uid.clone(),
                    };
                    let turns = Arc::clone(&turns);
                    tasks.spawn(async move {
                        let _turn = turns.acquire().await.expect("it is never closed");
                        (uid, task.run().await)
                    });
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                Some(ended) = tasks.join_next() => match ended {
                    Ok((_, RestartEnd::Answered)) => {}
                    // another pod of its name may come to this node
                    Ok((uid, RestartEnd::Unanswered)) => { taken.remove(&uid); changes.changed().await.ok(); }
                    Err(error) => tracing::error!(%error, "failed to carry out PodRestart: its task ended"),
                },
            }
        }
    }
}
