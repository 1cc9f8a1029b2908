//! What the agent needs of the pod network: an address per sandbox, and ports of the node that lead
//! there. Who writes the rules opens those (`service_rules`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use rekindle_pod::PodEvent;
use rekindle_runtime::{NamespaceOwner, SandboxInfo};
use rekindle_types::reasons::event::FAILED_OPEN_PORT;
use rekindle_types::{EventSeverity, IpFamily, IpStack, causes};

use crate::context::NodeContext;
use crate::host_ports::{holder, host_ports, unserved_ports};
use crate::pods::pod_ref;
use crate::service_rules::{PodPorts, PortDemand, PortOutcome, SandboxAddresses};

/// Gives each sandbox its interface and address. Every call is idempotent by the sandbox's id.
pub trait PodNetwork: Send + Sync + 'static {
    /// Puts the sandbox whose network namespace is at `netns` on the network and answers its
    /// addresses. Asked again for an id that stands, it answers the same addresses.
    fn attach(
        &self,
        id: &str,
        netns: &Path,
    ) -> impl Future<Output = Result<Vec<IpAddr>, NetworkError>> + Send;

    /// The same ahead of need, so that [`attach`](Self::attach) takes no time when the sandbox
    /// becomes a pod's.
    fn prepare(
        &self,
        id: &str,
        netns: &Path,
    ) -> impl Future<Output = Result<(), NetworkError>> + Send;

    /// Takes the sandbox off the network, and frees its address. Unknown is success.
    fn detach(&self, id: &str) -> impl Future<Output = Result<(), NetworkError>> + Send;

    /// Frees what belongs to no sandbox in `ids`: left by an agent that died in between. Answers
    /// the addresses that stay, each with its sandbox.
    fn release_all_except(
        &self,
        ids: &BTreeSet<String>,
    ) -> impl Future<Output = Result<BTreeMap<IpAddr, String>, NetworkError>> + Send;
}

/// The addresses of a sandbox: those that it has on the network, which it is put on, and the node's
/// where it lives in the node's own.
pub(crate) async fn addresses<R, N: PodNetwork>(
    node: &NodeContext<R, N>,
    sandbox: &SandboxInfo,
) -> Result<Vec<IpAddr>, NetworkError> {
    match sandbox.namespaces.network {
        NamespaceOwner::Own => node.network.attach(&sandbox.id, &sandbox.netns).await,
        NamespaceOwner::Host => Ok(node.host_ips.clone()),
    }
}

/// Lets the ports of the node that the pod asks for lead to this sandbox. A refusal names the pod
/// that has one of them.
pub(crate) async fn open_ports<R, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    sandbox: &SandboxInfo,
    addresses: &[IpAddr],
) -> Result<(), NetworkError> {
    report_unserved_ports(node, pod, addresses);
    let Some(wanted) = wanted_ports(pod, sandbox, addresses, PortDemand::All) else {
        return Ok(());
    };
    let pod_ref = wanted.pod.clone();
    match node.routes.open_ports(wanted).await {
        Ok(PortOutcome::Open) => Ok(()),
        Ok(PortOutcome::Refused(refused)) => {
            Err(NetworkError(refused.join("; ") + &said_of_holder(node, pod).await))
        }
        Err(late) => Err(in_one_line(&late)),
        Ok(PortOutcome::Unsupported) => {
            let message = "Host ports of this pod are not opened: the node has no rules for them. The log of the engine says why".to_owned();
            node.recorder.pod_event(&pod_ref, failed_open_port(message));
            Ok(())
        }
    }
}

/// A pod without the second address starts all the same. Its events say which ports are missing.
fn report_unserved_ports<R, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    addresses: &[IpAddr],
) {
    let unserved = unserved_ports(pod, addresses);
    let (Some(pod), false) = (pod_ref(pod), unserved.is_empty()) else { return };
    let message = format!(
        "Host ports of this pod are not opened at IPv6: {}. The pod has no IPv6 address; `up --dual-stack` gives each pod one",
        unserved.join(", ")
    );
    node.recorder.pod_event(&pod, failed_open_port(message));
}

