//! Why no node takes a pod, as far as the nodes themselves say: a cordon, and taints that the pod
//! does not tolerate. Alike ones are told once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use rekindle_types::nodes;
use rekindle_types::pods::condition;
use rekindle_types::taints::{self, MEMORY_PRESSURE, UNSCHEDULABLE};

use crate::account::ClosedNodes;
use crate::condition::{GATED, advice_of_node};
use crate::evidence::PodEvidence;
use crate::words::{and_more, line};

/// Nodes of a kind that are named.
const NAMES_MAX: usize = 3;

/// The nodes that are closed to the pod, and what would open them.
#[derive(Default)]
pub(crate) struct NodeClosures {
    pub(crate) nodes: Vec<ClosedNodes>,
    pub(crate) advice: Vec<String>,
}

/// Why a node is closed to a pod, and what would open it, said of nodes with their names before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlacementObstacle {
    why: String,
    advice: String,
}

/// True while no node has taken the pod, and one may.
pub fn waits_for_node(pod: &Pod) -> bool {
    condition(pod, "PodScheduled").is_some_and(|scheduled| {
        scheduled.status == "False" && scheduled.reason.as_deref() != Some(GATED)
    })
}

/// What closes nodes to a pod that no node has taken; of any other pod nothing.
pub(crate) fn closed(evidence: &PodEvidence) -> NodeClosures {
    if !waits_for_node(&evidence.pod) {
        return NodeClosures::default();
    }
    let mut alike: BTreeMap<PlacementObstacle, Vec<String>> = BTreeMap::new();
    for node in evidence.nodes.iter() {
        let name = node.metadata.name.clone().unwrap_or_default();
        for bar in bars(&evidence.pod, node) {
            alike.entry(bar).or_default().push(name.clone());
        }
    }
    let mut alike: Vec<_> = alike.into_iter().collect();
    alike.sort_by_key(|(_, names)| Reverse(names.len()));
    let mut closed = NodeClosures::default();
    for (bar, mut names) in alike {
        let count = names.len();
        names.sort();
        names.truncate(NAMES_MAX);
        let more = and_more(count - names.len());
        closed.advice.push(format!("{}{more}: {}", names.join(", "), bar.advice));
        closed.nodes.push(ClosedNodes { why: bar.why, names, count });
    }
    closed
}

fn bars(pod: &Pod, node: &Node) -> Vec<PlacementObstacle> {
    let tolerations = taints::tolerations(pod);
    let taints = taints::node_taints(node).iter().filter(|taint| keeps_away(pod, taint));
    // the taint of a cordon says nothing that the cordon does not
    let mut bars: Vec<PlacementObstacle> = taints
        .filter(|taint| taint.key != UNSCHEDULABLE && !taints::is_tolerated(tolerations, taint))
        .map(|taint| obstacle_from_taint(node, taint))
        .collect();
    let cordon = Taint {
        key: UNSCHEDULABLE.to_owned(),
        effect: taints::NO_SCHEDULE.to_owned(),
        ..Taint::default()
    };
    if nodes::is_cordoned(node) && !taints::is_tolerated(tolerations, &cordon) {
        bars.push(PlacementObstacle {
            why: "cordoned".to_owned(),
            advice: "kubectl uncordon it, when it may take pods again".to_owned(),
        });
    }
    // two taints of one condition are one reason
    bars.sort();
    bars.dedup();
    bars
}

/// A taint keeps new pods away; want of memory only those that ask for nothing, as the scheduler
/// has it.
fn keeps_away(pod: &Pod, taint: &Taint) -> bool {
    let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    taint.effect != taints::PREFER_NO_SCHEDULE
        && (taint.key != MEMORY_PRESSURE || class.is_none_or(|class| class == "BestEffort"))
}

fn obstacle_from_taint(node: &Node, taint: &Taint) -> PlacementObstacle {
    let of = taints::OF_CONDITIONS.iter().find(|(_, _, key)| *key == taint.key);
    let Some((type_, status, _)) = of else {
        let value = taint.value.as_deref().filter(|value| !value.is_empty());
        let value = value.map_or_else(String::new, |value| format!("={}", line(value)));
        let taint = format!("{}{value}:{}", line(&taint.key), taint.effect);
        return PlacementObstacle {
            why: format!("taint {taint}"),
            advice: format!("take the taint {taint} away, or give the pod a toleration of it"),
        };
    };
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = conditions.into_iter().flatten().find(|condition| condition.type_ == *type_);
    let words = condition.and_then(|condition| condition.message.as_deref()).map(line);
    let words = words.filter(|words| !words.is_empty());
    let words = words.map_or_else(String::new, |words| format!(": {words}"));
    PlacementObstacle {
        why: format!("{type_} is {status}{words}"),
        advice: advice_of_node(type_, status).to_owned(),
    }
}
