//! Questions to the adapters of `custom.metrics.k8s.io` and `external.metrics.k8s.io`: what an
//! autoscaler wants to know of a metric that the engine does not measure itself.

/// A metric, and of what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricQuery {
    /// Where the autoscaler is: its metrics are those of this namespace.
    pub namespace: String,
    /// The metric's name.
    pub metric: String,
    /// The label selector of its series; empty for all.
    pub selector: String,
    /// Of what it is asked.
    pub subject: MetricSubject,
}

/// What a metric describes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricSubject {
    /// Each of the pods that this label selector matches.
    Pods {
        /// The version to ask in.
        version: CustomMetricsVersion,
        /// The selector of the pods.
        selector: String,
    },
    /// One object of the namespace.
    Object {
        /// The version to ask in.
        version: CustomMetricsVersion,
        /// Its resource: `services`, `ingresses.networking.k8s.io`.
        resource: String,
        /// Its name.
        name: String,
    },
    /// The namespace itself.
    Namespace {
        /// The version to ask in.
        version: CustomMetricsVersion,
    },
    /// Nothing in the cluster.
    External,
}

/// A version of `custom.metrics.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CustomMetricsVersion {
    /// `v1beta1`.
    V1Beta1,
    /// `v1beta2`.
    V1Beta2,
}

impl CustomMetricsVersion {
    /// The one to ask in first, as upstream.
    pub const PREFERRED: [Self; 2] = [Self::V1Beta2, Self::V1Beta1];

    /// As it stands in paths, and in the names of APIServices.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }
}

/// What an adapter said, or why nothing is known.
pub type MetricReading = Result<Vec<MetricValue>, String>;

/// One value that an adapter gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricValue {
    /// The name of the object that it is of; empty for an external metric.
    pub object: String,
    /// The value in thousandths.
    pub millis: i64,
}
