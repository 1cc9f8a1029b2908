//! What everything on one node shares.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::config::ApiAddresses;
use crate::counters::AgentCounters;
use crate::env::Allocatable;
use crate::images::NodeImages;
use crate::layout::NodeDirs;
use crate::network_policies::PolicyGate;
use crate::objects::ObjectCache;
use crate::pods::{
    EventRecorder, NodeRoom, PodIndex, PodResolverSources, SharedRestartOwners, node_reference,
};
use crate::service_links::ServiceLinks;
use crate::service_rules::PodRoutes;
use crate::users::PodUsers;

/// Shared by the tasks of one node agent.
pub(crate) struct NodeContext<R, N> {
    /// The node's name.
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) runtime: Arc<R>,
    pub(crate) network: Arc<N>,
    pub(crate) dirs: NodeDirs,
    pub(crate) objects: Arc<ObjectCache>,
    pub(crate) services: ServiceLinks,
    pub(crate) recorder: EventRecorder,
    pub(crate) index: PodIndex,
    /// Which of its pods has which request to restart it.
    pub(crate) restart_owners: SharedRestartOwners,
    pub(crate) counters: Arc<AgentCounters>,
    pub(crate) images: NodeImages,
    pub(crate) allocatable: Allocatable,
    /// What its pods have of that.
    pub(crate) room: NodeRoom,
    pub(crate) pod_pids_limit: Option<u64>,
    /// Which user ids are whose.
    pub(crate) users: PodUsers,
    pub(crate) host_ips: Vec<IpAddr>,
    pub(crate) api: Option<ApiAddresses>,
    pub(crate) core_config: rekindle_pod::PodConfig,
    pub(crate) cluster_domain: String,
    pub(crate) resolvers: PodResolverSources,
    /// Who keeps new connections away from pods that end.
    pub(crate) routes: PodRoutes,
    /// Who says that NetworkPolicies hold for a pod.
    pub(crate) policies: PolicyGate,
    /// Told when a sandbox was set up: one made ahead may be gone.
    pub(crate) sandbox_taken: Arc<Notify>,
}

impl<R, N> NodeContext<R, N> {
    /// The Node object, for events about it.
    pub(crate) fn object_reference(&self) -> ObjectReference {
        node_reference(&self.name)
    }
}
