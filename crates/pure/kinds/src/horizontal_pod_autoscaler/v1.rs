//! HorizontalPodAutoscaler in autoscaling/v1: one figure for CPU. The rest of what autoscaling/v2
//! says stands in annotations.
//!
//! Source: upstream's `pkg/apis/autoscaling/v1/conversion.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v1::{
    CrossVersionObjectReference as ReferenceV1, HorizontalPodAutoscaler as AutoscalerV1,
    HorizontalPodAutoscalerSpec as SpecV1, HorizontalPodAutoscalerStatus as StatusV1,
};
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
    ResourceMetricSource, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::behavior_annotation;
use crate::registry::KindView;
use crate::validation::quantities;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What a view puts into annotations, and takes out of them.
const ANNOTATIONS: [&str; 4] = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];

const CPU: &str = "cpu";
const RESOURCE: &str = "Resource";
const UTILIZATION: &str = "Utilization";

/// Takes out what only a view may write there, as upstream's conversions do for each version.
pub(super) fn take_view_annotations(metadata: &mut ObjectMeta) -> BTreeMap<&'static str, String> {
    let mut taken = BTreeMap::new();
    let Some(annotations) = &mut metadata.annotations else { return taken };
    for name in ANNOTATIONS {
        taken.extend(annotations.remove(name).map(|text| (name, text)));
    }
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    taken
}

impl KindView for AutoscalerV1 {
    type Stored = HorizontalPodAutoscaler;

    fn of_stored(stored: &HorizontalPodAutoscaler) -> Self {
        let spec = &stored.spec;
        let (mut cpu, mut others) = (None, Vec::new());
        for metric in spec.metrics.iter().flatten() {
            match cpu_utilization(metric) {
                Some(target) if cpu.is_none() => cpu = Some(target),
                Some(_) | None => others.extend(in_v1(metric, Amount::Target)),
            }
        }
        let mut metadata = stored.metadata.clone();
        take_view_annotations(&mut metadata);
        let mut annotate = |name: &str, text: String| {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(name.to_owned(), text);
        };
        if !others.is_empty() {
            annotate(METRICS, Value::from(others).to_string());
        }
        if let Some(behavior) = &spec.behavior {
            annotate(BEHAVIOR, behavior_annotation::write(behavior));
        }
        let status = stored.status.as_ref();
        let current = status.and_then(|status| status.current_metrics.as_ref());
        let readings = current.into_iter().flatten();
        let readings: Vec<Value> =
            readings.filter_map(|reading| in_v1(reading, Amount::Current)).collect();
        if !readings.is_empty() {
            annotate(CURRENT_METRICS, Value::from(readings).to_string());
        }
        let conditions = status.and_then(|status| status.conditions.as_ref());
        if let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) {
            annotate(CONDITIONS, json!(conditions).to_string());
        }
        let target = &spec.scale_target_ref;
        Self {
            metadata,
            spec: SpecV1 {
                max_replicas: spec.max_replicas,
                min_replicas: spec.min_replicas,
                scale_target_ref: ReferenceV1 {
                    api_version: target.api_version.clone(),
                    kind: target.kind.clone(),
                    name: target.name.clone(),
                },
                target_cpu_utilization_percentage: cpu,
            },
            status: status.map(|status| StatusV1 {
                current_cpu_utilization_percentage: current
                    .into_iter()
                    .flatten()
                    .find_map(current_cpu_utilization),
                current_replicas: status.current_replicas.unwrap_or_default(),
                desired_replicas: status.desired_replicas,
                last_scale_time: status.last_scale_time.clone(),
                observed_generation: status.observed_generation,
            }),
        }
    }

    /// An annotation that cannot be read counts as absent, as upstream.
    fn into_stored(self) -> HorizontalPodAutoscaler {
        let mut metadata = self.metadata;
        let mut taken = take_view_annotations(&mut metadata);
        let mut take = |name: &str| -> Value {
            let text = taken.remove(name);
            text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
        };
        let list = |value: Value| match value {
            Value::Array(items) => items,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => Vec::new(),
        };
        let spec = self.spec;
        let others = list(take(METRICS));
        let mut metrics: Vec<MetricSpec> =
            others.iter().filter_map(|metric| in_v2(metric, Amount::Target)).collect();
        if let Some(target) = spec.target_cpu_utilization_percentage {
            metrics.insert(0, of_cpu_utilization(target));
        }
        let readings = list(take(CURRENT_METRICS));
        let mut readings: Vec<MetricStatus> =
            readings.iter().filter_map(|metric| in_v2(metric, Amount::Current)).collect();
        let status = self.status.map(|status| {
            let current = status.current_cpu_utilization_percentage;
            if let Some(current) = current
                && !readings.iter().any(|reading| current_cpu_utilization(reading).is_some())
            {
                readings.insert(0, of_current_cpu_utilization(current));
            }
            HorizontalPodAutoscalerStatus {
                conditions: serde_json::from_value(take(CONDITIONS)).ok(),
                current_metrics: Some(readings).filter(|readings| !readings.is_empty()),
                current_replicas: Some(status.current_replicas),
                desired_replicas: status.desired_replicas,
                last_scale_time: status.last_scale_time,
                observed_generation: status.observed_generation,
            }
        });
        let target = spec.scale_target_ref;
        HorizontalPodAutoscaler {
            metadata,
            spec: HorizontalPodAutoscalerSpec {
                behavior: behavior_annotation::read(take(BEHAVIOR)),
                max_replicas: spec.max_replicas,
                metrics: Some(metrics).filter(|metrics| !metrics.is_empty()),
                min_replicas: spec.min_replicas,
                scale_target_ref: CrossVersionObjectReference {
                    api_version: target.api_version,
                    kind: target.kind,
                    name: target.name,
                },
            },
            status,
        }
    }
}

