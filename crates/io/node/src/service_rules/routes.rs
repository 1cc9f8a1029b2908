//! What a pod's worker asks of who writes the rules of Services.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rekindle_net::{EmbeddingPrefix, IpNet, Ipv4Net};
use rekindle_services::{HostPort, WithdrawalCause};
use rekindle_types::{IpFamily, PodRef, PodUid};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

/// Rules that cannot be written hold no pod for longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// What is to become of a pod's endpoints.
#[derive(Debug)]
pub enum RouteRequest {
    /// No new connection goes to the pod; told when the kernel has it so.
    Withdraw(PodUid, WithdrawalCause, oneshot::Sender<()>),
    /// The pod is ready at these addresses.
    Admit(PodUid, Vec<IpAddr>),
    /// The node has nothing more to say of the pod: slices decide.
    Leave(PodUid),
    /// The pod is gone from its node, whatever slices still say.
    Gone(PodUid),
    /// Ports of the node lead to the pod's sandbox from now on. A pod that waits for all of them is
    /// answered when the kernel has it so, or with what stands in the way; one that runs, at once.
    OpenPorts(AgentLine, PodPorts, oneshot::Sender<PortOutcome>),
    /// What leads to the sandbox of this id ends. The answer comes when the kernel has it so.
    ClosePorts(String, oneshot::Sender<()>),
    /// An agent says what stands on its node: what leads to other addresses of it is left from pods
    /// that are over.
    KeepPorts(AddressesInUse),
    /// Connections to these ranges are rejected where no Service is. The answer comes when the
    /// kernel has it so. Users have added them to the engine's own.
    ServeRanges(Vec<IpNet>, oneshot::Sender<()>),
    /// The line of an agent has ended, and so may the agent. Its pods may run on.
    AgentGone(AgentLine),
}

/// The way that the requests of one agent come: zero for the agent of this process, then one for
/// each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentLine(pub(super) u64);

/// The ports of the node that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPorts {
    /// The pod that has them. It keeps them while it goes from one sandbox to the next.
    pub pod: PodRef,
    /// The id of the sandbox that they lead to.
    pub sandbox: String,
    /// Where the sandbox is.
    #[serde(flatten)]
    pub addresses: SandboxAddresses,
    /// All that the pod asks for, in the families of these addresses.
    pub ports: Vec<HostPort>,
    /// Whether it does without some.
    pub demand: PortDemand,
}

/// The addresses of a sandbox, one of each IP family at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxAddresses {
    /// The one by which its node knows the sandbox.
    pub address: IpAddr,
    /// That of the other family, with dual stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_address: Option<IpAddr>,
}

impl SandboxAddresses {
    /// Those of a list that begins with the address by which the node knows the sandbox.
    pub fn from_list(addresses: &[IpAddr]) -> Option<Self> {
        let address = *addresses.first()?;
        let family = IpFamily::from_address(address);
        let is_of_other = |other: &&IpAddr| IpFamily::from_address(**other) != family;
        Some(Self { address, second_address: addresses.iter().find(is_of_other).copied() })
    }

    /// The one of this family.
    pub fn of_family(&self, family: IpFamily) -> Option<IpAddr> {
        self.all().find(|address| IpFamily::from_address(*address) == family)
    }

    /// The families of its addresses.
    pub fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.all().map(IpFamily::from_address)
    }

    /// Whether this is one of them.
    pub fn has(&self, address: IpAddr) -> bool {
        self.all().any(|own| own == address)
    }

    fn all(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.address).chain(self.second_address)
    }
}

/// What a pod does about a port that it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PortDemand {
    /// It starts with all of them, or with none and not yet.
    All,
    /// It runs, and goes on without. It gets the port when that is free.
    WhatIsFree,
}

/// The addresses that the sandboxes of a node have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressesInUse {
    /// Where the node's sandboxes get addresses from.
    pub range: Ipv4Net,
    /// What second addresses follow from, with dual stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_prefix: Option<EmbeddingPrefix>,
    /// The first addresses of the sandboxes that stand, each with the sandbox's id.
    pub addresses: BTreeMap<IpAddr, String>,
}

impl AddressesInUse {
    /// Whether this was the address of a sandbox of the node which is no more: of this one, if it
    /// is known which.
    pub(crate) fn has_ended(&self, address: IpAddr, sandbox: Option<&str>) -> bool {
        let stands = |id: &String| sandbox.is_none_or(|sandbox| sandbox == id);
        let is_of_node = self.first_address(address).is_some_and(|it| self.range.contains(&it));
        is_of_node && !self.sandbox_at(address).is_some_and(stands)
    }

    /// The sandbox that has this address, be it the first or the second one.
    pub(crate) fn sandbox_at(&self, address: IpAddr) -> Option<&String> {
        self.addresses.get(&IpAddr::V4(self.first_address(address)?))
    }

