//! How many nodes there should be: one more while pods wait for room that a new, empty node has,
//! one less when a node has not been needed for a while. Pure: whoever can start and remove nodes
//! asks with each look, and carries out what is decided.
//!
//! ```text
//!   pods Unschedulable ─► would a new node take them? ─► yes, and fewer than max ─► Add
//!      └─ it did not come to be, or went again at once ─► none for 5 min, then 10, 20, 30
//!   node below half used, its pods may move and have a place elsewhere ─► unneeded ──(unneeded_time)──► Remove
//!   node not ready, and what was on it is gone or going ─────────────────► unneeded ──(unready_time)───► Remove
//! ```
//! Source: cluster-autoscaler's FAQ ("How does scale-up work", "How does scale-down work", "What
//! types of pods can prevent CA from removing a node"), with its annotations and its texts.

mod backoff;
mod grow;
mod shrink;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};

use crate::{ClusterView, NamespacedName, cluster};
use backoff::Backoff;
pub use shrink::{NodeKeepReason, NodeNeed};

/// The annotation of a Node that says whether it may go, and why not.
pub const SCALE_DOWN: &str = "rekindle.dev/scale-down";
/// What that says from before a node is cordoned to be removed until it is gone, or is given back.
pub const BEING_REMOVED: &str = "is being removed";

/// What the user set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalingSettings {
    /// So many nodes at least, the first among them.
    pub min: usize,
    /// So many at most.
    pub max: usize,
    /// How long a node has to be unneeded before it goes (cluster-autoscaler's
    /// `--scale-down-unneeded-time`, 10 minutes).
    pub unneeded_time: TickDuration,
    /// The same of one that is not ready (`--scale-down-unready-time`, 20 minutes).
    pub unready_time: TickDuration,
    /// From so many hundredths of its CPU or memory on, a node is used
    /// (`--scale-down-utilization-threshold`, 0.5).
    pub used_percent: i64,
}

impl ScalingSettings {
    /// Between so many nodes, and cluster-autoscaler's defaults.
    pub fn between(min: usize, max: usize) -> Self {
        let [unneeded_time, unready_time] = [600, 1200].map(TickDuration::from_secs);
        Self { min, max, unneeded_time, unready_time, used_percent: 50 }
    }
}

/// What is remembered from look to look.
#[derive(Clone, Debug)]
pub struct Scaling {
    settings: ScalingSettings,
    /// Since when a node has not been needed.
    unneeded: BTreeMap<String, Tick>,
    backoff: Backoff,
    /// The node that was added last, until it has stayed for a while.
    newest: Option<(String, Tick)>,
}

/// The nodes besides the first, which stays: those that can be removed, in the order in which they
/// came.
#[derive(Clone, Copy, Debug)]
pub struct ScalableNodes<'a> {
    /// The one that stays.
    pub first: &'a str,
    /// The others.
    pub further: &'a [String],
}

/// What a look answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingOutlook {
    /// What is to be done now.
    pub deed: ScalingAction,
    /// How each further node stands.
    pub nodes: BTreeMap<String, NodeScalingState>,
    /// The pods for which no new node is made, and why.
    pub not_helped: Vec<(Arc<HeldPod>, String)>,
    /// When a look is due although nothing changed.
    pub again_at: Option<Tick>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalingAction {
    /// Nothing.
    Nothing,
    /// A node is to be added; these pods fit on it.
    Add(Vec<Arc<HeldPod>>),
    /// This node is to be drained and removed.
    Remove(String),
}

/// How a further node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeScalingState {
    /// There are no more nodes than there have to be.
    AtMinimum,
    /// It stays.
    Needed(NodeNeed),
    /// It goes when it has been unneeded for long enough.
    Unneeded {
        /// Since then it is.
        since: Tick,
        /// Then it goes.
        until: Tick,
    },
}

impl Scaling {
    /// Nothing was looked at yet.
    pub fn new(settings: ScalingSettings) -> Self {
        Self { settings, unneeded: BTreeMap::new(), backoff: Backoff::None, newest: None }
    }

    /// What the user set.
    pub fn settings(&self) -> &ScalingSettings {
        &self.settings
    }