/// The percentage of CPU that a metric asks for, if that is what it says.
fn cpu_utilization(metric: &MetricSpec) -> Option<i32> {
    let resource = metric.resource.as_ref().filter(|_| metric.type_ == RESOURCE)?;
    (resource.name == CPU).then_some(resource.target.average_utilization)?
}

fn of_cpu_utilization(target: i32) -> MetricSpec {
    MetricSpec {
        type_: RESOURCE.to_owned(),
        resource: Some(ResourceMetricSource {
            name: CPU.to_owned(),
            target: MetricTarget {
                type_: UTILIZATION.to_owned(),
                average_utilization: Some(target),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn current_cpu_utilization(metric: &MetricStatus) -> Option<i32> {
    let resource = metric.resource.as_ref().filter(|_| metric.type_ == RESOURCE)?;
    (resource.name == CPU).then_some(resource.current.average_utilization)?
}

fn of_current_cpu_utilization(current: i32) -> MetricStatus {
    MetricStatus {
        type_: RESOURCE.to_owned(),
        resource: Some(ResourceMetricStatus {
            name: CPU.to_owned(),
            current: MetricValueStatus {
                average_utilization: Some(current),
                ..MetricValueStatus::default()
            },
        }),
        ..MetricStatus::default()
    }
}

const OBJECT: &str = "object";
/// The value that an Object metric asks for. Upstream's type cannot leave it out: it is zero where
/// the metric asks for an average.
const OBJECT_VALUE: &str = "targetValue";

/// Where the parts of a metric's source stand in autoscaling/v2, and what they are called in
/// autoscaling/v1. `#` is `target` in a metric, and `current` in a reading.
const PARTS: [(&str, &[(&str, &str)]); 5] = [
    ("resource", &RESOURCE_PARTS),
    ("containerResource", &RESOURCE_PARTS),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/#/averageValue", "#AverageValue"),
        ],
    ),
    (
        OBJECT,
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/#/value", "#Value"),
            ("/#/averageValue", "averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/#/value", "#Value"),
            ("/#/averageValue", "#AverageValue"),
        ],
    ),
];

const RESOURCE_PARTS: [(&str, &str); 4] = [
    ("/name", "name"),
    ("/container", "container"),
    ("/#/averageUtilization", "#AverageUtilization"),
    ("/#/averageValue", "#AverageValue"),
];

/// Whether it is a metric or its reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Target,
    Current,
}

impl Amount {
    fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Current => "current",
        }
    }

    fn fill(self, pattern: &str) -> String {
        pattern.replace('#', self.name())
    }
}

