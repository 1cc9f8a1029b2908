//! Ports of the machine that lead to pods (`hostPort`): which pod has which, and what holds them.
//!
//! ```text
//!  open ──► held by a socket ──► leads to the pod's sandbox ──► … to its next one ──► close
//!              ▲                                                     ▲
//!              └── another process gives it back                     └── adopt: its agent has
//!                                                                        ended, or an engine
//! ```
//! A pod that starts gets all of its ports or waits. One that runs already goes on without a port
//! that a process has taken, and so does its next sandbox: it is tried again until it is free.
//!
//! An adopted port leads on to where it led. The pod's next agent takes it over, or says that the
//! pod is no more. Until then the next pod that is placed on the machine with this port gets it:
//! nothing else can say that the first one has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rekindle_services::{ContestedPort, Frontend, RuleChanges, ServiceRouter};
use rekindle_types::{PodRef, PodUid};
use tokio::time::Instant;

use super::port_hold::{PortHold, hold};
use super::routes::{AddressesInUse, AgentLine, PodPorts, PortDemand};

/// Until a port that was taken is tried again: at first, and at most.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HostPorts {
    open: BTreeMap<PodUid, PodOpenPorts>,
    /// Those of pods that no agent speaks for.
    adopted: BTreeMap<Frontend, AdoptedPort>,
    /// Services that want a port that a pod has. Each is reported once.
    contested: BTreeSet<(Frontend, String)>,
    retry: Option<PortRetry>,
}

/// Those of one pod.
#[derive(Debug)]
struct PodOpenPorts {
    pod: PodRef,
    /// Who speaks for the pod.
    agent: AgentLine,
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
    held: Option<Arc<PortHold>>,
}

#[derive(Debug)]
struct AdoptedPort {
    endpoint: SocketAddr,
    held: Arc<PortHold>,
    /// Not known of those that an engine before has left in the kernel.
    pod: Option<PodRef>,
    /// Known when an agent has said it.
    sandbox: Option<String>,
}

/// Who asks for a port.
#[derive(Clone, Copy, Debug)]
struct PortClaim<'a> {
    pod: &'a PodUid,
    address: IpAddr,
    demand: PortDemand,
}

