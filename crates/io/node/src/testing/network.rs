//! A network that only remembers who has which address and which ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rekindle_net::HostPort;
use rekindle_types::PodUid;

use crate::network::{NetworkError, PodNetwork};

#[derive(Clone, Debug, Default)]
pub(crate) struct FakeNetwork(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    addresses: BTreeMap<String, Ipv4Addr>,
    given: u8,
    ports: BTreeMap<PodUid, OpenPorts>,
    /// Ports that a process of the machine has.
    foreign: BTreeSet<SocketAddr>,
}

#[derive(Debug)]
struct OpenPorts {
    sandbox: String,
    target: IpAddr,
    ports: Vec<HostPort>,
}

impl FakeNetwork {
    pub(crate) fn attached(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().addresses.keys().cloned().collect()
    }

    /// The ports of the node that are open, each with the address that it leads to.
    pub(crate) fn open_ports(&self) -> Vec<(SocketAddr, IpAddr)> {
        let state = self.0.lock().unwrap();
        let of = |open: &OpenPorts| open.ports.iter().map(|p| (p.listen, open.target)).collect();
        state.ports.values().flat_map(|open| -> Vec<_> { of(open) }).collect()
    }

    /// A process of the machine has exactly these ports.
    pub(crate) fn occupy(&self, ports: &[SocketAddr]) {
        self.0.lock().unwrap().foreign = ports.iter().copied().collect();
    }

    /// As when an agent ends: what it served is closed, addresses stay.
    pub(crate) fn forget_ports(&self) {
        self.0.lock().unwrap().ports.clear();
    }
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

    async fn open_ports(
        &self,
        pod: &PodUid,
        id: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> Result<(), NetworkError> {
        let mut state = self.0.lock().unwrap();
        let taken = |port: &HostPort| {
            let mut others = state.ports.iter().filter(|(other, _)| *other != pod);
            state.foreign.contains(&port.listen)
                || others.any(|(_, open)| open.ports.contains(port))
        };
        if let Some(port) = ports.iter().find(|port| taken(port)) {
            return Err(NetworkError(format!("open port {} of the node", port.listen)));
        }
        let open = OpenPorts { sandbox: id.to_owned(), target, ports: ports.to_vec() };
        state.ports.insert(pod.clone(), open);
        Ok(())
    }

    async fn reopen_ports(
        &self,
        pod: &PodUid,
        id: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> Vec<NetworkError> {
        PodNetwork::open_ports(self, pod, id, target, ports).await.err().into_iter().collect()
    }

    async fn detach(&self, id: &str) -> Result<(), NetworkError> {
        let mut state = self.0.lock().unwrap();
        state.addresses.remove(id);
        state.ports.retain(|_, open| open.sandbox != id);
        Ok(())
    }

    async fn release_all_except(&self, ids: &BTreeSet<String>) -> Result<(), NetworkError> {
        self.0.lock().unwrap().addresses.retain(|id, _| ids.contains(id));
        Ok(())
    }
}
