//! Which pods of one node have to go: first all of lower priority are thought away, then as many as
//! possible are kept, those first whose end would break a budget, and of these the most important
//! ones.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::Tick;
use rekindle_types::held::HeldPod;

use super::budgets::{self, BudgetSplit};
use crate::cluster::{NodeEntry, NodeState, PodShift};
use crate::scheduler::fit::PodPlacement;
use crate::scheduler::refusal::NodeRefusal;
use crate::scheduler::{priority, those_ahead};
use crate::{ClusterView, NamespacedName, pods};

/// The pods that have to go on one node.
#[derive(Clone, Debug)]
pub(in crate::scheduler) struct PreemptionVictims<'a> {
    pub(in crate::scheduler) node: &'a Arc<Node>,
    /// The most important one first; at least one.
    pub(in crate::scheduler) pods: Vec<&'a Arc<HeldPod>>,
    /// For how many of them a budget is broken.
    pub(super) violations: usize,
}

/// The node, as it is thought to be.
struct HypotheticalNode<'f, 'a> {
    fit: &'f mut PodPlacement<'a>,
    node: &'a Arc<Node>,
    state: NodeState,
    /// Those that are to come to it and that the pod does not get ahead of; they are thought to be
    /// there.
    nominated: Vec<&'a Arc<HeldPod>>,
}

impl<'a> HypotheticalNode<'_, 'a> {
    fn shift(&mut self, pod: &'a Arc<HeldPod>, shift: PodShift) {
        self.state.shift(pod, shift);
        self.fit.shift_on(pod, self.node, shift);
    }

    fn shift_nominated(&mut self, shift: PodShift) {
        for pod in self.nominated.clone() {
            self.shift(pod, shift);
        }
    }

    /// What keeps the pod from the node, whether those that are to come are there or not: one that
    /// wants to be near of them must find them there already, as in
    /// `PodPlacement::refusal_with_nominated`.
    fn refusal(&mut self) -> Option<NodeRefusal> {
        let refusal = self.fit.refusal(self.node, &self.state);
        if refusal.is_some() || self.nominated.is_empty() {
            return refusal;
        }
        self.shift_nominated(PodShift::Out);
        let refusal = self.fit.refusal(self.node, &self.state);
        self.shift_nominated(PodShift::In);
        refusal
    }
}

/// The fewest pods of the node that have to go, or why it is of no use. `fit` is left as it was.
pub(super) fn select<'a>(
    view: &'a ClusterView,
    fit: &mut PodPlacement<'a>,
    NodeEntry { name, node, state, .. }: NodeEntry<'a>,
) -> Result<PreemptionVictims<'a>, NodeRefusal> {
    let mut weaker: Vec<&'a Arc<HeldPod>> = view
        .pods_on(name)
        .filter(|pod| !pods::is_finished(pod) && priority(pod) < priority(fit.pod))
        .collect();
    if weaker.is_empty() {
        return Err(NodeRefusal::final_for("No preemption victims found for incoming pod"));
    }
    weaker.sort_by_key(|pod| importance(pod));
    let nominated = those_ahead(view, fit.pod, name).collect();
    let mut thought = HypotheticalNode { fit, node, state: state.clone(), nominated };
    thought.shift_nominated(PodShift::In);
    weaker.iter().for_each(|pod| thought.shift(pod, PodShift::Out));
    let (refusal, gone, violations) = match thought.refusal() {
        Some(refusal) => (Some(refusal), weaker, 0),
        None => {
            let (gone, violations) = reprieve(view, &mut thought, weaker);
            (None, gone, violations)
        }
    };
    gone.iter().for_each(|pod| thought.shift(pod, PodShift::In));
    thought.shift_nominated(PodShift::Out);
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(PreemptionVictims { node, pods: gone, violations }),
    }
}

/// Keeps whom it can; answers those that have to go, the most important first, and for how many of
/// them a budget is broken.
fn reprieve<'a>(
    view: &ClusterView,
    thought: &mut HypotheticalNode<'_, 'a>,
    weaker: Vec<&'a Arc<HeldPod>>,
) -> (Vec<&'a Arc<HeldPod>>, usize) {
    let BudgetSplit { breaking, allowed } = budgets::split(view, weaker);
    let mut keep = |pod: &'a Arc<HeldPod>| {
        thought.shift(pod, PodShift::In);
        let stays = thought.refusal().is_none();
        if !stays {
            thought.shift(pod, PodShift::Out);
        }
        stays
    };
    let mut gone: Vec<_> = breaking.into_iter().filter(|pod| !keep(pod)).collect();
    let violations = gone.len();
    gone.extend(allowed.into_iter().filter(|pod| !keep(pod)));
    gone.sort_by_key(|pod| importance(pod));
    (gone, violations)
}

/// What orders pods by importance: the higher priority first, then the one that runs longer, then
/// by name.
fn importance(pod: &HeldPod) -> (Reverse<i32>, Tick, NamespacedName) {
    (Reverse(priority(pod)), started(pod), NamespacedName::from_meta(&pod.metadata))
}

/// When the pod came to its node; one that its node has not taken up yet counts as the youngest.
pub(super) fn started(pod: &HeldPod) -> Tick {
    let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    start.map_or(Tick::from_micros(u64::MAX), Tick::from)
}
