//! What autoscalers decide on: what pods use, as `metrics.k8s.io` says it, and what adapters say of
//! other metrics. No watch shows it: the driver reads it from time to time, for the namespaces that
//! have an autoscaler, and gives it to the view.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::resources::Amounts;
use rekindle_types::{Tick, TickDuration};

use crate::ObjectId;
use crate::metric_query::{MetricQuery, MetricReading};

/// What is to be read for the autoscalers of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingRequest {
    /// The namespace: what its pods use is read.
    pub namespace: String,
    /// What is asked of adapters.
    pub metrics: BTreeSet<MetricQuery>,
    /// The custom resources whose scale is read: the view has their metadata only.
    pub scales: BTreeSet<ObjectId>,
}

/// What was read for the autoscalers of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceReading {
    /// What its pods use.
    pub usage: UsageReading,
    /// What adapters said, by what they were asked.
    pub metrics: BTreeMap<MetricQuery, MetricReading>,
    /// What `/scale` of custom resources says.
    pub scales: BTreeMap<ObjectId, ScaleReading>,
}

impl From<UsageReading> for NamespaceReading {
    /// Where nothing else was asked.
    fn from(usage: UsageReading) -> Self {
        Self { usage, metrics: BTreeMap::new(), scales: BTreeMap::new() }
    }
}

/// What `/scale` of an object says, or why it cannot be read.
pub type ScaleReading = Result<WorkloadScale, String>;

/// An autoscaling/v1 Scale, as far as an autoscaler needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadScale {
    /// The workload's UID.
    pub uid: String,
    /// The workload's version that this was read from.
    pub resource_version: String,
    /// `spec.replicas`.
    pub wanted: i32,
    /// `status.replicas`.
    pub observed: i32,
    /// `status.selector`; absent where it would select everything.
    pub selector: Option<LabelSelector>,
}

/// What the pods of a namespace use, or why that is not known.
pub type UsageReading = Result<UsageReport, String>;

/// What the pods of one namespace use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageReport {
    /// By the pod's name.
    pub pods: BTreeMap<String, MeasuredPod>,
}

/// What one pod uses.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPod {
    /// When it was measured.
    pub taken_at: Tick,
    /// CPU is the mean over this time before.
    pub window: TickDuration,
    /// Its running containers by name.
    pub containers: BTreeMap<String, Amounts>,
}

impl MeasuredPod {
    /// Thousandths of a resource in all containers, or in the one of this name; none when one of
    /// them does not say.
    pub(crate) fn millis(&self, resource: &str, container: Option<&str>) -> Option<i64> {
        let counted = |name: &str| container.is_none_or(|wanted| wanted == name);
        let mut found = self.containers.iter().filter(|(name, _)| counted(name)).peekable();
        found.peek()?;
        found.try_fold(0_i64, |sum, (_, used)| {
            used.names(resource).then(|| sum.saturating_add(used.get(resource).millis()))
        })
    }
}

/// The newest reading of each namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceReadings(BTreeMap<String, NamespaceReading>);

impl NamespaceReadings {
    /// Takes the place of the reading before.
    pub(crate) fn replace(&mut self, namespace: &str, reading: NamespaceReading) {
        self.0.insert(namespace.to_owned(), reading);
    }

    /// Nothing in the namespace is scaled any more.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// The newest one; none when none has come yet.
    pub(crate) fn get(&self, namespace: &str) -> Option<&NamespaceReading> {
        self.0.get(namespace)
    }
}
