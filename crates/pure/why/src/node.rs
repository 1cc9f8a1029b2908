//! The account of a node: its conditions, who may be placed on it, and its pods that are not well.

use rekindle_types::{Tick, nodes};

use crate::account::{Account, AccountState, HistorySource};
use crate::condition::advice_of_node;
use crate::events;
use crate::evidence::NodeEvidence;
use crate::groups::{PodNaming, group};
use crate::history::{AccountHistory, OccurrenceTimes};
use crate::words::{line, show_span};

/// Why the node is as it is.
pub fn explain_node(evidence: &NodeEvidence, now: Tick) -> Account {
    let node = &evidence.node;
    let groups = group(&evidence.pods, PodNaming::OfAllNamespaces, now);
    let (unwell, well) = (groups.unwell(), groups.well);
    let pods = groups.unwell;
    let mut troubles: Vec<String> = Vec::new();
    let mut advice: Vec<String> = Vec::new();
    let mut history = AccountHistory::default();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut is_ready = true;
    for condition in conditions.into_iter().flatten() {
        let is_well = match condition.type_.as_str() {
            "Ready" => condition.status == "True",
            _ => condition.status == "False",
        };
        is_ready &= is_well || condition.type_ != "Ready";
        let message = line(condition.message.as_deref().unwrap_or_default());
        let reason = condition.reason.as_deref().unwrap_or_default();
        if let Some(since) = condition.last_transition_time.as_ref().map(Tick::from) {
            let text = format!("{} {}: {reason}: {message}", condition.type_, condition.status);
            history.add(HistorySource::Status, OccurrenceTimes::once(since), &text);
            if !is_well {
                let age = show_span(now.since(since));
                troubles.push(format!(
                    "{} is {} for {age} ({reason})",
                    condition.type_, condition.status
                ));
            }
        }
        advice.extend(
            (!is_well).then(|| advice_of_node(&condition.type_, &condition.status).to_owned()),
        );
    }
    let spec = node.spec.as_ref();
    let name = node.metadata.name.clone().unwrap_or_default();
    if nodes::is_cordoned(node) {
        troubles.push("it is cordoned: no new pods are placed on it".to_owned());
        advice.push(format!("kubectl uncordon {name}, when it may take pods again"));
    }
    for taint in spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten() {
        if !taint.key.starts_with("node.kubernetes.io/") {
            troubles.push(format!("taint {}:{} keeps pods away", taint.key, taint.effect));
        }
    }
    for line in pods.iter().flat_map(|group| &group.advice) {
        if !advice.contains(line) {
            advice.push(line.clone());
        }
    }
    let counted = format!("{well} of {} pods on it are well", well + unwell);
    let (state, summary) = match troubles.as_slice() {
        // what ails its pods is theirs
        [] => (AccountState::Healthy, format!("it is ready; {counted}")),
        list => {
            let state = if is_ready { AccountState::Restricted } else { AccountState::NotReady };
            (state, format!("{}; {counted}", list.join("; ")))
        }
    };
    history.add_events(&events::read(&evidence.events));
    Account {
        kind: "Node".to_owned(),
        namespace: None,
        name,
        state,
        summary,
        containers: Vec::new(),
        nodes: Vec::new(),
        history: history.finish(),
        ladder: None,
        next: None,
        advice,
        pods,
    }
}
