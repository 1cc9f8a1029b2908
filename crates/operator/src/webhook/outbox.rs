//! What is still to be told, and when it is tried again. Pure: time comes in, errands come out.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::v1alpha1::RestartLedger;
use rekindle_types::{Tick, TickDuration};

use super::notice::{self, Notice};

/// After the first failure it is tried again so much later, doubling to the longest wait, for as
/// long as the ladder is exhausted.
const WAIT_MIN: TickDuration = TickDuration::from_secs(1);
const WAIT_MAX: TickDuration = TickDuration::from_secs(300);

/// What there is to do about one exhaustion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Errand {
    pub(super) ledger: LedgerRef,
    pub(super) since: Tick,
    pub(super) step: Step,
    pub(super) notice: Notice,
}

/// A ledger as the API knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LedgerRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The receiver is told.
    Post,
    /// The receiver knows; that is written into the ledger.
    Note,
}

/// How an errand went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Everything is done, or there is nobody left to do it for.
    Done,
    /// Not that far: from this step on it is tried again later.
    Again(Step),
}

/// The exhaustions that are not seen as told, by the UID of their ledger.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    entries: BTreeMap<String, Entry>,
    listed: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    errand: Errand,
    tries: u32,
    turn: Turn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It waits until then.
    At(Tick),
    UnderWay,
    /// Done, and the watch has not shown it yet.
    Done,
}

impl Outbox {
    /// A list of all ledgers begins.
    pub(super) fn begin_list(&mut self) {
        self.listed.clear();
    }

    /// The list is complete: what it does not hold is gone.
    pub(super) fn end_list(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.entries.retain(|uid, _| listed.contains(uid));
    }

    /// A ledger as it is now.
    pub(super) fn see(&mut self, ledger: &RestartLedger, now: Tick) {
        let meta = &ledger.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        self.listed.insert(uid.clone());
        let Some(since) = notice::untold(ledger) else {
            self.entries.remove(&uid);
            return;
        };
        if self.entries.get(&uid).is_some_and(|entry| entry.errand.since == since) {
            return;
        }
        let ledger_ref = LedgerRef {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: uid.clone(),
        };
        let notice = notice::of(ledger, since);
        let errand = Errand { ledger: ledger_ref, since, step: Step::Post, notice };
        self.entries.insert(uid, Entry { errand, tries: 0, turn: Turn::At(now) });
    }

    /// A ledger was deleted.
    pub(super) fn gone(&mut self, ledger: &RestartLedger) {
        self.entries.remove(ledger.metadata.uid.as_deref().unwrap_or_default());
    }

    /// When the next errand is due.
    pub(super) fn next_due(&self) -> Option<Tick> {
        let waiting = self.entries.values().filter_map(|entry| match entry.turn {
            Turn::At(at) => Some(at),
            Turn::UnderWay | Turn::Done => None,
        });
        waiting.min()
    }

    /// What is due, the longest due first, at most `room`; it is under way from now on.
    pub(super) fn take_due(&mut self, now: Tick, room: usize) -> Vec<Errand> {
        let mut due: Vec<(Tick, &mut Entry)> = self
            .entries
            .values_mut()
            .filter_map(|entry| match entry.turn {
                Turn::At(at) if at <= now => Some((at, entry)),
                Turn::At(_) | Turn::UnderWay | Turn::Done => None,
            })
            .collect();
        due.sort_by_key(|(at, _)| *at);
        let taken = due.into_iter().take(room).map(|(_, entry)| {
            entry.turn = Turn::UnderWay;
            entry.errand.clone()
        });
        taken.collect()
    }

    /// An errand went so.
    pub(super) fn settle(&mut self, errand: &Errand, told: Told, now: Tick) {
        let entry = self.entries.get_mut(&errand.ledger.uid);
        // the ladder recovered meanwhile, or was exhausted anew
        let Some(entry) = entry.filter(|entry| entry.errand.since == errand.since) else { return };
        match told {
            Told::Done => entry.turn = Turn::Done,
            Told::Again(step) => {
                entry.errand.step = step;
                entry.turn = Turn::At(now + wait_after(entry.tries));
                entry.tries = entry.tries.saturating_add(1);
            }
        }
    }
}

fn wait_after(tries: u32) -> TickDuration {
    let doubled = WAIT_MIN.as_secs().saturating_mul(1 << tries.min(16));
    TickDuration::from_secs(doubled).min(WAIT_MAX)
}

#[cfg(test)]
mod tests;
