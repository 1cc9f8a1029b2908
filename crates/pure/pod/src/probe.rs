//! One probe of one running container: when it is due, and what its verdicts add up to. The rules
//! are the kubelet's (`pkg/kubelet/prober/worker.go`).
//!
//! ```text
//!             due                 verdict
//!  Waiting ───────► InFlight ──────────────► Waiting (the next tick of its period)
//! ```
//! Ticks stand at a fixed distance from the first one, however long an execution takes. One that
//! was missed is made up for at once, further ones are dropped, as with a ticker of Go.
//! So at most one execution of a probe is under way.
//!
//! A server needs a moment to listen after its start. Until a probe has passed, it looks again
//! before its next tick when nothing listened: early looks (docs/adr/0097). What they find counts
//! when it is good only.

use k8s_openapi::api::core::v1::Probe;
use rekindle_types::{Tick, TickDuration};

use crate::action::ProbeKind;
use crate::event::ProbeVerdict;
use crate::key::ActionId;

/// How a container is probed, with the defaults that the API server would have written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) startup: Option<ProbeRules>,
    pub(crate) readiness: Option<ProbeRules>,
    pub(crate) liveness: Option<ProbeRules>,
}

/// The numbers of one probe. What it does is for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeRules {
    pub(crate) initial_delay: TickDuration,
    pub(crate) timeout: TickDuration,
    pub(crate) period: TickDuration,
    pub(crate) success_threshold: u32,
    pub(crate) failure_threshold: u32,
    /// `terminationGracePeriodSeconds` of the probe itself, for containers that it ends.
    pub(crate) grace: Option<TickDuration>,
}

impl Probes {
    pub(crate) fn from_container(container: &k8s_openapi::api::core::v1::Container) -> Self {
        let rules = |probe: &Option<Probe>| probe.as_ref().map(ProbeRules::from_probe);
        Self {
            startup: rules(&container.startup_probe),
            readiness: rules(&container.readiness_probe),
            liveness: rules(&container.liveness_probe),
        }
    }

    pub(crate) fn get(&self, kind: ProbeKind) -> Option<&ProbeRules> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
        }
    }
}

impl ProbeRules {
    fn from_probe(probe: &Probe) -> Self {
        let seconds = |given: Option<i32>, default: i64, least: i64| {
            TickDuration::of_field(given.map_or(default, i64::from).max(least))
        };
        let count = |given: Option<i32>, default: u32| {
            given.and_then(|n| u32::try_from(n).ok()).unwrap_or(default).max(1)
        };
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0, 0),
            timeout: seconds(probe.timeout_seconds, 1, 1),
            period: seconds(probe.period_seconds, 10, 1),
            success_threshold: count(probe.success_threshold, 1),
            failure_threshold: count(probe.failure_threshold, 3),
            grace: probe.termination_grace_period_seconds.map(TickDuration::of_field),
        }
    }
}

/// What one execution said, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeSign {
    Good,
    Bad,
}

impl ProbeSign {
    pub(crate) const fn of_verdict(verdict: ProbeVerdict) -> Self {
        match verdict {
            ProbeVerdict::Success | ProbeVerdict::Warning => Self::Good,
            ProbeVerdict::Failure | ProbeVerdict::NotListening => Self::Bad,
        }
    }
}

/// What an execution is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeOccasion {
    /// A tick of its period.
    Tick,
    /// Nothing listened at the last look.
    EarlyLook,
}

/// One probe of a running start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prober {
    /// The tick that is waited for, or that the execution under way belongs to.
    tick: Tick,
    /// A look before the next tick.
    early: Option<Tick>,
    /// Its first tick, until it has passed: so long it looks early.
    new_since: Option<Tick>,
    in_flight: Option<(ActionId, ProbeOccasion)>,
    /// The newest sign and how often in a row it was given.
    run: Option<(ProbeSign, u32)>,
}

/// Between two early looks, at least. Later ones are further apart: by a quarter of the time since
/// the first tick.
const EARLY_LOOK_GAP_MIN: TickDuration = TickDuration::from_millis(10);
const EARLY_LOOK_SHARE: u64 = 4;

