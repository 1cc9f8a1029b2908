//! What all metrics of an autoscaler ask for together: the highest number that one of them asks
//! for. A metric that cannot be read must not lead to fewer replicas.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::held::HeldPod;
use rekindle_types::{Quantity, Tick};

use super::replica_count::{
    MetricTolerance, PodSample, ReplicaProposal, ResourceTarget, SampleStanding, propose,
};
use super::samples::{MeasuredResource, request_millis, sample};
use crate::usage::{MeasuredPod, UsageReading, UsageReport};

/// What a metric is read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricInputs<'a> {
    /// The pods of the target.
    pub(super) pods: &'a [&'a HeldPod],
    pub(super) reading: &'a UsageReading,
    /// The replicas that the target should have now.
    pub(super) current: i32,
    pub(super) tolerance: MetricTolerance,
    pub(super) now: Tick,
}

/// What all metrics say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricsVerdict {
    /// The highest proposal and the metric's name; none when nothing can be done.
    pub(super) proposal: Option<(i32, String)>,
    /// Each as it is, in the order of the spec; empty where it cannot be read.
    pub(super) statuses: Vec<MetricStatus>,
    /// Those that cannot be read.
    pub(super) failures: Vec<MetricFailure>,
}

/// A metric that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricFailure {
    /// The reason of its event and of the condition.
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The same as one of several says it.
    pub(super) summary: String,
}

impl MetricsVerdict {
    /// What is to be said when some could not be read, in upstream's words.
    pub(super) fn failed_text(&self) -> Option<String> {
        let first = self.failures.first()?;
        Some(format!(
            "invalid metrics ({} invalid out of {}), first error is: {}",
            self.failures.len(),
            self.statuses.len(),
            first.summary
        ))
    }
}

pub(super) fn judge(
    autoscaler: &HorizontalPodAutoscaler,
    inputs: &MetricInputs<'_>,
) -> MetricsVerdict {
    let mut highest: Option<(i32, String)> = None;
    let (mut statuses, mut failures) = (Vec::new(), Vec::new());
    for metric in autoscaler.spec.metrics.iter().flatten() {
        match read(metric, inputs) {
            Ok(found) => {
                if highest.as_ref().is_none_or(|(replicas, _)| found.replicas > *replicas) {
                    highest = Some((found.replicas, found.name));
                }
                statuses.push(found.status);
            }
            Err(failure) => {
                failures.push(failure);
                statuses.push(MetricStatus::default());
            }
        }
    }
    // what a missing metric would say may be more: fewer replicas are not asked for without it
    let proposal =
        highest.filter(|(replicas, _)| failures.is_empty() || *replicas >= inputs.current);
    MetricsVerdict { proposal, statuses, failures }
}

/// A metric that was read.
struct ReadMetric {
    replicas: i32,
    name: String,
    status: MetricStatus,
}

fn read(metric: &MetricSpec, inputs: &MetricInputs<'_>) -> Result<ReadMetric, MetricFailure> {
    if let Some(source) = &metric.resource {
        let resource = MeasuredResource { resource: &source.name, container: None };
        let (found, name) = read_resource(resource, &source.target, inputs).map_err(|text| {
            MetricFailure::of_resource("FailedGetResourceMetric", resource, text)
        })?;
        let status = ResourceMetricStatus { name: source.name.clone(), current: shown(found) };
        let status = MetricStatus {
            type_: metric.type_.clone(),
            resource: Some(status),
            ..MetricStatus::default()
        };
        return Ok(ReadMetric { replicas: found.replicas, name, status });
    }
    if let Some(source) = &metric.container_resource {
        let container = Some(source.container.as_str());
        let resource = MeasuredResource { resource: &source.name, container };
        let reason = "FailedGetContainerResourceMetric";
        let (found, name) = read_resource(resource, &source.target, inputs)
            .map_err(|text| MetricFailure::of_resource(reason, resource, text))?;
        let status = ContainerResourceMetricStatus {
            name: source.name.clone(),
            container: source.container.clone(),
            current: shown(found),
        };
        let status = MetricStatus {
            type_: metric.type_.clone(),
            container_resource: Some(status),
            ..MetricStatus::default()
        };
        return Ok(ReadMetric { replicas: found.replicas, name, status });
    }
    Err(unserved(metric))
}

impl MetricFailure {
    fn of_resource(reason: &'static str, of: MeasuredResource<'_>, message: String) -> Self {
        let kind = if of.container.is_some() { "container" } else { "resource" };
        let summary = format!("failed to get {} {kind} metric value: {message}", of.resource);
        Self { reason, message, summary }
    }
}

