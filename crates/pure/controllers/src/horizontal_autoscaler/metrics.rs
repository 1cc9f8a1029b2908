//! What all metrics of an autoscaler ask for together: the highest number that one of them asks
//! for. A metric that cannot be read must not lead to fewer replicas.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::Quantity;

use super::adapter_metrics::AdapterInputs;
use super::replica_count::{PodSample, ReplicaProposal, ResourceTarget, SampleStanding, propose};
use super::samples::{MeasuredResource, TargetSamples};

/// What metrics are read from.
#[derive(Debug)]
pub(super) struct MetricInputs<'a> {
    /// Of the pods of the target, or why nothing is known of them.
    pub(super) samples: Result<TargetSamples<'a>, &'a str>,
    /// What adapters say, and what there is of the target.
    pub(super) adapters: AdapterInputs<'a>,
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

pub(super) fn judge<'a>(
    autoscaler: &'a HorizontalPodAutoscaler,
    inputs: &mut MetricInputs<'a>,
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
        highest.filter(|(replicas, _)| failures.is_empty() || *replicas >= inputs.adapters.current);
    MetricsVerdict { proposal, statuses, failures }
}

/// A metric that was read.
pub(super) struct ReadMetric {
    /// What it asks for.
    pub(super) replicas: i32,
    /// What it is called where a rescale is explained.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

fn read<'a>(
    metric: &'a MetricSpec,
    inputs: &mut MetricInputs<'a>,
) -> Result<ReadMetric, MetricFailure> {
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
    inputs.adapters.read(metric).unwrap_or_else(|| Err(unknown(metric)))
}

impl MetricFailure {
    fn of_resource(reason: &'static str, of: MeasuredResource<'_>, message: String) -> Self {
        let kind = if of.container.is_some() { "container" } else { "resource" };
        let summary = format!("failed to get {} {kind} metric value: {message}", of.resource);
        Self { reason, message, summary }
    }
}

/// A metric of no type that is known.
fn unknown(metric: &MetricSpec) -> MetricFailure {
    let message = format!("unknown metric source type {:?}", metric.type_);
    MetricFailure { reason: "InvalidMetricSourceType", summary: message.clone(), message }
}

/// Thousandths that a metric should be, at least one.
pub(super) fn target_millis(target: Option<&QuantityText>) -> i64 {
    let read = target.and_then(|target| target.0.parse::<Quantity>().ok());
    read.map_or(0, Quantity::millis).max(1)
}

/// Thousandths, as a status shows them.
pub(super) fn quantity(millis: i64) -> QuantityText {
    QuantityText(Quantity::from_millis(millis).to_string())
}

/// What the metric asks for, and what it is called where that is said.
fn read_resource<'a>(
    of: MeasuredResource<'a>,
    target: &MetricTarget,
    inputs: &mut MetricInputs<'a>,
) -> Result<(ReplicaProposal, String), String> {
    let (resource, in_container) = (of.resource, of.container.is_some());
    if target.average_value.is_some() {
        let millis = target_millis(target.average_value.as_ref());
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

fn count<'a>(
    of: MeasuredResource<'a>,
    target: ResourceTarget,
    inputs: &mut MetricInputs<'a>,
) -> Result<ReplicaProposal, String> {
    let unable = |why: &str| format!("unable to get metrics for resource {}: {why}", of.resource);
    let samples = inputs.samples.as_mut().map_err(|why| {
        unable(&format!("unable to fetch metrics from resource metrics API: {why}"))
    })?;
    if !samples.has_measured() {
        return Err(unable("no metrics returned from resource metrics API"));
    }
    let samples = samples.of(of).map_err(|why| unable(&why.to_string()))?;
    let is_counted = |sample: &PodSample| sample.standing == SampleStanding::Counted;
    if let (ResourceTarget::Utilization(_), Some(missing)) = (target, &samples.missing_request)
        && samples.pods.iter().any(is_counted)
    {
        return Err(missing.to_string());
    }
    propose(&samples.pods, target, inputs.adapters.current, inputs.adapters.tolerance)
        .map_err(|why| why.to_string())
}

fn shown(found: ReplicaProposal) -> MetricValueStatus {
    MetricValueStatus {
        average_utilization: found.utilization,
        average_value: Some(quantity(found.average_millis)),
        ..MetricValueStatus::default()
    }
}