impl Prober {
    /// Its first tick is then.
    pub(crate) fn starting_at(tick: Tick) -> Self {
        Self { tick, early: None, new_since: Some(tick), in_flight: None, run: None }
    }

    /// Its ticks began long ago, in the time of another agent: the next one from now on. So that
    /// the probes of a node keep the distances that they had.
    pub(crate) fn resuming(first: Tick, period: TickDuration, now: Tick) -> Self {
        let passed = now.since(first).as_micros().div_ceil(period.as_micros().max(1));
        let tick = first + period.saturating_mul(passed);
        Self { new_since: None, ..Self::starting_at(tick) }
    }

    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.deadline().is_some_and(|due| due <= now)
    }

    pub(crate) fn begin(&mut self, id: ActionId, now: Tick) {
        let occasion = match self.tick <= now {
            true => ProbeOccasion::Tick,
            false => ProbeOccasion::EarlyLook,
        };
        self.early = None;
        self.in_flight = Some((id, occasion));
    }

    /// When it is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match self.in_flight {
            None => Some(self.early.map_or(self.tick, |early| early.min(self.tick))),
            Some(_) => None,
        }
    }

    /// This execution has come to its end: the next tick. Nothing if it is not the one under way.
    pub(crate) fn end(
        &mut self,
        id: ActionId,
        now: Tick,
        rules: &ProbeRules,
    ) -> Option<ProbeOccasion> {
        let (_, occasion) = self.in_flight.take_if(|(under_way, _)| *under_way == id)?;
        match occasion {
            ProbeOccasion::Tick => {
                let period = rules.period.as_micros().max(1);
                let passed = (now.since(self.tick).as_micros() / period).max(1);
                self.tick = self.tick + TickDuration::from_micros(period).saturating_mul(passed);
            }
            ProbeOccasion::EarlyLook => {}
        }
        Some(occasion)
    }

    /// Nothing listens: it looks again before its next tick, unless it has passed before.
    pub(crate) fn look_early(&mut self, now: Tick) {
        let Some(since) = self.new_since else { return };
        let gap = TickDuration::from_micros(now.since(since).as_micros() / EARLY_LOOK_SHARE);
        self.early = Some(now + gap.max(EARLY_LOOK_GAP_MIN)).filter(|early| *early < self.tick);
    }

    /// Counts a sign; it is given back when there were enough of its kind in a row.
    pub(crate) fn count(&mut self, sign: ProbeSign, rules: &ProbeRules) -> Option<ProbeSign> {
        let run = match self.run {
            Some((last, run)) if last == sign => run.saturating_add(1),
            Some(_) | None => 1,
        };
        self.run = Some((sign, run));
        let threshold = match sign {
            ProbeSign::Good => {
                self.new_since = None;
                rules.success_threshold
            }
            ProbeSign::Bad => rules.failure_threshold,
        };
        Some(sign).filter(|_| run >= threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(period: u64, success_threshold: u32, failure_threshold: u32) -> ProbeRules {
        ProbeRules {
            initial_delay: TickDuration::ZERO,
            timeout: TickDuration::from_secs(1),
            period: TickDuration::from_secs(period),
            success_threshold,
            failure_threshold,
            grace: None,
        }
    }

    #[test]
    fn absent_fields_have_the_defaults_of_the_api_reference() {
        let expected = ProbeRules { period: TickDuration::from_secs(10), ..rules(10, 1, 3) };
        assert_eq!(ProbeRules::from_probe(&Probe::default()), expected);
    }

    #[test]
    fn a_sign_counts_when_it_was_given_often_enough_in_a_row() {
        use ProbeSign::{Bad, Good};
        let rules = rules(1, 2, 3);
        let mut prober = Prober::starting_at(Tick::ZERO);
        let seen: Vec<_> = [Good, Bad, Good, Good, Bad, Bad, Good, Bad, Bad, Bad, Bad]
            .map(|sign| prober.count(sign, &rules))
            .to_vec();
        let expected =
            [None, None, None, Some(Good), None, None, None, None, None, Some(Bad), Some(Bad)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn ticks_keep_their_distance_and_a_missed_one_is_made_up_for_once() {
        let rules = rules(10, 1, 3);
        for (took_millis, next_secs) in [(5, 10), (9_999, 10), (10_001, 10), (35_000, 30)] {
            let mut prober = Prober::starting_at(Tick::ZERO);
            prober.begin(ActionId(1), Tick::ZERO);
            let end = Tick::ZERO + TickDuration::from_millis(took_millis);
            assert_eq!(prober.end(ActionId(2), end, &rules), None, "another's");
            assert_eq!(prober.end(ActionId(1), end, &rules), Some(ProbeOccasion::Tick));
            assert_eq!(prober.deadline(), Some(Tick::from_secs(next_secs)), "{took_millis}");
        }
    }

    /// When it looks, in milliseconds, while nothing listens.
    fn looks(mut prober: Prober, rules: &ProbeRules, until_secs: u64) -> Vec<u64> {
        let mut looks = Vec::new();
        while let Some(now) = prober.deadline().filter(|at| *at <= Tick::from_secs(until_secs)) {
            looks.push(now.as_micros() / 1000);
            prober.begin(ActionId(1), now);
            prober.end(ActionId(1), now, rules);
            prober.look_early(now);
        }
        looks
    }

    #[test]
    fn while_nothing_listens_it_looks_early_and_its_ticks_stay() {
        let prober = Prober::starting_at(Tick::ZERO);
        let looks_of = |period, until| looks(prober.clone(), &rules(period, 1, 3), until);
        let within_a_second = [
            0, 10, 20, 30, 40, 50, 62, 78, 97, 122, 152, 190, 238, 298, 372, 465, 582, 727, 909,
            1000,
        ];
        assert_eq!(looks_of(1, 1), within_a_second);
        // no tick is moved, and none is left out
        for period in [1, 2, 10] {
            let looks = looks_of(period, 60);
            assert!((0..=60 / period).all(|tick| looks.contains(&(tick * period * 1000))));
        }
        // far from the start the ticks are enough
        assert_eq!(looks_of(1, 60).last_chunk(), Some(&[57_000, 58_000, 59_000, 60_000]));
        assert_eq!(looks_of(10, 3600).len(), 361 + 33, "early looks are few");
    }

    #[test]
    fn one_that_has_passed_and_one_of_an_earlier_agent_keep_to_their_ticks() {
        let rules = rules(1, 1, 3);
        let mut passed = Prober::starting_at(Tick::ZERO);
        passed.count(ProbeSign::Good, &rules);
        let resumed = Prober::resuming(Tick::ZERO, rules.period, Tick::ZERO);
        for prober in [passed, resumed] {
            assert_eq!(looks(prober, &rules, 3), [0, 1000, 2000, 3000]);
        }
    }

    #[test]
    fn an_early_look_that_takes_past_a_tick_leaves_the_tick() {
        let rules = rules(1, 1, 3);
        let mut prober = Prober::starting_at(Tick::ZERO);
        prober.begin(ActionId(1), Tick::ZERO);
        prober.end(ActionId(1), Tick::ZERO, &rules);
        prober.look_early(Tick::ZERO);
        let look = prober.deadline().unwrap();
        prober.begin(ActionId(2), look);
        let late = Tick::from_secs(1) + TickDuration::from_millis(5);
        assert_eq!(prober.end(ActionId(2), late, &rules), Some(ProbeOccasion::EarlyLook));
        assert_eq!(prober.deadline(), Some(Tick::from_secs(1)));
    }

    #[test]
    fn after_a_restart_of_the_agent_the_ticks_stay_where_they_were() {
        let period = TickDuration::from_secs(10);
        for (now, next) in [(0, 3), (3, 3), (4, 13), (13, 13), (99, 103)] {
            let prober = Prober::resuming(Tick::from_secs(3), period, Tick::from_secs(now));
            assert_eq!(prober.deadline(), Some(Tick::from_secs(next)), "{now}");
        }
    }
}
