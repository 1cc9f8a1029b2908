//! Delays: between the starts of a crashing container, between pulls of an image, between tries of
//! anything else.
//!
//! The container's delays are the kubelet's (`doBackOff` over client-go's `flowcontrol.Backoff`):
//! 0, 10, 20, 40, 80, 160, 300, 300 … s. A delay is held from the end of the container; the step is
//! taken when the start is decided, and a container whose end came more than 600 s after that
//! decision begins a new series. Waiting does not count as running.

use rekindle_types::{ContainerAttempt, Tick, TickDuration};
use serde::{Deserialize, Serialize};

use crate::key::ActionId;

/// The delay of the second restart, unless the node caps it lower (KEP-5593).
const CRASH_INITIAL: TickDuration = TickDuration::from_secs(10);
/// Hard-coded in the kubelet, whatever the cap is.
const CRASH_RESET_AFTER: TickDuration = TickDuration::from_secs(600);
/// The kubelet's image backoff.
const IMAGE_INITIAL: TickDuration = TickDuration::from_secs(10);
const IMAGE_MAX: TickDuration = TickDuration::from_secs(300);

/// The restarts of one container that crashes again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrashBackoff {
    /// The series in progress; none before the first restart.
    series: Option<CrashSeries>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CrashSeries {
    /// What the next restart waits, microseconds.
    delay: TickDuration,
    /// When the last restart was decided.
    decided_at: Tick,
    /// The number of the start that was decided then.
    decided_for: ContainerAttempt,
}

impl CrashBackoff {
    /// What a container that ended then has to wait before its restart.
    pub(crate) fn delay_after(&self, finished_at: Tick) -> TickDuration {
        match self.current(finished_at) {
            Some(series) => series.delay,
            None => TickDuration::ZERO,
        }
    }

    /// The restart with this number, of a container that ended at `finished_at`, is decided now:
    /// the next one waits longer.
    pub(crate) fn restart_decided(
        &mut self,
        number: ContainerAttempt,
        now: Tick,
        finished_at: Tick,
        max: TickDuration,
    ) {
        let delay = match self.current(finished_at) {
            Some(series) => series.delay.saturating_mul(2).min(max),
            None => CRASH_INITIAL.min(max),
        };
        self.series = Some(CrashSeries { delay, decided_at: now, decided_for: number });
    }

    /// The start with this number follows an end that was no crash: it does not wait, and what a
    /// later crash waits stays as it is.
    pub(crate) fn skip_wait(&mut self, number: ContainerAttempt) {
        if let Some(series) = &mut self.series {
            series.decided_for = number;
        }
    }

    /// The next delay is a step longer.
    pub(crate) fn lengthen(&mut self, max: TickDuration) {
        if let Some(series) = &mut self.series {
            series.delay = series.delay.saturating_mul(2).min(max);
        }
    }

    /// Whether the start with this number was decided: it has waited, and does not wait again
    /// because the agent was killed; or it has nothing to wait for.
    pub(crate) fn has_decided(&self, number: ContainerAttempt) -> bool {
        self.series.is_some_and(|series| series.decided_for == number)
    }

    /// The node's cap may have been lowered since the delay was chosen: an agent that starts again
    /// holds nothing longer.
    pub(crate) fn cap(&mut self, max: TickDuration) {
        if let Some(series) = &mut self.series {
            series.delay = series.delay.min(max);
        }
    }

    /// The clock may have been set back since the last restart was decided.
    pub(crate) fn seen_at(&mut self, now: Tick) {
        if let Some(series) = &mut self.series {
            series.decided_at = series.decided_at.min(now);
        }
    }

    /// A new series begins with the next crash.
    pub(crate) fn clear(&mut self) {
        self.series = None;
    }

    fn current(&self, finished_at: Tick) -> Option<CrashSeries> {
        self.series.filter(|series| finished_at.since(series.decided_at) <= CRASH_RESET_AFTER)
    }
}

/// The failed pulls of one image: 10 s doubling to 300 s, a new series after twice the cap without
/// a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageBackoff {
    last: Option<(TickDuration, Tick)>,
}

impl ImageBackoff {
    /// A pull failed now; when the next one may be tried.
    pub(crate) fn failed(&mut self, now: Tick) -> Tick {
        let delay = match self.last {
            Some((delay, _)) if !self.is_over(now) => delay.saturating_mul(2).min(IMAGE_MAX),
            Some(_) | None => IMAGE_INITIAL,
        };
        self.last = Some((delay, now));
        now + delay
    }

    /// A failure now would begin a new series.
    pub(crate) fn is_over(&self, now: Tick) -> bool {
        self.last.is_none_or(|(_, at)| now.since(at) > IMAGE_MAX.saturating_mul(2))
    }
}

/// How long to wait after one more failure of something that is simply tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryDelays {
    first: TickDuration,
    max: TickDuration,
}

