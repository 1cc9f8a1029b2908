//! What happened in order. What is alike but for its numbers is one entry with a count, from when
//! on, and how often, so that twenty days of crashes are a line and not a screen.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rekindle_types::{Tick, TickDuration};

use crate::account::{HistoryEntry, HistorySource};
use crate::events::{self, SeenEvent};
use crate::words::{line, shape};

/// The entries that are kept: those that happened last.
const ENTRIES_MAX: usize = 40;
/// So many ends in a row have an average that says something.
const MANY: u32 = 10;

/// Entries in the making.
#[derive(Debug, Default)]
pub(crate) struct AccountHistory {
    entries: BTreeMap<(HistorySource, String), FoldedEntry>,
}

#[derive(Debug)]
struct FoldedEntry {
    first: Tick,
    last: Tick,
    count: u32,
    what: String,
}

/// When something happened, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OccurrenceTimes {
    pub(crate) first: Tick,
    pub(crate) last: Tick,
    pub(crate) count: u32,
}

impl OccurrenceTimes {
    pub(crate) fn once(at: Tick) -> Self {
        Self { first: at, last: at, count: 1 }
    }
}

impl AccountHistory {
    pub(crate) fn add(&mut self, source: HistorySource, when: OccurrenceTimes, what: &str) {
        self.add_alike(source, when, what, what);
    }

    /// One more of those that are alike in `alike`, numbers aside; `what` is how the last of them
    /// is told.
    pub(crate) fn add_alike(
        &mut self,
        source: HistorySource,
        when: OccurrenceTimes,
        what: &str,
        alike: &str,
    ) {
        let what = line(what);
        let folded = self.entries.entry((source, shape(&line(alike)))).or_insert_with(|| {
            FoldedEntry { first: when.first, last: when.first, count: 0, what: what.clone() }
        });
        folded.count = folded.count.saturating_add(when.count);
        folded.first = folded.first.min(when.first);
        if when.last >= folded.last {
            folded.last = when.last;
            folded.what = what;
        }
    }

    /// The events that tell more than the course of every start.
    pub(crate) fn add_events<'a>(&mut self, seen: impl IntoIterator<Item = &'a SeenEvent>) {
        self.add_all(seen.into_iter().filter(|event| !events::is_routine(event)));
    }

    /// The same of a pod whose status is gone: also what that would have told.
    pub(crate) fn add_events_of_the_gone(&mut self, seen: &[SeenEvent]) {
        self.add_all(seen.iter().filter(|event| !events::is_a_step_of_every_start(event)));
    }

    /// The same among others of its workload: what goes without saying does so, and which pod it
    /// was is told elsewhere.
    pub(crate) fn add_events_of_the_lost(&mut self, seen: &[SeenEvent]) {
        for event in seen.iter().filter(|event| !events::is_routine_of_the_lost(event)) {
            let what = match event.message.split_once(" in pod ") {
                Some((what, _)) => SeenEvent { message: what.to_owned(), ..event.clone() },
                None => event.clone(),
            };
            self.add_all([&what].into_iter());
        }
    }

    fn add_all<'a>(&mut self, seen: impl Iterator<Item = &'a SeenEvent>) {
        for event in seen {
            let when = OccurrenceTimes { first: event.first, last: event.last, count: event.count };
            let what = match &event.container {
                Some(container) => {
                    format!("container {container:?}: {}: {}", event.reason, event.message)
                }
                None => format!("{}: {}", event.reason, event.message),
            };
            self.add(HistorySource::Event, when, &what);
        }
    }

    /// Oldest first.
    pub(crate) fn finish(self) -> Vec<HistoryEntry> {
        let mut entries: Vec<(HistorySource, FoldedEntry)> =
            self.entries.into_iter().map(|((source, _), entry)| (source, entry)).collect();
        if entries.len() > ENTRIES_MAX {
            // what began first and goes on is what it is all about
            entries.sort_by_key(|(_, entry)| Reverse((entry.last, entry.count)));
            entries.truncate(ENTRIES_MAX);
        }
        entries.sort_by_key(|(source, entry)| (entry.first, entry.last, *source));
        entries
            .into_iter()
            .map(|(source, entry)| HistoryEntry {
                every_seconds: entry.period(source).map(TickDuration::as_secs),
                first: entry.first.to_time(),
                last: entry.last.to_time(),
                count: entry.count,
                source,
                what: entry.what,
            })
            .collect()
    }
}

impl FoldedEntry {
    fn period(&self, source: HistorySource) -> Option<TickDuration> {
        let when = OccurrenceTimes { first: self.first, last: self.last, count: self.count };
        match source {
            HistorySource::Status => average(when),
            HistorySource::Event | HistorySource::Ladder | HistorySource::PodRestart => {
                period(when)
            }
        }
    }
}

/// From one to the next on average, of what the start is only known to be later than `first`: told
/// of many only, for a few may all have come at the end.
pub(crate) fn average(when: OccurrenceTimes) -> Option<TickDuration> {
    (when.count >= MANY).then(|| period(when)).flatten()
}

/// From one to the next on average; none when that is less than a second, or there is only one.
fn period(when: OccurrenceTimes) -> Option<TickDuration> {
    let steps = u64::from(when.count.checked_sub(1)?);
    let micros = when.last.since(when.first).as_micros().checked_div(steps)?;
    (micros >= 1_000_000).then(|| TickDuration::from_micros(micros))
}
