//! Why a node is not taken, in upstream's words, and whether it would help if some of its pods
//! ended.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The answer for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeRefusal {
    reasons: Vec<Cow<'static, str>>,
    cure: RefusalRemedy,
}

/// What would help (upstream's `Unschedulable` and `UnschedulableAndUnresolvable`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalRemedy {
    /// That pods of the node end.
    PodsEnd,
    /// Nothing that happens to its pods.
    Nothing,
}

impl NodeRefusal {
    /// The pods that are there are the reason.
    pub(super) fn of_pods(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reasons: vec![reason.into()], cure: RefusalRemedy::PodsEnd }
    }

    /// The reason would stay if all pods ended.
    pub(super) fn final_for(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reasons: vec![reason.into()], cure: RefusalRemedy::Nothing }
    }

    /// Several reasons at once.
    pub(super) fn for_all(reasons: Vec<Cow<'static, str>>, cure: RefusalRemedy) -> Self {
        Self { reasons, cure }
    }

    /// What would help.
    pub(super) fn cure(&self) -> RefusalRemedy {
        self.cure
    }
}

/// The answers of all nodes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeRefusals {
    nodes: usize,
    counts: BTreeMap<Cow<'static, str>, usize>,
}

impl NodeRefusals {
    /// One node refuses.
    pub(super) fn add(&mut self, refusal: &NodeRefusal) {
        self.add_many(refusal, 1);
    }

    /// So many nodes refuse alike.
    pub(super) fn add_many(&mut self, refusal: &NodeRefusal, nodes: usize) {
        if nodes == 0 {
            return;
        }
        self.nodes += nodes;
        for reason in &refusal.reasons {
            match self.counts.get_mut(reason) {
                Some(count) => *count += nodes,
                None => drop(self.counts.insert(reason.clone(), nodes)),
            }
        }
    }

    /// How many nodes refuse.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.`, as upstream
    /// words and orders it.
    pub(super) fn explain(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut parts: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        format!("0/{} nodes are available: {}.", self.nodes, parts.join(", "))
    }
}
