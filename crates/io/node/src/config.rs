//! What a node agent is given.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rekindle_pod::PodConfig;
use rekindle_types::TickDuration;

use crate::clock::Clock;
use crate::eviction::EvictionPolicy;
use crate::images::ImageGcPolicy;
use crate::network_policies::PolicyGate;
use crate::service_rules::PodRoutes;
use crate::shutdown::ShutdownPolicy;
use crate::sysctls::AllowedSysctls;
use crate::users::UserIdRanges;

/// Images that are pulled at the same time. The kubelet pulls one after the other unless told
/// otherwise; then one registry that hangs stops every pod of the node.
const PARALLEL_IMAGE_PULLS: usize = 3;
/// The domain of Services and pods.
pub(crate) const CLUSTER_DOMAIN: &str = "cluster.local";
/// The node's own resolver; the kubelet's default for `resolvConf`.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The kubelet's default.
const MAX_PODS: u32 = 110;

/// What a node agent is given.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The Node object's name.
    pub name: String,
    /// Where the agent keeps its own things, beneath `node/`.
    pub data_dir: PathBuf,
    /// Where container logs go. It belongs to this node alone: logs of pods that are not here are
    /// removed.
    pub log_dir: PathBuf,
    /// InternalIP addresses of the node, and `status.hostIP` of its pods: usually the bridge's
    /// gateway.
    pub addresses: Vec<IpAddr>,
    /// Where the machine is reached from outside (ExternalIP). Load balancers get it.
    pub external_address: Option<IpAddr>,
    /// Where containers reach the API; without it they are not told.
    pub api: Option<ApiAddresses>,
    /// The subnets that pods get addresses from, for `spec.podCIDRs`: one for each IP family.
    pub pod_cidrs: Vec<String>,
    /// Pods that the node takes at most; the kubelet's `maxPods`.
    pub max_pods: u32,
    /// Amounts that replace what the machine has, by resource name (`cpu`, `memory`, `pods`, …):
    /// several nodes on one machine share it by this.
    pub capacity: BTreeMap<String, String>,
    /// Labels of the node beside the usual ones.
    pub labels: BTreeMap<String, String>,
    /// The kubelet's `crashLoopBackOff.maxContainerRestartPeriod`.
    pub max_container_restart_period: TickDuration,
    /// Images that are pulled at the same time; the kubelet's `maxParallelImagePulls`, 1 being its
    /// `serializeImagePulls`.
    pub max_parallel_image_pulls: usize,
    /// Processes and threads of one pod at most; the kubelet's `podPidsLimit`. `None` is no limit.
    pub pod_pids_limit: Option<u64>,
    /// The user ids that pods with users of their own get; no other node of the machine may have
    /// them.
    pub user_ids: UserIdRanges,
    /// Kernel settings that pods may have beside the safe ones; the kubelet's
    /// `allowedUnsafeSysctls`.
    pub sysctls: AllowedSysctls,
    /// When unused images are removed.
    pub image_gc: ImageGcPolicy,
    /// When pods are evicted because the node runs out of something.
    pub eviction: EvictionPolicy,
    /// The time that pods get when the node is shut down; none: its end is no shutdown, and the
    /// pods come back with it.
    pub shutdown: ShutdownPolicy,
    /// The domain of Services and pods (the kubelet's `clusterDomain`), for /etc/hosts and
    /// /etc/resolv.conf: `cluster.local`.
    pub cluster_domain: String,
    /// Where cluster DNS is (the kubelet's `clusterDNS`); without it pods use the node's resolvers.
    pub cluster_dns: Option<IpAddr>,
    /// The node's resolver (the kubelet's `resolvConf`); none: `/etc/resolv.conf`, or what is
    /// behind a stub on the loopback.
    pub resolv_conf: Option<PathBuf>,
    /// Who keeps new connections away from pods that end.
    pub routes: PodRoutes,
    /// For so long their containers wait for that, at most.
    pub endpoint_withdrawal_timeout: TickDuration,
    /// Who says that NetworkPolicies hold for a pod.
    pub policies: PolicyGate,
    /// Between two heartbeats: a quarter of the time that the node's Lease counts (the kubelet's
    /// `nodeLeaseDurationSeconds`).
    pub heartbeat_period: TickDuration,
    /// Shown as the node's kubelet version: `v1.37.0+rekindle.0.1.0`.
    pub version: String,
    /// Where ticks come from; the same clock as the runtime's.
    pub clock: Clock,
    /// The folder of static pods' manifests, which exists; the kubelet's `staticPodPath`.
    pub static_pods: Option<PathBuf>,
    /// What the agent is started for.
    pub duty: AgentDuty,
}

/// Where containers reach the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiAddresses {
    /// Those with a network of their own.
    pub of_pods: SocketAddr,
    /// Those on the node's network.
    pub of_the_node: SocketAddr,
}

/// What an agent is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentDuty {
    /// To run the pods of its node.
    Serve,
    /// To end what an agent that was killed left running, gracefully, and to start nothing: told to
    /// stop with `EndPods`, it returns when that is done.
    EndPods,
}

impl NodeConfig {
    /// The usual node of this name on these folders.
    pub fn new(name: &str, data_dir: &Path, log_dir: &Path) -> Self {
        Self {
            name: name.to_owned(),
            data_dir: data_dir.to_owned(),
            log_dir: log_dir.to_owned(),
            addresses: Vec::new(),
            external_address: None,
            api: None,
            pod_cidrs: Vec::new(),
            max_pods: MAX_PODS,
            capacity: BTreeMap::new(),
            labels: BTreeMap::new(),
            max_container_restart_period: TickDuration::from_secs(300),
            max_parallel_image_pulls: PARALLEL_IMAGE_PULLS,
            pod_pids_limit: None,
            user_ids: UserIdRanges::default(),
            sysctls: AllowedSysctls::default(),
            image_gc: ImageGcPolicy::default(),
            eviction: EvictionPolicy::default(),
            shutdown: ShutdownPolicy::default(),
            cluster_domain: CLUSTER_DOMAIN.to_owned(),
            cluster_dns: None,
            resolv_conf: None,
            routes: PodRoutes::default(),
            endpoint_withdrawal_timeout: PodConfig::ENDPOINT_WITHDRAWAL_TIMEOUT,
            policies: PolicyGate::default(),
            heartbeat_period: TickDuration::from_secs(10),
            version: format!("v1.37.0+rekindle.{}", env!("CARGO_PKG_VERSION")),
            clock: Clock::system(),
            static_pods: None,
            duty: AgentDuty::Serve,
        }
    }
}
