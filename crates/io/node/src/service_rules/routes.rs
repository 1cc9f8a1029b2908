//! What a pod's worker asks of who writes the rules of Services.

use std::net::IpAddr;

use futures::FutureExt;
use futures::future::BoxFuture;
use rekindle_services::WithdrawalCause;
use rekindle_types::PodUid;
use tokio::sync::{mpsc, oneshot};

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

    fn tell(&self, request: RouteRequest) {
        if let Some(requests) = &self.0 {
            drop(requests.send(request));
        }
    }
}
