//! What is still to be told, and when it is tried again. Pure: time comes in, deliveries come out.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::v1alpha1::RestartLedger;
use rekindle_types::{Tick, TickDuration};

use super::notice::{self, ExhaustionNotice};

/// After the first failure it is tried again so much later, doubling to the longest wait, for as
/// long as the ladder is exhausted.
const WAIT_MIN: TickDuration = TickDuration::from_secs(1);
const WAIT_MAX: TickDuration = TickDuration::from_secs(300);

/// What there is to do about one exhaustion.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeDelivery {
    /// The ledger that says so.
    pub ledger: LedgerRef,
    /// Since when its ladder is exhausted.
    since: Tick,
    /// What is left to do.
    pub step: DeliveryStep,
    /// What the receiver reads.
    pub notice: ExhaustionNotice,
}

/// A ledger as the API knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: nothing is noted in another ledger of that name.
    pub uid: String,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStep {
    /// The receiver is told.
    Post,
    /// The receiver knows; that is written into the ledger.
    Note,
}

/// How a delivery went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// Everything is done, or there is nobody left to do it for.
    Done,
    /// Not that far: from this step on it is tried again later.
    Again(DeliveryStep),
}

/// The exhaustions that the ledgers do not show as told, by the UID of their ledger. The driver
/// feeds it what a watch of all ledgers shows.
#[derive(Debug, Default)]
pub struct NoticeOutbox {
    entries: BTreeMap<String, OutboxEntry>,
    listed: BTreeSet<String>,
}

#[derive(Debug)]
struct OutboxEntry {
    delivery: NoticeDelivery,
    tries: u32,
    state: DeliveryState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryState {
    /// It waits until then.
    At(Tick),
    UnderWay,
    /// Done, and the watch has not shown it yet.
    Done,
}

impl NoticeOutbox {
    /// A list of all ledgers begins.
    pub fn begin_list(&mut self) {
        self.listed.clear();
    }

    /// The list is complete: what it does not hold is gone.
    pub fn end_list(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.entries.retain(|uid, _| listed.contains(uid));
    }

    /// A ledger as it is now.
    pub fn see(&mut self, ledger: &RestartLedger, now: Tick) {
        let meta = &ledger.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        self.listed.insert(uid.clone());
        let Some(since) = notice::untold_since(ledger) else {
            self.entries.remove(&uid);
            return;
        };
        if self.entries.get(&uid).is_some_and(|entry| entry.delivery.since == since) {
            return;
        }
        let ledger_ref = LedgerRef {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: uid.clone(),
        };
        let notice = ExhaustionNotice::new(ledger, since);
        let delivery =
            NoticeDelivery { ledger: ledger_ref, since, step: DeliveryStep::Post, notice };
        self.entries.insert(uid, OutboxEntry { delivery, tries: 0, state: DeliveryState::At(now) });
    }

    /// A ledger was deleted.
    pub fn gone(&mut self, ledger: &RestartLedger) {
        self.entries.remove(ledger.metadata.uid.as_deref().unwrap_or_default());
    }

    /// When the next delivery is due.
    pub fn next_due(&self) -> Option<Tick> {
        let waiting = self.entries.values().filter_map(|entry| match entry.state {
            DeliveryState::At(at) => Some(at),
            DeliveryState::UnderWay | DeliveryState::Done => None,
        });
        waiting.min()
    }

    /// What is due, the longest due first, at most `room`; it is under way from now on.
    pub fn take_due(&mut self, now: Tick, room: usize) -> Vec<NoticeDelivery> {
        let mut due: Vec<(Tick, &mut OutboxEntry)> = self
            .entries
            .values_mut()
            .filter_map(|entry| match entry.state {
                DeliveryState::At(at) if at <= now => Some((at, entry)),
                DeliveryState::At(_) | DeliveryState::UnderWay | DeliveryState::Done => None,
            })
            .collect();
        due.sort_by_key(|(at, _)| *at);
        let taken = due.into_iter().take(room).map(|(_, entry)| {
            entry.state = DeliveryState::UnderWay;
            entry.delivery.clone()
        });
        taken.collect()
    }

    /// A delivery went so.
    pub fn settle(&mut self, delivery: &NoticeDelivery, told: DeliveryResult, now: Tick) {
        let entry = self.entries.get_mut(&delivery.ledger.uid);
        // the ladder recovered meanwhile, or was exhausted anew
        let Some(entry) = entry.filter(|entry| entry.delivery.since == delivery.since) else {
            return;
        };
        match told {
            DeliveryResult::Done => entry.state = DeliveryState::Done,
            DeliveryResult::Again(step) => {
                entry.delivery.step = step;
                entry.state = DeliveryState::At(now + wait_after(entry.tries));
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
