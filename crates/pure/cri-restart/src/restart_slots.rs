//! Which requests of a node are carried out at the same time. What was begun has its pod down
//! already, whoever began it: it goes on at once and fills a slot. So does a member of a group: the
//! others are down until it has stopped. Another request waits until a slot is free.

use std::collections::BTreeMap;

use rekindle_types::v1alpha1::{
    CarriedOutBy, MemberTurn, PodFreezeStep, PodRestart, PodRestartPhase,
};

/// A request that this node answers and that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRestart {
    /// Its UID.
    pub uid: String,
    /// Whether it waits for a slot: it is not begun, and is of no group.
    pub waits_for_slot: bool,
}

impl OpenRestart {
    /// A request, if this node answers it and it is not over, or leaves a pod frozen: its pod is
    /// here and its turn has come, or this node has begun it.
    pub fn of_node(
        node: &str,
        restart: &PodRestart,
        is_pod_here: bool,
        turn: MemberTurn,
    ) -> Option<Self> {
        let status = restart.status.as_ref();
        let phase = status.and_then(|status| status.phase);
        let is_over = phase.is_some_and(PodRestartPhase::is_final) && !may_leave_frozen(restart);
        let is_here = match status.and_then(|status| status.node_name.as_deref()) {
            Some(name) => name == node,
            None => is_pod_here && turn == MemberTurn::Stop,
        };
        if is_over || !is_here || restart.carried_out_by() != CarriedOutBy::Node {
            return None;
        }
        let waits_for_slot = phase.is_none() && restart.spec.member_of.is_none();
        Some(Self { uid: restart.metadata.uid.clone()?, waits_for_slot })
    }
}

/// Whether a request froze its pod and nothing says that it was thawed.
fn may_leave_frozen(restart: &PodRestart) -> bool {
    let runtime = restart.status.as_ref().and_then(|status| status.runtime.as_ref());
    let freeze = runtime.and_then(|runtime| runtime.freeze.as_ref());
    freeze.is_some_and(|freeze| freeze.step != PodFreezeStep::Released)
}

/// How an agent's work on a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartEnd {
    /// The request is over, or not this agent's.
    Answered,
    /// It is not begun, and there is nothing to say before the request or its pod changes.
    Unanswered,
    /// It could not be answered, for a reason that may pass without a change of either.
    Later,
}

/// The slots of a node.
#[derive(Clone, Debug)]
pub struct RestartSlots {
    max: usize,
    known: BTreeMap<String, SlotState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    UnderWay,
    Ended(RestartEnd),
}

impl RestartSlots {
    /// So many requests that wait for slots are begun at the same time.
    pub fn new(max: usize) -> Self {
        Self { max, known: BTreeMap::new() }
    }

    /// The UIDs of the requests to work on from now on; each is named once until its work ends.
    /// `is_there` says whether a request still exists.
    pub fn take(&mut self, open: &[OpenRestart], is_there: impl Fn(&str) -> bool) -> Vec<String> {
        self.known.retain(|uid, state| *state == SlotState::UnderWay || is_there(uid));
        let mut taken = Vec::new();
        // what does not wait first: it takes its slot before another pod is ended
        for of_waiting in [false, true] {
            for restart in open.iter().filter(|restart| restart.waits_for_slot == of_waiting) {
                let is_free = !restart.waits_for_slot || self.under_way() < self.max;
                if is_free && !self.known.contains_key(&restart.uid) {
                    self.known.insert(restart.uid.clone(), SlotState::UnderWay);
                    taken.push(restart.uid.clone());
                }
            }
        }
        taken
    }

    /// The work on a request has ended so.
    pub fn ended(&mut self, uid: &str, end: RestartEnd) {
        self.known.insert(uid.to_owned(), SlotState::Ended(end));
    }

    /// Requests or pods have changed: what was unanswered may be answered now.
    pub fn changed(&mut self) {
        self.known.retain(|_, state| *state != SlotState::Ended(RestartEnd::Unanswered));
    }

    /// A pause is over: what was left for later is worked on again.
    pub fn pause_is_over(&mut self) {
        self.known.retain(|_, state| *state != SlotState::Ended(RestartEnd::Later));
    }

    /// Whether something was left for later.
    pub fn has_later(&self) -> bool {
        self.known.values().any(|state| *state == SlotState::Ended(RestartEnd::Later))
    }

    fn under_way(&self) -> usize {
        self.known.values().filter(|state| **state == SlotState::UnderWay).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(begun: &[&str], new: &[&str]) -> Vec<OpenRestart> {
        let of = |uids: &[&str], waits_for_slot| {
            let of_uid = |uid: &&str| OpenRestart { uid: (*uid).to_owned(), waits_for_slot };
            uids.iter().map(of_uid).collect::<Vec<_>>()
        };
        [of(new, true), of(begun, false)].concat()
    }

    #[test]
    fn an_agent_that_starts_again_goes_on_with_what_was_begun_before_it_begins_another() {
        let mut slots = RestartSlots::new(1);
        assert_eq!(slots.take(&open(&["z"], &["a", "b"]), |_| true), ["z"]);
        assert_eq!(slots.take(&open(&["z"], &["a", "b"]), |_| true), [""; 0], "its pod is down");
        slots.ended("z", RestartEnd::Answered);
        assert_eq!(slots.take(&open(&["z"], &["a", "b"]), |_| true), ["a"], "the view is behind");
        // it was begun with a higher limit: the pods of both are down
        let mut slots = RestartSlots::new(1);
        assert_eq!(slots.take(&open(&["y", "z"], &["a"]), |_| true), ["y", "z"]);
        slots.ended("y", RestartEnd::Answered);
        assert_eq!(slots.take(&open(&["z"], &["a"]), |_| true), [""; 0]);
    }

    #[test]
    fn as_many_requests_are_begun_as_there_are_slots() {
        let mut slots = RestartSlots::new(2);
        assert_eq!(slots.take(&open(&[], &["a", "b", "c"]), |_| true), ["a", "b"]);
        slots.ended("a", RestartEnd::Answered);
        assert_eq!(slots.take(&open(&["b"], &["c"]), |_| true), ["c"]);
    }

    #[test]
    fn what_is_not_answered_is_worked_on_again_and_never_holds_up_others() {
        let mut slots = RestartSlots::new(1);
        let all = open(&[], &["a", "b"]);
        assert_eq!(slots.take(&all, |_| true), ["a"]);
        slots.ended("a", RestartEnd::Unanswered);
        assert_eq!(slots.take(&all, |_| true), ["b"]);
        slots.ended("b", RestartEnd::Later);
        assert!(slots.has_later());
        assert_eq!(slots.take(&all, |_| true), [""; 0], "nothing is new");
        slots.changed();
        assert_eq!(slots.take(&all, |_| true), ["a"]);
        slots.ended("a", RestartEnd::Answered);
        slots.changed();
        slots.pause_is_over();
        assert_eq!(slots.take(&all, |_| true), ["b"]);
        slots.ended("b", RestartEnd::Answered);
        // a request that is gone is forgotten
        assert_eq!(slots.take(&[], |_| false), [""; 0]);
        assert_eq!(slots.take(&all, |_| true), ["a"]);
    }
}
