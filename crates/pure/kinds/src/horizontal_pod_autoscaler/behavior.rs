//! How fast an autoscaler may go in each direction: what holds where it says part of it, and what
//! is wrong with what it says.

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior,
};
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{MISTAKES_MAX, Path, items, quantities};

/// The longest time for which recommendations are remembered.
const STABILIZATION_SECONDS_MAX: i32 = 3_600;
/// The longest time over which a policy counts.
const PERIOD_SECONDS_MAX: i32 = 1_800;
const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
const POLICY_TYPES: [&str; 2] = ["Percent", "Pods"];

/// Both directions have rules as soon as one is named. The window of scaling down is left open: the
/// controller has a setting for it.
pub(super) fn set_defaults(behavior: Option<&mut HorizontalPodAutoscalerBehavior>) {
    let Some(behavior) = behavior else { return };
    let policy = |type_: &str, value| HPAScalingPolicy {
        type_: type_.to_owned(),
        value,
        period_seconds: 15,
    };
    let up = behavior.scale_up.get_or_insert_default();
    up.stabilization_window_seconds.get_or_insert(0);
    fill(up, || vec![policy("Pods", 4), policy("Percent", 100)]);
    let down = behavior.scale_down.get_or_insert_default();
    fill(down, || vec![policy("Percent", 100)]);
}

/// A list that is there and empty stays: validation names it.
fn fill(rules: &mut HPAScalingRules, policies: impl FnOnce() -> Vec<HPAScalingPolicy>) {
    rules.select_policy.get_or_insert_with(|| "Max".to_owned());
    rules.policies.get_or_insert_with(policies);
    if let Some(tolerance) = &mut rules.tolerance {
        quantities::canonicalize(tolerance);
    }
}

pub(super) fn errors(behavior: &HorizontalPodAutoscalerBehavior, field: &Path) -> Vec<FieldError> {
    [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)]
        .into_iter()
        .filter_map(|(name, rules)| Some(rules_errors(rules.as_ref()?, &field.child(name))))
        .flatten()
        .collect()
}

fn rules_errors(rules: &HPAScalingRules, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(seconds) = rules.stabilization_window_seconds {
        let field = field.child("stabilizationWindowSeconds");
        if seconds < 0 {
            let why = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(&field, seconds, why));
        }
        if seconds > STABILIZATION_SECONDS_MAX {
            let why = format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}");
            errors.push(FieldError::invalid(&field, seconds, why));
        }
    }
    if let Some(select) = &rules.select_policy
        && !SELECT_POLICIES.contains(&select.as_str())
    {
        let field = field.child("selectPolicy");
        errors.push(FieldError::not_supported(field, select, &SELECT_POLICIES));
    }
    let policies_field = field.child("policies");
    let policies = items(rules.policies.as_ref());
    if policies.is_empty() {
        errors.push(FieldError::required(&policies_field, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        errors.extend(policy_errors(policy, &policies_field.index(index)));
    }
    if let Some(tolerance) = &rules.tolerance {
        let field = field.child("tolerance");
        errors.extend(quantities::check_non_negative(tolerance, &field).err());
    }
    errors
}

fn policy_errors(policy: &HPAScalingPolicy, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !POLICY_TYPES.contains(&policy.type_.as_str()) {
        let field = field.child("type");
        errors.push(FieldError::not_supported(field, &policy.type_, &POLICY_TYPES));
    }
    if policy.value <= 0 {
        let why = "must be greater than zero";
        errors.push(FieldError::invalid(field.child("value"), policy.value, why));
    }
    let (seconds, field) = (policy.period_seconds, field.child("periodSeconds"));
    if seconds <= 0 {
        errors.push(FieldError::invalid(&field, seconds, "must be greater than zero"));
    }
    if seconds > PERIOD_SECONDS_MAX {
        let why = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
        errors.push(FieldError::invalid(&field, seconds, why));
    }
    errors
}
