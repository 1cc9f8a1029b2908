//! What a failed pod means to its Job (`podFailurePolicy`).
//!
//! Source: KEP-3329; API reference, `PodFailurePolicyRule`: the first rule that matches decides; a
//! failure that none matches counts.

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::PodCondition;
use rekindle_types::held::{HeldContainerStatus, HeldPod};

use crate::pods;

/// When a pod of a Job counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureRule {
    /// When its phase is Failed, and when it is being deleted before it succeeded.
    FailedOrTerminating,
    /// When its phase is Failed: the one in its place waits so long.
    FailedOnly,
}

/// What a failure does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FailureEffect {
    /// It counts against the limits.
    Counts,
    /// It does not count, and the pod is replaced.
    IsIgnored,
    /// Its index is given up.
    FailsIndex,
    /// The Job is given up, with this message.
    FailsJob(String),
}

impl FailureRule {
    /// As the Job says; a podFailurePolicy needs to see how pods end.
    pub(super) fn from_spec(spec: &JobSpec) -> Self {
        let waits = spec.pod_replacement_policy.as_deref() == Some("Failed");
        if waits || spec.pod_failure_policy.is_some() {
            FailureRule::FailedOnly
        } else {
            FailureRule::FailedOrTerminating
        }
    }

    /// True for a pod that failed.
    pub(super) fn is(self, pod: &HeldPod) -> bool {
        match self {
            FailureRule::FailedOnly => pods::phase(pod) == "Failed",
            FailureRule::FailedOrTerminating => {
                pods::phase(pod) == "Failed"
                    || (pods::is_terminating(pod) && pods::phase(pod) != "Succeeded")
            }
        }
    }
}

/// What the failure of this pod does.
pub(super) fn verdict(spec: &JobSpec, pod: &HeldPod) -> FailureEffect {
    let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
    for (index, rule) in rules.enumerate() {
        let Some(what) = matched(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => FailureEffect::IsIgnored,
            "FailIndex" => FailureEffect::FailsIndex,
            "FailJob" => {
                FailureEffect::FailsJob(format!("{what} matching FailJob rule at index {index}"))
            }
            _ => FailureEffect::Counts,
        };
    }
    FailureEffect::Counts
}

/// What of the pod a rule matches, for people.
fn matched(rule: &PodFailurePolicyRule, pod: &HeldPod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if let Some(requirement) = &rule.on_exit_codes {
        let (container, code) = exit_code(requirement, pod)?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let condition = condition(rule, pod)?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

/// The first container whose exit code is as required.
fn exit_code<'a>(
    requirement: &PodFailurePolicyOnExitCodesRequirement,
    pod: &'a HeldPod,
) -> Option<(&'a str, i32)> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let of = |container: &'a HeldContainerStatus| {
        let code = container.state.terminated()?.exit_code;
        let is_named = requirement.container_name.as_ref().is_none_or(|n| *n == container.name);
        let is_listed = requirement.values.contains(&code);
        let matches = match requirement.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        (code != 0 && is_named && matches).then_some((container.name.as_str(), code))
    };
    all.filter_map(of).next()
}

fn condition<'a>(rule: &PodFailurePolicyRule, pod: &'a HeldPod) -> Option<&'a PodCondition> {
    let patterns = rule.on_pod_conditions.as_ref()?;
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| {
        patterns.iter().any(|pattern| {
            pattern.type_ == condition.type_
                && pattern.status.as_deref().unwrap_or("True") == condition.status
        })
    })
}
