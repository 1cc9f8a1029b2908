//! How many replicas metrics of types Pods, Object and External ask for, by what adapters say.
//! Source of behaviour and of the texts: upstream's `pkg/controller/podautoscaler`
//! (`replica_calculator.go`, `horizontal.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricSource, ExternalMetricStatus, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource, PodsMetricStatus,
};
use rekindle_types::held::HeldPod;

use super::adapter_queries::{Asked, TargetQueries, series};
use super::metrics::{MetricFailure, ReadMetric, quantity, target_millis};
use super::replica_count::{
    MetricTolerance, PodSample, ReplicaProposal, ResourceTarget, SampleStanding, ceil, propose,
};
use super::samples::standing;
use crate::metric_query::{MetricQuery, MetricValue};
use crate::pods;
use crate::readings::NamespaceReading;

/// What the metrics of adapters are read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdapterInputs<'a> {
    pub(super) queries: TargetQueries<'a>,
    pub(super) reading: &'a NamespaceReading,
    pub(super) pods: &'a [&'a HeldPod],
    /// The replicas that the target should have now.
    pub(super) current: i32,
    /// The replicas that it has.
    pub(super) observed: i32,
    pub(super) tolerance: MetricTolerance,
}

/// What a metric is, together or for each replica, and how many replicas it asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AdapterProposal {
    replicas: i32,
    shown: ShownValue,
}

/// As the status shows it, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ShownValue {
    Whole(i64),
    Average(i64),
}

impl ShownValue {
    fn status(self) -> MetricValueStatus {
        match self {
            Self::Whole(millis) => {
                MetricValueStatus { value: Some(quantity(millis)), ..Default::default() }
            }
            Self::Average(millis) => {
                MetricValueStatus { average_value: Some(quantity(millis)), ..Default::default() }
            }
        }
    }
}

impl<'a> AdapterInputs<'a> {
    /// What a metric asks for; none when it is measured by the engine.
    pub(super) fn read(self, metric: &MetricSpec) -> Option<Result<ReadMetric, MetricFailure>> {
        let status = MetricStatus { type_: metric.type_.clone(), ..MetricStatus::default() };
        if let Some(source) = &metric.pods {
            return Some(self.read_pods(source, status));
        }
        if let Some(source) = &metric.object {
            return Some(self.read_object(source, status));
        }
        metric.external.as_ref().map(|source| self.read_external(source, status))
    }

    fn read_pods(
        self,
        source: &PodsMetricSource,
        status: MetricStatus,
    ) -> Result<ReadMetric, MetricFailure> {
        let found = self.propose_for_pods(source).map_err(|message| MetricFailure {
            reason: "FailedGetPodsMetric",
            summary: format!("failed to get pods metric value: {message}"),
            message,
        })?;
        let current = ShownValue::Average(found.average_millis).status();
        let pods = PodsMetricStatus { current, metric: source.metric.clone() };
        Ok(ReadMetric {
            replicas: found.replicas,
            name: format!("pods metric {}", source.metric.name),
            status: MetricStatus { pods: Some(pods), ..status },
        })
    }

    fn propose_for_pods(self, source: &PodsMetricSource) -> Result<ReplicaProposal, String> {
        let unable = |why: String| format!("unable to get metric {}: {why}", source.metric.name);
        let values = self.custom_values(self.queries.of_pods(source)).map_err(unable)?;
        self.require_pods()?;
        let values = values.iter().map(|value| (value.object.as_str(), value.millis)).collect();
        let samples: Vec<_> = self.pods.iter().map(|pod| sample(pod, &values)).collect();
        let target = target_millis(source.target.average_value.as_ref());
        let target = ResourceTarget::AverageMillis(target);
        propose(&samples, target, self.current, self.tolerance).map_err(|why| why.to_string())
    }

    fn read_object(
        self,
        source: &ObjectMetricSource,
        status: MetricStatus,
    ) -> Result<ReadMetric, MetricFailure> {
        let (of, name) = (&source.described_object, &source.metric.name);
        let unable = |why: String| {
            let (kind, object, namespace) = (&of.kind, &of.name, self.queries.namespace);
            format!("unable to get metric {name}: {kind} on {namespace} {object}/{why}")
        };
        let values = self.custom_values(self.queries.of_object(source)).map_err(unable);
        let found =
            self.propose_for_value(values, &source.target).map_err(|message| MetricFailure {
                reason: "FailedGetObjectMetric",
                summary: format!("failed to get object metric value: {message}"),
                message,
            })?;
        let object = ObjectMetricStatus {
            current: found.shown.status(),
            described_object: of.clone(),
            metric: source.metric.clone(),
        };
        Ok(ReadMetric {
            replicas: found.replicas,
            name: format!("{} metric {name}", of.kind),
            status: MetricStatus { object: Some(object), ..status },
        })
    }

