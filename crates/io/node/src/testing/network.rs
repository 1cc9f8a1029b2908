//! A network that only remembers who has which address, and a writer of rules that remembers which
//! port of the node leads where.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rekindle_services::HostPort;
use rekindle_types::PodUid;

use crate::network::{NetworkError, PodNetwork};
use crate::service_rules::{PodPorts, PodRoutes, PortDemand, PortOutcome, RouteRequest};

#[derive(Clone, Debug, Default)]
pub(crate) struct FakeNetwork(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    addresses: BTreeMap<String, Ipv4Addr>,
    given: u8,
    ports: BTreeMap<PodUid, PodPorts>,
    /// Ports that a process of the machine has.
    foreign: BTreeSet<SocketAddr>,
}

impl FakeNetwork {
    pub(crate) fn attached(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().addresses.keys().cloned().collect()
    }

    /// The ports of the node that are open, each with the address that it leads to.
    pub(crate) fn open_ports(&self) -> Vec<(SocketAddr, IpAddr)> {
        let state = self.0.lock().unwrap();
        let of = |open: &PodPorts| {
            let to = open.addresses.address;
            open.ports.iter().map(|port| (address(port), to)).collect()
        };
        state.ports.values().flat_map(|open| -> Vec<_> { of(open) }).collect()
    }

    /// A process of the machine has exactly these ports.
    pub(crate) fn occupy(&self, ports: &[SocketAddr]) {
        self.0.lock().unwrap().foreign = ports.iter().copied().collect();
    }

    /// As when the engine ends and its table of rules is taken away: addresses stay.
    pub(crate) fn forget_ports(&self) {
        self.0.lock().unwrap().ports.clear();
    }

    /// The way to who writes the rules: he writes at once.
    pub(crate) fn routes(&self) -> PodRoutes {
        let (routes, mut requests) = PodRoutes::new();
        let network = self.clone();
        tokio::spawn(async move {
            while let Some(request) = requests.recv().await {
                network.requested(request);
            }
        });
        routes
    }

    fn requested(&self, request: RouteRequest) {
        let mut state = self.0.lock().unwrap();
        match request {
            RouteRequest::Withdraw(_, _, done) => {
                let (Ok(()) | Err(())) = done.send(());
            }
            RouteRequest::Admit(..) | RouteRequest::Leave(_) | RouteRequest::Gone(_) => {}
            RouteRequest::OpenPorts(_, wanted, answer) => drop(answer.send(state.open(wanted))),
            RouteRequest::ClosePorts(sandbox, done) => {
                state.ports.retain(|_, open| open.sandbox != sandbox);
                let (Ok(()) | Err(())) = done.send(());
            }
            RouteRequest::KeepPorts(in_use) => {
                let has_ended = |open: &PodPorts| {
                    in_use.has_ended(open.addresses.address, Some(open.sandbox.as_str()))
                };
                state.ports.retain(|_, open| !has_ended(open));
            }
            RouteRequest::ServeRanges(_, done) => drop(done.send(())),
            RouteRequest::AgentGone(_) => {}
        }
    }
}

impl State {
    fn open(&mut self, wanted: PodPorts) -> PortOutcome {
        let taken = |port: &&HostPort| {
            let mut others = self.ports.values().filter(|open| open.pod != wanted.pod);
            self.foreign.contains(&address(port)) || others.any(|open| open.ports.contains(port))
        };
        let refused: Vec<String> = wanted
            .ports
            .iter()
            .filter(taken)
            .map(|port| format!("open port {} of the node", address(port)))
            .collect();
        if refused.is_empty() || wanted.demand == PortDemand::WhatIsFree {
            self.ports.insert(wanted.pod.uid.clone(), wanted);
        }
        match refused.is_empty() {
            true => PortOutcome::Open,
            false => PortOutcome::Refused(refused),
        }
    }
}

fn address(port: &HostPort) -> SocketAddr {
    SocketAddr::new(port.frontend.address, port.frontend.port)
}

impl PodNetwork for FakeNetwork {
    async fn attach(&self, id: &str, _netns: &Path) -> Result<Vec<IpAddr>, NetworkError> {
        let mut state = self.0.lock().unwrap();
        if !state.addresses.contains_key(id) {
            state.given += 1;
            let address = Ipv4Addr::new(10, 88, 0, state.given);
            state.addresses.insert(id.to_owned(), address);
        }
        Ok(vec![IpAddr::V4(state.addresses[id])])
    }

    async fn prepare(&self, id: &str, netns: &Path) -> Result<(), NetworkError> {
        self.attach(id, netns).await.map(drop)
    }

    async fn detach(&self, id: &str) -> Result<(), NetworkError> {
        let mut state = self.0.lock().unwrap();
        state.addresses.remove(id);
        Ok(())
    }

    async fn release_all_except(
        &self,
        ids: &BTreeSet<String>,
    ) -> Result<BTreeMap<IpAddr, String>, NetworkError> {
        let mut state = self.0.lock().unwrap();
        state.addresses.retain(|id, _| ids.contains(id));
        let addresses = state.addresses.iter();
        Ok(addresses.map(|(id, address)| (IpAddr::V4(*address), id.clone())).collect())
    }
}
