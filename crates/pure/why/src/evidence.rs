//! What an account is made from: the caller reads it through the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, Pod, ReplicationController};
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
    /// The restarts that were asked for it, also those that only its ledger remembers
    /// ([`crate::asked_for`]).
    pub restarts: Vec<PodRestart>,
    /// The nodes there are, when none has taken it; shared by all such pods.
    pub nodes: Arc<Vec<Node>>,
    /// The volumes that its claims are bound to, when no node has taken it.
    pub volumes: Vec<PersistentVolume>,
    /// The last lines of its dead containers, by container. Foreign bytes: the text shows no
    /// control characters of them.
    pub last_lines: BTreeMap<String, Vec<String>>,
}

/// What is left of a pod that is not there any more.
#[derive(Clone, Debug, Default)]
pub struct GoneEvidence {
    /// Where it was.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Events about a pod of this name.
    pub events: Vec<Event>,
    /// The ledger of its name, which another pod may go on with.
    pub ledger: Option<RestartLedger>,
    /// The restarts that were asked for a pod of this name, also those that only its ledger
    /// remembers ([`crate::asked_for`]).
    pub restarts: Vec<PodRestart>,
}

impl GoneEvidence {
    /// True when nothing speaks of such a pod: it may never have been.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ledger.is_none() && self.restarts.is_empty()
    }
}

/// An object that makes pods.
#[derive(Clone, Debug)]
pub enum WorkloadObjects {
    /// A CronJob and the Jobs that it made and that are still there.
    CronJob(Box<CronJob>, Vec<Job>),
    /// A DaemonSet.
    DaemonSet(Box<DaemonSet>),
    /// A Deployment and its ReplicaSets.
    Deployment(Box<Deployment>, Vec<ReplicaSet>),
    /// A Job.
    Job(Box<Job>),
    /// A ReplicaSet.
    ReplicaSet(Box<ReplicaSet>),
    /// A ReplicationController.
    ReplicationController(Box<ReplicationController>),
    /// A StatefulSet.
    StatefulSet(Box<StatefulSet>),
}

/// What there is about an object that makes pods.
#[derive(Clone, Debug)]
pub struct WorkloadEvidence {
    /// The object.
    pub workload: WorkloadObjects,
    /// Events about it and what it made, its pods aside.
    pub events: Vec<Event>,
    /// Its pods.
    pub pods: Vec<PodEvidence>,
    /// What is left of its pods that are gone.
    pub gone: Vec<GoneEvidence>,
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
