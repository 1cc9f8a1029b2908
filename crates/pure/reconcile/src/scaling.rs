//! What the number of nodes makes of events, of Nodes' annotations, and of the time until the next
//! look. [`rekindle_controllers::node_scaling`] decides how many nodes there should be.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_controllers::events::EventNote;
use rekindle_controllers::node_scaling::{
    BEING_REMOVED, NodeScalingState, SCALE_DOWN, ScalingOutlook, shown,
};
use rekindle_controllers::{ClusterView, ViewObject};
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration};
use serde_json::{Value, json};

/// `source.component` of the events: the words are its, and so is the name.
const COMPONENT: &str = "cluster-autoscaler";
/// Between two looks while a node could go, at most (cluster-autoscaler's `--scan-interval`).
pub const LOOK_PERIOD: TickDuration = TickDuration::from_secs(10);
/// What happens within this time is one look's.
pub const SETTLE_TIME: TickDuration = TickDuration::from_millis(200);

/// Says to each pod that no further node helps, when that is news.
#[derive(Debug, Default)]
pub struct ScalingNotes {
    /// What was said of each pod, by its UID.
    said: BTreeMap<String, String>,
}

impl ScalingNotes {
    /// What is news for pods that wait.
    pub fn not_helped(&mut self, outlook: &ScalingOutlook) -> Vec<EventNote> {
        let before = std::mem::take(&mut self.said);
        let mut notes = Vec::new();
        for (pod, why) in &outlook.not_helped {
            let about = ViewObject::Pod(Arc::clone(pod));
            if before.get(about.uid()) != Some(why) {
                let message = format!("pod didn't trigger scale-up: {why}");
                let reason = event::NOT_TRIGGER_SCALE_UP;
                notes.push(EventNote::new(
                    &about,
                    EventSeverity::Normal,
                    reason,
                    message,
                    COMPONENT,
                ));
            }
            self.said.insert(about.uid().to_owned(), why.clone());
        }
        notes
    }
}

/// The growth that a node's addition is, in the words of cluster-autoscaler.
#[derive(Clone, Copy, Debug)]
pub struct ScaleUp<'a> {
    /// The node that stays.
    pub first: &'a str,
    /// How many nodes there are.
    pub count: usize,
    /// How many there may be.
    pub max: usize,
}

impl ScaleUp<'_> {
    /// A node came for these pods.
    pub fn done(self, pods: &[Arc<HeldPod>]) -> Vec<EventNote> {
        let message = format!("pod triggered scale-up: {}", self.change());
        to_all(pods, EventSeverity::Normal, event::TRIGGERED_SCALE_UP, &message)
    }

    /// None came for them.
    pub fn failed(self, pods: &[Arc<HeldPod>], error: impl Display) -> Vec<EventNote> {
        let message = format!("Scale-up failed: {}: {error}", self.change());
        to_all(pods, EventSeverity::Warning, event::FAILED_TO_SCALE_UP_GROUP, &message)
    }

    fn change(self) -> String {
        let Self { first, count, max } = self;
        format!("[{{{first} {count}->{} (max: {max})}}]", count + 1)
    }
}

fn to_all(
    pods: &[Arc<HeldPod>],
    severity: EventSeverity,
    reason: &'static str,
    message: &str,
) -> Vec<EventNote> {
    let note = |pod: &Arc<HeldPod>| {
        EventNote::new(&ViewObject::Pod(Arc::clone(pod)), severity, reason, message, COMPONENT)
    };
    pods.iter().map(note).collect()
}

/// A node begins to be removed.
pub fn scale_down_note(node: &Arc<Node>) -> EventNote {
    let message = "marked the node as toBeDeleted/unschedulable";
    let about = ViewObject::Node(Arc::clone(node));
    EventNote::new(&about, EventSeverity::Normal, event::SCALE_DOWN, message, COMPONENT)
}

