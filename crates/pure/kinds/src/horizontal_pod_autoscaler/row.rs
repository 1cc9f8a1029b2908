//! The cell of the metrics: each as it is and as it should be, as `kubectl get hpa` shows them.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricSpec, MetricStatus,
    MetricTarget, MetricValueStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use crate::validation::items;

/// Metrics that are shown; of the others their number is.
const SHOWN_MAX: usize = 2;

pub(super) fn targets(
    spec: &HorizontalPodAutoscalerSpec,
    status: Option<&HorizontalPodAutoscalerStatus>,
) -> String {
    let metrics = items(spec.metrics.as_ref());
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let current = items(status.and_then(|status| status.current_metrics.as_ref()));
    let shown = metrics.iter().enumerate().take(SHOWN_MAX);
    let shown: Vec<String> =
        shown.map(|(index, metric)| metric_text(metric, current.get(index))).collect();
    let shown = shown.join(", ");
    match metrics.len() - metrics.len().min(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric_text(metric: &MetricSpec, status: Option<&MetricStatus>) -> String {
    if let Some(source) = &metric.resource {
        let current = status.and_then(|status| Some(&status.resource.as_ref()?.current));
        format!("{}: {}", source.name, resource_text(&source.target, current))
    } else if let Some(source) = &metric.container_resource {
        let current = status.and_then(|status| Some(&status.container_resource.as_ref()?.current));
        format!("{}: {}", source.name, resource_text(&source.target, current))
    } else if let Some(source) = &metric.pods {
        let current = status.and_then(|status| Some(&status.pods.as_ref()?.current));
        let average = current.and_then(|current| current.average_value.as_ref());
        format!("{}/{}", amount(average), amount(source.target.average_value.as_ref()))
    } else if let Some(source) = &metric.object {
        let current = status.and_then(|status| Some(&status.object.as_ref()?.current));
        value_text(&source.target, current)
    } else if let Some(source) = &metric.external {
        let current = status.and_then(|status| Some(&status.external.as_ref()?.current));
        value_text(&source.target, current)
    } else {
        "<unknown type>".to_owned()
    }
}

fn resource_text(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(wanted) = &target.average_value {
        let average = current.and_then(|current| current.average_value.as_ref());
        return format!("{}/{}", amount(average), wanted.0);
    }
    let percent = |percent: i32| format!("{percent}%");
    let used = current.and_then(|current| current.average_utilization).map(percent);
    let wanted = target.average_utilization.map(percent);
    let (used, wanted) = (used.as_deref(), wanted.as_deref());
    format!("{}/{}", used.unwrap_or("<unknown>"), wanted.unwrap_or("<auto>"))
}

fn value_text(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    match &target.average_value {
        Some(wanted) => {
            let average = current.and_then(|current| current.average_value.as_ref());
            format!("{}/{} (avg)", amount(average), wanted.0)
        }
        None => {
            let value = current.and_then(|current| current.value.as_ref());
            format!("{}/{}", amount(value), amount(target.value.as_ref()))
        }
    }
}

fn amount(found: Option<&QuantityText>) -> &str {
    found.map_or("<unknown>", |amount| amount.0.as_str())
}
