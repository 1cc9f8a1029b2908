//! What is due, what is due later, and how long to wait after a failure. Each piece of work stands
//! in it once.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::{Tick, TickDuration};

use crate::work::WorkItem;

/// The wait after the first failure; it doubles with each further one (client-go's rate limiter: 5
/// ms to 1000 s).
const FIRST_WAIT: TickDuration = TickDuration::from_millis(5);
/// The longest wait after a failure.
const LONGEST_WAIT: TickDuration = TickDuration::from_secs(60);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    ready: BTreeSet<WorkItem>,
    later: BTreeMap<WorkItem, Tick>,
    /// The same by time: nobody looks through all that waits.
    by_due: BTreeSet<(Tick, WorkItem)>,
    failures: BTreeMap<WorkItem, u32>,
}

impl WorkQueue {
    /// It is due now.
    pub(crate) fn add(&mut self, work: WorkItem) {
        self.unset(&work);
        self.ready.insert(work);
    }

    /// It is due then, unless it is due earlier already.
    pub(crate) fn add_at(&mut self, work: WorkItem, at: Tick) {
        if self.ready.contains(&work) || self.later.get(&work).is_some_and(|due| *due <= at) {
            return;
        }
        self.unset(&work);
        self.by_due.insert((at, work.clone()));
        self.later.insert(work, at);
    }

    fn unset(&mut self, work: &WorkItem) {
        if let Some((work, due)) = self.later.remove_entry(work) {
            self.by_due.remove(&(due, work));
        }
    }

    /// It failed, and is tried again after a while.
    pub(crate) fn retry(&mut self, work: WorkItem, now: Tick) {
        let failures = self.failures.entry(work.clone()).or_default();
        let wait = FIRST_WAIT.saturating_mul(1 << (*failures).min(20));
        *failures = failures.saturating_add(1);
        self.add_at(work, now + wait.min(LONGEST_WAIT));
    }

    /// It went well: the next failure is a first one.
    pub(crate) fn forgive(&mut self, work: &WorkItem) {
        self.failures.remove(work);
    }

    /// When something becomes due that is not due yet.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Takes what is due at `now`.
    pub(crate) fn take(&mut self, now: Tick) -> BTreeSet<WorkItem> {
        let mut due = std::mem::take(&mut self.ready);
        while self.by_due.first().is_some_and(|(at, _)| *at <= now) {
            let (_, work) = self.by_due.pop_first().expect("it was looked at just now");
            self.later.remove(&work);
            due.insert(work);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::NamespacedName;

    use super::*;

    fn work(name: &str) -> WorkItem {
        WorkItem::Climb(NamespacedName::new("default", name))
    }

    #[test]
    fn the_same_work_stands_in_the_queue_once_at_its_earliest_time() {
        let mut queue = WorkQueue::default();
        let at = Tick::from_secs;
        queue.add_at(work("a"), at(20));
        queue.add_at(work("a"), at(10));
        queue.add_at(work("a"), at(30));
        assert_eq!(queue.next_due(), Some(at(10)));
        assert!(queue.take(at(9)).is_empty());
        queue.add(work("a"));
        queue.add_at(work("a"), at(40));
        assert_eq!(queue.take(at(9)).len(), 1);
        assert_eq!(queue.next_due(), None, "it was done");
    }

    #[test]
    fn failures_wait_longer_and_longer_until_one_success() {
        let mut queue = WorkQueue::default();
        let now = Tick::from_secs(100);
        let mut waits = Vec::new();
        for _ in 0..20 {
            queue.retry(work("a"), now);
            waits.push(queue.next_due().unwrap().since(now).as_micros() / 1000);
            queue.take(now + LONGEST_WAIT);
        }
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[19], 60_000);
        queue.forgive(&work("a"));
        queue.retry(work("a"), now);
        assert_eq!(queue.next_due(), Some(now + FIRST_WAIT));
    }
}
