//! What the agent needs of the pod network: an address per sandbox, and ports of the node that lead
//! there.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use rekindle_net::HostPort;
use rekindle_runtime::{NamespaceOwner, SandboxInfo};
use rekindle_types::{PodUid, causes};

use crate::context::NodeContext;
use crate::host_ports::{holder, host_ports};

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

    /// Opens ports of the node that lead to `pod` in sandbox `id` at `target`: all, or none and an
    /// error. Those that the pod has open already lead to this sandbox from now on.
    fn open_ports(
        &self,
        pod: &PodUid,
        id: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> impl Future<Output = Result<(), NetworkError>> + Send;

    /// The same for a pod that runs already: what can be opened is open now, the rest within ten
    /// seconds of being free. Answers why it is not.
    fn reopen_ports(
        &self,
        pod: &PodUid,
        id: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> impl Future<Output = Vec<NetworkError>> + Send;

    /// Takes the sandbox off the network, closes what ports of the node lead to it, and frees its
    /// address. Unknown is success.
    fn detach(&self, id: &str) -> impl Future<Output = Result<(), NetworkError>> + Send;

    /// Frees what belongs to no sandbox in `ids`: left by an agent that died in between.
    fn release_all_except(
        &self,
        ids: &BTreeSet<String>,
    ) -> impl Future<Output = Result<(), NetworkError>> + Send;
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
    let ports = host_ports(pod);
    let (Some(target), Some(uid)) = (addresses.first(), &pod.metadata.uid) else { return Ok(()) };
    if ports.is_empty() {
        return Ok(());
    }
    match node.network.open_ports(&PodUid(uid.clone()), &sandbox.id, *target, &ports).await {
        Ok(()) => Ok(()),
        Err(NetworkError(refused)) => Err(NetworkError(refused + &said_of_holder(node, pod).await)),
    }
}

/// The same for a pod that runs: it goes on without those that somebody else has, and gets them
/// when they are free. Answers what is to be told of them.
pub(crate) async fn reopen_ports<R, N: PodNetwork>(
    node: &NodeContext<R, N>,
    pod: &Pod,
    sandbox: &SandboxInfo,
    addresses: &[IpAddr],
) -> Option<String> {
    let ports = host_ports(pod);
    let (target, uid) = (addresses.first()?, PodUid(pod.metadata.uid.clone()?));
    let refused = node.network.reopen_ports(&uid, &sandbox.id, *target, &ports).await;
    if refused.is_empty() {
        return None;
    }
    let refused: Vec<String> = refused.into_iter().map(|NetworkError(refused)| refused).collect();
    Some(refused.join("; ") + &said_of_holder(node, pod).await)
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
            Ok(attachment) => Ok(vec![IpAddr::V4(attachment.ip)]),
            Err(error) => Err(in_one_line(&error)),
        }
    }

    async fn prepare(&self, id: &str, netns: &Path) -> Result<(), NetworkError> {
        Self::prepare(self, id, netns).await.map_err(|error| in_one_line(&error))
    }

    async fn open_ports(
        &self,
        pod: &PodUid,
        id: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> Result<(), NetworkError> {
        Self::open_ports(self, &pod.0, id, target, ports).await.map_err(|error| in_one_line(&error))
    }

    async fn reopen_ports(
        &self,
        pod: &PodUid,
        id: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> Vec<NetworkError> {
        let refused = Self::reopen_ports(self, &pod.0, id, target, ports).await;
        refused.iter().map(|error| in_one_line(error)).collect()
    }

    async fn detach(&self, id: &str) -> Result<(), NetworkError> {
        Self::close_ports(self, id).await;
        Self::detach(self, id);
        Ok(())
    }

    async fn release_all_except(&self, ids: &BTreeSet<String>) -> Result<(), NetworkError> {
        Self::release_all_except(self, ids).await.map_err(|error| in_one_line(&error))
    }
}

fn in_one_line(error: &(dyn std::error::Error + 'static)) -> NetworkError {
    NetworkError(causes(error))
}
