//! What an account is made from: the caller reads it through the API.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use rekindle_types::v1alpha1::{PodRestart, RestartLedger};

/// What there is about one pod.
#[derive(Clone, Debug, Default)]
pub struct PodEvidence {
    /// The pod.
    pub pod: Pod,
    /// Events about it.
    pub events: Vec<Event>,
    /// Its history on a ladder.
    pub ledger: Option<RestartLedger>,
    /// The restarts that were asked for it.
    pub restarts: Vec<PodRestart>,
    /// The last lines of its dead containers, by container. Foreign bytes: the text shows no control characters of them.
    pub last_lines: BTreeMap<String, Vec<String>>,
}

/// What there is about a DaemonSet, a Deployment, a ReplicaSet or a StatefulSet.
#[derive(Clone, Debug, Default)]
pub struct WorkloadEvidence {
    /// The DaemonSet, when that is the target.
    pub daemon_set: Option<DaemonSet>,
    /// The Deployment, when that is the target.
    pub deployment: Option<Deployment>,
    /// The ReplicaSets of the Deployment, or the one that is the target.
    pub replica_sets: Vec<ReplicaSet>,
    /// The StatefulSet, when that is the target.
    pub stateful_set: Option<StatefulSet>,
    /// Events about them.
    pub events: Vec<Event>,
    /// Their pods.
    pub pods: Vec<PodEvidence>,
}

/// What there is about a node.
#[derive(Clone, Debug, Default)]
pub struct NodeEvidence {
    /// The node.
    pub node: Node,
    /// Events about it.
    pub events: Vec<Event>,
    /// The pods on it.
    pub pods: Vec<PodEvidence>,
}
