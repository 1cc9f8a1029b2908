//! What an agent does, in figures for a monitoring system.

use std::sync::atomic::{AtomicBool, Ordering};

use rekindle_metrics::{Counter, Gauge, Histogram, MetricFamily, MetricKind, MetricsSource, Text};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::PodRestart;

/// Upper bounds in seconds: from a pod without grace to one that takes its time.
const RESTART_SECONDS: &[f64] = &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// The figures of an agent since its process began.
#[derive(Debug)]
pub struct AgentFigures {
    restarts: MetricFamily<Counter>,
    seconds: MetricFamily<RestartHistogram>,
    failed_calls: MetricFamily<Counter>,
    under_way: Gauge,
    is_informed: AtomicBool,
}

#[derive(Debug)]
struct RestartHistogram(Histogram);

impl Default for RestartHistogram {
    fn default() -> Self {
        Self(Histogram::new(RESTART_SECONDS))
    }
}

impl AsRef<Histogram> for RestartHistogram {
    fn as_ref(&self) -> &Histogram {
        &self.0
    }
}

impl Default for AgentFigures {
    fn default() -> Self {
        Self {
            restarts: MetricFamily::new(&["rung", "phase"]),
            seconds: MetricFamily::new(&["rung"]),
            failed_calls: MetricFamily::new(&["call"]),
            under_way: Gauge::default(),
            is_informed: AtomicBool::default(),
        }
    }
}

impl AgentFigures {
    /// Whether the agent has seen the pods of its node and the PodRestarts.
    pub fn is_informed(&self) -> bool {
        self.is_informed.load(Ordering::Relaxed)
    }

    pub(crate) fn informed(&self) {
        self.is_informed.store(true, Ordering::Relaxed);
    }

    /// A request is worked on until what is given back is dropped.
    pub(crate) fn under_way(&self) -> impl Drop + use<'_> {
        self.under_way.raise();
        UnderWay(&self.under_way)
    }

    pub(crate) fn call_failed(&self, call: &str) {
        self.failed_calls.of(&[call]).raise();
    }

    /// A final status was written.
    pub(crate) fn ended(&self, restart: &PodRestart) {
        let Some(status) = &restart.status else { return };
        let Some(phase) = status.phase else { return };
        let rung = restart.spec.rung().to_string();
        self.restarts.of(&[&rung, &format!("{phase:?}")]).raise();
        if let (Some(began), Some(ended)) = (status.steps.first(), status.steps.last())
            && status.started_at.is_some()
        {
            let lasted = Tick::from(&ended.at).since(Tick::from(&began.at));
            (*self.seconds.of(&[&rung])).as_ref().observe(lasted);
        }
    }
}

struct UnderWay<'a>(&'a Gauge);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lower();
    }
}

impl MetricsSource for AgentFigures {
    fn write(&self, text: &mut Text) {
        self.restarts.write(
            text,
            "rekindle_agent_restarts_total",
            "PodRestarts that the agent has answered, by rung and how they ended.",
        );
        self.seconds.write(
            text,
            "rekindle_agent_restart_seconds",
            "How long PodRestarts took that were begun, from the first status to the last.",
        );
        self.failed_calls.write(
            text,
            "rekindle_agent_failed_calls_total",
            "Calls of the runtime and of the node that failed, by what they were for.",
        );
        text.single(
            "rekindle_agent_restarts_under_way",
            MetricKind::Gauge,
            "PodRestarts that the agent works on now.",
            self.under_way.get() as f64,
        );
    }
}