impl PortClaim<'_> {
    /// A pod that runs gets its own ports back; another's are not free. One that starts is on this
    /// machine because the scheduler has given up the other.
    fn may_take(self, adopted: &AdoptedPort) -> bool {
        let is_its_own = adopted.endpoint.ip() == self.address
            || adopted.pod.as_ref().is_some_and(|pod| pod.uid == *self.pod);
        match self.demand {
            PortDemand::All => true,
            PortDemand::WhatIsFree => is_its_own,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct PortRetry {
    at: Instant,
    after: Duration,
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
                    let held = Arc::new(held);
                    let adopted = AdoptedPort { endpoint, held, pod: None, sandbox: None };
                    self.adopted.insert(port, adopted);
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
        agent: AgentLine,
        wanted: PodPorts,
    ) -> (RuleChanges, Vec<String>) {
        let PodPorts { pod, sandbox, address, ports, demand } = wanted;
        let ports: BTreeMap<Frontend, u16> =
            ports.into_iter().map(|port| (port.frontend, port.pod_port)).collect();
        let mut before = self.open.remove(&pod.uid).map(|open| open.ports).unwrap_or_default();
        let is_known = before.iter().map(|(port, of)| (port, &of.pod_port)).eq(&ports);
        let claim = PortClaim { pod: &pod.uid, address, demand };
        let mut changes = RuleChanges::default();
        let (mut opened, mut refused) = (BTreeMap::new(), Vec::new());
        for (port, pod_port) in ports {
            let known = before.remove(&port);
            let held = match (known, is_known) {
                // it waits for those that are taken, and has said so
                (Some(PodPort { held, .. }), true) => held,
                (Some(PodPort { held: Some(held), .. }), false) => Some(held),
                (Some(PodPort { held: None, .. }), false) | (None, _) => {
                    let taken = self.take(router, port, claim, &mut changes);
                    taken.map_err(|why| refused.push(why)).ok()
                }
            };
            opened.insert(port, PodPort { pod_port, held });
        }
        // those that it asks for no more
        changes = changes.then(closed(router, before));
        match demand {
            PortDemand::All if !refused.is_empty() => {
                // what is another's stays so: it would be closed for nothing
                opened.retain(|port, _| !self.adopted.contains_key(port));
                changes = changes.then(closed(router, opened));
            }
            PortDemand::All | PortDemand::WhatIsFree => {
                for (port, of) in opened.iter().filter(|(_, of)| of.held.is_some()) {
                    self.adopted.remove(port);
                    let endpoint = SocketAddr::new(address, of.pod_port);
                    changes = changes.then(router.set_host_port(*port, Some(endpoint)));
                }
                let uid = pod.uid.clone();
                let open = PodOpenPorts { pod, agent, sandbox, address, ports: opened };
                self.open.insert(uid, open);
                self.plan_retry();
            }
        }
        (changes, refused)
    }

    /// Holds a port of the machine. One that is adopted stays so until its next pod has all that it
    /// demands.
    fn take(
        &mut self,
        router: &mut ServiceRouter,
        port: Frontend,
        claim: PortClaim<'_>,
        changes: &mut RuleChanges,
    ) -> Result<Arc<PortHold>, String> {
        if let Some(adopted) = self.adopted.get(&port).filter(|adopted| claim.may_take(adopted)) {
            return Ok(Arc::clone(&adopted.held));
        }
        let refusal = |why: String| {
            let Frontend { address, protocol, port } = port;
            format!("open port {port} of the node for {protocol} at {address}: {why}")
        };
        // no socket says so of SCTP
        let in_use = || refusal(io::Error::from(io::ErrorKind::AddrInUse).to_string());
        if self.has(port) {
            return Err(in_use());
        }
        if let Some(rival) = router.rival_of(port) {
            return Err(refusal(format!("Service {} has it", rival.name)));
        }
        let overlapping = |(other, _): &(&Frontend, &AdoptedPort)| other.overlaps(&port);
        if !self.adopted.iter().filter(overlapping).all(|(_, adopted)| claim.may_take(adopted)) {
            return Err(in_use());
        }
        let given_up = self.adopted.extract_if(.., |other, _| other.overlaps(&port));
        for (other, _) in given_up {
            *changes = std::mem::take(changes).then(router.set_host_port(other, None));
        }
        hold(port).map(Arc::new).map_err(|error| refusal(error.to_string()))
    }

    /// Whether a pod has this port, or the same one at an address that this one is among.
    fn has(&self, port: Frontend) -> bool {
        let ports = self.open.values().flat_map(|open| &open.ports);
        ports.into_iter().any(|(other, of)| of.held.is_some() && other.overlaps(&port))
    }

    /// An agent has ended. What leads to its pods does so on: they may run without it.
    pub(super) fn agent_gone(&mut self, agent: AgentLine) {
        let its_own = |_: &PodUid, open: &mut PodOpenPorts| open.agent == agent;
        for (_, open) in self.open.extract_if(.., its_own) {
            let PodOpenPorts { pod, agent: _, sandbox, address, ports } = open;
            for (port, PodPort { pod_port, held }) in ports {
                // for one that a process has, the pod's next agent asks again
                let Some(held) = held else { continue };
                let endpoint = SocketAddr::new(address, pod_port);
                let (pod, sandbox) = (Some(pod.clone()), Some(sandbox.clone()));
                self.adopted.insert(port, AdoptedPort { endpoint, held, pod, sandbox });
            }
        }
        self.plan_retry();
    }

    /// Closes what leads to this sandbox. The ports are free when it returns.
    pub(super) fn close(&mut self, router: &mut ServiceRouter, sandbox: &str) -> RuleChanges {
        self.close_if(router, |_, of| of == Some(sandbox))
    }

    /// Closes what leads to addresses of a node that none of its sandboxes has.
    pub(super) fn keep(
        &mut self,
        router: &mut ServiceRouter,
        in_use: &AddressesInUse,
    ) -> RuleChanges {
        let changes = self.close_if(router, |address, of| in_use.has_ended(address, of));
        for adopted in self.adopted.values_mut() {
            if let Some(sandbox) = in_use.addresses.get(&adopted.endpoint.ip()) {
                adopted.sandbox = Some(sandbox.clone());
            }
        }
        changes
    }

    /// Closes what leads to an address and a sandbox that are no more. The sandbox of an adopted
    /// port may be unknown.
    fn close_if(
        &mut self,
        router: &mut ServiceRouter,
        is_over: impl Fn(IpAddr, Option<&str>) -> bool,
    ) -> RuleChanges {
        let mut changes = RuleChanges::default();
        let has_ended = |_: &PodUid, open: &mut PodOpenPorts| {
            is_over(open.address, Some(open.sandbox.as_str()))
        };
        for (_, open) in self.open.extract_if(.., has_ended) {
            changes = changes.then(closed(router, open.ports));
        }
        let has_ended = |_: &Frontend, port: &mut AdoptedPort| {
            is_over(port.endpoint.ip(), port.sandbox.as_deref())
        };
        for (port, _) in self.adopted.extract_if(.., has_ended) {
            changes = changes.then(router.set_host_port(port, None));
        }
        self.plan_retry();
        changes
    }

    /// Tries those again that were taken.
    pub(super) fn try_again(&mut self, router: &mut ServiceRouter) -> RuleChanges {
        let mut changes = RuleChanges::default();
        let lost = |(uid, open): (&PodUid, &PodOpenPorts)| {
            let ports = open.ports.iter().filter(|(_, of)| of.held.is_none());
            ports.map(|(port, _)| (uid.clone(), open.address, *port)).collect::<Vec<_>>()
        };
        for (uid, address, port) in self.open.iter().flat_map(lost).collect::<Vec<_>>() {
            let claim = PortClaim { pod: &uid, address, demand: PortDemand::WhatIsFree };
            let taken = self.take(router, port, claim, &mut changes);
            let Some(open) = self.open.get_mut(&uid) else { continue };
            match (taken, open.ports.get_mut(&port)) {
                (Ok(held), Some(of)) => {
                    tracing::info!(%port, pod = %open.pod, "opened a host port that was lost");
                    of.held = Some(held);
                    self.adopted.remove(&port);
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

    /// The pod that has a port. One that waits for it has it not.
    pub(super) fn pod_with(&self, port: Frontend) -> Option<&PodRef> {
        let has = |open: &&PodOpenPorts| open.ports.get(&port).is_some_and(|of| of.held.is_some());
        let adopted = self.adopted.get(&port).and_then(|adopted| adopted.pod.as_ref());
        self.open.values().find(has).map(|open| &open.pod).or(adopted)
    }

    /// Services that want a port which a pod has, each the first time and with that pod.
    pub(super) fn newly_contested(
        &mut self,
        router: &ServiceRouter,
    ) -> Vec<(ContestedPort, String)> {
        let known = std::mem::take(&mut self.contested);
        let mut new = Vec::new();
        for contested in router.contested_ports() {
            let key = (contested.wanted, contested.service.uid.clone());
            let is_new = !known.contains(&key);
            if self.contested.insert(key) && is_new {
                let pod = self.pod_with(contested.host_port).map_or_else(
                    || "a pod of a node without an agent".to_owned(),
                    |pod| format!("pod {pod}"),
                );
                new.push((contested, pod));
            }
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
    use rekindle_testkit::free_port;
    use rekindle_types::NamespacedName;
    use serde_json::json;

    use super::*;

    fn port(test: u8, number: u16) -> HostPort {
        let protocol = TransportProtocol::Tcp;
        let address = loopback_address(test).into();
        HostPort { frontend: Frontend { address, protocol, port: number }, pod_port: 80 }
    }

    const AGENT: AgentLine = AgentLine(1);
    const OTHER_AGENT: AgentLine = AgentLine(2);

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
        let (changes, refused) = open.open(&mut router, AGENT, first.clone());
        let at = loopback_address(31);
        let why = "Address already in use (os error 98)";
        assert_eq!(refused, [format!("open port 9090 of the node for TCP at {at}: {why}")]);
        assert!(changes.is_empty() && leading(&router).is_empty() && is_free(ports[0]));
        drop(taken);
        assert!(open.open(&mut router, AGENT, first).1.is_empty());
        assert_eq!(leading(&router), [(8080, b'a'), (9090, b'a')]);
        assert!(!is_free(ports[0]) && !is_free(ports[1]));
        // free at once for the next pod, and not by the end of an older sandbox
        open.open(&mut router, AGENT, wanted("p", "p-b", &ports, PortDemand::All));
        assert_eq!(leading(&router), [(8080, b'b'), (9090, b'b')]);
        assert!(open.close(&mut router, "p-a").is_empty());
        open.close(&mut router, "p-b");
        assert!(leading(&router).is_empty());
        let next = wanted("q", "q-c", &ports, PortDemand::All);
        assert!(open.open(&mut router, AGENT, next).1.is_empty());
    }

    #[tokio::test]
    async fn two_pods_do_not_share_a_port_of_any_protocol() {
        for protocol in TransportProtocol::ALL {
            let at = |number| {
                let HostPort { frontend, pod_port } = port(35, number);
                HostPort { frontend: Frontend { protocol, ..frontend }, pod_port }
            };
            let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
            let first =
                open.open(&mut router, AGENT, wanted("p", "p-a", &[at(7000)], PortDemand::All));
            assert!(first.1.is_empty(), "{protocol}: {first:?}");
            let second = wanted("q", "q-b", &[at(7000)], PortDemand::WhatIsFree);
            assert_eq!(open.open(&mut router, AGENT, second).1.len(), 1, "{protocol}");
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
        let (_, refused) = open.open(&mut router, AGENT, wanted("p", "p-a", &ports, demand));
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(leading(&router), [(8080, b'a')], "the other one is open");
        assert!(open.pod_with(ports[0].frontend).is_some());
        assert!(open.pod_with(ports[1].frontend).is_none(), "it waits for it");
        let (_, refused) =
            open.open(&mut router, AGENT, wanted("p", "p-b", &ports, PortDemand::All));
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
            open.open(&mut router, AGENT, wanted("p", "p-a", &ports[..1], PortDemand::WhatIsFree));
        assert!(changes.is_empty() && refused.is_empty(), "no rule changes");
        let range = "10.88.0.0/24".parse().unwrap();
        let elsewhere = "10.88.1.0/24".parse().unwrap();
        let addresses = BTreeMap::from([(to(b'a').ip(), "p-a".to_owned())]);
        let of_other_node = AddressesInUse { range: elsewhere, addresses: BTreeMap::new() };
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
        let (_, refused) =
            open.open(&mut router, AGENT, wanted("p", "p-a", &[at], PortDemand::All));
        let said = format!(
            "open port {free} of the node for TCP at {}: Service shop/web has it",
            loopback_address(34)
        );
        assert_eq!(refused, [said]);
        router.set_service(web.clone(), None);
        let everywhere = HostPort { frontend: at.frontend.of_node(), ..at };
        open.open(&mut router, AGENT, wanted("p", "p-a", &[everywhere], PortDemand::All));
        router.set_service(web, Some(&service));
        let contested = open.newly_contested(&router);
        let [(ContestedPort { wanted: port, service, .. }, pod)] = &contested[..] else {
            panic!("{contested:?}")
        };
        assert_eq!((port.port, service.uid.as_str(), pod.as_str()), (free, "u1", "pod shop/p"));
        assert!(open.newly_contested(&router).is_empty(), "it is reported once");
    }

    fn in_use(sandboxes: &[&str]) -> AddressesInUse {
        let address = |sandbox: &str| IpAddr::from([10, 88, 0, sandbox.bytes().last().unwrap()]);
        let addresses = sandboxes.iter().map(|sandbox| (address(sandbox), (*sandbox).to_owned()));
        AddressesInUse { range: "10.88.0.0/24".parse().unwrap(), addresses: addresses.collect() }
    }

    /// Its pods run on, and its next agent takes them up, or the next pod gets their ports.
    #[tokio::test]
    async fn what_leads_to_the_pods_of_an_agent_that_ended_is_their_next_agents() {
        let ports = [port(36, 8080), port(36, 8081), port(36, 8082)];
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        open.open(&mut router, OTHER_AGENT, wanted("p", "p-a", &ports[..1], PortDemand::All));
        open.open(&mut router, AGENT, wanted("q", "q-b", &ports[1..2], PortDemand::All));
        open.open(&mut router, AGENT, wanted("r", "r-c", &ports[2..], PortDemand::All));
        let all = [(8080, b'a'), (8081, b'b'), (8082, b'c')];
        open.agent_gone(AGENT);
        assert_eq!(leading(&router), all, "nothing changes, as the pods run on");
        assert_eq!(open.pod_with(ports[1].frontend).map(|pod| pod.name.as_str()), Some("q"));
        assert!(ports.iter().all(|port| !is_free(*port)));
        // r ended with no agent there; q runs
        open.keep(&mut router, &in_use(&["p-a", "q-b"]));
        assert_eq!(leading(&router), all[..2]);
        assert!(is_free(ports[2]));
        let again = wanted("q", "q-b", &ports[1..2], PortDemand::WhatIsFree);
        let (changes, refused) = open.open(&mut router, AgentLine(3), again);
        assert!(changes.is_empty() && refused.is_empty(), "no rule changes: {refused:?}");
        // the end of the first agent may be heard of late
        open.agent_gone(AGENT);
        assert!(!open.close(&mut router, "q-b").is_empty());
        assert_eq!(leading(&router), all[..1]);
    }

    #[tokio::test]
    async fn a_sandbox_that_its_next_agent_only_ends_gives_its_ports_back() {
        for is_new_engine in [false, true] {
            let port = port(37, 8080);
            let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
            match is_new_engine {
                true => open.adopt(&mut router, [(port.frontend, ([10, 88, 0, b'a'], 80).into())]),
                false => {
                    open.open(&mut router, AGENT, wanted("p", "p-a", &[port], PortDemand::All));
                    open.agent_gone(AGENT);
                }
            }
            open.keep(&mut router, &in_use(&["p-a"]));
            assert_eq!(leading(&router), [(8080, b'a')]);
            open.close(&mut router, "p-a");
            assert!(leading(&router).is_empty() && is_free(port), "{is_new_engine}");
        }
    }

    /// The scheduler gives a port away when it has not heard of the pod's node for a while: nothing
    /// can say that the pod has ended (docs/adr/0020).
    #[tokio::test]
    async fn the_next_pod_gets_the_port_of_a_pod_without_an_agent_and_one_that_runs_does_not() {
        let number = free_port();
        for protocol in TransportProtocol::ALL {
            let HostPort { frontend, pod_port } = port(38, number);
            let local = HostPort { frontend: Frontend { protocol, ..frontend }, pod_port };
            let everywhere = HostPort { frontend: local.frontend.of_node(), ..local };
            for (had, wants) in [(local, local), (local, everywhere), (everywhere, local)] {
                let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
                open.open(&mut router, AGENT, wanted("p", "p-a", &[had], PortDemand::All));
                let mut next = |open: &mut HostPorts, demand| {
                    open.open(&mut router, OTHER_AGENT, wanted("q", "q-b", &[wants], demand)).1
                };
                assert_eq!(next(&mut open, PortDemand::All).len(), 1, "its agent is there");
                open.agent_gone(AGENT);
                assert_eq!(next(&mut open, PortDemand::WhatIsFree).len(), 1, "it is not free");
                assert!(open.try_again(&mut router).is_empty());
                let late = wanted("q", "q-b", &[wants], PortDemand::All);
                open.close(&mut router, "q-b");
                assert!(open.open(&mut router, OTHER_AGENT, late).1.is_empty(), "{protocol}");
                assert_eq!(leading(&router), [(number, b'b')], "{had:?}, {wants:?}");
                let again = wanted("p", "p-a", &[had], PortDemand::WhatIsFree);
                let (changes, refused) = open.open(&mut router, AgentLine(3), again);
                assert!(changes.is_empty() && refused.len() == 1, "{changes:?}");
                assert_eq!(open.pod_with(wants.frontend).map(|pod| pod.name.as_str()), Some("q"));
            }
        }
    }

    #[tokio::test]
    async fn a_pod_that_does_not_get_all_of_its_ports_takes_none_from_another() {
        let ports = [port(39, 8080), port(39, 9090)];
        let taken = TcpListener::bind((loopback_address(39), 9090)).unwrap();
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        open.open(&mut router, AGENT, wanted("p", "p-a", &ports[..1], PortDemand::All));
        open.agent_gone(AGENT);
        let next = wanted("q", "q-b", &ports, PortDemand::All);
        let (changes, refused) = open.open(&mut router, OTHER_AGENT, next.clone());
        assert!(changes.is_empty() && refused.len() == 1, "{changes:?}");
        assert_eq!(leading(&router), [(8080, b'a')]);
        drop(taken);
        assert!(open.open(&mut router, OTHER_AGENT, next).1.is_empty());
        assert_eq!(leading(&router), [(8080, b'b'), (9090, b'b')]);
        open.keep(&mut router, &in_use(&["q-b"]));
        assert_eq!(leading(&router).len(), 2, "nothing is left of the first");
    }
}
