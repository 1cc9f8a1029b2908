//! What is held of a pod's status: what workloads, placement and the ladder ask about.
//!
//! In the API's type a container's status takes up 750 bytes, as it has a place for all that may
//! have happened to it. Here it has one for what did.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, PodCondition,
    PodIP, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The status of a pod; its fields are those of the API.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the API reference of PodStatus has them")]
pub struct HeldPodStatus {
    pub allocated_resources: Option<Box<BTreeMap<String, Quantity>>>,
    pub conditions: Option<Vec<PodCondition>>,
    pub container_statuses: Option<Vec<HeldContainerStatus>>,
    pub init_container_statuses: Option<Vec<HeldContainerStatus>>,
    pub nominated_node_name: Option<String>,
    pub phase: Option<String>,
    pub pod_ip: Option<String>,
    pub pod_ips: Option<Vec<PodIP>>,
    pub reason: Option<String>,
    pub resources: Option<Box<ResourceRequirements>>,
    pub start_time: Option<Time>,
}

/// The status of a container; its fields are those of the API.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the API reference of ContainerStatus has them")]
pub struct HeldContainerStatus {
    pub allocated_resources: Option<Box<BTreeMap<String, Quantity>>>,
    pub container_id: Option<String>,
    pub last_state: HeldContainerState,
    pub name: String,
    pub ready: bool,
    pub resources: Option<Box<ResourceRequirements>>,
    pub restart_count: i32,
    pub state: HeldContainerState,
}

/// How a container is, or was before.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HeldContainerState {
    /// Nothing is said of it.
    #[default]
    Unsaid,
    /// It waits to be started.
    Waiting(Box<ContainerStateWaiting>),
    /// It runs.
    Running(ContainerStateRunning),
    /// It has ended.
    Terminated(Box<ContainerStateTerminated>),
}

impl HeldContainerState {
    /// Why it waits, if it does.
    pub fn waiting(&self) -> Option<&ContainerStateWaiting> {
        match self {
            Self::Waiting(waiting) => Some(waiting),
            Self::Unsaid | Self::Running(_) | Self::Terminated(_) => None,
        }
    }

    /// Since when it runs, if it does.
    pub fn running(&self) -> Option<&ContainerStateRunning> {
        match self {
            Self::Running(running) => Some(running),
            Self::Unsaid | Self::Waiting(_) | Self::Terminated(_) => None,
        }
    }

    /// How it ended, if it did.
    pub fn terminated(&self) -> Option<&ContainerStateTerminated> {
        match self {
            Self::Terminated(terminated) => Some(terminated),
            Self::Unsaid | Self::Waiting(_) | Self::Running(_) => None,
        }
    }
}

impl From<v1::PodStatus> for HeldPodStatus {
    fn from(status: v1::PodStatus) -> Self {
        Self {
            allocated_resources: status.allocated_resources.map(Box::new),
            conditions: status.conditions.map(fitting),
            container_statuses: status.container_statuses.map(container_statuses),
            init_container_statuses: status.init_container_statuses.map(container_statuses),
            nominated_node_name: status.nominated_node_name,
            phase: status.phase,
            pod_ip: status.pod_ip,
            pod_ips: status.pod_ips.map(fitting),
            reason: status.reason,
            resources: status.resources.map(Box::new),
            start_time: status.start_time,
        }
    }
}

/// A list that was read has room for more, which would stay empty.
fn fitting<T>(mut list: Vec<T>) -> Vec<T> {
    list.shrink_to_fit();
    list
}

fn container_statuses(list: Vec<v1::ContainerStatus>) -> Vec<HeldContainerStatus> {
    list.into_iter().map(HeldContainerStatus::from).collect::<Box<[_]>>().into_vec()
}

impl From<v1::ContainerStatus> for HeldContainerStatus {
    fn from(status: v1::ContainerStatus) -> Self {
        Self {
            allocated_resources: status.allocated_resources.map(Box::new),
            container_id: status.container_id,
            last_state: status.last_state.map(HeldContainerState::from).unwrap_or_default(),
            name: status.name,
            ready: status.ready,
            resources: status.resources.map(Box::new),
            restart_count: status.restart_count,
            state: status.state.map(HeldContainerState::from).unwrap_or_default(),
        }
    }
}

impl From<v1::ContainerState> for HeldContainerState {
    /// The API reference allows one of the three. Of several that which is furthest on counts.
    fn from(state: v1::ContainerState) -> Self {
        match (state.terminated, state.running, state.waiting) {
            (Some(terminated), _, _) => Self::Terminated(Box::new(terminated)),
            (None, Some(running), _) => Self::Running(running),
            (None, None, Some(waiting)) => Self::Waiting(Box::new(waiting)),
            (None, None, None) => Self::Unsaid,
        }
    }
}
