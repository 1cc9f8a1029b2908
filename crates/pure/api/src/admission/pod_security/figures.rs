//! The counters of Pod Security admission, under upstream's names.

use rekindle_metrics::{Counter, MetricFamily, Text};

use super::policy::{LevelAtVersion, PolicyMode, PolicyVersion};
use crate::discovery;

/// The request that something was decided about.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReviewedRequest<'a> {
    /// `create` or `update`.
    pub(super) operation: &'static str,
    /// `pod` or `controller`.
    pub(super) resource: &'static str,
    /// `ephemeralcontainers`; empty for the object itself.
    pub(super) subresource: &'a str,
}

/// The counters.
#[derive(Debug)]
pub(super) struct PodSecurityFigures {
    evaluations: MetricFamily<Counter>,
    exemptions: MetricFamily<Counter>,
    errors: MetricFamily<Counter>,
}

impl Default for PodSecurityFigures {
    fn default() -> Self {
        Self {
            evaluations: MetricFamily::new(&[
                "decision",
                "policy_level",
                "policy_version",
                "mode",
                "request_operation",
                "resource",
                "subresource",
            ]),
            exemptions: MetricFamily::new(&["request_operation", "resource", "subresource"]),
            errors: MetricFamily::new(&["fatal", "request_operation", "resource", "subresource"]),
        }
    }
}

impl PodSecurityFigures {
    /// A pod or template was held against a policy.
    pub(super) fn evaluated(
        &self,
        request: ReviewedRequest<'_>,
        mode: PolicyMode,
        policy: LevelAtVersion,
        is_allowed: bool,
    ) {
        let decision = if is_allowed { "allow" } else { "deny" };
        // versions come from labels: those that are not there yet are one
        let version = match policy.version {
            PolicyVersion::Minor(_) | PolicyVersion::Latest if policy.is_privileged() => {
                PolicyVersion::Latest.to_string()
            }
            PolicyVersion::Minor(minor) if minor > discovery::MINOR => "future".to_owned(),
            PolicyVersion::Minor(_) | PolicyVersion::Latest => policy.version.to_string(),
        };
        let ReviewedRequest { operation, resource, subresource } = request;
        let (level, mode) = (policy.level.name(), mode.name());
        self.evaluations
            .of(&[decision, level, &version, mode, operation, resource, subresource])
            .raise();
    }

    /// A request was exempt.
    pub(super) fn exempted(&self, request: ReviewedRequest<'_>) {
        let ReviewedRequest { operation, resource, subresource } = request;
        self.exemptions.of(&[operation, resource, subresource]).raise();
    }

    /// The labels of a namespace could not be read; the strictest level was held against.
    pub(super) fn misread(&self, request: ReviewedRequest<'_>) {
        let ReviewedRequest { operation, resource, subresource } = request;
        self.errors.of(&["false", operation, resource, subresource]).raise();
    }

    /// All of them as text.
    pub(super) fn write(&self, text: &mut Text) {
        self.evaluations.write(
            text,
            "pod_security_evaluations_total",
            "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
        );
        self.exemptions.write(
            text,
            "pod_security_exemptions_total",
            "Number of exempt requests, not counting ignored or out of scope requests.",
        );
        self.errors.write(
            text,
            "pod_security_errors_total",
            "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile \
             being used for evaluation.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::PolicyLevel;
    use super::*;

    /// Upstream: `RecordEvaluation`. Labels come from users and must not make an unbounded number
    /// of series.
    #[test]
    fn what_audit_finds_is_counted_by_versions_that_there_are() {
        let figures = PodSecurityFigures::default();
        let request = ReviewedRequest { operation: "create", resource: "pod", subresource: "" };
        for (level, version) in [
            (PolicyLevel::Privileged, PolicyVersion::Minor(3)),
            (PolicyLevel::Restricted, PolicyVersion::Minor(25)),
            (PolicyLevel::Restricted, PolicyVersion::Latest),
            (PolicyLevel::Restricted, PolicyVersion::Minor(discovery::MINOR + 1)),
            (PolicyLevel::Restricted, PolicyVersion::Minor(u64::MAX)),
        ] {
            let policy = LevelAtVersion { level, version };
            figures.evaluated(request, PolicyMode::Audit, policy, false);
        }
        figures.exempted(request);
        figures.misread(request);
        let mut text = Text::default();
        figures.write(&mut text);
        let text = text.into_string();
        let series = |level: &str, version: &str| {
            format!(
                "pod_security_evaluations_total{{decision=\"deny\",policy_level=\"{level}\",policy_version=\"{version}\",\
                 mode=\"audit\",request_operation=\"create\",resource=\"pod\",subresource=\"\"}}"
            )
        };
        for (series, count) in [
            (series("privileged", "latest"), 1),
            (series("restricted", "v1.25"), 1),
            (series("restricted", "latest"), 1),
            (series("restricted", "future"), 2),
            ("pod_security_exemptions_total{request_operation=\"create\",resource=\"pod\",subresource=\"\"}".to_owned(), 1),
            ("pod_security_errors_total{fatal=\"false\",request_operation=\"create\",resource=\"pod\",subresource=\"\"}".to_owned(), 1),
        ] {
            assert!(text.contains(&format!("{series} {count}\n")), "{series} {count}: {text}");
        }
    }
}