    fn read_external(
        self,
        source: &ExternalMetricSource,
        status: MetricStatus,
    ) -> Result<ReadMetric, MetricFailure> {
        let (name, series) = (&source.metric.name, series(&source.metric));
        let unable = |why: String| {
            format!(
                "unable to get external metric {}/{name}/{series}: {why}",
                self.queries.namespace
            )
        };
        let values = self.values("external", &self.queries.of_external(source)).map_err(unable);
        let found =
            self.propose_for_value(values, &source.target).map_err(|message| MetricFailure {
                reason: "FailedGetExternalMetric",
                summary: format!("failed to get {name} external metric value: {message}"),
                message,
            })?;
        let current = found.shown.status();
        let external = ExternalMetricStatus { current, metric: source.metric.clone() };
        Ok(ReadMetric {
            replicas: found.replicas,
            name: format!("external metric {name}({series})"),
            status: MetricStatus { external: Some(external), ..status },
        })
    }

    /// By one value: together, or for each replica.
    fn propose_for_value(
        self,
        values: Result<&[MetricValue], String>,
        target: &MetricTarget,
    ) -> Result<AdapterProposal, String> {
        let millis = values?.iter().fold(0_i64, |sum, value| sum.saturating_add(value.millis));
        match (&target.average_value, &target.value) {
            (Some(average), _) => Ok(self.by_average(millis, target_millis(Some(average)))),
            (None, Some(value)) => self.by_whole(millis, target_millis(Some(value))),
            (None, None) => Err("invalid metric source: neither a value target nor an average \
                                 value target was set"
                .to_owned()),
        }
    }

    fn by_average(self, millis: i64, target: i64) -> AdapterProposal {
        let ratio = millis as f64 / (target as f64 * f64::from(self.observed));
        let replicas = match self.tolerance.allows(ratio) {
            true => self.observed,
            false => ceil(millis as f64 / target as f64, 1),
        };
        // a value that no replica shares is shown as it is
        let average = (millis as f64 / f64::from(self.observed.max(1))).ceil() as i64;
        AdapterProposal { replicas, shown: ShownValue::Average(average) }
    }

    fn by_whole(self, millis: i64, target: i64) -> Result<AdapterProposal, String> {
        let ratio = millis as f64 / target as f64;
        let replicas = if self.current == 0 {
            ceil(ratio, 1)
        } else if self.tolerance.allows(ratio) {
            self.current
        } else {
            self.require_pods().map_err(|why| format!("unable to calculate ready pods: {why}"))?;
            let is_ready =
                |pod: &&&HeldPod| pods::phase(**pod) == "Running" && pods::is_ready(**pod);
            ceil(ratio, self.pods.iter().filter(is_ready).count())
        };
        Ok(AdapterProposal { replicas, shown: ShownValue::Whole(millis) })
    }

    fn require_pods(self) -> Result<(), String> {
        match self.pods.is_empty() {
            true => Err("no pods returned by selector while calculating replica count".to_owned()),
            false => Ok(()),
        }
    }

    fn custom_values(self, asked: Asked) -> Result<&'a [MetricValue], String> {
        self.values("custom", &asked?)
    }

    /// The values that an adapter of this API gave.
    fn values(self, api: &str, query: &MetricQuery) -> Result<&'a [MetricValue], String> {
        match self.reading.metrics.get(query) {
            Some(Ok(values)) if values.is_empty() => {
                Err(format!("no metrics returned from {api} metrics API"))
            }
            Some(Ok(values)) => Ok(values),
            Some(Err(why)) => Err(format!("unable to fetch metrics from {api} metrics API: {why}")),
            None => Err(format!("the {api} metrics API has not been asked yet")),
        }
    }
}

/// How a pod counts, and its value among those by the names of pods.
fn sample(pod: &HeldPod, values: &BTreeMap<&str, i64>) -> PodSample {
    let value = values.get(pod.metadata.name.as_deref().unwrap_or_default());
    let (standing, used_millis) = match (standing(pod), value) {
        (Some(standing), _) => (standing, 0),
        (None, Some(value)) => (SampleStanding::Counted, *value),
        (None, None) => (SampleStanding::Missing, 0),
    };
    PodSample { standing, request_millis: 0, used_millis }
}