/// A metric, or its reading, as autoscaling/v1 writes it.
fn in_v1(metric: &impl Serialize, amount: Amount) -> Option<Value> {
    let metric = serde_json::to_value(metric).ok()?;
    let mut written = json!({"type": metric["type"]});
    for (source, parts) in PARTS {
        let Some(given) = metric.get(source) else { continue };
        for (path, name) in parts {
            if let Some(part) = given.pointer(&amount.fill(path)) {
                written[source][amount.fill(name)] = part.clone();
            }
        }
        if (source, amount) == (OBJECT, Amount::Target) && written[source][OBJECT_VALUE].is_null() {
            written[source][OBJECT_VALUE] = json!("0");
        }
    }
    Some(written)
}

/// The same the other way; nothing if it is none.
fn in_v2<M: DeserializeOwned>(metric: &Value, amount: Amount) -> Option<M> {
    let mut read = json!({"type": metric["type"]});
    for (source, parts) in PARTS {
        let Some(given) = metric.get(source).and_then(Value::as_object) else { continue };
        for (path, name) in parts {
            let Some(part) = given.get(&amount.fill(name)) else { continue };
            let path = amount.fill(path);
            let steps = path.split('/').skip(1);
            *steps.fold(&mut read[source], |place, step| &mut place[step]) = part.clone();
        }
        if amount == Amount::Target {
            let target = &mut read[source]["target"];
            if let Some(target) = target.as_object_mut()
                && source == OBJECT
                && target.contains_key("averageValue")
                && target.get("value").is_some_and(is_zero)
            {
                target.remove("value");
            }
            let types = [("averageUtilization", UTILIZATION), ("averageValue", "AverageValue")];
            let found = types.into_iter().find(|(field, _)| target.get(field).is_some());
            target["type"] = found.map_or("Value", |(_, name)| name).into();
        }
    }
    serde_json::from_value(read).ok()
}

