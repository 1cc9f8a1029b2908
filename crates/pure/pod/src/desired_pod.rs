//! What is wanted: the pod's object, its spec as the core reads it, and the node's configuration.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rekindle_types::TickDuration;
use rekindle_types::pods::{in_full, is_finished};

use crate::blueprint::{Blueprint, Definition, NetworkOwner};
use crate::config::PodConfig;

/// What this node is to make of the pod.
#[derive(Debug)]
pub(crate) struct DesiredPod {
    pod: Arc<Pod>,
    blueprint: Blueprint,
    config: PodConfig,
}

impl DesiredPod {
    pub(crate) fn new(pod: Arc<Pod>, config: PodConfig) -> Self {
        Self { blueprint: Blueprint::from_pod(&pod), pod, config }
    }

    /// The object changed: the one before it.
    pub(crate) fn replace(&mut self, pod: Arc<Pod>) -> Arc<Pod> {
        self.blueprint = Blueprint::from_pod(&pod);
        std::mem::replace(&mut self.pod, pod)
    }

    /// The object as it was seen last.
    pub(crate) fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// Its containers in the order of the blueprint.
    pub(crate) fn definitions(&self) -> &[Definition] {
        &self.blueprint.containers
    }

    /// `terminationGracePeriodSeconds`.
    pub(crate) fn grace(&self) -> TickDuration {
        self.blueprint.grace
    }

    /// `activeDeadlineSeconds`.
    pub(crate) fn active_deadline(&self) -> Option<TickDuration> {
        self.blueprint.active_deadline
    }

    pub(crate) fn network(&self) -> NetworkOwner {
        self.blueprint.network
    }

    pub(crate) fn host_ips(&self) -> &[IpAddr] {
        &self.config.host_ips
    }

    /// The longest delay of the node's crash backoff.
    pub(crate) fn crash_delay_max(&self) -> TickDuration {
        self.config.max_container_restart_period
    }

    pub(crate) fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    /// As the kubelet writes a pod in messages.
    pub(crate) fn full_name(&self) -> String {
        in_full(&self.pod.metadata)
    }

    /// The status that the API shows.
    pub(crate) fn api_status(&self) -> Option<&PodStatus> {
        self.pod.status.as_ref()
    }

    /// The phase that the API shows.
    pub(crate) fn api_phase(&self) -> Option<&str> {
        self.api_status()?.phase.as_deref()
    }

    /// The API shows a final phase.
    pub(crate) fn is_declared_finished(&self) -> bool {
        is_finished(&self.pod)
    }

    /// The grace of a pod that is being deleted.
    pub(crate) fn deletion_grace(&self) -> Option<TickDuration> {
        let metadata = &self.pod.metadata;
        metadata.deletion_timestamp.as_ref()?;
        let grace = metadata.deletion_grace_period_seconds.map(TickDuration::of_field);
        Some(grace.unwrap_or(self.grace()))
    }
}
