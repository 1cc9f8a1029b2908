//! Ports of the machine that lead to pods (`hostPort`): which pod has which, and what holds them.
//!
//! ```text
//!  open ──► held by a socket ──► leads to the pod's sandbox ──► … to its next one ──► close
//!              ▲                                                     ▲
//!              └── another process gives it back                     └── adopt: the next engine
//!                                                                        finds its rules
//! ```
//! A pod that starts gets all of its ports or waits. One that runs already goes on without a port
//! that a process has taken, and so does its next sandbox: it is tried again until it is free.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rekindle_services::{Frontend, RuleChanges, ServiceIdentity, ServiceRouter};
use rekindle_types::{PodRef, PodUid};
use tokio::time::Instant;

use super::port_hold::{PortHold, hold};
use super::routes::{AddressesInUse, PodPorts, PortDemand};

/// Until a port that was taken is tried again: at first, and at most.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HostPorts {
    open: BTreeMap<PodUid, PodOpenPorts>,
    /// Those that an engine before has left in the kernel, with where they lead, until an agent
    /// says that they are a pod's.
    adopted: BTreeMap<Frontend, AdoptedPort>,
    /// Services that want a port that a pod has. Each is reported once.
    contested: BTreeSet<(Frontend, String)>,
    retry: Option<PortRetry>,
}

/// Those of one pod.
#[derive(Debug)]
struct PodOpenPorts {
    pod: PodRef,
    /// Where they lead.
    sandbox: String,
    address: IpAddr,
    ports: BTreeMap<Frontend, PodPort>,
}

/// One of them.
#[derive(Debug)]
struct PodPort {
    pod_port: u16,
    /// Nothing: a process of the machine has it.
    held: Option<PortHold>,
}

#[derive(Debug)]
struct AdoptedPort {
    endpoint: SocketAddr,
    held: PortHold,
}

#[derive(Clone, Copy, Debug)]
struct PortRetry {
    at: Instant,
    after: Duration,
}

/// A Service that does not get a port as a pod has it.
#[derive(Debug)]
pub(super) struct ContestedPort {
    pub(super) port: Frontend,
    pub(super) service: ServiceIdentity,
    pub(super) pod: String,
}