impl RetryDelays {
    /// Sandboxes, containers that could not be created, teardown. The kubelet tries at its next pod
    /// sync, 10 s later; the first tries of ours come sooner, as nothing is won by waiting.
    pub(crate) const USUAL: Self =
        Self { first: TickDuration::from_secs(1), max: TickDuration::from_secs(10) };
    /// Volumes: the kubelet's own (`goroutinemap/exponentialbackoff`), 500 ms doubling to 2 min 2
    /// s.
    pub(crate) const VOLUMES: Self =
        Self { first: TickDuration::from_millis(500), max: TickDuration::from_secs(122) };

    /// The delay after the failure with this number, from 0.
    pub(crate) fn after(self, failures: u32) -> TickDuration {
        self.first.saturating_mul(1 << failures.min(16)).min(self.max)
    }
}

/// Something to be done by the driver until it succeeds: due → in flight → (done, dropped by the
/// owner) or held → due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetriedTask {
    progress: TaskProgress,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskProgress {
    Due,
    InFlight(ActionId),
    Held(Tick),
}

impl RetriedTask {
    pub(crate) const fn due() -> Self {
        Self { progress: TaskProgress::Due, failures: 0 }
    }

    /// To be begun now.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        match self.progress {
            TaskProgress::Due => true,
            TaskProgress::InFlight(_) => false,
            TaskProgress::Held(until) => until <= now,
        }
    }

    pub(crate) fn begin(&mut self, id: ActionId) {
        self.progress = TaskProgress::InFlight(id);
    }

    /// Whether this is the action that carries it out.
    pub(crate) fn is(&self, id: ActionId) -> bool {
        self.progress == TaskProgress::InFlight(id)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.action().is_some()
    }

    /// The action that carries it out now.
    pub(crate) fn action(&self) -> Option<ActionId> {
        match self.progress {
            TaskProgress::InFlight(id) => Some(id),
            TaskProgress::Due | TaskProgress::Held(_) => None,
        }
    }

    pub(crate) fn failed(&mut self, now: Tick, delays: RetryDelays) {
        self.progress = TaskProgress::Held(now + delays.after(self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// When it is due again.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match self.progress {
            TaskProgress::Due | TaskProgress::InFlight(_) => None,
            TaskProgress::Held(until) => Some(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: TickDuration = TickDuration::from_secs(300);

    /// Crashes `count` times right after each start and tells what each restart waited.
    fn waits(max: TickDuration, count: usize) -> Vec<u64> {
        let mut backoff = CrashBackoff::default();
        let mut now = Tick::from_secs(1_000);
        let mut waits = Vec::new();
        for _ in 0..count {
            let delay = backoff.delay_after(now);
            waits.push(delay.as_secs());
            let finished_at = now;
            now = now + delay;
            backoff.restart_decided(ContainerAttempt(1), now, finished_at, max);
            now = now + TickDuration::from_millis(5);
        }
        waits
    }

    #[test]
    fn restarts_wait_0_10_20_40_80_160_300_as_the_kubelet_says() {
        assert_eq!(waits(MAX, 9), [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_cap_below_ten_seconds_is_also_the_initial_delay_kep_5593() {
        assert_eq!(waits(TickDuration::from_secs(1), 4), [0, 1, 1, 1]);
        assert_eq!(waits(TickDuration::from_secs(60), 6), [0, 10, 20, 40, 60, 60]);
    }

    #[test]
    fn running_more_than_600_s_starts_a_new_series_and_exactly_600_s_does_not() {
        let start = Tick::from_secs(0);
        let mut backoff = CrashBackoff::default();
        backoff.restart_decided(ContainerAttempt(1), start, start, MAX);
        backoff.restart_decided(ContainerAttempt(1), start, start, MAX);
        assert_eq!(backoff.delay_after(start + TickDuration::from_secs(600)).as_secs(), 20);
        let late = start + TickDuration::from_micros(600_000_001);
        assert_eq!(backoff.delay_after(late).as_secs(), 0);
        backoff.restart_decided(ContainerAttempt(1), late, late, MAX);
        assert_eq!(backoff.delay_after(late).as_secs(), 10);
    }

    #[test]
    fn waiting_does_not_count_as_running() {
        // ended at once after the start, then held for 300 s three times: still one series
        let mut backoff = CrashBackoff::default();
        let mut now = Tick::from_secs(0);
        for _ in 0..10 {
            let finished_at = now;
            now = now + backoff.delay_after(finished_at);
            backoff.restart_decided(ContainerAttempt(1), now, finished_at, MAX);
        }
        assert_eq!(backoff.delay_after(now).as_secs(), 300);
    }

    #[test]
    fn image_pulls_wait_10_s_doubling_to_300_s() {
        let mut backoff = ImageBackoff::default();
        let mut now = Tick::from_secs(0);
        let mut waits = Vec::new();
        for _ in 0..7 {
            let next = backoff.failed(now);
            waits.push(next.since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        now = now + TickDuration::from_secs(601);
        assert_eq!(backoff.failed(now).since(now).as_secs(), 10);
    }
}