/// Metrics that come from an adapter upstream.
fn unserved(metric: &MetricSpec) -> MetricFailure {
    let text = |name: &str| {
        format!("unable to get metric {name}: no API here serves metrics of type {}", metric.type_)
    };
    let (reason, called, message) = if let Some(source) = &metric.object {
        ("FailedGetObjectMetric", "object", text(&source.metric.name))
    } else if let Some(source) = &metric.pods {
        ("FailedGetPodsMetric", "pods", text(&source.metric.name))
    } else if let Some(source) = &metric.external {
        ("FailedGetExternalMetric", "external", text(&source.metric.name))
    } else {
        let message = format!("unknown metric source type {:?}", metric.type_);
        return MetricFailure {
            reason: "InvalidMetricSourceType",
            summary: message.clone(),
            message,
        };
    };
    let summary = format!("failed to get {called} metric value: {message}");
    MetricFailure { reason, message, summary }
}

/// What the metric asks for, and what it is called where that is said.
fn read_resource(
    of: MeasuredResource<'_>,
    target: &MetricTarget,
    inputs: &MetricInputs<'_>,
) -> Result<(ReplicaProposal, String), String> {
    let (resource, in_container) = (of.resource, of.container.is_some());
    if let Some(average) = &target.average_value {
        let millis = average.0.parse::<Quantity>().map(Quantity::millis).unwrap_or(0).max(1);
        let found = count(of, ResourceTarget::AverageMillis(millis), inputs)
            .map_err(|why| format!("failed to get {resource} usage: {why}"))?;
        return Ok((found, format!("{resource} resource")));
    }
    let Some(percent) = target.average_utilization else {
        return Err(
            "invalid resource metric source: neither an average utilization target nor an \
                    average value (usage) target was set"
                .to_owned(),
        );
    };
    let found = count(of, ResourceTarget::Utilization(percent.max(1)), inputs)
        .map_err(|why| format!("failed to get {resource} utilization: {why}"))?;
    let kind = if in_container { "container resource" } else { "resource" };
    Ok((found, format!("{resource} {kind} utilization (percentage of request)")))
}

fn count(
    of: MeasuredResource<'_>,
    target: ResourceTarget,
    inputs: &MetricInputs<'_>,
) -> Result<ReplicaProposal, String> {
    let unable = |why: &str| format!("unable to get metrics for resource {}: {why}", of.resource);
    let report = match inputs.reading {
        Ok(report) => report,
        Err(why) => {
            return Err(unable(&format!(
                "unable to fetch metrics from resource metrics API: {why}"
            )));
        }
    };
    let name = |pod: &HeldPod| pod.metadata.name.clone().unwrap_or_default();
    if !inputs.pods.iter().any(|pod| report.pods.contains_key(&name(pod))) {
        return Err(unable("no metrics returned from resource metrics API"));
    }
    if let Some(container) = of.container {
        check_container(container, report, inputs.pods).map_err(|why| unable(&why))?;
    }
    let mut samples: Vec<PodSample> =
        inputs.pods.iter().map(|pod| sample(pod, of, report, inputs.now)).collect();
    if let ResourceTarget::Utilization(_) = target
        && samples.iter().any(|sample| sample.standing == SampleStanding::Counted)
    {
        for (pod, sample) in inputs.pods.iter().zip(&mut samples) {
            sample.request_millis = request_millis(pod, of).map_err(|why| why.to_string())?;
        }
    }
    propose(&samples, target, inputs.current, inputs.tolerance).map_err(|why| why.to_string())
}

/// One of the pods must have the container. Of one that does not run it just now nothing is known.
fn check_container(container: &str, report: &UsageReport, pods: &[&HeldPod]) -> Result<(), String> {
    let mut measured = pods.iter().filter_map(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Some((pod, name, report.pods.get(name)?))
    });
    let has_container = |of: &MeasuredPod| of.containers.contains_key(container);
    let first = measured.clone().next();
    match (first, measured.any(|(.., found)| has_container(found))) {
        (Some((pod, name, _)), false) => {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            Err(format!("container {container} not present in metrics for pod {namespace}/{name}"))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

fn shown(found: ReplicaProposal) -> MetricValueStatus {
    let average = Quantity::from_millis(found.average_millis);
    MetricValueStatus {
        average_utilization: found.utilization,
        average_value: Some(QuantityText(average.to_string())),
        ..MetricValueStatus::default()
    }
}
