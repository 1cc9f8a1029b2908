//! What the gate counts, under upstream's names.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use rekindle_flow_control::{LevelFigures, RequestClass};
use rekindle_metrics::{Counter, Gauge, Histogram, MetricFamily, MetricKind, Text};
use rekindle_types::TickDuration;

/// Upper bounds in seconds, as upstream.
const WAIT_SECONDS: &[f64] =
    &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const OF_CLASS: &[&str] = &["priority_level", "flow_schema"];

/// A histogram with the bounds of waits.
struct WaitTime(Histogram);

impl Default for WaitTime {
    fn default() -> Self {
        Self(Histogram::new(WAIT_SECONDS))
    }
}

impl AsRef<Histogram> for WaitTime {
    fn as_ref(&self) -> &Histogram {
        &self.0
    }
}

/// The families.
pub(super) struct FlowFigures {
    families: Arc<FlowFamilies>,
    /// By schema, so that a request looks up one name.
    classes: RwLock<BTreeMap<String, Arc<ClassFigures>>>,
}

struct FlowFamilies {
    dispatched: MetricFamily<Counter>,
    rejected: MetricFamily<Counter>,
    waiting: MetricFamily<Gauge>,
    running: MetricFamily<Gauge>,
    seats: MetricFamily<Gauge>,
    waits: MetricFamily<WaitTime>,
}

/// Those of one schema and level.
pub(super) struct ClassFigures {
    schema: String,
    level: String,
    families: Arc<FlowFamilies>,
    dispatched: Arc<Counter>,
    waiting: Arc<Gauge>,
    running: Arc<Gauge>,
    seats: Arc<Gauge>,
    waits: Arc<WaitTime>,
}

impl Default for FlowFigures {
    fn default() -> Self {
        let families = FlowFamilies {
            dispatched: MetricFamily::new(OF_CLASS),
            rejected: MetricFamily::new(&["priority_level", "flow_schema", "reason"]),
            waiting: MetricFamily::new(OF_CLASS),
            running: MetricFamily::new(OF_CLASS),
            seats: MetricFamily::new(OF_CLASS),
            waits: MetricFamily::new(&["priority_level", "flow_schema", "execute"]),
        };
        Self { families: Arc::new(families), classes: RwLock::default() }
    }
}

impl FlowFigures {
    /// Those of a class.
    pub(super) fn of(&self, class: &RequestClass) -> Arc<ClassFigures> {
        let (schema, level) = (class.schema(), class.level());
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = classes.get(schema).filter(|known| known.level == level) {
            return Arc::clone(known);
        }
        drop(classes);
        let made = Arc::new(ClassFigures::new(&self.families, schema, level));
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        classes.insert(schema.to_owned(), Arc::clone(&made));
        made
    }

    /// A request was refused at once.
    pub(super) fn refused(&self, class: &RequestClass, reason: &str) {
        self.families.rejected.of(&[class.level(), class.schema(), reason]).raise();
    }

    /// All of them as text, with those of the levels.
    pub(super) fn write(&self, text: &mut Text, levels: &[LevelFigures]) {
        let FlowFamilies { dispatched, rejected, waiting, running, seats, waits } = &*self.families;
        dispatched.write(
            text,
            "apiserver_flowcontrol_dispatched_requests_total",
            "Number of requests executed by API Priority and Fairness subsystem.",
        );
        rejected.write(
            text,
            "apiserver_flowcontrol_rejected_requests_total",
            "Number of requests rejected by API Priority and Fairness subsystem.",
        );
        waiting.write(
            text,
            "apiserver_flowcontrol_current_inqueue_requests",
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem.",
        );
        running.write(
            text,
            "apiserver_flowcontrol_current_executing_requests",
            "Number of requests in their execution stage in the API Priority and Fairness subsystem.",
        );
        seats.write(
            text,
            "apiserver_flowcontrol_current_executing_seats",
            "Number of seats held by executing requests in the API Priority and Fairness subsystem.",
        );
        waits.write(
            text,
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "Length of time a request spent waiting in its queue.",
        );
        for (name, help, seats) in LEVEL_FAMILIES {
            text.family(name, MetricKind::Gauge, help);
            for level in levels {
                text.sample(&[("priority_level", &level.name)], f64::from(seats(level)));
            }
        }
    }
}

/// The name, the meaning, and the figure of a level.
type LevelFamily = (&'static str, &'static str, fn(&LevelFigures) -> u32);

const LEVEL_FAMILIES: [LevelFamily; 3] = [
    (
        "apiserver_flowcontrol_nominal_limit_seats",
        "Nominal number of execution seats configured for each priority level.",
        |level| level.nominal_seats,
    ),
    (
        "apiserver_flowcontrol_lower_limit_seats",
        "Configured lower bound on number of execution seats available to each priority level.",
        |level| level.lower_seats,
    ),
    (
        "apiserver_flowcontrol_upper_limit_seats",
        "Configured upper bound on number of execution seats available to each priority level.",
        |level| level.upper_seats,
    ),
];

impl ClassFigures {
    fn new(families: &Arc<FlowFamilies>, schema: &str, level: &str) -> Self {
        let values = [level, schema];
        Self {
            schema: schema.to_owned(),
            level: level.to_owned(),
            dispatched: families.dispatched.of(&values),
            waiting: families.waiting.of(&values),
            running: families.running.of(&values),
            seats: families.seats.of(&values),
            waits: families.waits.of(&[level, schema, "true"]),
            families: Arc::clone(families),
        }
    }

    pub(super) fn begin_waiting(&self) {
        self.waiting.raise();
    }

    pub(super) fn end_waiting(&self) {
        self.waiting.lower();
    }

    pub(super) fn begin_running(&self, seats: u32, waited: TickDuration) {
        self.dispatched.raise();
        self.running.raise();
        (0..seats).for_each(|_| self.seats.raise());
        self.waits.0.observe(waited);
    }

    pub(super) fn end_running(&self, seats: u32) {
        self.running.lower();
        (0..seats).for_each(|_| self.seats.lower());
    }

    /// A request was refused after it had waited.
    pub(super) fn refused_after(&self, reason: &str, waited: TickDuration) {
        let Self { schema, level, families, .. } = self;
        families.rejected.of(&[level, schema, reason]).raise();
        families.waits.of(&[level, schema, "false"]).0.observe(waited);
    }
}
