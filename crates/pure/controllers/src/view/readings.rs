//! What the view holds beside objects for the autoscaler: readings of metrics, and what was
//! recommended and scaled.

use std::collections::BTreeSet;

use super::ClusterView;
use crate::horizontal_autoscaler::history::ScalingHistory;
use crate::horizontal_autoscaler::{ReplicaRecommendation, queries, scale_query};
use crate::readings::{NamespaceReading, ReadingRequest};
use crate::{ControllerKey, ResourceKind, ViewObject};

impl ClusterView {
    /// What is to be read for the autoscalers of a namespace.
    pub fn reading_request(&self, namespace: &str) -> ReadingRequest {
        let mut request = ReadingRequest {
            namespace: namespace.to_owned(),
            metrics: BTreeSet::new(),
            scales: BTreeSet::new(),
        };
        for object in self.in_namespace(ResourceKind::HorizontalPodAutoscaler, namespace) {
            if let ViewObject::HorizontalPodAutoscaler(autoscaler) = object {
                request.metrics.extend(queries(self, autoscaler));
                request.scales.extend(scale_query(self, autoscaler));
            }
        }
        request
    }

    /// The driver has read what the autoscalers of a namespace decide on. Returns the controllers
    /// that have to look at it.
    pub fn measured<'a>(
        &'a mut self,
        namespace: &'a str,
        reading: NamespaceReading,
    ) -> impl Iterator<Item = ControllerKey> + use<'a> {
        self.readings.replace(namespace, reading);
        let scaled = self.in_namespace(ResourceKind::HorizontalPodAutoscaler, namespace);
        scaled.map(|object| ControllerKey::HorizontalAutoscaler(object.id().name))
    }

    /// Nothing in the namespace is scaled any more.
    pub fn forget_reading(&mut self, namespace: &str) {
        self.readings.forget(namespace);
    }

    /// The newest reading for the autoscalers of a namespace.
    pub(crate) fn reading(&self, namespace: &str) -> Option<&NamespaceReading> {
        self.readings.get(namespace)
    }

    /// Notes what the metrics of an autoscaler ask for.
    pub fn recommend(&mut self, recommendation: &ReplicaRecommendation) {
        self.memories.scaling.recommend(recommendation);
    }

    /// What is remembered of an autoscaler.
    pub(crate) fn scaling_history(&self, uid: &str) -> ScalingHistory {
        self.memories.scaling.get(uid)
    }
}
