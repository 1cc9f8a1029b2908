//! The agent of one node of a cluster.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::MetricsAddress;

/// `rekindle agent`.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// The node that this runs on
    #[arg(long, value_name = "NAME", env = "REKINDLE_NODE_NAME")]
    pub node_name: String,
    /// The socket of the node's container runtime
    #[arg(long, value_name = "SOCKET", default_value = "unix:///run/containerd/containerd.sock")]
    pub cri_socket: String,
    /// The kubeconfig [default: KUBECONFIG, or the account of the pod that this runs in]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]; the account of a pod has none
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// So many pods of the node are restarted at once, those of a group aside
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = value_parser!(u16).range(1..=100))]
    pub max_restarts: u16,
    /// The folder in which cgroups are mounted, to freeze pods (groups, `emptyDirs: Clear`) and to
    /// count OOM kills
    #[arg(long, value_name = "FOLDER")]
    pub cgroup_root: Option<PathBuf>,
    /// The kubelet's folder of pods, to empty emptyDir volumes (`emptyDirs: Clear`)
    #[arg(long, value_name = "FOLDER", requires = "cgroup_root")]
    pub kubelet_pods: Option<PathBuf>,
    /// The folder of the pods' logs as the runtime calls it, to keep the last lines of each
    #[arg(long, value_name = "FOLDER")]
    pub pod_logs: Option<PathBuf>,
    /// Serve /metrics, /healthz and /readyz by HTTP at this address; :8080 is that port of every
    /// address, 0 is none
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = MetricsAddress::parse)]
    pub metrics_bind_address: MetricsAddress,
    /// Only say whether the runtime answers, for a readiness probe
    #[arg(long)]
    pub check: bool,
}
