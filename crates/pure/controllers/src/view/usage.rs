//! What the view holds beside objects for the autoscaler: readings of what pods use, and what was
//! recommended and scaled.

use super::ClusterView;
use crate::horizontal_autoscaler::ReplicaRecommendation;
use crate::horizontal_autoscaler::history::ScalingHistory;
use crate::usage::UsageReading;
use crate::{ControllerKey, ResourceKind};

impl ClusterView {
    /// The driver has read what the pods of a namespace use. The answer is who has to look at it.
    pub fn measured<'a>(
        &'a mut self,
        namespace: &'a str,
        reading: UsageReading,
    ) -> impl Iterator<Item = ControllerKey> + use<'a> {
        self.usage.replace(namespace, reading);
        let scaled = self.in_namespace(ResourceKind::HorizontalPodAutoscaler, namespace);
        scaled.map(|object| ControllerKey::HorizontalAutoscaler(object.id().name))
    }

    /// Nothing in the namespace is scaled any more.
    pub fn forget_usage(&mut self, namespace: &str) {
        self.usage.forget(namespace);
    }

    /// The newest reading of what the pods of a namespace use.
    pub(crate) fn usage(&self, namespace: &str) -> Option<&UsageReading> {
        self.usage.get(namespace)
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
