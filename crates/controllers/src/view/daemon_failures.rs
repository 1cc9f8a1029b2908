//! How often pods of DaemonSets failed on their nodes: the next failed pod is replaced after 1 s, 2 s, … at most 15 minutes.
//!
//! A pod that a node refuses comes back at once to be refused again; without a pause controller and node would keep each other
//! busy. Source: upstream's DaemonSet controller (`failedPodsBackoff`), which keeps this in memory, too: an engine that starts
//! begins anew.

use std::collections::BTreeMap;

use rekindle_types::{Tick, TickDuration};

use crate::{Kind, Object, owners, pods};

/// The pause after the first failed pod; it doubles with each further one.
const FIRST_PAUSE: TickDuration = TickDuration::from_secs(1);
/// The longest pause. Twice as long without a failed pod, and the next one is a first one.
const LONGEST_PAUSE: TickDuration = TickDuration::from_secs(15 * 60);

/// The failures.
#[derive(Clone, Debug, Default)]
pub(super) struct DaemonFailures {
    /// UID of the DaemonSet → node → the pause.
    by_set: BTreeMap<String, BTreeMap<String, Pause>>,
}

/// The pause that followed the last failed pod.
#[derive(Clone, Copy, Debug)]
struct Pause {
    begin: Tick,
    length: TickDuration,
}

impl Pause {
    fn is_forgotten(&self, now: Tick) -> bool {
        now.since(self.begin) > LONGEST_PAUSE.saturating_mul(2)
    }
}

impl DaemonFailures {
    /// An object is gone: a failed pod begins a pause, a DaemonSet takes its pauses along.
    pub(super) fn gone(&mut self, object: &Object, now: Tick) {
        match object {
            Object::DaemonSet(_) => {
                self.by_set.remove(object.uid());
            }
            Object::Pod(pod) if pods::phase(pod) == "Failed" => {
                let owner = owners::controller_of(&pod.metadata);
                let owner = owner.filter(|owner| owner.kind == Kind::DaemonSet.info().kind);
                let (Some(owner), Some(node)) = (owner, pods::node(pod)) else { return };
                let pauses = self.by_set.entry(owner.uid.clone()).or_default();
                pauses.retain(|_, pause| !pause.is_forgotten(now));
                let before = pauses.get(node);
                let length = before
                    .map_or(FIRST_PAUSE, |pause| pause.length.saturating_mul(2).min(LONGEST_PAUSE));
                pauses.insert(node.to_owned(), Pause { begin: now, length });
            }
            _ => {}
        }
    }

    /// The end of the pause on a node, if it is not over.
    pub(super) fn held_until(&self, set_uid: &str, node: &str, now: Tick) -> Option<Tick> {
        let pause = self.by_set.get(set_uid)?.get(node)?;
        Some(pause.begin + pause.length).filter(|end| *end > now)
    }
}
