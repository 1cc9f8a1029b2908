//! A node that is not heard of any more: its conditions become Unknown.
//!
//! ```text
//!  Lease renewed ─► heard ──(grace: 50 s without a renewal)──► silent: every condition Unknown, event NodeNotReady
//!    ▲                                                            │
//!    └──────── the agent is back, and writes its status anew ◄────┘
//! ```
//! Source: Kubernetes documentation, "Nodes", "Node heartbeats"; the texts are those of upstream's
//! node lifecycle controller. A node that never had a Lease is not waited for: nobody said that it
//! would be heard of.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration};
use serde_json::json;

use crate::events::EventNote;
use crate::patches::status_patch;
use crate::{ClusterView, ResourceKind, ViewObject, WritePlan};

/// `source.component` of the events.
pub(super) const NAME: &str = "node-controller";
/// The conditions that the node's agent writes.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
const UNKNOWN: &str = "Unknown";

/// How the node lifecycle controller is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLifecycleSettings {
    /// How long a node may be silent (upstream's `--node-monitor-grace-period`, 50 s).
    pub grace: TickDuration,
    /// Between two nodes of a zone whose pods have to go (upstream's `--node-eviction-rate`, 0.1 a
    /// second).
    pub eviction_interval: TickDuration,
    /// The same in a large zone most of which is down (`--secondary-node-eviction-rate`, 0.01 a
    /// second).
    pub eviction_interval_disrupted: TickDuration,
    /// From so many nodes of a million on that are not ready, a zone counts as disrupted
    /// (`--unhealthy-zone-threshold`, 0.55).
    pub unhealthy_zone_ppm: u32,
    /// A zone with more nodes than this is large (`--large-cluster-size-threshold`, 50).
    pub large_zone_nodes: usize,
    /// How long a node has to be missing until its pods are deleted (upstream's `quarantineTime`,
    /// 40 s).
    pub missing_node_grace: TickDuration,
}

impl Default for NodeLifecycleSettings {
    fn default() -> Self {
        Self {
            grace: TickDuration::from_secs(50),
            eviction_interval: TickDuration::from_secs(10),
            eviction_interval_disrupted: TickDuration::from_secs(100),
            unhealthy_zone_ppm: 550_000,
            large_zone_nodes: 50,
            missing_node_grace: TickDuration::from_secs(40),
        }
    }
}

impl NodeLifecycleSettings {
    /// A look this long after the one before shows that the engine slept. Less than the grace, so
    /// that no node is given up for a time in which it could not be heard; more than the time
    /// between two looks ([`Self::look_period`]).
    pub(crate) fn asleep_after(&self) -> TickDuration {
        TickDuration::from_micros(self.grace.as_micros() / 2)
    }

    fn look_period(&self) -> TickDuration {
        TickDuration::from_micros(self.grace.as_micros() / 4)
    }
}

/// Whether a node is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeLiveness {
    /// It is, or nobody waits for it; the time is that of the next look.
    Heard(Option<Tick>),
    /// It has been silent for the whole grace.
    Silent,
}

pub(super) fn hearing(view: &ClusterView, node: &str, now: Tick) -> NodeLiveness {
    let Some(heard) = view.memories().heartbeats.heard_at(node) else {
        return NodeLiveness::Heard(None);
    };
    let settings = view.node_settings();
    let end = heard + settings.grace;
    if end <= now {
        NodeLiveness::Silent
    } else {
        NodeLiveness::Heard(Some(end.min(now + settings.look_period())))
    }
}

/// Makes the node's conditions Unknown; nothing when they are.
pub(super) fn give_up(node: &ViewObject, spoken: &Node, now: Tick, plan: &mut WritePlan) {
    let present: Vec<NodeCondition> =
        spoken.status.iter().flat_map(|s| s.conditions.iter().flatten()).cloned().collect();
    let mut conditions = present.clone();
    for type_ in CONDITIONS {
        match conditions.iter_mut().find(|c| c.type_ == type_) {
            Some(known) if known.status == UNKNOWN => {}
            Some(known) => {
                known.status = UNKNOWN.to_owned();
                known.reason = Some("NodeStatusUnknown".to_owned());
                known.message = Some("Kubelet stopped posting node status.".to_owned());
                known.last_transition_time = Some(now.to_time());
            }
            None => conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: UNKNOWN.to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: spoken.metadata.creation_timestamp.clone(),
                last_transition_time: Some(now.to_time()),
            }),
        }
    }
    if conditions == present {
        return;
    }
    if present.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
        let message = format!("Node {} status is now: NodeNotReady", node.id().name);
        plan.notes.push(EventNote::new(
            node,
            EventSeverity::Normal,
            event::NODE_NOT_READY,
            message,
            NAME,
        ));
    }
    plan.then(status_patch(
        ResourceKind::Node,
        &spoken.metadata,
        json!({"conditions": conditions}),
    ));
}