fn failed_open_port(message: String) -> PodEvent {
    let (severity, reason) = (EventSeverity::Warning, FAILED_OPEN_PORT);
    PodEvent { severity, reason, message, field_path: None }
}

/// The same for a pod that runs: it goes on without those that are another's, and gets them when
/// they are free. An event of who writes the rules says so.
pub(crate) async fn reopen_ports<R, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    sandbox: &SandboxInfo,
    addresses: &[IpAddr],
) {
    let Some(wanted) = wanted_ports(pod, sandbox, addresses, PortDemand::WhatIsFree) else {
        return;
    };
    let outcome = node.routes.open_ports(wanted).await;
    if let Err(late) = outcome {
        tracing::debug!(error = %late, "host ports are opened when the rules can be written");
    }
}

/// What leads to the sandbox ends, if anything of the node leads to this pod.
pub(crate) async fn close_ports<R, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    sandbox: &str,
) {
    if !host_ports(pod, IpStack::Dual.families()).is_empty() {
        node.routes.close_ports(sandbox).await;
    }
}

/// `None`: the pod asks for none.
fn wanted_ports(
    pod: &Pod,
    sandbox: &SandboxInfo,
    addresses: &[IpAddr],
    demand: PortDemand,
) -> Option<PodPorts> {
    let addresses = SandboxAddresses::from_list(addresses)?;
    let families: Vec<IpFamily> = addresses.families().collect();
    let ports = host_ports(pod, &families);
    if ports.is_empty() {
        return None;
    }
    Some(PodPorts { pod: pod_ref(pod)?, sandbox: sandbox.id.clone(), addresses, ports, demand })
}

/// Which pod has a port that this one asks for, to be added to a refusal. The scheduler knows of
/// such, but not everybody asks it (`nodeName`), and it takes the ports of a node that is not heard
/// of for free.
async fn said_of_holder<R, N>(node: &NodeContext<R, N>, pod: &Pod) -> String {
    let pods: Api<Pod> = Api::all(node.client.clone());
    match pods.list(&ListParams::default()).await {
        Ok(all) => match holder(pod, &node.host_ips, &all.items) {
            Some(holder) => format!(" ({holder} has it)"),
            None => String::new(),
        },
        Err(error) => {
            tracing::debug!(%error, "cannot look for the pod that has a port of the node");
            String::new()
        }
    }
}

/// A failed network operation, in one line that names object, operation and cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(pub String);

impl PodNetwork for rekindle_net::BridgeNetwork {
    async fn attach(&self, id: &str, netns: &Path) -> Result<Vec<IpAddr>, NetworkError> {
        match Self::attach(self, id, netns).await {
            Ok(attachment) => {
                let second = attachment.second_ip.map(IpAddr::V6);
                Ok([Some(IpAddr::V4(attachment.ip)), second].into_iter().flatten().collect())
            }
            Err(error) => Err(in_one_line(&error)),
        }
    }

    async fn prepare(&self, id: &str, netns: &Path) -> Result<(), NetworkError> {
        Self::prepare(self, id, netns).await.map_err(|error| in_one_line(&error))
    }

    async fn detach(&self, id: &str) -> Result<(), NetworkError> {
        Self::detach(self, id);
        Ok(())
    }

    async fn release_all_except(
        &self,
        ids: &BTreeSet<String>,
    ) -> Result<BTreeMap<IpAddr, String>, NetworkError> {
        Self::release_all_except(self, ids).await.map_err(|error| in_one_line(&error))?;
        let leases = self.leases().into_iter().filter(|(id, _)| ids.contains(id));
        Ok(leases.map(|(id, address)| (IpAddr::V4(address), id)).collect())
    }
}

pub(crate) fn in_one_line(error: &(dyn std::error::Error + 'static)) -> NetworkError {
    NetworkError(causes(error))
}
