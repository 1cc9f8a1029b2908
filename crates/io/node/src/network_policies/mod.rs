//! NetworkPolicies in the kernel: follows policies, namespaces and pods, and keeps the rules of the
//! engine's table as `rekindle_network_policy` wants them. One table serves all nodes of a machine.
//!
//! ```text
//!  watches ─────────────────► NetworkPolicies ── changes ──► PolicyTable ──► kernel
//!  workers ── pod, address ──►      ▲                            │ committed
//!           ◄───────────────────────┼────────────────────────────┘
//!                                   └── all elements ◄── another process changed the table
//! ```
//! A worker asks before the first container of a pod starts, so that no pod is reachable against
//! its policies. The address in the pod's status counts as soon as there is one. The second address
//! follows from it: a pod that runs when second addresses are given for the first time has one
//! before its status says so.

mod gate;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Api, Client, Resource};
use rekindle_net::EmbeddingPrefix;
use rekindle_net::rules::{PolicyTable, RuleError, TableOwnership, on_blocking_thread};
use rekindle_network_policy::{NetworkPolicies, PeerPod, PolicyChanges};
use rekindle_types::{IpStack, NamespacedName, PodUid, causes};
use tokio::sync::{mpsc, oneshot};

pub use self::gate::{PolicyGate, PolicyRequest};
use crate::clock::sleep_until;
use crate::kernel_rules::KernelRules;
use crate::object_watch::{WatchNews, watch_objects};

/// What the log calls the reader of the watches.
const READER: &str = "rules of NetworkPolicies";

/// The rules of NetworkPolicies of one engine.
#[derive(Debug)]
pub struct PolicyRules {
    table: Arc<PolicyTable>,
    /// Where second addresses come from; none: pods have none.
    second: Option<EmbeddingPrefix>,
    policies: NetworkPolicies,
    kernel: KernelRules<ListedPolicies>,
    /// Whether the kernel tells what others do to the rules.
    is_told_of_others: bool,
    /// Workers that wait until the kernel has the rules of now.
    waiting: Vec<oneshot::Sender<()>>,
    /// Pods that a worker named, until their status names the same address.
    entered: BTreeMap<NamespacedName, EnteredPod>,
}

/// A pod that a worker named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EnteredPod {
    uid: PodUid,
    addresses: Vec<IpAddr>,
}

/// What has been listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ListedPolicies {
    policies: bool,
    namespaces: bool,
    pods: bool,
}

impl PolicyRules {
    /// Looks whether the kernel can do it. Must run inside a tokio runtime, in the network
    /// namespace of the bridge.
    ///
    /// # Errors
    /// When the kernel has no nftables, or this process may not change rules.
    pub fn open(
        bridge: &str,
        second: Option<EmbeddingPrefix>,
        ownership: TableOwnership,
    ) -> Result<Self, RuleError> {
        let stack = if second.is_some() { IpStack::Dual } else { IpStack::Single };
        Ok(Self {
            second,
            table: Arc::new(PolicyTable::open(bridge, stack, ownership)?),
            policies: NetworkPolicies::new(stack),
            kernel: KernelRules::Unlisted(ListedPolicies::default()),
            is_told_of_others: true,
            waiting: Vec::new(),
            entered: BTreeMap::new(),
        })
    }