fn is_zero(value: &Value) -> bool {
    let text = serde_json::from_value::<QuantityText>(value.clone());
    text.is_ok_and(|text| quantities::read(&text).is_ok_and(|amount| amount.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::resource::ApiKind;

    /// What autoscaling/v1 has no fields for survives a write by its clients.
    #[test]
    fn all_that_v2_says_goes_through_v1_unchanged() {
        let metrics = json!([
            {"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70},
            }},
            {"type": "Resource", "resource": {
                "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"},
            }},
            {"type": "ContainerResource", "containerResource": {
                "name": "cpu", "container": "app",
                "target": {"type": "Utilization", "averageUtilization": 50},
            }},
            {"type": "Pods", "pods": {
                "metric": {"name": "requests"},
                "target": {"type": "AverageValue", "averageValue": "10"},
            }},
            {"type": "Object", "object": {
                "describedObject": {"kind": "Service", "name": "web", "apiVersion": "v1"},
                "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "Value", "value": "5"},
            }},
            {"type": "Object", "object": {
                "describedObject": {"kind": "Service", "name": "web", "apiVersion": "v1"},
                "metric": {"name": "hits"},
                "target": {"type": "AverageValue", "averageValue": "7"},
            }},
            {"type": "External", "external": {
                "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "3"},
            }},
        ]);
        let stored: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": {"mine": "kept"}},
            "spec": {
                "maxReplicas": 5, "minReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": metrics, "behavior": {"scaleDown": {"selectPolicy": "Disabled"}},
            },
            "status": {
                "currentReplicas": 2, "desiredReplicas": 3,
                "conditions": [{"type": "AbleToScale", "status": "True"}],
                "currentMetrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 66, "averageValue": "66m"},
                }}],
            },
        }))
        .unwrap();
        let view = AutoscalerV1::of_stored(&stored);
        assert_eq!(view.spec.target_cpu_utilization_percentage, Some(70));
        let status = view.status.as_ref().unwrap();
        assert_eq!(status.current_cpu_utilization_percentage, Some(66));
        let others = &view.metadata.annotations.as_ref().unwrap()[METRICS];
        assert!(others.contains(r#""averageValue":"7""#), "{others}");
        assert!(others.contains(r#""targetValue":"0""#), "{others}");
        assert_eq!(view.into_stored(), stored);
    }

    /// Upstream writes a value of zero beside the average that an Object metric asks for.
    #[test]
    fn an_object_metric_asks_for_an_average_or_a_value() {
        let read = |amounts: Value| {
            let mut object = json!({
                "target": {"kind": "Service", "name": "web"}, "metricName": "hits",
            });
            object.as_object_mut().unwrap().extend(amounts.as_object().unwrap().clone());
            let text = json!([{"type": "Object", "object": object}]).to_string();
            let metrics = with_annotation(METRICS, &text).into_stored().spec.metrics.unwrap();
            json!(metrics[0].object.as_ref().unwrap().target)
        };
        for (amounts, target) in [
            (
                json!({"targetValue": "0", "averageValue": "7"}),
                json!({"type": "AverageValue", "averageValue": "7"}),
            ),
            (
                json!({"targetValue": "5", "averageValue": "7"}),
                json!({"type": "AverageValue", "value": "5", "averageValue": "7"}),
            ),
            (json!({"targetValue": "0"}), json!({"type": "Value", "value": "0"})),
        ] {
            assert_eq!(read(amounts), target);
        }
    }

    #[test]
    fn annotations_of_a_view_are_written_anew() {
        let mut stored: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": {"annotations": {
                METRICS: "[]", CURRENT_METRICS: "[]", CONDITIONS: "[]", BEHAVIOR: "{}", "mine": "kept",
            }},
            "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        }))
        .unwrap();
        let kept = BTreeMap::from([("mine".to_owned(), "kept".to_owned())]);
        let view = AutoscalerV1::of_stored(&stored);
        assert_eq!(view.metadata.annotations.as_ref(), Some(&kept));
        stored.set_defaults();
        assert_eq!(stored.metadata.annotations.as_ref(), Some(&kept));
    }

    /// As a kube-apiserver of Kubernetes 1.37 writes it.
    const UPSTREAM_BEHAVIOR: &str = concat!(
        r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":["#,
        r#"{"Type":"Pods","Value":4,"PeriodSeconds":15},"#,
        r#"{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":"50m"},"#,
        r#""ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min","#,
        r#""Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}],"Tolerance":null}}"#,
    );

    fn with_annotation(name: &str, text: &str) -> AutoscalerV1 {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": {name: text}},
            "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        }))
        .unwrap()
    }

    #[test]
    fn the_behavior_is_read_and_written_as_upstream() {
        let stored = with_annotation(BEHAVIOR, UPSTREAM_BEHAVIOR).into_stored();
        assert_eq!(
            json!(stored.spec.behavior),
            json!({
                "scaleUp": {
                    "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "tolerance": "50m",
                    "policies": [
                        {"type": "Pods", "value": 4, "periodSeconds": 15},
                        {"type": "Percent", "value": 100, "periodSeconds": 15},
                    ],
                },
                "scaleDown": {
                    "selectPolicy": "Min",
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}],
                },
            })
        );
        let view = AutoscalerV1::of_stored(&stored);
        assert_eq!(view.metadata.annotations.unwrap()[BEHAVIOR], UPSTREAM_BEHAVIOR);
        // clients may write the names of autoscaling/v2
        let text = json!(stored.spec.behavior).to_string();
        let again = with_annotation(BEHAVIOR, &text).into_stored();
        assert_eq!(again.spec.behavior, stored.spec.behavior);
        for nothing in ["{}", r#"{"ScaleUp":null,"ScaleDown":null}"#] {
            let stored = with_annotation(BEHAVIOR, nothing).into_stored();
            assert_eq!(stored.spec.behavior, None, "{nothing}");
        }
    }

    #[test]
    fn an_annotation_that_is_none_of_ours_counts_as_absent() {
        let view: AutoscalerV1 = serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": {METRICS: "{", BEHAVIOR: "3"}},
            "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        }))
        .unwrap();
        let stored = view.into_stored();
        assert_eq!((stored.spec.metrics, stored.spec.behavior), (None, None));
        assert_eq!(stored.metadata.annotations, None);
    }
}
