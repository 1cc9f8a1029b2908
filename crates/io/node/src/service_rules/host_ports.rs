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
//! pod is no more. If it does neither for a few seconds, the next pod that is placed on the machine
//! with this port gets it: nothing else can say that the first one has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rekindle_services::{ContestedPort, Frontend, HostPort, RuleChanges, ServiceRouter};
use rekindle_types::{PodRef, PodUid};
use tokio::time::Instant;

use super::port_hold::{PortHold, hold};
use super::routes::{AddressesInUse, AgentLine, PodPorts, PortDemand, SandboxAddresses};

/// Until a port that was taken is tried again: at first, and at most.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);
/// How long an adopted port waits for its pod's agent before a pod that starts gets it. An agent
/// that still runs connects again within a fraction of this.
const KEPT_FOR_AGENT: Duration = Duration::from_secs(5);

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
    addresses: SandboxAddresses,
    ports: BTreeMap<Frontend, PodPort>,
}

/// One of them.
#[derive(Debug)]
struct PodPort {
    endpoint: SocketAddr,
    /// Nothing: a process of the machine has it.
    held: Option<Arc<PortHold>>,
}

#[derive(Debug)]
struct AdoptedPort {
    route: AdoptedRoute,
    held: Arc<PortHold>,
}

/// Where an adopted port leads.
#[derive(Debug)]
struct AdoptedRoute {
    endpoint: SocketAddr,
    /// Not known of those that an engine before has left in the kernel.
    pod: Option<PodRef>,
    /// Known when an agent has said it.
    sandbox: Option<String>,
    /// Until then only the pod itself gets the port.
    kept_until: Instant,
}

/// Who asks for a port.
#[derive(Clone, Copy, Debug)]
struct PortClaim<'a> {
    pod: &'a PodUid,
    addresses: SandboxAddresses,
    demand: PortDemand,
    at: Instant,
}

