//! What the runtime found of one pod, in the pod core's words.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use rekindle_pod::{ContainerSeen, ContainerSeenState, SandboxSeen, SandboxSeenState, Snapshot};
use rekindle_runtime::{
    ContainerSnapshot, Runtime, RuntimeContainerState, SandboxReadiness, SandboxSnapshot,
};

use super::actions::made;
use super::termination_message::read_message;
use crate::container_spec::find_container;
use crate::context::NodeContext;
use crate::layout::PodDirs;
use crate::network::{self, PodNetwork};

/// Converts it; the addresses come from the network, and the last words of what has ended from its
/// files.
pub(crate) async fn snapshot_of<R: Runtime, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    dirs: &PodDirs,
    mut found: Vec<SandboxSnapshot>,
) -> Snapshot {
    // ports of the node lead to the newest in the end
    found.sort_by_key(SandboxSnapshot::attempt);
    let mut sandboxes = Vec::with_capacity(found.len());
    for sandbox in found {
        let ips = seen_addresses(node, pod, &sandbox).await;
        sandboxes.push(SandboxSeen {
            attempt: sandbox.attempt(),
            state: match sandbox.state {
                SandboxReadiness::Ready => SandboxSeenState::Ready,
                SandboxReadiness::NotReady => SandboxSeenState::NotReady,
            },
            ips,
            containers: sandbox
                .containers
                .into_iter()
                .map(|container| container_seen(pod, dirs, container))
                .collect(),
        });
    }
    Snapshot { sandboxes }
}

/// Attaching again answers what stands. When the network cannot say, what the API shows is
/// believed: a pod is never torn down because of a question that failed.
async fn seen_addresses<R: Runtime, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    sandbox: &SandboxSnapshot,
) -> Vec<IpAddr> {
    let (SandboxReadiness::Ready, Some(info)) = (sandbox.state, &sandbox.info) else {
        return Vec::new();
    };
    match network::addresses(node, info).await {
        Ok(ips) => {
            // they lead there still, unless another has taken one since the agent before ended
            network::reopen_ports(node, pod, info, &ips).await;
            ips
        }
        Err(error) => {
            tracing::warn!(pod = %sandbox.key.pod, %error, "failed to read the addresses of a running sandbox; using those in its status");
            status_addresses(pod)
        }
    }
}

fn status_addresses(pod: &Pod) -> Vec<IpAddr> {
    let ips = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref());
    ips.into_iter().flatten().filter_map(|ip| ip.ip.parse().ok()).collect()
}

fn container_seen(pod: &Pod, dirs: &PodDirs, found: ContainerSnapshot) -> ContainerSeen {
    let state = match found.state {
        RuntimeContainerState::Created => ContainerSeenState::Created,
        RuntimeContainerState::Running { started_at, notice, .. } => {
            ContainerSeenState::Running { started_at, notice }
        }
        RuntimeContainerState::Exited { mut exit } => {
            if let Ok(container) = find_container(pod, &found.key.name.0) {
                exit.message = read_message(pod, &container, dirs, found.key.attempt, &exit);
            }
            ContainerSeenState::Exited { exit }
        }
    };
    let (key, made) = (found.key, made(found.created));
    ContainerSeen { name: key.name, attempt: key.attempt, made, state }
}

/// The ids on the network of these sandboxes.
pub(crate) fn sandbox_network_ids(found: &[SandboxSnapshot]) -> std::collections::BTreeSet<String> {
    found.iter().map(|sandbox| sandbox.id.clone()).collect()
}