/// The nodes of which something else is to be shown than they show, each with its patch. The one
/// that is being removed says so, and how it stands changes with every pod that leaves it.
pub fn standings_to_show(
    view: &ClusterView,
    outlook: &ScalingOutlook,
    removing: Option<&str>,
) -> Vec<(String, Value)> {
    let standings = outlook.nodes.iter().filter(|(name, _)| removing != Some(name.as_str()));
    let news = standings.filter_map(|(name, standing)| {
        let text = standing.to_string();
        let is_shown = shown(view.node(name)?) == Some(text.as_str());
        (!is_shown).then(|| (name.clone(), annotation(json!(text))))
    });
    news.collect()
}

/// How long until the next look; none while nothing can go and no pod waits.
pub fn next_look(
    outlook: &ScalingOutlook,
    unneeded_time: TickDuration,
    now: Tick,
) -> Option<TickDuration> {
    let is_quiet = outlook.nodes.values().all(|standing| *standing == NodeScalingState::AtMinimum);
    if is_quiet && outlook.not_helped.is_empty() {
        return None;
    }
    let tenth = TickDuration::from_micros(unneeded_time.as_micros() / 10);
    let period = LOOK_PERIOD.min(tenth.max(SETTLE_TIME));
    Some(outlook.again_at.map_or(period, |at| at.since(now).min(period)))
}

/// The patch that says on a Node that it is being removed.
pub fn being_removed_patch() -> Value {
    annotation(json!(BEING_REMOVED))
}

/// The patch that makes a Node say nothing.
pub fn no_longer_scaled_patch() -> Value {
    annotation(Value::Null)
}

/// The patch that lets a Node take pods again after its removal was broken off.
pub fn give_back_patch() -> Value {
    let mut patch = no_longer_scaled_patch();
    patch["spec"] = json!({"unschedulable": null});
    patch
}

fn annotation(value: Value) -> Value {
    json!({"metadata": {"annotations": { (SCALE_DOWN): value }}})
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::node_scaling::ScalingAction;

    use super::*;

    const NOW: Tick = Tick::from_secs(1_000);

    fn outlook(waiting: &[(&str, &str)]) -> ScalingOutlook {
        let not_helped = waiting.iter().map(|(uid, why)| {
            let pod = json!({"metadata": {"name": uid, "namespace": "shop", "uid": uid}});
            let pod: HeldPod = serde_json::from_value(pod).unwrap();
            (Arc::new(pod), (*why).to_owned())
        });
        ScalingOutlook {
            deed: ScalingAction::Nothing,
            nodes: BTreeMap::from([("n2".to_owned(), NodeScalingState::AtMinimum)]),
            not_helped: not_helped.collect(),
            again_at: None,
        }
    }

    #[test]
    fn a_pod_is_told_once_why_no_node_helps_it_and_again_when_the_reason_changes() {
        let mut notes = ScalingNotes::default();
        let mut told = |waiting: &[(&str, &str)]| -> Vec<String> {
            notes.not_helped(&outlook(waiting)).into_iter().map(|note| note.message).collect()
        };
        let says = |why: &str| vec![format!("pod didn't trigger scale-up: {why}")];
        assert_eq!(told(&[("a", "too large")]), says("too large"));
        assert_eq!(told(&[("a", "too large"), ("b", "max")]), says("max"));
        assert_eq!(told(&[("a", "max"), ("b", "max")]), says("max"));
        assert!(told(&[]).is_empty());
        assert_eq!(told(&[("a", "max")]), says("max"), "it waits anew");
    }

    #[test]
    fn nothing_is_looked_at_again_while_no_node_can_go_and_no_pod_waits() {
        let hour = TickDuration::from_secs(3_600);
        assert_eq!(next_look(&outlook(&[]), hour, NOW), None);
        let mut waits = outlook(&[("a", "max")]);
        assert_eq!(next_look(&waits, hour, NOW), Some(LOOK_PERIOD));
        let (second, moment) = (TickDuration::from_secs(1), TickDuration::from_millis(1));
        assert_eq!(next_look(&waits, moment, NOW), Some(SETTLE_TIME));
        waits.again_at = Some(NOW + second);
        assert_eq!(next_look(&waits, hour, NOW), Some(second));
    }
}