impl HostPorts {
    /// When a port that another process has is to be tried again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry.map(|retry| retry.at)
    }

    /// Ports that are found in the kernel. What a process has taken since is its own.
    pub(super) fn adopt(
        &mut self,
        router: &mut ServiceRouter,
        found: impl IntoIterator<Item = (Frontend, SocketAddr)>,
    ) {
        for (port, endpoint) in found {
            match hold(port) {
                Ok(held) => {
                    drop(router.set_host_port(port, Some(endpoint)));
                    self.adopted.insert(port, AdoptedPort { endpoint, held });
                }
                Err(error) => {
                    tracing::info!(%port, %error, "dropped a host port: a process has it by now");
                }
            }
        }
    }

    /// Opens ports as they are demanded. Answers what that changes in the rules, and why a port
    /// cannot be opened.
    pub(super) fn open(
        &mut self,
        router: &mut ServiceRouter,
        wanted: PodPorts,
    ) -> (RuleChanges, Vec<String>) {
        let PodPorts { pod, sandbox, address, ports, demand } = wanted;
        let ports: BTreeMap<Frontend, u16> =
            ports.into_iter().map(|port| (port.frontend, port.pod_port)).collect();
        let mut before = self.open.remove(&pod.uid).map(|open| open.ports).unwrap_or_default();
        let is_known = before.iter().map(|(port, of)| (port, &of.pod_port)).eq(&ports);
        let (mut opened, mut refused) = (BTreeMap::new(), Vec::new());
        for (port, pod_port) in ports {
            let known = before.remove(&port);
            let held = match (known, is_known) {
                // it waits for those that are taken, and has said so
                (Some(PodPort { held, .. }), true) => held,
                (Some(PodPort { held: Some(held), .. }), false) => Some(held),
                (Some(PodPort { held: None, .. }), false) | (None, _) => {
                    self.take(router, port).map_err(|why| refused.push(why)).ok()
                }
            };
            opened.insert(port, PodPort { pod_port, held });
        }
        // those that it asks for no more
        let mut changes = closed(router, before);
        match demand {
            PortDemand::All if !refused.is_empty() => {
                changes = changes.then(closed(router, opened));
            }
            PortDemand::All | PortDemand::WhatIsFree => {
                for (port, of) in opened.iter().filter(|(_, of)| of.held.is_some()) {
                    let endpoint = SocketAddr::new(address, of.pod_port);
                    changes = changes.then(router.set_host_port(*port, Some(endpoint)));
                }
                let uid = pod.uid.clone();
                self.open.insert(uid, PodOpenPorts { pod, sandbox, address, ports: opened });
                self.plan_retry();
            }
        }
        (changes, refused)
    }

    /// Takes a port from the machine, or what an engine before had.
    fn take(&mut self, router: &ServiceRouter, port: Frontend) -> Result<PortHold, String> {
        if let Some(adopted) = self.adopted.remove(&port) {
            return Ok(adopted.held);
        }
        let refusal = |why: String| {
            let Frontend { address, protocol, port } = port;
            format!("open port {port} of the node for {protocol} at {address}: {why}")
        };
        match router.rival_of(port) {
            Some(rival) => Err(refusal(format!("Service {} has it", rival.name))),
            // no socket says so of SCTP
            None if self.has(port) => {
                Err(refusal(io::Error::from(io::ErrorKind::AddrInUse).to_string()))
            }
            None => hold(port).map_err(|error| refusal(error.to_string())),
        }
    }

    /// Whether a pod has this port, or the same one at an address that this one is among.
    fn has(&self, port: Frontend) -> bool {
        let ports = self.open.values().flat_map(|open| &open.ports);
        ports.into_iter().any(|(other, of)| of.held.is_some() && other.overlaps(&port))
    }

    /// Closes what leads to this sandbox. The ports are free when it returns.
    pub(super) fn close(&mut self, router: &mut ServiceRouter, sandbox: &str) -> RuleChanges {
        self.close_if(router, |open| open.sandbox == sandbox)
    }

    /// Closes what leads to addresses of a node that none of its sandboxes has.
    pub(super) fn keep(
        &mut self,
        router: &mut ServiceRouter,
        in_use: &AddressesInUse,
    ) -> RuleChanges {
        let mut changes = self.close_if(router, |open| in_use.has_ended(open.address));
        let ended = |_: &Frontend, port: &mut AdoptedPort| in_use.has_ended(port.endpoint.ip());
        for (port, _) in self.adopted.extract_if(.., ended) {
            changes = changes.then(router.set_host_port(port, None));
        }
        changes
    }

    fn close_if(
        &mut self,
        router: &mut ServiceRouter,
        mut is_over: impl FnMut(&PodOpenPorts) -> bool,
    ) -> RuleChanges {
        let mut changes = RuleChanges::default();
        for (_, open) in self.open.extract_if(.., |_, open| is_over(open)) {
            changes = changes.then(closed(router, open.ports));
        }
        self.plan_retry();
        changes
    }

    /// Tries those again that were taken.
    pub(super) fn try_again(&mut self, router: &mut ServiceRouter) -> RuleChanges {
        let mut changes = RuleChanges::default();
        let lost = |(uid, open): (&PodUid, &PodOpenPorts)| {
            let ports = open.ports.iter().filter(|(_, of)| of.held.is_none());
            ports.map(|(port, _)| (uid.clone(), *port)).collect::<Vec<_>>()
        };
        for (uid, port) in self.open.iter().flat_map(lost).collect::<Vec<_>>() {
            let taken = self.take(router, port);
            let Some(open) = self.open.get_mut(&uid) else { continue };
            match (taken, open.ports.get_mut(&port)) {
                (Ok(held), Some(of)) => {
                    tracing::info!(%port, pod = %open.pod, "opened a host port that was lost");
                    of.held = Some(held);
                    let endpoint = SocketAddr::new(open.address, of.pod_port);
                    changes = changes.then(router.set_host_port(port, Some(endpoint)));
                }
                (Ok(_), None) => {}
                (Err(why), _) => tracing::debug!(why, pod = %open.pod, "a host port is taken"),
            }
        }
        let after = self.retry.map_or(RETRY_AFTER_MIN, |retry| retry.after * 2);
        self.retry = None;
        self.plan_retry_after(after.min(RETRY_AFTER_MAX));
        changes
    }

    fn plan_retry(&mut self) {
        self.plan_retry_after(RETRY_AFTER_MIN);
    }

    /// As long as one is taken. What is planned already stays planned.
    fn plan_retry_after(&mut self, after: Duration) {
        let mut ports = self.open.values().flat_map(|open| open.ports.values());
        match ports.any(|port| port.held.is_none()) {
            true => {
                self.retry.get_or_insert_with(|| PortRetry { at: Instant::now() + after, after });
            }
            false => self.retry = None,
        }
    }

    /// The pod that has a port.
    pub(super) fn pod_with(&self, port: Frontend) -> Option<&PodRef> {
        self.open.values().find(|open| open.ports.contains_key(&port)).map(|open| &open.pod)
    }

    /// Services that want a port which a pod has, each the first time.
    pub(super) fn newly_contested(&mut self, router: &ServiceRouter) -> Vec<ContestedPort> {
        let all: Vec<(Frontend, ServiceIdentity)> = router.contested_ports().collect();
        let known = std::mem::take(&mut self.contested);
        let mut new = Vec::new();
        for (port, service) in all {
            let key = (port, service.uid.clone());
            if !known.contains(&key) {
                let pod = self.pod_with(port).map_or_else(
                    || "a pod of a node that is not there".to_owned(),
                    |pod| format!("pod {pod}"),
                );
                new.push(ContestedPort { port, service, pod });
            }
            self.contested.insert(key);
        }
        new
    }
}

