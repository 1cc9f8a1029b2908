//! The metrics of an autoscaler: the one that it has without being asked, and what is wrong with
//! those that it asks for.

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricSource, HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec, MetricTarget,
    ObjectMetricSource, PodsMetricSource, ResourceMetricSource,
};
use rekindle_types::Quantity;
use rekindle_types::autoscaling::counts_without_pods;
use rekindle_types::validation::field_error::FieldError;

use super::reference_errors;
use crate::validation::{
    MISTAKES_MAX, Path, invalid_each, items, names, quantities, resource_names,
};

/// More metrics are not looked at: each takes a look at every pod of the target, every 15 s.
const METRICS_MAX: usize = 64;
/// Percent of the CPU that pods ask for, where an autoscaler names no metric.
const CPU_UTILIZATION: i32 = 80;
const CONTAINER_RESOURCE: &str = "ContainerResource";
const EXTERNAL: &str = "External";
const OBJECT: &str = "Object";
const PODS: &str = "Pods";
const RESOURCE: &str = "Resource";
const TYPES: [&str; 5] = [CONTAINER_RESOURCE, EXTERNAL, OBJECT, PODS, RESOURCE];
const TARGET_TYPES: [&str; 3] = ["Utilization", "Value", "AverageValue"];

pub(super) fn set_defaults(spec: &mut HorizontalPodAutoscalerSpec) {
    if items(spec.metrics.as_ref()).is_empty() {
        let target = MetricTarget {
            type_: "Utilization".to_owned(),
            average_utilization: Some(CPU_UTILIZATION),
            ..MetricTarget::default()
        };
        spec.metrics = Some(vec![MetricSpec {
            type_: RESOURCE.to_owned(),
            resource: Some(ResourceMetricSource { name: "cpu".to_owned(), target }),
            ..MetricSpec::default()
        }]);
    }
    for metric in spec.metrics.iter_mut().flatten() {
        for target in targets(metric) {
            for amount in [&mut target.value, &mut target.average_value].into_iter().flatten() {
                quantities::canonicalize(amount);
            }
        }
    }
}

fn targets(metric: &mut MetricSpec) -> impl Iterator<Item = &mut MetricTarget> {
    [
        metric.container_resource.as_mut().map(|source| &mut source.target),
        metric.external.as_mut().map(|source| &mut source.target),
        metric.object.as_mut().map(|source| &mut source.target),
        metric.pods.as_mut().map(|source| &mut source.target),
        metric.resource.as_mut().map(|source| &mut source.target),
    ]
    .into_iter()
    .flatten()
}

/// Whether one of the metrics says something also while there are no pods.
pub(super) fn count_without_pods(spec: &HorizontalPodAutoscalerSpec) -> bool {
    items(spec.metrics.as_ref()).iter().take(METRICS_MAX).any(counts_without_pods)
}

pub(super) fn errors(spec: &HorizontalPodAutoscalerSpec, field: &Path) -> Vec<FieldError> {
    let metrics = items(spec.metrics.as_ref());
    if metrics.len() > METRICS_MAX {
        return vec![FieldError::too_many_of(field, metrics.len(), METRICS_MAX)];
    }
    let mut errors = Vec::new();
    for (index, metric) in metrics.iter().enumerate() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        errors.extend(metric_errors(metric, &field.index(index)));
    }
    if spec.min_replicas == Some(0) && !count_without_pods(spec) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(field, why));
    }
    errors
}

/// The first source is looked at, in upstream's order of them; the type says which one may be
/// there.
fn metric_errors(metric: &MetricSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let type_field = field.child("type");
    let is_known = TYPES.contains(&metric.type_.as_str());
    if metric.type_.is_empty() {
        errors.push(FieldError::required(&type_field, "must specify a metric source type"));
    }
    if !is_known {
        errors.push(FieldError::not_supported(&type_field, &metric.type_, &TYPES));
    }
    let at = |name: &str| field.child(name);
    let object = || Some(object_errors(metric.object.as_ref()?, &at("object")));
    let external = || Some(external_errors(metric.external.as_ref()?, &at("external")));
    let pods = || Some(pods_errors(metric.pods.as_ref()?, &at("pods")));
    let resource = || {
        let ResourceMetricSource { name, target } = metric.resource.as_ref()?;
        Some(resource_errors((name, target), None, &at("resource")))
    };
    let container = || {
        let source = metric.container_resource.as_ref()?;
        let of = (source.name.as_str(), &source.target);
        Some(resource_errors(of, Some(&source.container), &at("containerResource")))
    };
    let first = object().or_else(external).or_else(pods).or_else(resource).or_else(container);
    errors.extend(first.into_iter().flatten());
    let sources = [
        (OBJECT, "object", metric.object.is_some()),
        (EXTERNAL, "external", metric.external.is_some()),
        (PODS, "pods", metric.pods.is_some()),
        (RESOURCE, "resource", metric.resource.is_some()),
        (CONTAINER_RESOURCE, "containerResource", metric.container_resource.is_some()),
    ];
    match sources.iter().find(|(type_, ..)| *type_ == metric.type_) {
        Some((_, name, false)) => {
            let why = "must populate information for the given metric source";
            errors.push(FieldError::required(field.child(name), why));
        }
        Some((_, _, true)) => {}
        // Upstream names the wrong type a second time here.
        None => errors.push(FieldError::not_supported(&type_field, &metric.type_, &TYPES)),
    }
    if sources.iter().filter(|(_, _, is_there)| *is_there).count() > 1 {
        let others =
            sources.iter().filter(|(type_, _, is_there)| *is_there && *type_ != metric.type_);
        errors.extend(others.map(|(_, name, _)| {
            FieldError::forbidden(field.child(name), "must populate the given metric source only")
        }));
    }
    errors
}