    /// Looks at pods and nodes as they are.
    pub fn look(
        &mut self,
        view: &ClusterView,
        nodes: ScalableNodes<'_>,
        now: Tick,
    ) -> ScalingOutlook {
        self.judge_newest(nodes, now);
        let count = nodes.further.len() + 1;
        let waiting = grow::look(view, nodes);
        let mut not_helped = waiting.not_helped;
        let mut deed = ScalingAction::Nothing;
        let mut tried_again_at = None;
        if !waiting.helped.is_empty() {
            tried_again_at = self.backoff.until(now);
            let why_not = if count >= self.settings.max {
                Some(format!("max node group size reached ({})", self.settings.max))
            } else {
                tried_again_at.map(|_| "in backoff after failed scale-up".to_owned())
            };
            match why_not {
                None => deed = ScalingAction::Add(waiting.helped),
                Some(why) => {
                    not_helped.extend(waiting.helped.into_iter().map(|pod| (pod, why.clone())));
                }
            }
        }
        let standings = self.standings(view, nodes, now);
        if deed == ScalingAction::Nothing {
            let is_due = |name: &&String| match standings.get(*name) {
                Some(NodeScalingState::Unneeded { until, .. }) => *until <= now,
                Some(NodeScalingState::AtMinimum | NodeScalingState::Needed(_)) | None => false,
            };
            // the newest first
            if let Some(name) = nodes.further.iter().rev().find(is_due) {
                self.newest.take_if(|(newest, _)| newest == name);
                deed = ScalingAction::Remove(name.clone());
            }
        }
        let again_at = standings.values().filter_map(|standing| match standing {
            NodeScalingState::Unneeded { until, .. } => Some(*until),
            NodeScalingState::AtMinimum | NodeScalingState::Needed(_) => None,
        });
        let again_at = again_at.chain(tried_again_at).min();
        ScalingOutlook { deed, again_at, not_helped, nodes: standings }
    }

    /// The node that was to be added is there. Whether that helps shows when it has stayed.
    pub fn added(&mut self, node: &str, now: Tick) {
        self.newest = Some((node.to_owned(), now));
    }

    /// A node that stays ends the backoff. One that is gone although nobody here removed it is as
    /// one that did not come to be: else nodes would be added in a circle.
    fn judge_newest(&mut self, nodes: ScalableNodes<'_>, now: Tick) {
        let Some((node, added_at)) = &self.newest else { return };
        if !nodes.further.contains(node) {
            self.backoff.failed(now);
            self.newest = None;
        } else if now.since(*added_at) >= backoff::FIRST {
            self.backoff = Backoff::None;
            self.newest = None;
        }
    }

    /// The node that was to be added did not come to be: for a while no other is tried, each time
    /// for longer.
    pub fn not_added(&mut self, now: Tick) {
        self.backoff.failed(now);
    }

    /// The node could not be removed: it begins anew to be unneeded.
    pub fn stays(&mut self, node: &str) {
        self.unneeded.remove(node);
    }

    fn standings(
        &mut self,
        view: &ClusterView,
        nodes: ScalableNodes<'_>,
        now: Tick,
    ) -> BTreeMap<String, NodeScalingState> {
        if nodes.further.len() < self.settings.min {
            self.unneeded.clear();
            return nodes
                .further
                .iter()
                .map(|name| (name.clone(), NodeScalingState::AtMinimum))
                .collect();
        }
        let needs: BTreeMap<&String, Option<NodeNeed>> = nodes
            .further
            .iter()
            .map(|name| (name, shrink::need(view, name, self.settings.used_percent)))
            .collect();
        self.unneeded.retain(|name, _| needs.get(name).is_some_and(Option::is_none));
        let standing = |(name, need): (&String, Option<NodeNeed>)| {
            let standing = match need {
                Some(need) => NodeScalingState::Needed(need),
                None => {
                    let since = *self.unneeded.entry(name.clone()).or_insert(now);
                    let node = view.node(name);
                    let time = if node.is_some_and(|node| cluster::is_ready(node)) {
                        self.settings.unneeded_time
                    } else {
                        self.settings.unready_time
                    };
                    NodeScalingState::Unneeded { since, until: since + time }
                }
            };
            (name.clone(), standing)
        };
        needs.into_iter().map(standing).collect()
    }
}

/// What a Node says of whether it may go.
pub fn shown(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(SCALE_DOWN).map(String::as_str)
}

/// The further nodes whose removal was broken off: they say that they are being removed, and it is
/// not they that are. They are to be given back, cordon and all, before they are looked at: what is
/// cordoned takes no pods and never goes. The removal does not just go on, since by now they may be
/// needed.
pub fn broken_off(
    view: &ClusterView,
    nodes: ScalableNodes<'_>,
    removing: Option<&str>,
) -> Vec<Arc<Node>> {
    let others = nodes.further.iter().map(String::as_str).filter(|name| removing != Some(*name));
    others
        .filter_map(|name| view.node(name))
        .filter(|node| shown(node) == Some(BEING_REMOVED))
        .cloned()
        .collect()
}

impl fmt::Display for NodeScalingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMinimum => f.write_str("stays: no fewer nodes are wanted"),
            Self::Needed(need) => write!(f, "stays: {need}"),
            Self::Unneeded { until, .. } => {
                write!(f, "unneeded, goes at {}", until.to_time().0)
            }
        }
    }
}

fn name_of(pod: &HeldPod) -> NamespacedName {
    NamespacedName::from_meta(&pod.metadata)
}

/// The same pod on a node, or on none; to be tried elsewhere.
fn placed(pod: &HeldPod, node: Option<&str>) -> HeldPod {
    HeldPod { node_name: node.map(str::to_owned), ..pod.clone() }
}
