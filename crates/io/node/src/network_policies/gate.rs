//! What a pod's worker asks of who writes the rules of NetworkPolicies.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{mpsc, oneshot};
use tokio::time::error::Elapsed;

/// A worker waits so long for the rules at most: rules that cannot be written hold no pod.
const WAITS_AT_MOST: Duration = Duration::from_secs(5);

/// A pod has an address, and none of its containers runs yet.
#[derive(Debug)]
pub struct PolicyRequest {
    pub(super) pod: Box<Pod>,
    pub(super) addresses: Vec<IpAddr>,
    /// Is answered when the kernel has the rules for it.
    pub(super) done: oneshot::Sender<()>,
}

/// The way to who writes the rules. Without one there are no rules to wait for.
#[derive(Clone, Debug, Default)]
pub struct PolicyGate(Option<mpsc::UnboundedSender<PolicyRequest>>);

impl PolicyGate {
    /// One whose requests arrive at the receiver.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<PolicyRequest>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (Self(Some(requests)), receiver)
    }

    /// Resolves when the rules for the pod at these addresses are in the kernel.
    pub(crate) async fn enter(&self, pod: &Pod, addresses: &[IpAddr]) {
        if addresses.is_empty() {
            return;
        }
        if self.ask(pod, addresses).await.is_err() {
            let (metadata, waited_s) = (&pod.metadata, WAITS_AT_MOST.as_secs());
            let (namespace, pod) = (&metadata.namespace, &metadata.name);
            tracing::warn!(
                ?namespace,
                ?pod,
                waited_s,
                "failed to have the rules of NetworkPolicies in time; the pod starts without"
            );
        }
    }
}

impl PolicyGate {
    /// Resolves when the rules for what the API shows are in the kernel, before pods that run get
    /// their second addresses.
    pub async fn settled(&self) {
        if self.ask(&Pod::default(), &[]).await.is_err() {
            let waited_s = WAITS_AT_MOST.as_secs();
            tracing::warn!(waited_s, "failed to have the rules of NetworkPolicies in time");
        }
    }

    /// Asks for the rules, and waits until the kernel has them.
    async fn ask(&self, pod: &Pod, addresses: &[IpAddr]) -> Result<(), Elapsed> {
        let Some(requests) = &self.0 else { return Ok(()) };
        let (done, entered) = oneshot::channel();
        let addresses = addresses.to_vec();
        let request = PolicyRequest { pod: Box::new(pod.clone()), addresses, done };
        if requests.send(request).is_err() {
            // the engine ends, and its rules stay as they are
            return Ok(());
        }
        tokio::time::timeout(WAITS_AT_MOST, entered).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    const ADDRESSES: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(10, 88, 0, 2))];

    #[tokio::test(start_paused = true)]
    async fn a_pod_enters_when_the_kernel_has_its_rules() {
        let (gate, mut requests) = PolicyGate::new();
        let pod = Pod::default();
        let mut entering = std::pin::pin!(gate.enter(&pod, &ADDRESSES));
        assert!(entering.as_mut().now_or_never().is_none(), "it waits");
        let request = requests.recv().await.unwrap();
        assert_eq!(request.addresses, ADDRESSES);
        let before = Instant::now();
        request.done.send(()).unwrap();
        entering.await;
        assert_eq!(Instant::now(), before, "and no longer than that");
    }

    #[tokio::test(start_paused = true)]
    async fn rules_of_policies_that_cannot_be_written_hold_a_pod_for_a_bounded_time() {
        let (gate, mut requests) = PolicyGate::new();
        let before = Instant::now();
        gate.enter(&Pod::default(), &ADDRESSES).await;
        assert_eq!(Instant::now() - before, WAITS_AT_MOST);
        assert!(requests.try_recv().is_ok(), "it was asked for");
        // an engine that ends, and one that has no rules
        drop(requests);
        gate.enter(&Pod::default(), &ADDRESSES).await;
        PolicyGate::default().enter(&Pod::default(), &ADDRESSES).await;
        assert_eq!(Instant::now() - before, WAITS_AT_MOST, "nothing to wait for");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_second_addresses_waits_for_the_rules_of_all_pods() {
        let (gate, mut requests) = PolicyGate::new();
        let mut settled = std::pin::pin!(gate.settled());
        assert!(settled.as_mut().now_or_never().is_none(), "it waits");
        let request = requests.recv().await.unwrap();
        assert_eq!(request.addresses, [] as [IpAddr; 0], "of no pod");
        request.done.send(()).unwrap();
        settled.await;
        PolicyGate::default().settled().await;
    }

    #[tokio::test]
    async fn a_pod_without_an_address_of_its_own_is_not_asked_for() {
        let (gate, mut requests) = PolicyGate::new();
        gate.enter(&Pod::default(), &[]).await;
        assert!(requests.try_recv().is_err());
    }
}