    fn first_address(&self, address: IpAddr) -> Option<Ipv4Addr> {
        match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(second) => self.ipv6_prefix?.first_address(second),
        }
    }
}

/// What became of a demand for ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PortOutcome {
    /// They are open.
    Open,
    /// Some are not, for these reasons.
    Refused(Vec<String>),
    /// This kernel has no rules.
    Unsupported,
}

/// The rules were not written in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("open ports of the node: its rules were not written in time")]
pub(crate) struct RulesAreLate;

/// The way to who writes the rules. Without one, nothing leads to pods by their Services, and there
/// is nothing to wait for.
#[derive(Clone, Debug, Default)]
pub struct PodRoutes {
    requests: Option<mpsc::UnboundedSender<RouteRequest>>,
    line: AgentLine,
}

impl PodRoutes {
    /// One whose requests arrive at the receiver.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<RouteRequest>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (Self { requests: Some(requests), line: AgentLine::default() }, receiver)
    }

    /// The same for the agent that asks by this line.
    pub(super) fn of_agent(&self, line: AgentLine) -> Self {
        Self { requests: self.requests.clone(), line }
    }

    /// Resolves when no rule leads new connections to the pod. Never, if the rules cannot be
    /// written: the pod's driver has a bound.
    pub(crate) fn withdraw(&self, pod: PodUid, cause: WithdrawalCause) -> BoxFuture<'static, ()> {
        let Some(requests) = &self.requests else { return futures::future::ready(()).boxed() };
        let (done, withdrawn) = oneshot::channel();
        // no receiver: the engine ends, and its rules stay as they are
        drop(requests.send(RouteRequest::Withdraw(pod, cause, done)));
        async move {
            if withdrawn.await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    pub(crate) fn admit(&self, pod: PodUid, addresses: Vec<IpAddr>) {
        self.tell(RouteRequest::Admit(pod, addresses));
    }

    pub(crate) fn leave(&self, pod: PodUid) {
        self.tell(RouteRequest::Leave(pod));
    }

    pub(crate) fn gone(&self, pod: PodUid) {
        self.tell(RouteRequest::Gone(pod));
    }

    /// Has ports of the node lead to a pod.
    pub(crate) async fn open_ports(&self, ports: PodPorts) -> Result<PortOutcome, RulesAreLate> {
        match tokio::time::timeout(ANSWERED_WITHIN, self.ask_to_open(ports)).await {
            Ok(Ok(outcome)) => Ok(outcome),
            // without an answer: the engine ends, and its rules stay as they are
            Ok(Err(_)) | Err(_) => Err(RulesAreLate),
        }
    }

    /// Ends what leads to this sandbox, and returns when the ports are free; if the rules cannot be
    /// written, without.
    pub(crate) async fn close_ports(&self, sandbox: &str) {
        let closed = self.ask_to_close(sandbox);
        if let Err(_elapsed) = tokio::time::timeout(ANSWERED_WITHIN, closed).await {
            tracing::warn!(sandbox, "failed to close host ports in time; they are closed later");
        }
    }

    pub(super) fn ask_to_open(&self, ports: PodPorts) -> oneshot::Receiver<PortOutcome> {
        let (answer, answered) = oneshot::channel();
        match &self.requests {
            Some(_) => self.tell(RouteRequest::OpenPorts(self.line, ports, answer)),
            None => drop(answer.send(PortOutcome::Unsupported)),
        }
        answered
    }

    pub(super) fn ask_to_close(&self, sandbox: &str) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        match &self.requests {
            Some(_) => self.tell(RouteRequest::ClosePorts(sandbox.to_owned(), done)),
            None => drop(done.send(())),
        }
        closed
    }

    /// Has connections to these ranges rejected where no Service is. Returns when the kernel has it
    /// so, or without that after a while: rules of Services do not depend on it.
    pub(crate) async fn serve_ranges(&self, ranges: Vec<IpNet>) {
        let Some(requests) = &self.requests else { return };
        let (done, served) = oneshot::channel();
        drop(requests.send(RouteRequest::ServeRanges(ranges, done)));
        if let Err(_elapsed) = tokio::time::timeout(ANSWERED_WITHIN, served).await {
            tracing::warn!("failed to write rules for ranges of Services in time; they follow");
        }
    }

    /// Ends what leads to other addresses of this node.
    pub(crate) fn keep_ports(&self, in_use: AddressesInUse) {
        self.tell(RouteRequest::KeepPorts(in_use));
    }

    /// The agent that asks by this line has ended.
    pub(super) fn agent_gone(&self) {
        self.tell(RouteRequest::AgentGone(self.line));
    }

    fn tell(&self, request: RouteRequest) {
        if let Some(requests) = &self.requests {
            drop(requests.send(request));
        }
    }
}
