//! Topology spread constraints: pods of one kind, evenly over the values of a node label
//! [kube-scheduler, PodTopologySpread]. `matchLabelKeys` are part of the selectors already: the API
//! puts them there. Pods that have none are spread by `defaults`.

mod defaults;
mod occupants;
mod points;
mod selector;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, TopologySpreadConstraint};
use rekindle_types::held::HeldPod;
use rekindle_types::labels::Labels;

use super::affinity::label;
use super::candidate::NodeCandidate;
use super::refusal::NodeRefusal;
use super::{affinity, taints};
use crate::cluster::PodShift;
use crate::{ClusterView, pods};
use occupants::NodeOccupants;
use selector::Selector;

/// The constraints of a pod that must hold, with the pods that are there.
#[derive(Clone)]
pub(super) struct TopologySpread<'a> {
    pod: &'a HeldPod,
    constraints: Vec<&'a TopologySpreadConstraint>,
    domains: Vec<TopologyDomains<'a>>,
}

/// The domains of one constraint.
#[derive(Clone)]
struct TopologyDomains<'a> {
    constraint: &'a TopologySpreadConstraint,
    /// How many matching pods are in each domain that a node which counts belongs to.
    counts: BTreeMap<&'a str, i64>,
    /// The least of them, as `minDomains` changes it.
    least: i64,
    /// 1 when the pod is one of those it counts.
    own: i64,
}

impl<'a> TopologySpread<'a> {
    /// Counts for the constraints that must hold.
    pub(super) fn new(view: &'a ClusterView, pod: &'a HeldPod) -> Self {
        let constraints = constraints_of_pod(pod, "DoNotSchedule");
        let counts = count(view, pod, &constraints, NodeOccupants::new);
        let domains = constraints.iter().zip(counts).map(|(&constraint, counts)| {
            let own = i64::from(selects(constraint, pod.metadata.labels.as_ref()));
            TopologyDomains { constraint, least: least(constraint, &counts), counts, own }
        });
        let domains = domains.collect();
        Self { pod, constraints, domains }
    }

    /// A pod comes to a node or leaves it.
    pub(super) fn shift_on(&mut self, other: &HeldPod, node: &'a Node, shift: PodShift) {
        if !pods::is_active(other) || other.metadata.namespace != self.pod.metadata.namespace {
            return;
        }
        for domains in &mut self.domains {
            let constraint = domains.constraint;
            if !selects(constraint, other.metadata.labels.as_ref()) {
                continue;
            }
            if let Some(value) = domain(self.pod, node, constraint, &self.constraints) {
                *domains.counts.entry(value).or_insert(0) += shift.sign();
                domains.least = least(constraint, &domains.counts);
            }
        }
    }

