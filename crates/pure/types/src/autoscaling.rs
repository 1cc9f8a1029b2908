//! What API and autoscaler both have to know of metrics.

use k8s_openapi::api::autoscaling::v2::MetricSpec;

/// Whether a metric says something also while a workload has no pods: only such a metric wakes one
/// that was scaled to zero (KEP-2021).
pub fn counts_without_pods(metric: &MetricSpec) -> bool {
    matches!(metric.type_.as_str(), "External" | "Object")
}