fn object_errors(source: &ObjectMetricSource, field: &Path) -> Vec<FieldError> {
    let mut errors = reference_errors(&source.described_object, &field.child("describedObject"));
    errors.extend(identifier_errors(&source.metric, &field.child("metric")));
    let target_field = field.child("target");
    errors.extend(target_errors(&source.target, &target_field));
    if source.target.value.is_none() && source.target.average_value.is_none() {
        let why = "must set either a target value or averageValue";
        errors.push(FieldError::required(target_field.child("averageValue"), why));
    }
    errors
}

fn external_errors(source: &ExternalMetricSource, field: &Path) -> Vec<FieldError> {
    let mut errors = identifier_errors(&source.metric, &field.child("metric"));
    let target_field = field.child("target");
    errors.extend(target_errors(&source.target, &target_field));
    match (&source.target.value, &source.target.average_value) {
        (None, None) => {
            let why = "must set either a target value for metric or a per-pod target";
            errors.push(FieldError::required(target_field.child("averageValue"), why));
        }
        (Some(_), Some(_)) => {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(target_field.child("value"), why));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    errors
}

fn pods_errors(source: &PodsMetricSource, field: &Path) -> Vec<FieldError> {
    let mut errors = identifier_errors(&source.metric, &field.child("metric"));
    let target_field = field.child("target");
    errors.extend(target_errors(&source.target, &target_field));
    let average = source.target.average_value.as_ref();
    let average = average.and_then(|average| quantities::read(average).ok());
    if !average.is_some_and(is_positive) {
        let why = "must specify a positive target averageValue";
        errors.push(FieldError::required(target_field.child("averageValue"), why));
    }
    errors
}

/// Of a resource of all containers, or of the one of this name.
fn resource_errors(
    (name, target): (&str, &MetricTarget),
    container: Option<&str>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(field.child("name"), "must specify a resource name"));
    } else if container.is_some() {
        errors.extend(resource_names::of_container(name, &field.child("name")));
    }
    match container {
        None => {}
        Some("") => {
            errors.push(FieldError::required(field.child("container"), "must specify a container"));
        }
        Some(container) => {
            let messages = names::dns_label(container);
            errors.extend(invalid_each(&field.child("container"), container, messages));
        }
    }
    let target_field = field.child("target");
    errors.extend(target_errors(target, &target_field));
    match (&target.average_utilization, &target.average_value) {
        (None, None) => {
            let why = "must set either a target raw value or a target utilization";
            errors.push(FieldError::required(target_field.child("averageUtilization"), why));
        }
        (Some(_), Some(_)) => {
            let why = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(target_field.child("averageValue"), why));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    errors
}

fn target_errors(target: &MetricTarget, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let type_field = field.child("type");
    if target.type_.is_empty() {
        errors.push(FieldError::required(&type_field, "must specify a metric target type"));
    }
    if !TARGET_TYPES.contains(&target.type_.as_str()) {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&type_field, &target.type_, why));
    }
    for (name, amount) in [("value", &target.value), ("averageValue", &target.average_value)] {
        let Some(amount) = amount else { continue };
        let field = field.child(name);
        match quantities::check(amount, &field) {
            Ok(found) if is_positive(found) => {}
            Ok(_) => errors.push(FieldError::invalid(&field, &amount.0, "must be positive")),
            Err(error) => errors.push(error),
        }
    }
    if let Some(percent) = target.average_utilization.filter(|percent| *percent < 1) {
        let field = field.child("averageUtilization");
        errors.push(FieldError::invalid(field, percent, "must be greater than 0"));
    }
    errors
}

const fn is_positive(amount: Quantity) -> bool {
    !amount.is_zero() && !amount.is_negative()
}

fn identifier_errors(metric: &MetricIdentifier, field: &Path) -> Vec<FieldError> {
    let field = field.child("name");
    if metric.name.is_empty() {
        return vec![FieldError::required(field, "must specify a metric name")];
    }
    invalid_each(&field, &metric.name, names::path_segment(&metric.name)).collect()
}
