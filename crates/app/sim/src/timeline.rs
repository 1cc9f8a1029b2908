//! What happened when: a row of equal spans for a plot, the busiest minute, and the times when pods
//! were missing.

use rekindle_types::TickDuration;

use crate::availability::AvailabilityTotal;
use crate::server::RequestFigures;

/// Spans of a timeline.
const SPANS: u64 = 240;
/// Outages that are told one by one; the sums count all.
const OUTAGES_MAX: usize = 1_000;
/// So long nothing may be missing before an outage is over: what a ladder takes for recovered
/// (docs/ladder.md).
const WELL: TickDuration = TickDuration::from_secs(10);
const MINUTE_MICROS: u64 = 60_000_000;

/// The course of a run. Times are those since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// How long each span is.
    pub span: TickDuration,
    /// The spans, in order.
    pub spans: Vec<TimelineSpan>,
    /// Most writes to the API in one minute.
    pub writes_per_minute_max: u64,
    /// Most of them that wrote Events in one minute.
    pub events_per_minute_max: u64,
    /// The sum over all pods of the time in which they were wanted and did not serve.
    pub missing_micros: u128,
    /// When all that was wanted began to serve for the first time, and did so for ten seconds.
    pub ready_after: Option<TickDuration>,
    /// The times after that when something was missing: the first 999 of them, and the newest.
    pub outages: Vec<Outage>,
    longest_outage: TickDuration,
    course: ServiceCourse,
    /// Since when nothing is missing.
    well_since: Option<TickDuration>,
    /// Of the last time that was held.
    total: AvailabilityTotal,
    at: TickDuration,
    counted: RunCounts,
    minute: MinuteWrites,
}

/// How it goes with what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceCourse {
    /// Not all of it has served yet.
    Beginning,
    Well,
    /// Something is missing, or was a moment ago.
    Outage(Outage),
}

/// What happened in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineSpan {
    /// Restarts of containers.
    pub restarts: u64,
    /// Writes to the API.
    pub writes: u64,
    /// Those of them that wrote Events.
    pub events: u64,
    /// Pods that were wanted, at most.
    pub wanted: u64,
    /// Pods that were missing, at most.
    pub missing: u64,
}

