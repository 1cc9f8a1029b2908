//! What comes into the inbox of a pod's worker, from whoever has something to tell it.

use std::sync::Arc;

use rekindle_pod::{Loss, PodEviction, ResourceDecision};
use rekindle_runtime::RuntimeEvent;
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::PodRestart;
use tokio::sync::oneshot;

/// What a worker is told besides new versions of its pod.
#[derive(Debug)]
pub(crate) enum WorkerInput {
    /// The runtime saw something of this pod. Boxed: the inbox keeps room for 32 inputs, however
    /// idle the pod is.
    Runtime(Box<RuntimeEvent>),
    /// A PodRestart for this pod, or a newer version of one.
    Restart(Arc<PodRestart>),
    /// The group of this PodRestart has stopped, or is over: the pod may start again.
    RestartReleased(Arc<PodRestart>),
    /// The node's word on a request for resources.
    Resources {
        /// Of the request.
        ticket: u64,
        /// What it says.
        decision: ResourceDecision,
    },
    /// A PodRestart is no more.
    RestartForgotten(String),
    /// The object is gone from the API: everything of it ends.
    Vanished(Loss),
    /// The node cannot keep the pod. What is dropped when the pod is over tells whoever waits for
    /// that.
    Evict(PodEviction, Awaited),
    /// The node is shut down: the pod fails within this grace, and its worker goes.
    NodeShutsDown { grace: TickDuration },
    /// The node stops: end the containers, keep what is needed to go on later.
    NodeStops,
}

/// Dropped when a pod that was evicted has nothing left on the node.
pub(crate) type Awaited = oneshot::Sender<()>;