    /// Takes all rules of an engine away. For one that does not serve any more.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn remove(bridge: &str, ownership: TableOwnership) -> Result<(), RuleError> {
        // what is made of it does not matter to who removes it
        let table = PolicyTable::open(bridge, IpStack::Single, ownership)?;
        on_blocking_thread(move || table.remove()).await
    }

    /// Keeps the rules as they are to be, until the watches end or no pod can ask any more.
    pub async fn serve(
        mut self,
        client: Client,
        mut requests: mpsc::UnboundedReceiver<PolicyRequest>,
    ) {
        let mut policies = watch_objects(Api::<NetworkPolicy>::all(client.clone()), READER);
        let mut namespaces = watch_objects(Api::<Namespace>::all(client.clone()), READER);
        let mut pods = watch_objects(Api::<Pod>::all(client), READER);
        loop {
            let retry = self.kernel.retry_at();
            let table = Arc::clone(&self.table);
            tokio::select! {
                biased;
                news = policies.next() => match news {
                    Some(news) => self.policies_changed(news).await,
                    None => return,
                },
                news = namespaces.next() => match news {
                    Some(news) => self.namespaces_changed(news).await,
                    None => return,
                },
                request = requests.recv() => match request {
                    Some(request) => self.entered(request).await,
                    None => return,
                },
                news = pods.next() => match news {
                    Some(news) => self.pods_changed(news).await,
                    None => return,
                },
                changed = table.changed_by_others(), if self.is_told_of_others => match changed {
                    Ok(()) => self.rewrite().await,
                    Err(error) => {
                        self.is_told_of_others = false;
                        tracing::error!(error = causes(&error), "failed to follow what others do to the rules of NetworkPolicies; they are not put back from now on");
                    }
                },
                () = sleep_until(retry), if retry.is_some() => self.replace().await,
            }
        }
    }

    async fn policies_changed(&mut self, news: WatchNews<NetworkPolicy>) {
        let changes = match news {
            WatchNews::All(listed) => {
                if let KernelRules::Unlisted(ListedPolicies { policies, .. }) = &mut self.kernel {
                    *policies = true;
                }
                let listed = listed.into_iter().map(|policy| (key(&policy), policy)).collect();
                self.policies.set_policies(&listed)
            }
            WatchNews::Changed(policy) => self.policies.set_policy(key(&policy), Some(&policy)),
            WatchNews::Gone(policy) => self.policies.set_policy(key(&policy), None),
        };
        self.apply(changes).await;
    }

    async fn namespaces_changed(&mut self, news: WatchNews<Namespace>) {
        let labels = |namespace: Namespace| {
            let name = namespace.metadata.name.unwrap_or_default();
            (name, namespace.metadata.labels.unwrap_or_default())
        };
        let changes = match news {
            WatchNews::All(listed) => {
                if let KernelRules::Unlisted(ListedPolicies { namespaces, .. }) = &mut self.kernel {
                    *namespaces = true;
                }
                self.policies.set_namespaces(&listed.into_iter().map(labels).collect())
            }
            WatchNews::Changed(namespace) => {
                let (name, labels) = labels(namespace);
                self.policies.set_namespace(&name, Some(&labels))
            }
            WatchNews::Gone(namespace) => self.policies.set_namespace(&labels(namespace).0, None),
        };
        self.apply(changes).await;
    }

    async fn pods_changed(&mut self, news: WatchNews<Pod>) {
        let changes = match news {
            WatchNews::All(listed) => {
                if let KernelRules::Unlisted(ListedPolicies { pods, .. }) = &mut self.kernel {
                    *pods = true;
                }
                let uids: BTreeMap<_, _> = listed.iter().map(|pod| (key(pod), uid(pod))).collect();
                self.entered.retain(|name, entered| uids.get(name) == Some(&entered.uid));
                let peer = |pod: &Pod| Some((key(pod), self.peer(pod)?));
                let peers = listed.iter().filter_map(peer).collect();
                self.policies.set_pods(peers)
            }
            // its successor of the same name runs already
            WatchNews::Changed(pod) | WatchNews::Gone(pod) if self.is_succeeded(&pod) => {
                PolicyChanges::default()
            }
            WatchNews::Changed(pod) => {
                let (name, peer) = (key(&pod), self.peer(&pod));
                if peer.is_none() || peer == peer_of_status(&pod, self.second) {
                    self.entered.remove(&name);
                }
                self.policies.set_pod(&name, peer)
            }
            WatchNews::Gone(pod) => {
                self.entered.remove(&key(&pod));
                self.policies.set_pod(&key(&pod), None)
            }
        };
        self.apply(changes).await;
    }

    /// Whether a worker has named a later pod of this name: the watch is behind.
    fn is_succeeded(&self, pod: &Pod) -> bool {
        self.entered.get(&key(pod)).is_some_and(|entered| entered.uid != uid(pod))
    }

    /// The pod as a peer. What its worker said counts until its status says the same.
    fn peer(&self, pod: &Pod) -> Option<PeerPod> {
        let of_status = peer_of_status(pod, self.second);
        let has_ended = pod
            .status
            .as_ref()
            .is_some_and(|status| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")));
        match self.entered.get(&key(pod)) {
            Some(entered) if !has_ended => PeerPod::at(pod, entered.addresses.clone()),
            Some(_) | None => of_status,
        }
    }

    /// A worker says where its pod is.
    async fn entered(&mut self, request: PolicyRequest) {
        let PolicyRequest { pod, addresses, done } = request;
        let name = key(&*pod);
        self.waiting.push(done);
        let peer = PeerPod::at(&pod, addresses.clone());
        if peer.is_some() {
            self.entered.insert(name.clone(), EnteredPod { uid: uid(&pod), addresses });
        }
        let changes = self.policies.set_pod(&name, peer);
        self.apply(changes).await;
    }

    /// Brings the kernel from the rules before these changes to those after them.
    async fn apply(&mut self, changes: PolicyChanges) {
        match self.kernel {
            KernelRules::Unlisted(ListedPolicies {
                policies: true,
                namespaces: true,
                pods: true,
            }) => {
                self.replace().await;
            }
            KernelRules::Unlisted(_) | KernelRules::Stale { .. } => {}
            KernelRules::Current if changes.is_empty() => self.tell_waiting(),
            KernelRules::Current => {
                let table = Arc::clone(&self.table);
                match on_blocking_thread(move || table.apply(&changes)).await {
                    Ok(()) => self.tell_waiting(),
                    Err(error) => {
                        tracing::warn!(
                            error = causes(&error),
                            "failed to change rules of NetworkPolicies; all are written anew"
                        );
                        self.replace().await;
                    }
                }
            }
        }
    }

    async fn rewrite(&mut self) {
        match self.kernel {
            KernelRules::Unlisted(_) => {}
            KernelRules::Current | KernelRules::Stale { .. } => {
                tracing::info!(
                    "another process changed the rules of NetworkPolicies; they are written anew"
                );
                self.replace().await;
            }
        }
    }

    /// Writes all rules.
    async fn replace(&mut self) {
        let (table, elements) = (Arc::clone(&self.table), self.policies.elements());
        match on_blocking_thread(move || table.replace(&elements)).await {
            Ok(()) => {
                self.kernel = KernelRules::Current;
                self.tell_waiting();
            }
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "failed to write the rules of NetworkPolicies; they are tried again"
                );
                self.kernel.failed();
            }
        }
    }

    fn tell_waiting(&mut self) {
        for waiting in self.waiting.drain(..) {
            // a worker that waits no longer has gone on without
            let (Ok(()) | Err(())) = waiting.send(());
        }
    }
}

