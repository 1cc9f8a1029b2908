//! `/configz`: the agent's settings, as far as a kubelet has the same.

use serde_json::{Value, json};

use crate::config::NodeConfig;

pub(super) fn configz(config: &NodeConfig) -> Value {
    let seconds = config.max_container_restart_period.to_std().as_secs();
    json!({"kubeletconfig": {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "clusterDomain": config.cluster_domain,
        "crashLoopBackOff": {"maxContainerRestartPeriod": format!("{seconds}s")},
        "maxParallelImagePulls": config.max_parallel_image_pulls,
        "serializeImagePulls": config.max_parallel_image_pulls == 1,
        "podCIDR": config.pod_cidrs.first().cloned().unwrap_or_default(),
    }})
}