impl PortClaim<'_> {
    /// A pod gets its own ports back. Another's are not free for a pod that runs. One that starts
    /// is on this machine because the scheduler has given up the other, or it has waited for the
    /// port since before: then the other's agent may only need a moment to connect again.
    fn may_take(self, adopted: &AdoptedRoute) -> bool {
        let is_its_own = self.addresses.has(adopted.endpoint.ip())
            || adopted.pod.as_ref().is_some_and(|pod| pod.uid == *self.pod);
        is_its_own
            || match self.demand {
                PortDemand::All => self.at >= adopted.kept_until,
                PortDemand::WhatIsFree => false,
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

    /// Ports that are found in the kernel.
    pub(super) fn adopt(
        &mut self,
        router: &mut ServiceRouter,
        found: impl IntoIterator<Item = (Frontend, SocketAddr)>,
    ) {
        let kept_until = Instant::now() + KEPT_FOR_AGENT;
        let mut routes = BTreeMap::new();
        for (port, endpoint) in found {
            drop(router.set_host_port(port, Some(endpoint)));
            routes.insert(port, AdoptedRoute { endpoint, pod: None, sandbox: None, kept_until });
        }
        drop(self.take_back(router, routes));
    }

    /// Opens ports as they are demanded. Answers what that changes in the rules, and why a port
    /// cannot be opened.
    pub(super) fn open(
        &mut self,
        router: &mut ServiceRouter,
        agent: AgentLine,
        wanted: PodPorts,
    ) -> (RuleChanges, Vec<String>) {
        let PodPorts { pod, sandbox, addresses, ports, demand } = wanted;
        let ports: BTreeMap<Frontend, SocketAddr> = endpoints(&addresses, &ports).collect();
        let mut before = self.open.remove(&pod.uid).map(|open| open.ports).unwrap_or_default();
        let pod_ports = ports.iter().map(|(port, endpoint)| (port, endpoint.port()));
        let is_known = before.iter().map(|(port, of)| (port, of.endpoint.port())).eq(pod_ports);
        let claim = PortClaim { pod: &pod.uid, addresses, demand, at: Instant::now() };
        let (mut given_up, mut changes) = (BTreeMap::new(), RuleChanges::default());
        let (mut opened, mut refused) = (BTreeMap::new(), Vec::new());
        for (port, endpoint) in ports {
            let known = before.remove(&port);
            let held = match (known, is_known) {
                // it waits for those that are taken, and has said so
                (Some(PodPort { held, .. }), true) => held,
                (Some(PodPort { held: Some(held), .. }), false) => Some(held),
                (Some(PodPort { held: None, .. }), false) | (None, _) => {
                    let (taken, lost) = self.take(router, port, claim, &mut given_up);
                    changes = changes.then(lost);
                    taken.map_err(|why| refused.push(why)).ok()
                }
            };
            opened.insert(port, PodPort { endpoint, held });
        }
        // those that it asks for no more
        changes = changes.then(closed(router, held_of(before)));
        match demand {
            PortDemand::All if !refused.is_empty() => {
                // what is another's stays so: it would be closed for nothing
                opened.retain(|port, _| {
                    !self.adopted.contains_key(port) && !given_up.contains_key(port)
                });
                changes = changes.then(closed(router, held_of(opened)));
                changes = changes.then(self.take_back(router, given_up));
            }
            PortDemand::All | PortDemand::WhatIsFree => {
                // what leads on from adopted ports that this pod has now
                changes = changes.then(closed(router, given_up.into_keys()));
                for (port, of) in opened.iter().filter(|(_, of)| of.held.is_some()) {
                    self.adopted.remove(port);
                    changes = changes.then(router.set_host_port(*port, Some(of.endpoint)));
                }
                let uid = pod.uid.clone();
                let open = PodOpenPorts { pod, agent, sandbox, addresses, ports: opened };
                self.open.insert(uid, open);
                self.plan_retry();
            }
        }
        (changes, refused)
    }

    /// Holds a port of the machine. One that is adopted stays so until its next pod has all that it
    /// demands. Others that overlap are given up: the rules still lead on from them. If the port
    /// cannot be held, they are taken back. The rules change then for those that a process has
    /// taken in between.
    fn take(
        &mut self,
        router: &mut ServiceRouter,
        port: Frontend,
        claim: PortClaim<'_>,
        given_up: &mut BTreeMap<Frontend, AdoptedRoute>,
    ) -> (Result<Arc<PortHold>, String>, RuleChanges) {
        let unchanged = RuleChanges::default();
        let may_take = |adopted: &&AdoptedPort| claim.may_take(&adopted.route);
        if let Some(adopted) = self.adopted.get(&port).filter(may_take) {
            return (Ok(Arc::clone(&adopted.held)), unchanged);
        }
        let refusal = |why: String| {
            let Frontend { address, protocol, port } = port;
            format!("open port {port} of the node for {protocol} at {address}: {why}")
        };
        // no socket says so of SCTP
        let in_use = || refusal(io::Error::from(io::ErrorKind::AddrInUse).to_string());
        if self.has(port) {
            return (Err(in_use()), unchanged);
        }
        if let Some(rival) = router.rival_of(port) {
            return (Err(refusal(format!("Service {} has it", rival.name))), unchanged);
        }
        let mut overlapping = self.adopted.iter().filter(|(other, _)| other.overlaps(&port));
        if !overlapping.all(|(_, adopted)| may_take(&adopted)) {
            return (Err(in_use()), unchanged);
        }
        let overlapping = self.adopted.extract_if(.., |other, _| other.overlaps(&port));
        // their sockets are closed here: this port could not be held beside them
        let overlapping: BTreeMap<_, _> =
            overlapping.map(|(other, adopted)| (other, adopted.route)).collect();
        match hold(port) {
            Ok(held) => {
                given_up.extend(overlapping);
                (Ok(Arc::new(held)), unchanged)
            }
            Err(error) => (Err(refusal(error.to_string())), self.take_back(router, overlapping)),
        }
    }

    /// Holds ports for where they lead: those that are found, and those that were given up for a
    /// pod that does not get all of its own. What a process has taken leads nowhere any more.
    fn take_back(
        &mut self,
        router: &mut ServiceRouter,
        given_up: BTreeMap<Frontend, AdoptedRoute>,
    ) -> RuleChanges {
        let mut changes = RuleChanges::default();
        for (port, route) in given_up {
            match hold(port) {
                Ok(held) => {
                    self.adopted.insert(port, AdoptedPort { route, held: Arc::new(held) });
                }
                Err(error) => {
                    tracing::info!(%port, %error, "dropped a host port: a process has it by now");
                    changes = changes.then(router.set_host_port(port, None));
                }
            }
        }
        changes
    }

    /// Whether a pod has this port, or the same one at an address that this one is among.
    fn has(&self, port: Frontend) -> bool {
        let ports = self.open.values().flat_map(|open| &open.ports);
        ports.into_iter().any(|(other, of)| of.held.is_some() && other.overlaps(&port))
    }

    /// The line of an agent has ended, and so may the agent. What leads to its pods does so on:
    /// they may run without it.
    pub(super) fn agent_gone(&mut self, agent: AgentLine) {
        let kept_until = Instant::now() + KEPT_FOR_AGENT;
        let its_own = |_: &PodUid, open: &mut PodOpenPorts| open.agent == agent;
        for (_, open) in self.open.extract_if(.., its_own) {
            let PodOpenPorts { pod, agent: _, sandbox, addresses: _, ports } = open;
            for (port, PodPort { endpoint, held }) in ports {
                // for one that a process has, the pod's next agent asks again
                let Some(held) = held else { continue };
                let (pod, sandbox) = (Some(pod.clone()), Some(sandbox.clone()));
                let route = AdoptedRoute { endpoint, pod, sandbox, kept_until };
                self.adopted.insert(port, AdoptedPort { route, held });
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
        for AdoptedPort { route, .. } in self.adopted.values_mut() {
            if let Some(sandbox) = in_use.sandbox_at(route.endpoint.ip()) {
                route.sandbox = Some(sandbox.clone());
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
            is_over(open.addresses.address, Some(open.sandbox.as_str()))
        };
        for (_, open) in self.open.extract_if(.., has_ended) {
            changes = changes.then(closed(router, held_of(open.ports)));
        }
        let has_ended = |_: &Frontend, AdoptedPort { route, .. }: &mut AdoptedPort| {
            is_over(route.endpoint.ip(), route.sandbox.as_deref())
        };
        let adopted = self.adopted.extract_if(.., has_ended).map(|(port, _)| port);
        changes = changes.then(closed(router, adopted));
        self.plan_retry();
        changes
    }

    /// Tries those again that were taken.
    pub(super) fn try_again(&mut self, router: &mut ServiceRouter) -> RuleChanges {
        let mut changes = RuleChanges::default();
        let lost = |(uid, open): (&PodUid, &PodOpenPorts)| {
            let ports = open.ports.iter().filter(|(_, of)| of.held.is_none());
            ports.map(|(port, _)| (uid.clone(), open.addresses, *port)).collect::<Vec<_>>()
        };
        for (uid, addresses, port) in self.open.iter().flat_map(lost).collect::<Vec<_>>() {
            let (demand, at) = (PortDemand::WhatIsFree, Instant::now());
            let claim = PortClaim { pod: &uid, addresses, demand, at };
            let mut given_up = BTreeMap::new();
            let (taken, lost) = self.take(router, port, claim, &mut given_up);
            changes = changes.then(lost).then(closed(router, given_up.into_keys()));
            let Some(open) = self.open.get_mut(&uid) else { continue };
            match (taken, open.ports.get_mut(&port)) {
                (Ok(held), Some(of)) => {
                    tracing::info!(%port, pod = %open.pod, "opened a host port that was lost");
                    of.held = Some(held);
                    self.adopted.remove(&port);
                    changes = changes.then(router.set_host_port(port, Some(of.endpoint)));
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
        let adopted = self.adopted.get(&port).and_then(|adopted| adopted.route.pod.as_ref());
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
                    || "a pod that no agent speaks for yet".to_owned(),
                    |pod| format!("pod {pod}"),
                );
                new.push((contested, pod));
            }
        }
        new
    }
}

/// Where each port leads. One of a family that the pod has no address of leads nowhere.
fn endpoints<'a>(
    addresses: &'a SandboxAddresses,
    ports: &'a [HostPort],
) -> impl Iterator<Item = (Frontend, SocketAddr)> + 'a {
    ports.iter().filter_map(|HostPort { frontend, pod_port }| {
        let address = addresses.of_family(frontend.family())?;
        Some((*frontend, SocketAddr::new(address, *pod_port)))
    })
}

/// Those that are held.
fn held_of(ports: BTreeMap<Frontend, PodPort>) -> impl Iterator<Item = Frontend> {
    ports.into_iter().filter(|(_, of)| of.held.is_some()).map(|(port, _)| port)
}

/// Ends what leads on from these ports.
fn closed(router: &mut ServiceRouter, ports: impl IntoIterator<Item = Frontend>) -> RuleChanges {
    let mut changes = RuleChanges::default();
    for port in ports {
        changes = changes.then(router.set_host_port(port, None));
    }
    changes
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpListener, UdpSocket};

    use k8s_openapi::api::core::v1::Service;
    use rekindle_net::EmbeddingPrefix;
    use rekindle_services::{TransportProtocol, host_ports_in};
    use rekindle_testkit::claims::loopback_address;
    use rekindle_testkit::free_port;
    use rekindle_types::{IpFamily, IpStack, NamespacedName};
    use serde_json::json;

    use super::*;

    fn port(test: u8, number: u16) -> HostPort {
        let protocol = TransportProtocol::Tcp;
        let address = loopback_address(test).into();
        HostPort { frontend: Frontend { address, protocol, port: number }, pod_port: 80 }
    }

    const AGENT: AgentLine = AgentLine(1);
    const OTHER_AGENT: AgentLine = AgentLine(2);

    const PREFIX: Ipv6Addr = Ipv6Addr::new(0xfd52, 1, 2, 0, 0, 0, 0, 0);

    fn second(last: u8) -> Ipv6Addr {
        EmbeddingPrefix::new(PREFIX).address([10, 88, 0, last].into())
    }

    fn wanted(pod: &str, sandbox: &str, ports: &[HostPort], demand: PortDemand) -> PodPorts {
        let pod = PodRef {
            namespace: "shop".to_owned(),
            name: pod.to_owned(),
            uid: PodUid(pod.to_owned()),
        };
        let last = sandbox.bytes().last().unwrap();
        let second_address = Some(second(last).into());
        let addresses = SandboxAddresses { address: [10, 88, 0, last].into(), second_address };
        PodPorts { pod, sandbox: sandbox.to_owned(), addresses, ports: ports.to_vec(), demand }
    }

    /// The open ports, each with the last part of the address that it leads to.
    fn leading(router: &ServiceRouter) -> Vec<(u16, u8)> {
        let last = |endpoint: SocketAddr| match endpoint.ip() {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
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
        let of_other_node =
            AddressesInUse { range: elsewhere, ipv6_prefix: None, addresses: BTreeMap::new() };
        assert!(open.keep(&mut router, &of_other_node).is_empty());
        open.keep(&mut router, &AddressesInUse { range, ipv6_prefix: None, addresses });
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
        let range = "10.88.0.0/24".parse().unwrap();
        let ipv6_prefix = Some(EmbeddingPrefix::new(PREFIX));
        AddressesInUse { range, ipv6_prefix, addresses: addresses.collect() }
    }

    /// A port at all addresses is two frontends. They come, move and go together.
    #[tokio::test]
    async fn a_port_of_both_families_leads_to_both_addresses_of_its_pod() {
        let (number, protocol) = (free_port(), TransportProtocol::Tcp);
        let [first, other] = IpFamily::ALL.map(|family| {
            let frontend = Frontend { address: family.unspecified(), protocol, port: number };
            HostPort { frontend, pod_port: 80 }
        });
        let (mut router, mut open) = (ServiceRouter::new(IpStack::Dual), HostPorts::default());
        let leads = |router: &ServiceRouter, last: u8| {
            let found: Vec<_> = host_ports_in(&router.elements()).collect();
            let to_first = SocketAddr::from(([10, 88, 0, last], 80));
            let to_second = SocketAddr::from((second(last), 80));
            found == [(first.frontend, to_first), (other.frontend, to_second)]
        };
        let ask = |sandbox| wanted("p", sandbox, &[first, other], PortDemand::All);
        assert!(open.open(&mut router, AGENT, ask("p-a")).1.is_empty());
        assert!(leads(&router, b'a'));
        assert!(hold(first.frontend).is_err() && hold(other.frontend).is_err());
        assert!(open.open(&mut router, AGENT, ask("p-b")).1.is_empty());
        assert!(leads(&router, b'b'));

        // the next engine finds both, and hears that the sandbox stands, and then that it does not
        let found: Vec<_> = host_ports_in(&router.elements()).collect();
        let (mut router, mut next) = (ServiceRouter::new(IpStack::Dual), HostPorts::default());
        drop(open);
        next.adopt(&mut router, found);
        next.keep(&mut router, &in_use(&["p-b"]));
        assert!(leads(&router, b'b'));
        next.keep(&mut router, &in_use(&["q-c"]));
        assert!(leading(&router).is_empty());
        assert!(hold(first.frontend).is_ok() && hold(other.frontend).is_ok());

        // a pod of one family gets that family
        let only_first = SandboxAddresses { address: [10, 88, 0, 9].into(), second_address: None };
        let ask = PodPorts { addresses: only_first, ..ask("p-c") };
        assert!(next.open(&mut router, AGENT, ask).1.is_empty());
        assert_eq!(leading(&router), [(number, 9)]);
        assert!(hold(other.frontend).is_ok());
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
    #[tokio::test(start_paused = true)]
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
                tokio::time::advance(KEPT_FOR_AGENT).await;
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

    /// A pod that waits for a port asks for it as soon as its own agent has connected again.
    #[tokio::test(start_paused = true)]
    async fn the_agent_that_connects_first_does_not_get_the_port_of_a_pod_that_runs() {
        let port = port(40, 8080);
        let running = wanted("p", "p-a", &[port], PortDemand::WhatIsFree);
        let waiting = wanted("q", "q-b", &[port], PortDemand::All);
        for (is_new_engine, p_is_first) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let case = format!("new engine: {is_new_engine}, p first: {p_is_first}");
            let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
            let endpoint = ([10, 88, 0, b'a'], 80).into();
            match is_new_engine {
                true => open.adopt(&mut router, [(port.frontend, endpoint)]),
                false => {
                    let first = wanted("p", "p-a", &[port], PortDemand::All);
                    assert!(open.open(&mut router, AGENT, first).1.is_empty(), "{case}");
                    open.agent_gone(AGENT);
                }
            }
            let p = (AgentLine(3), running.clone(), 0);
            let q = (OTHER_AGENT, waiting.clone(), 1);
            let requests = if p_is_first { [p, q] } else { [q, p] };
            for (line, request, refusals) in requests {
                let (changes, refused) = open.open(&mut router, line, request);
                assert!(changes.is_empty(), "{case}: {changes:?}");
                assert_eq!(refused.len(), refusals, "{case}: {refused:?}");
            }
            tokio::time::advance(KEPT_FOR_AGENT).await;
            let again = open.open(&mut router, OTHER_AGENT, waiting.clone());
            assert_eq!(again.1.len(), 1, "{case}");
            assert_eq!(leading(&router), [(8080, b'a')], "{case}");
        }
    }

    /// It has not heard yet that its ports are open, or it is restarted.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_starts_does_not_wait_for_its_own_port() {
        let port = port(41, 8080);
        let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
        open.adopt(&mut router, [(port.frontend, ([10, 88, 0, b'a'], 80).into())]);
        let first = wanted("p", "p-a", &[port], PortDemand::All);
        assert!(open.open(&mut router, AGENT, first).1.is_empty());
        open.agent_gone(AGENT);
        let next = wanted("p", "p-b", &[port], PortDemand::All);
        assert!(open.open(&mut router, OTHER_AGENT, next).1.is_empty());
        assert_eq!(leading(&router), [(8080, b'b')]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_does_not_get_all_of_its_ports_takes_none_from_another() {
        let HostPort { frontend: local, pod_port } = port(39, free_port());
        let everywhere = local.of_node();
        for protocol in TransportProtocol::ALL {
            for (had, wants) in [(local, local), (local, everywhere), (everywhere, local)] {
                let case = format!("{protocol}: {had}, {wants}");
                let of_protocol = |at| HostPort { frontend: Frontend { protocol, ..at }, pod_port };
                let (had, wants) = (of_protocol(had), of_protocol(wants));
                let taken = TcpListener::bind((loopback_address(39), 0)).unwrap();
                let second = port(39, taken.local_addr().unwrap().port());
                let ports = [wants, second];
                let (mut router, mut open) = (ServiceRouter::default(), HostPorts::default());
                open.open(&mut router, AGENT, wanted("p", "p-a", &[had], PortDemand::All));
                open.agent_gone(AGENT);
                tokio::time::advance(KEPT_FOR_AGENT).await;
                let next = wanted("q", "q-b", &ports, PortDemand::All);
                let (changes, refused) = open.open(&mut router, OTHER_AGENT, next.clone());
                assert!(changes.is_empty() && refused.len() == 1, "{case}: {changes:?}");
                assert_eq!(leading(&router), [(had.frontend.port, b'a')], "{case}");
                let name = open.pod_with(had.frontend).map(|pod| pod.name.as_str());
                assert_eq!(name, Some("p"), "{case}");
                hold(had.frontend).map_or_else(drop, |held| {
                    assert!(matches!(held, PortHold::Sctp), "{case}: no socket holds it");
                });
                drop(taken);
                assert!(open.open(&mut router, OTHER_AGENT, next).1.is_empty(), "{case}");
                let mut both = [(wants.frontend.port, b'b'), (second.frontend.port, b'b')];
                both.sort_unstable();
                let mut led = leading(&router);
                led.sort_unstable();
                assert_eq!(led, both, "{case}");
                open.keep(&mut router, &in_use(&["q-b"]));
                assert_eq!(leading(&router).len(), 2, "{case}: nothing is left of the first");
            }
        }
    }
}