/// The pod as its status shows it, with the second address that it has or is about to get.
fn peer_of_status(pod: &Pod, second: Option<EmbeddingPrefix>) -> Option<PeerPod> {
    let peer = PeerPod::of_status(pod)?;
    Some(match second {
        Some(prefix) => peer.with_second_address(|first| prefix.address(first)),
        None => peer,
    })
}

fn key<K: Resource>(object: &K) -> NamespacedName {
    NamespacedName::from_meta(object.meta())
}

fn uid(pod: &Pod) -> PodUid {
    PodUid(pod.metadata.uid.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_runs_at_the_first_start_with_second_addresses_has_its_own_from_the_start() {
        let prefix = EmbeddingPrefix::new("fd52:1:2::".parse().unwrap());
        let pod = |addresses: serde_json::Value| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "web"}, "spec": {"containers": []},
                "status": {"phase": "Running", "podIPs": addresses},
            }))
            .unwrap()
        };
        let first = pod(json!([{"ip": "10.88.0.2"}]));
        let both = pod(json!([{"ip": "10.88.0.2"}, {"ip": "fd52:1:2::a58:2"}]));
        assert_eq!(peer_of_status(&first, Some(prefix)), PeerPod::of_status(&both));
        assert_eq!(peer_of_status(&both, Some(prefix)), PeerPod::of_status(&both));
        assert_eq!(peer_of_status(&first, None), PeerPod::of_status(&first));
    }
}
