//! What is asked of adapters for metrics of types Pods, Object and External. Source of behaviour
//! and of the texts: upstream's `rest_metrics_client.go` and the clients of `k8s.io/metrics`.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, ExternalMetricSource, HorizontalPodAutoscaler, MetricIdentifier,
    MetricSpec, ObjectMetricSource, PodsMetricSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::labels;
use rekindle_types::validation::selector;

use super::target::{self, NoScale};
use crate::metric_query::{CustomMetricsVersion, MetricQuery, MetricSubject};
use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind};

/// The group of metrics of objects in the cluster.
const CUSTOM_METRICS: &str = "custom.metrics.k8s.io";

/// A question, or why it cannot be asked.
pub(super) type Asked = Result<MetricQuery, String>;

/// What an autoscaler's metrics ask of adapters, as far as it can be asked.
pub(crate) fn queries(
    view: &ClusterView,
    autoscaler: &HorizontalPodAutoscaler,
) -> Vec<MetricQuery> {
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    let metrics = autoscaler.spec.metrics.as_deref().unwrap_or_default();
    let target = target::find(view, namespace, &autoscaler.spec.scale_target_ref).ok();
    let Some(selector) = target.and_then(|target| target.scale.selector) else { return Vec::new() };
    let queries = TargetQueries { view, namespace, selector: &selector };
    metrics.iter().filter_map(|metric| queries.of_metric(metric)?.ok()).collect()
}

/// The questions about one target.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetQueries<'a> {
    pub(super) view: &'a ClusterView,
    pub(super) namespace: &'a str,
    /// The selector of the target's pods.
    pub(super) selector: &'a LabelSelector,
}

impl TargetQueries<'_> {
    /// The question of a metric; none when the engine measures it.
    fn of_metric(self, metric: &MetricSpec) -> Option<Asked> {
        if let Some(source) = &metric.pods {
            return Some(self.of_pods(source));
        }
        if let Some(source) = &metric.object {
            return Some(self.of_object(source));
        }
        metric.external.as_ref().map(|source| Ok(self.of_external(source)))
    }

    fn query(self, metric: &MetricIdentifier, subject: MetricSubject) -> MetricQuery {
        MetricQuery {
            namespace: self.namespace.to_owned(),
            metric: metric.name.clone(),
            selector: series(metric),
            subject,
        }
    }

    pub(super) fn of_external(self, source: &ExternalMetricSource) -> MetricQuery {
        self.query(&source.metric, MetricSubject::External)
    }

    pub(super) fn of_pods(self, source: &PodsMetricSource) -> Asked {
        let version = self.version()?;
        let subject = MetricSubject::Pods { version, selector: selector::format(self.selector) };
        Ok(self.query(&source.metric, subject))
    }

    pub(super) fn of_object(self, source: &ObjectMetricSource) -> Asked {
        let version = self.version()?;
        let described = &source.described_object;
        let subject = match resource(self.view, described)? {
            // the autoscaler's own, whatever name is given, as upstream
            resource if resource == "namespaces" => MetricSubject::Namespace { version },
            resource => MetricSubject::Object { version, resource, name: described.name.clone() },
        };
        Ok(self.query(&source.metric, subject))
    }

    /// The version that an adapter serves.
    fn version(self) -> Result<CustomMetricsVersion, String> {
        let is_served = |version: &CustomMetricsVersion| {
            let name = format!("{}.{CUSTOM_METRICS}", version.name());
            let id = ObjectId::new(ResourceKind::ApiService, NamespacedName::new("", name));
            self.view.get(&id).is_some()
        };
        let version = CustomMetricsVersion::PREFERRED.into_iter().find(is_served);
        version
            .ok_or_else(|| custom(&format!("no custom metrics API ({CUSTOM_METRICS}) registered")))
    }
}

/// How adapters call the kind of an object.
fn resource(view: &ClusterView, of: &CrossVersionObjectReference) -> Result<String, String> {
    let api_version = of.api_version.as_deref().unwrap_or_default();
    let kind = view
        .kind_of_reference(api_version, &of.kind)
        .ok_or_else(|| custom(&NoScale::unknown_kind(api_version, &of.kind).to_string()))?;
    Ok(kind.info().resource(""))
}

/// The label selector of a metric's series; empty for all.
pub(super) fn series(metric: &MetricIdentifier) -> String {
    let selector = metric.selector.as_ref().filter(|selector| !labels::is_empty(selector));
    selector.map(selector::format).unwrap_or_default()
}

/// Why a metric of objects could not be read.
fn custom(why: &str) -> String {
    format!("unable to fetch metrics from custom metrics API: {why}")
}