/// Gives ports back.
fn closed(router: &mut ServiceRouter, ports: BTreeMap<Frontend, PodPort>) -> RuleChanges {
    let mut changes = RuleChanges::default();
    for (port, _) in ports.into_iter().filter(|(_, of)| of.held.is_some()) {
        changes = changes.then(router.set_host_port(port, None));
    }
    changes
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use k8s_openapi::api::core::v1::Service;
    use rekindle_services::{HostPort, TransportProtocol, host_ports_in};
    use rekindle_testkit::claims::loopback_address;
    use rekindle_types::NamespacedName;
    use serde_json::json;

    use super::*;

    fn port(test: u8, number: u16) -> HostPort {
        let protocol = TransportProtocol::Tcp;
        let address = loopback_address(test).into();
        HostPort { frontend: Frontend { address, protocol, port: number }, pod_port: 80 }
    }

    fn wanted(pod: &str, sandbox: &str, ports: &[HostPort], demand: PortDemand) -> PodPorts {
        let pod = PodRef {
            namespace: "shop".to_owned(),
            name: pod.to_owned(),
            uid: PodUid(pod.to_owned()),
        };
        let last = sandbox.bytes().last().unwrap();
        let address = [10, 88, 0, last].into();
        PodPorts { pod, sandbox: sandbox.to_owned(), address, ports: ports.to_vec(), demand }
    }

    /// The open ports, each with the last part of the address that it leads to.
    fn leading(router: &ServiceRouter) -> Vec<(u16, u8)> {
        let last = |endpoint: SocketAddr| match endpoint.ip() {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(_) => 0,
        };
        let elements = router.elements();
        host_ports_in(&elements).map(|(port, to)| (port.port, last(to))).collect()
    }

    fn is_free(port: HostPort) -> bool {
        TcpListener::bind((port.frontend.address, port.frontend.port)).is_ok()
    }

    #[tokio::test]
    async fn a_port_that_somebody_has_is_named_and_then_none_is_open() {
        let ports = [port(31, 8080), port(31, 9090)];
        let taken = TcpListener::bind((loopback_address(31), 9090)).unwrap();
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        let first = wanted("p", "p-a", &ports, PortDemand::All);
        let (changes, refused) = open.open(&mut router, first.clone());
        let at = loopback_address(31);
        let why = "Address already in use (os error 98)";
        assert_eq!(refused, [format!("open port 9090 of the node for TCP at {at}: {why}")]);
        assert!(changes.is_empty() && leading(&router).is_empty() && is_free(ports[0]));
        drop(taken);
        assert!(open.open(&mut router, first).1.is_empty());
        assert_eq!(leading(&router), [(8080, b'a'), (9090, b'a')]);
        assert!(!is_free(ports[0]) && !is_free(ports[1]));
        // free at once for the next pod, and not by the end of an older sandbox
        open.open(&mut router, wanted("p", "p-b", &ports, PortDemand::All));
        assert_eq!(leading(&router), [(8080, b'b'), (9090, b'b')]);
        assert!(open.close(&mut router, "p-a").is_empty());
        open.close(&mut router, "p-b");
        assert!(leading(&router).is_empty());
        let next = wanted("q", "q-c", &ports, PortDemand::All);
        assert!(open.open(&mut router, next).1.is_empty());
    }

    #[tokio::test]
    async fn two_pods_do_not_share_a_port_of_any_protocol() {
        for protocol in TransportProtocol::ALL {
            let at = |number| {
                let HostPort { frontend, pod_port } = port(35, number);
                HostPort { frontend: Frontend { protocol, ..frontend }, pod_port }
            };
            let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
            let first = open.open(&mut router, wanted("p", "p-a", &[at(7000)], PortDemand::All));
            assert!(first.1.is_empty(), "{protocol}: {first:?}");
            let second = wanted("q", "q-b", &[at(7000)], PortDemand::WhatIsFree);
            assert_eq!(open.open(&mut router, second).1.len(), 1, "{protocol}");
            assert!(open.try_again(&mut router).is_empty(), "{protocol}");
            assert_eq!(leading(&router), [(7000, b'a')], "{protocol}");
            open.close(&mut router, "p-a");
            open.try_again(&mut router);
            assert_eq!(leading(&router), [(7000, b'b')], "{protocol}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_runs_gets_a_port_that_was_taken_as_soon_as_it_is_free() {
        let ports = [port(32, 8080), port(32, 9090)];
        let taken = TcpListener::bind((loopback_address(32), 9090)).unwrap();
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        let demand = PortDemand::WhatIsFree;
        let (_, refused) = open.open(&mut router, wanted("p", "p-a", &ports, demand));
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(leading(&router), [(8080, b'a')], "the other one is open");
        let (_, refused) = open.open(&mut router, wanted("p", "p-b", &ports, PortDemand::All));
        assert!(refused.is_empty(), "it is said once");
        let mut waits = Vec::new();
        for _ in 0..6 {
            let at = open.retry_at().unwrap();
            waits.push((at - Instant::now()).as_secs());
            tokio::time::advance(at - Instant::now()).await;
            assert!(open.try_again(&mut router).is_empty());
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        drop(taken);
        assert!(!open.try_again(&mut router).is_empty());
        assert_eq!(leading(&router), [(8080, b'b'), (9090, b'b')]);
        assert!(open.retry_at().is_none());
    }

    #[tokio::test]
    async fn the_next_engine_holds_what_the_rules_say_until_it_knows_better() {
        let ports = [port(33, 8080), port(33, 8081), port(33, 8082)];
        let to = |last| SocketAddr::from(([10, 88, 0, last], 80));
        let found = [b'a', b'b', b'c'].map(to);
        let found = ports.map(|port| port.frontend).into_iter().zip(found);
        let taken = TcpListener::bind((loopback_address(33), 8082)).unwrap();
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        open.adopt(&mut router, found);
        assert_eq!(leading(&router), [(8080, b'a'), (8081, b'b')], "a process has the third");
        drop(taken);
        assert!(!is_free(ports[0]) && !is_free(ports[1]));
        // the pod of the first runs, the second ended while no agent was there
        let (changes, refused) =
            open.open(&mut router, wanted("p", "p-a", &ports[..1], PortDemand::WhatIsFree));
        assert!(changes.is_empty() && refused.is_empty(), "no rule changes");
        let range = "10.88.0.0/24".parse().unwrap();
        let elsewhere = "10.88.1.0/24".parse().unwrap();
        let addresses = BTreeSet::from([to(b'a').ip()]);
        let of_other_node = AddressesInUse { range: elsewhere, addresses: BTreeSet::new() };
        assert!(open.keep(&mut router, &of_other_node).is_empty());
        open.keep(&mut router, &AddressesInUse { range, addresses });
        assert_eq!(leading(&router), [(8080, b'a')]);
        assert!(is_free(ports[1]));
    }

    #[tokio::test]
    async fn a_service_and_a_pod_do_not_share_a_port() {
        let free = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let service: Service = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web", "uid": "u1" },
            "spec": { "type": "NodePort", "clusterIP": "10.96.0.10",
                "ports": [{ "port": 80, "nodePort": free }] },
        }))
        .unwrap();
        let (web, at) = (NamespacedName::new("shop", "web"), port(34, free));
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        router.set_service(web.clone(), Some(&service));
        let (_, refused) = open.open(&mut router, wanted("p", "p-a", &[at], PortDemand::All));
        let said = format!(
            "open port {free} of the node for TCP at {}: Service shop/web has it",
            loopback_address(34)
        );
        assert_eq!(refused, [said]);
        router.set_service(web.clone(), None);
        let everywhere = HostPort { frontend: at.frontend.of_node(), ..at };
        open.open(&mut router, wanted("p", "p-a", &[everywhere], PortDemand::All));
        router.set_service(web, Some(&service));
        let contested = open.newly_contested(&router);
        let [ContestedPort { port, service, pod }] = &contested[..] else {
            panic!("{contested:?}")
        };
        assert_eq!((port.port, service.uid.as_str(), pod.as_str()), (free, "u1", "pod shop/p"));
        assert!(open.newly_contested(&router).is_empty(), "it is reported once");
    }
}
