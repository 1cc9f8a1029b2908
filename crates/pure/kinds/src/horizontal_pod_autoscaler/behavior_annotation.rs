//! The annotation in which autoscaling/v1 keeps the behavior of an autoscaler.
//!
//! Upstream writes its internal type there, which has no names for JSON: each key begins with a
//! capital, and a field without a value is null. Source: upstream's
//! `pkg/apis/autoscaling/v1/conversion.go` and `pkg/apis/autoscaling/types.go`.

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AnnotatedBehavior<'b> {
    scale_up: Option<AnnotatedRules<'b>>,
    scale_down: Option<AnnotatedRules<'b>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AnnotatedRules<'b> {
    stabilization_window_seconds: Option<i32>,
    select_policy: Option<&'b str>,
    policies: Option<Vec<AnnotatedPolicy<'b>>>,
    tolerance: Option<&'b QuantityText>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AnnotatedPolicy<'b> {
    #[serde(rename = "Type")]
    type_: &'b str,
    value: i32,
    period_seconds: i32,
}

impl<'b> AnnotatedRules<'b> {
    fn new(rules: &'b HPAScalingRules) -> Self {
        let policies = rules.policies.as_ref();
        Self {
            stabilization_window_seconds: rules.stabilization_window_seconds,
            select_policy: rules.select_policy.as_deref(),
            policies: policies.map(|all| all.iter().map(AnnotatedPolicy::new).collect()),
            tolerance: rules.tolerance.as_ref(),
        }
    }
}

impl<'b> AnnotatedPolicy<'b> {
    fn new(policy: &'b HPAScalingPolicy) -> Self {
        Self { type_: &policy.type_, value: policy.value, period_seconds: policy.period_seconds }
    }
}

/// The text of the annotation.
pub(super) fn write(behavior: &HorizontalPodAutoscalerBehavior) -> String {
    let annotated = AnnotatedBehavior {
        scale_up: behavior.scale_up.as_ref().map(AnnotatedRules::new),
        scale_down: behavior.scale_down.as_ref().map(AnnotatedRules::new),
    };
    serde_json::to_string(&annotated).expect("texts and numbers can be written as JSON")
}

/// The behavior that the annotation gives; none if it gives none. Keys may begin with a capital or
/// not, as upstream.
pub(super) fn read(annotation: Value) -> Option<HorizontalPodAutoscalerBehavior> {
    let behavior = serde_json::from_value(with_lower_keys(annotation)).ok()?;
    (behavior != HorizontalPodAutoscalerBehavior::default()).then_some(behavior)
}

/// The same with the first letter of each key in lower case.
fn with_lower_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let lower = |(mut key, value): (String, Value)| {
                if let Some(first) = key.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                (key, with_lower_keys(value))
            };
            Value::Object(fields.into_iter().map(lower).collect())
        }
        Value::Array(items) => items.into_iter().map(with_lower_keys).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
