//! The counters of the audit log, under upstream's names.

use rekindle_audit::AuditLevel;
use rekindle_metrics::{Counter, MetricFamily, MetricKind, Text};

/// What of the log failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuditFailure {
    /// The queue had no room, or no writer.
    Queue,
    /// An event could not be written.
    Write,
    /// The webhook did not take an event.
    Webhook,
}

impl AuditFailure {
    /// As upstream calls the part.
    fn plugin(self) -> &'static str {
        match self {
            Self::Queue => "buffered",
            Self::Write => "log",
            Self::Webhook => "webhook",
        }
    }
}

/// The counters.
#[derive(Debug)]
pub(super) struct AuditFigures {
    events: Counter,
    failures: MetricFamily<Counter>,
    levels: MetricFamily<Counter>,
}

impl Default for AuditFigures {
    fn default() -> Self {
        Self {
            events: Counter::default(),
            failures: MetricFamily::new(&["plugin"]),
            levels: MetricFamily::new(&["level"]),
        }
    }
}

impl AuditFigures {
    /// A policy has decided about a request.
    pub(super) fn decided(&self, level: AuditLevel) {
        self.levels.of(&[level.name()]).raise();
    }

    /// An event was made.
    pub(super) fn event(&self) {
        self.events.raise();
    }

    /// An event was lost.
    pub(super) fn lost(&self, why: AuditFailure) {
        self.failures.of(&[why.plugin()]).raise();
    }

    /// So many events were lost.
    pub(super) fn lost_many(&self, why: AuditFailure, events: u64) {
        if events > 0 {
            self.failures.of(&[why.plugin()]).add(events);
        }
    }

    /// How many events the webhook has not taken.
    pub(super) fn lost_by_webhook(&self) -> u64 {
        self.failures.of(&[AuditFailure::Webhook.plugin()]).get()
    }

    pub(super) fn write(&self, text: &mut Text) {
        text.single(
            "apiserver_audit_event_total",
            MetricKind::Counter,
            "Counter of audit events generated and sent to the audit backend.",
            self.events.get() as f64,
        );
        self.failures.write(
            text,
            "apiserver_audit_error_total",
            "Counter of audit events that were lost, by the part that lost them.",
        );
        self.levels.write(
            text,
            "apiserver_audit_level_total",
            "Counter of policy levels for audit events (1 per request).",
        );
    }
}
