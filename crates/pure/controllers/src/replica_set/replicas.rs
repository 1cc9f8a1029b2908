//! A ReplicationController read as a ReplicaSet: the same but for its names, as upstream has it
//! (`ReplicationManager`).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus,
};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerSpec,
    ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::ViewObject;

/// So many pods of one template.
pub(super) struct ReplicaOwner {
    /// As a ReplicaSet.
    pub(super) rs: Arc<ReplicaSet>,
    /// As it is.
    pub(super) about: ViewObject,
}

impl ReplicaOwner {
    /// None for an object of another kind.
    pub(super) fn from_object(object: &ViewObject) -> Option<Self> {
        let rs = match object {
            ViewObject::ReplicaSet(set) => set.clone(),
            ViewObject::ReplicationController(controller) => Arc::new(read(controller)),
            _ => return None,
        };
        Some(Self { rs, about: object.clone() })
    }

    /// `source.component` of its events.
    pub(super) const fn component(&self) -> &'static str {
        match &self.about {
            ViewObject::ReplicationController(_) => "replication-controller",
            _ => "replicaset-controller",
        }
    }

    /// The object with another status.
    pub(super) fn with_status(&self, status: ReplicaSetStatus) -> ViewObject {
        if let ViewObject::ReplicationController(controller) = &self.about {
            let mut updated = controller.as_ref().clone();
            updated.status = Some(written(status));
            return updated.into();
        }
        let mut updated = self.rs.as_ref().clone();
        updated.status = Some(status);
        updated.into()
    }
}

/// The selector as those of the other kinds are.
pub(super) fn selector(controller: &ReplicationController) -> LabelSelector {
    let labels = controller.spec.as_ref().and_then(|spec| spec.selector.clone());
    LabelSelector { match_labels: labels, match_expressions: None }
}

fn read(controller: &ReplicationController) -> ReplicaSet {
    let none = ReplicationControllerSpec::default();
    let spec = controller.spec.as_ref().unwrap_or(&none);
    ReplicaSet {
        metadata: controller.metadata.clone(),
        spec: ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: spec.replicas,
            selector: selector(controller),
            template: spec.template.clone(),
        },
        status: controller.status.as_ref().map(|status| ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            terminating_replicas: None,
            observed_generation: status.observed_generation,
            conditions: status
                .conditions
                .as_ref()
                .map(|all| all.iter().map(read_condition).collect()),
        }),
    }
}

fn read_condition(condition: &ReplicationControllerCondition) -> ReplicaSetCondition {
    ReplicaSetCondition {
        type_: Some(condition.type_.clone()),
        status: Some(condition.status.clone()),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_transition_time: condition.last_transition_time.clone(),
    }
}

/// Pods that are being deleted are not counted in the status of a ReplicationController.
fn written(status: ReplicaSetStatus) -> ReplicationControllerStatus {
    let conditions = status.conditions.map(|all| {
        let written = all.into_iter().map(|condition| ReplicationControllerCondition {
            type_: condition.type_.unwrap_or_default(),
            status: condition.status.unwrap_or_default(),
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.last_transition_time,
        });
        written.collect()
    });
    ReplicationControllerStatus {
        replicas: status.replicas,
        fully_labeled_replicas: status.fully_labeled_replicas,
        ready_replicas: status.ready_replicas,
        available_replicas: status.available_replicas,
        observed_generation: status.observed_generation,
        conditions,
    }
}