    /// Why the pod would be too many on the node.
    pub(super) fn reason_against(&self, node: &Node) -> Option<NodeRefusal> {
        for domains in &self.domains {
            let Some(value) = label(node, &domains.constraint.topology_key) else {
                return Some(NodeRefusal::final_for(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let here = domains.counts.get(value).copied().unwrap_or(0);
            if here + domains.own - domains.least > i64::from(domains.constraint.max_skew) {
                return Some(NodeRefusal::of_pods(
                    "node(s) didn't match pod topology spread constraints",
                ));
            }
        }
        None
    }
}

/// How well the nodes serve the constraints that had better hold, 0..=100 each: those with the
/// fewest matching pods best, and those without the labels worst. Nothing when there are no such
/// constraints.
pub(super) fn scores(
    view: &ClusterView,
    pod: &HeldPod,
    candidates: &[NodeCandidate<'_>],
) -> Option<Vec<i64>> {
    if constraints_of_spec(pod).next().is_none() {
        return defaults::scores(view, pod, candidates);
    }
    let constraints = constraints_of_pod(pod, "ScheduleAnyway");
    if constraints.is_empty() {
        return None;
    }
    let nodes: Vec<&Node> =
        candidates.iter().map(|candidate| candidate.host.node.as_ref()).collect();
    let counts = count(view, pod, &constraints, NodeOccupants::with_nominated);
    let weights: Vec<f64> = constraints.iter().map(|c| weight(c, &constraints, &nodes)).collect();
    let all = nodes.iter().map(|node| {
        has_all(node, &constraints).then(|| {
            let parts = constraints.iter().zip(&counts).zip(&weights);
            let parts = parts.map(|((constraint, counts), weight)| {
                let value = label(node, &constraint.topology_key).unwrap_or_default();
                let here = counts.get(value).copied().unwrap_or(0);
                points::points(here, constraint.max_skew, *weight)
            });
            parts.sum()
        })
    });
    Some(points::normalized(all.collect()))
}

/// What a pod in a domain of the constraint counts.
fn weight(
    constraint: &TopologySpreadConstraint,
    all: &[&TopologySpreadConstraint],
    nodes: &[&Node],
) -> f64 {
    let nodes = nodes.iter().filter(|node| has_all(node, all));
    let domains: BTreeSet<_> =
        nodes.filter_map(|node| label(node, &constraint.topology_key)).collect();
    points::weight(domains.len())
}

fn constraints_of_spec(pod: &HeldPod) -> impl Iterator<Item = &TopologySpreadConstraint> {
    pod.spec.iter().flat_map(|spec| &spec.topology_spread_constraints)
}

fn constraints_of_pod<'a>(
    pod: &'a HeldPod,
    when_unsatisfiable: &str,
) -> Vec<&'a TopologySpreadConstraint> {
    constraints_of_spec(pod).filter(|c| c.when_unsatisfiable == when_unsatisfiable).collect()
}

/// The least of the counts. A domain that there ought to be and that is not there has none.
fn least(constraint: &TopologySpreadConstraint, counts: &BTreeMap<&str, i64>) -> i64 {
    let is_enough = i64::from(constraint.min_domains.unwrap_or(1))
        <= i64::try_from(counts.len()).unwrap_or(i64::MAX);
    counts.values().copied().min().filter(|_| is_enough).unwrap_or(0)
}

/// The matching pods of the pod's namespace in each domain, constraint by constraint. Pods that
/// terminate do not count, nor does the pod itself.
fn count<'a>(
    view: &'a ClusterView,
    pod: &HeldPod,
    constraints: &[&'a TopologySpreadConstraint],
    occupants: impl Fn(&ClusterView, &HeldPod, &Selector<'_>) -> NodeOccupants,
) -> Vec<BTreeMap<&'a str, i64>> {
    let counted = constraints.iter().map(|constraint| {
        let selector = Selector::from_constraint(constraint);
        let occupants = selector.map(|selector| occupants(view, pod, &selector));
        let occupants = occupants.unwrap_or_default();
        let mut counts = BTreeMap::new();
        for host in view.cluster().nodes() {
            if let Some(value) = domain(pod, host.node, constraint, constraints) {
                *counts.entry(value).or_insert(0) += occupants.on(host.number);
            }
        }
        counts
    });
    counted.collect()
}

/// The domain that the node belongs to, if it counts: it has the labels of all constraints, and the
/// policies do not leave it out.
fn domain<'a>(
    pod: &HeldPod,
    node: &'a Node,
    constraint: &TopologySpreadConstraint,
    all: &[&TopologySpreadConstraint],
) -> Option<&'a str> {
    let heeds_affinity = constraint.node_affinity_policy.as_deref() != Some("Ignore");
    let heeds_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    let counts = has_all(node, all)
        && (!heeds_affinity || affinity::matches(pod, node))
        && (!heeds_taints || taints::first_untolerated(pod, node).is_none());
    label(node, &constraint.topology_key).filter(|_| counts)
}

fn has_all(node: &Node, constraints: &[&TopologySpreadConstraint]) -> bool {
    constraints.iter().all(|constraint| label(node, &constraint.topology_key).is_some())
}

fn selects(constraint: &TopologySpreadConstraint, labels: Option<&Labels>) -> bool {
    Selector::from_constraint(constraint).is_some_and(|selector| selector.matches(labels))
}
