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

use k8s_openapi::api::core::v1::Probe;
use rekindle_types::{Tick, TickDuration};

use crate::action::ProbeKind;
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

/// One probe of a running start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prober {
    /// The tick that is waited for, or that the execution under way belongs to.
    tick: Tick,
    in_flight: Option<ActionId>,
    /// The newest sign and how often in a row it was given.
    run: Option<(ProbeSign, u32)>,
}

impl Prober {
    /// Its first tick is then.
    pub(crate) fn starting_at(tick: Tick) -> Self {
        Self { tick, in_flight: None, run: None }
    }

    /// Its ticks began long ago, in the time of another agent: the next one from now on. So that
    /// the probes of a node keep the distances that they had.
    pub(crate) fn resuming(first: Tick, period: TickDuration, now: Tick) -> Self {
        let passed = now.since(first).as_micros().div_ceil(period.as_micros().max(1));
        Self::starting_at(first + period.saturating_mul(passed))
    }

    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.in_flight.is_none() && self.tick <= now
    }

    pub(crate) fn begin(&mut self, id: ActionId) {
        self.in_flight = Some(id);
    }

    /// Whether this is the execution under way.
    pub(crate) fn is(&self, id: ActionId) -> bool {
        self.in_flight == Some(id)
    }

    /// When it is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match self.in_flight {
            None => Some(self.tick),
            Some(_) => None,
        }
    }

    /// The execution under way has come to its end: the next tick.
    pub(crate) fn ended(&mut self, now: Tick, rules: &ProbeRules) {
        let period = rules.period.as_micros().max(1);
        let passed = (now.since(self.tick).as_micros() / period).max(1);
        self.tick = self.tick + TickDuration::from_micros(period).saturating_mul(passed);
        self.in_flight = None;
    }

    /// Counts a sign; it is given back when there were enough of its kind in a row.
    pub(crate) fn count(&mut self, sign: ProbeSign, rules: &ProbeRules) -> Option<ProbeSign> {
        let run = match self.run {
            Some((last, run)) if last == sign => run.saturating_add(1),
            Some(_) | None => 1,
        };
        self.run = Some((sign, run));
        let threshold = match sign {
            ProbeSign::Good => rules.success_threshold,
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
            prober.begin(ActionId(1));
            prober.ended(Tick::ZERO + TickDuration::from_millis(took_millis), &rules);
            assert_eq!(prober.deadline(), Some(Tick::from_secs(next_secs)), "{took_millis}");
        }
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
