//! What a pod's worker asks of who writes the rules of Services.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rekindle_net::Ipv4Net;
use rekindle_services::{HostPort, WithdrawalCause};
use rekindle_types::{PodRef, PodUid};
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
    /// Ports of the node lead to the pod's sandbox from now on. The answer comes when the kernel
    /// has it so, or says why ports cannot be opened.
    OpenPorts(PodPorts, oneshot::Sender<Vec<String>>),
    /// What leads to the sandbox of this id ends. The answer comes when the kernel has it so.
    ClosePorts(String, oneshot::Sender<()>),
    /// An agent starts: what leads to other addresses of its node is left from pods that are over.
    KeepPorts(AddressesInUse),
}

/// The ports of the node that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPorts {
    /// The pod that has them. It keeps them while it goes from one sandbox to the next.
    pub pod: PodRef,
    /// The id of the sandbox that they lead to.
    pub sandbox: String,
    /// Its address.
    pub address: IpAddr,
    /// All that the pod asks for.
    pub ports: Vec<HostPort>,
    /// Whether it does without some.
    pub demand: PortDemand,
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
    /// Those of the sandboxes that stand.
    pub addresses: BTreeSet<IpAddr>,
}

impl AddressesInUse {
    /// Whether this was the address of a sandbox of the node which is no more.
    pub(super) fn has_ended(&self, address: IpAddr) -> bool {
        let is_of_node = match address {
            IpAddr::V4(address) => self.range.contains(&address),
            IpAddr::V6(_) => false,
        };
        is_of_node && !self.addresses.contains(&address)
    }
}

/// What became of a demand for ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortOutcome {
    /// They are open.
    Open,
    /// Some are not, for these reasons.
    Refused(Vec<String>),
    /// The rules were not written in time.
    Late,
    /// This kernel has no rules.
    Unsupported,
}

/// The way to who writes the rules. Without one, nothing leads to pods by their Services, and there
/// is nothing to wait for.
#[derive(Clone, Debug, Default)]
pub struct PodRoutes(Option<mpsc::UnboundedSender<RouteRequest>>);

impl PodRoutes {
    /// One whose requests arrive at the receiver.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<RouteRequest>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (Self(Some(requests)), receiver)
    }

    /// Resolves when no rule leads new connections to the pod. Never, if the rules cannot be
    /// written: the pod's driver has a bound.
    pub(crate) fn withdraw(&self, pod: PodUid, cause: WithdrawalCause) -> BoxFuture<'static, ()> {
        let Some(requests) = &self.0 else { return futures::future::ready(()).boxed() };
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
    pub(crate) async fn open_ports(&self, ports: PodPorts) -> PortOutcome {
        if self.0.is_none() {
            return PortOutcome::Unsupported;
        }
        match tokio::time::timeout(ANSWERED_WITHIN, self.ask_to_open(ports)).await {
            Ok(Ok(refused)) if refused.is_empty() => PortOutcome::Open,
            Ok(Ok(refused)) => PortOutcome::Refused(refused),
            // without an answer: the engine ends, and its rules stay as they are
            Ok(Err(_)) | Err(_) => PortOutcome::Late,
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

    pub(super) fn ask_to_open(&self, ports: PodPorts) -> oneshot::Receiver<Vec<String>> {
        let (answer, answered) = oneshot::channel();
        self.tell(RouteRequest::OpenPorts(ports, answer));
        answered
    }

    pub(super) fn ask_to_close(&self, sandbox: &str) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        self.tell(RouteRequest::ClosePorts(sandbox.to_owned(), done));
        closed
    }

    /// Ends what leads to other addresses of this node.
    pub(crate) fn keep_ports(&self, in_use: AddressesInUse) {
        self.tell(RouteRequest::KeepPorts(in_use));
    }

    fn tell(&self, request: RouteRequest) {
        if let Some(requests) = &self.0 {
            drop(requests.send(request));
        }
    }
}