/// A time in which pods were missing. What serves for less than ten seconds in it does not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Since when.
    pub from: TickDuration,
    /// Until when; none when it had not ended at the end of the run.
    pub until: Option<TickDuration>,
    /// So many were missing at the worst moment.
    pub missing: u64,
}

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunCounts {
    pub(crate) restarts: u64,
    pub(crate) figures: RequestFigures,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MinuteWrites {
    number: u64,
    writes: u64,
    events: u64,
}

impl Timeline {
    /// The timeline of a run of this length.
    pub(crate) fn new(length: TickDuration) -> Self {
        let span = TickDuration::from_micros(length.as_micros().div_ceil(SPANS).max(1));
        let count = length.as_micros().div_ceil(span.as_micros()).max(1);
        Self {
            span,
            spans: vec![TimelineSpan::default(); usize::try_from(count).unwrap_or(1)],
            writes_per_minute_max: 0,
            events_per_minute_max: 0,
            missing_micros: 0,
            ready_after: None,
            outages: Vec::new(),
            longest_outage: TickDuration::ZERO,
            course: ServiceCourse::Beginning,
            well_since: None,
            total: AvailabilityTotal::default(),
            at: TickDuration::ZERO,
            counted: RunCounts::default(),
            minute: MinuteWrites::default(),
        }
    }

    /// From the time of the last call until `until` it was so. What was counted since then happened
    /// at that time.
    pub(crate) fn hold(
        &mut self,
        until: TickDuration,
        total: AvailabilityTotal,
        counts: RunCounts,
    ) {
        let until = until.max(self.at);
        self.count(counts);
        self.follow(until, total);
        self.total = total;
        let lasted = until.as_micros() - self.at.as_micros();
        self.missing_micros += u128::from(total.missing) * u128::from(lasted);
        let last = until.as_micros().saturating_sub(1).max(self.at.as_micros());
        for index in self.index(self.at.as_micros())..=self.index(last) {
            let span = &mut self.spans[index];
            span.wanted = span.wanted.max(total.wanted);
            span.missing = span.missing.max(total.missing);
        }
        self.at = until;
    }

    /// The run is over. An outage that has not ended stays open.
    pub(crate) fn end(&mut self) {
        self.minute_over();
        if let ServiceCourse::Outage(outage) = self.course {
            self.keep(outage, self.at);
        }
    }

    /// The longest time in which something was missing, that which had not ended included.
    pub const fn longest_outage(&self) -> TickDuration {
        self.longest_outage
    }

    /// How long it took at worst until everything served again: nothing where nothing went missing.
    /// None when the run ended before that.
    pub fn time_to_recovery(&self) -> Option<TickDuration> {
        let is_over = match self.course {
            ServiceCourse::Beginning => self.total.wanted == 0,
            ServiceCourse::Well => self.total.missing == 0,
            ServiceCourse::Outage(_) => false,
        };
        is_over.then_some(self.longest_outage)
    }

    fn index(&self, micros: u64) -> usize {
        let index = usize::try_from(micros / self.span.as_micros()).unwrap_or(usize::MAX);
        index.min(self.spans.len() - 1)
    }

    fn count(&mut self, counts: RunCounts) {
        let before = std::mem::replace(&mut self.counted, counts);
        let restarts = counts.restarts.saturating_sub(before.restarts);
        let writes = counts.figures.writes - before.figures.writes;
        let events = counts.figures.events - before.figures.events;
        let index = self.index(self.at.as_micros());
        let span = &mut self.spans[index];
        span.restarts += restarts;
        span.writes += writes;
        span.events += events;
        let number = self.at.as_micros() / MINUTE_MICROS;
        if number != self.minute.number {
            self.minute_over();
            self.minute.number = number;
        }
        self.minute.writes += writes;
        self.minute.events += events;
    }

    fn minute_over(&mut self) {
        let minute = std::mem::take(&mut self.minute);
        self.writes_per_minute_max = self.writes_per_minute_max.max(minute.writes);
        self.events_per_minute_max = self.events_per_minute_max.max(minute.events);
    }

    /// From the time of the last call until then so much was missing.
    fn follow(&mut self, until: TickDuration, total: AvailabilityTotal) {
        if until == self.at {
            return; // a moment without a length is none
        }
        if total.missing > 0 {
            self.well_since = None;
            let new = Outage { from: self.at, until: None, missing: total.missing };
            match &mut self.course {
                ServiceCourse::Beginning => {}
                ServiceCourse::Well => self.course = ServiceCourse::Outage(new),
                ServiceCourse::Outage(outage) => outage.missing = outage.missing.max(total.missing),
            }
            return;
        }
        let since = *self.well_since.get_or_insert(self.at);
        if TickDuration::from_micros(until.as_micros() - since.as_micros()) < WELL {
            return;
        }
        match self.course {
            // where nothing is wanted nothing serves
            ServiceCourse::Beginning if total.wanted == 0 => self.well_since = None,
            ServiceCourse::Beginning => {
                self.ready_after = Some(since);
                self.course = ServiceCourse::Well;
            }
            ServiceCourse::Well => {}
            ServiceCourse::Outage(outage) => {
                self.keep(Outage { until: Some(since), ..outage }, since);
                self.course = ServiceCourse::Well;
            }
        }
    }

    fn keep(&mut self, outage: Outage, end: TickDuration) {
        let lasted = TickDuration::from_micros(end.as_micros() - outage.from.as_micros());
        self.longest_outage = self.longest_outage.max(lasted);
        if self.outages.len() == OUTAGES_MAX {
            self.outages.pop();
        }
        self.outages.push(outage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> TickDuration {
        TickDuration::from_secs(seconds)
    }

    fn counts(restarts: u64, writes: u64) -> RunCounts {
        RunCounts { restarts, figures: RequestFigures { writes, events: writes / 2, refused: 0 } }
    }

    #[test]
    fn what_is_missing_is_summed_up_and_told_as_outages() {
        let mut timeline = Timeline::new(seconds(240));
        let total = |missing| AvailabilityTotal { wanted: 3, missing };
        timeline.hold(seconds(2), total(3), counts(0, 4));
        timeline.hold(seconds(12), total(0), counts(0, 6));
        timeline.hold(seconds(20), total(1), counts(1, 8));
        timeline.hold(seconds(30), total(2), counts(2, 8));
        timeline.hold(seconds(200), total(0), counts(2, 10));
        timeline.hold(seconds(240), total(1), counts(2, 10));
        timeline.end();
        assert_eq!(timeline.ready_after, Some(seconds(2)));
        assert_eq!(timeline.missing_micros, (2 * 3 + 8 + 20 + 40) * 1_000_000);
        let first = Outage { from: seconds(12), until: Some(seconds(30)), missing: 2 };
        let last = Outage { from: seconds(200), until: None, missing: 1 };
        assert_eq!(timeline.outages, [first, last]);
        assert_eq!((timeline.longest_outage(), timeline.time_to_recovery()), (seconds(40), None));
        assert_eq!(timeline.writes_per_minute_max, 10);
        assert_eq!((timeline.spans.len(), timeline.spans[12].restarts), (240, 1));
        assert_eq!((timeline.spans[25].missing, timeline.spans[30].missing), (2, 0));
    }

    #[test]
    fn where_nothing_is_wanted_or_what_was_missing_is_not_wanted_any_more_nothing_is_left_to_recover()
     {
        let mut timeline = Timeline::new(seconds(60));
        timeline.hold(seconds(30), AvailabilityTotal::default(), counts(0, 0));
        assert_eq!(timeline.time_to_recovery(), Some(TickDuration::ZERO));
        timeline.hold(seconds(40), AvailabilityTotal { wanted: 1, missing: 1 }, counts(0, 0));
        assert_eq!(timeline.time_to_recovery(), None);
        timeline.hold(seconds(60), AvailabilityTotal::default(), counts(0, 0));
        timeline.end();
        assert_eq!(timeline.time_to_recovery(), Some(TickDuration::ZERO));
    }

    /// A container that crashes again and again serves for a moment each time.
    #[test]
    fn what_serves_for_a_moment_neither_begins_to_serve_nor_ends_an_outage() {
        let mut timeline = Timeline::new(seconds(600));
        let total = |missing| AvailabilityTotal { wanted: 1, missing };
        for round in 0..3 {
            timeline.hold(seconds(round * 20 + 9), total(0), counts(0, 0));
            timeline.hold(seconds(round * 20 + 20), total(1), counts(0, 0));
        }
        assert_eq!((timeline.ready_after, timeline.time_to_recovery()), (None, None));
        timeline.hold(seconds(100), total(0), counts(0, 0));
        assert_eq!(timeline.ready_after, Some(seconds(60)), "it is told from its begin");
        for round in 5..8 {
            timeline.hold(seconds(round * 20 + 11), total(1), counts(0, 0));
            timeline.hold(seconds(round * 20 + 20), total(0), counts(0, 0));
        }
        assert_eq!(timeline.time_to_recovery(), None, "it has served for nine seconds only");
        timeline.hold(seconds(161), total(0), counts(0, 0));
        timeline.hold(seconds(600), total(0), counts(0, 0));
        timeline.end();
        let only = Outage { from: seconds(100), until: Some(seconds(151)), missing: 1 };
        assert_eq!(timeline.outages, [only]);
        assert_eq!(timeline.time_to_recovery(), Some(seconds(51)));
    }

    #[test]
    fn a_moment_without_a_length_is_no_outage() {
        let mut timeline = Timeline::new(seconds(60));
        timeline.hold(seconds(11), AvailabilityTotal { wanted: 1, missing: 0 }, counts(0, 0));
        timeline.hold(seconds(11), AvailabilityTotal { wanted: 1, missing: 1 }, counts(0, 0));
        timeline.hold(seconds(60), AvailabilityTotal { wanted: 1, missing: 0 }, counts(0, 0));
        timeline.end();
        assert_eq!(timeline.outages, []);
        assert_eq!(timeline.time_to_recovery(), Some(TickDuration::ZERO));
    }
}
