//! Ports of the machine that lead to one pod each (`hostPort`). They are frontends as those of
//! Services are, and no Service has one as long as a pod has it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{ServiceIdentity, ServiceRouter};
use crate::frontend::{ClientView, Frontend};
use crate::rules::{RuleChanges, RuleElement, RuleElements};

impl ServiceRouter {
    /// The port leads there, or is no host port any more. Then a Service that wants it has it.
    pub fn set_host_port(&mut self, port: Frontend, endpoint: Option<SocketAddr>) -> RuleChanges {
        let before = match endpoint {
            Some(endpoint) => self.host_ports.insert(port, endpoint),
            None => self.host_ports.remove(&port),
        };
        match before == endpoint {
            true => RuleChanges::default(),
            // a Service at all addresses of the node waits for one of them
            false => self.update([port, port.of_node()].into()),
        }
    }

    /// Whether a pod has this port, or the same one at an address that this one is among.
    pub(super) fn is_pods(&self, frontend: Frontend) -> bool {
        match frontend.is_node_port() {
            true => self.host_ports.keys().any(|port| port.overlaps(&frontend)),
            // one at all addresses leaves those to Services that are theirs, such as cluster IPs
            false => self.host_ports.contains_key(&frontend),
        }
    }

    /// The Service that a packet to this port would go to now: no pod gets the port.
    pub fn rival_of(&self, port: Frontend) -> Option<ServiceIdentity> {
        let same_ports = [port, port.of_node()].into_iter();
        let mut free = same_ports.filter(|port| !self.host_ports.contains_key(port));
        free.find_map(|port| self.service_of(port))
    }

    /// Services that want a port which leads to a pod, or the same one at all addresses of the
    /// node. They wait until it is free.
    pub fn contested_ports(&self) -> impl Iterator<Item = ContestedPort> + '_ {
        self.host_ports.keys().flat_map(|host_port| {
            let rivals = BTreeSet::from([*host_port, host_port.of_node()]);
            rivals.into_iter().filter_map(|wanted| {
                Some(ContestedPort {
                    wanted,
                    host_port: *host_port,
                    service: self.service_of(wanted)?,
                })
            })
        })
    }
}

/// A Service that does not get a port, as a pod has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestedPort {
    /// What the Service wants.
    pub wanted: Frontend,
    /// What the pod has.
    pub host_port: Frontend,
    /// The Service.
    pub service: ServiceIdentity,
}

/// The host ports among these elements, and where each leads: how an engine finds those of the one
/// before.
pub fn host_ports_in(elements: &RuleElements) -> impl Iterator<Item = (Frontend, SocketAddr)> + '_ {
    elements.iter().filter_map(|element| {
        let RuleElement::Endpoint(ClientView { frontend, .. }, _, endpoint) = *element else {
            return None;
        };
        let is_host_port = elements.contains(&RuleElement::HostPort(frontend));
        is_host_port.then_some((frontend, endpoint))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{key, plain, ready, service, shown, slice};
    use super::*;
    use crate::frontend::TransportProtocol;

    fn port(address: &str, protocol: TransportProtocol) -> Frontend {
        let address: SocketAddr = address.parse().unwrap();
        Frontend { address: address.ip(), protocol, port: address.port() }
    }

    fn pod(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 88, 0, last], 8080))
    }

    #[test]
    fn a_host_port_leads_to_its_pod_alone_and_follows_it_in_one_change() {
        let mut router = ServiceRouter::default();
        let web = port("0.0.0.0:8000", TransportProtocol::Tcp);
        let changes = router.set_host_port(web, Some(pod(2)));
        let expected = [
            "0.0.0.0:8000/TCP one of 1",
            "0.0.0.0:8000/TCP 0 10.88.0.2:8080",
            "0.0.0.0:8000/TCP is a host port",
            "hairpin 10.88.0.2",
        ];
        assert_eq!(shown(changes.added), expected);
        assert!(router.set_host_port(web, Some(pod(2))).is_empty());
        let changes = router.set_host_port(web, Some(pod(3)));
        let moved = |last| {
            vec![
                format!("0.0.0.0:8000/TCP 0 10.88.0.{last}:8080"),
                format!("hairpin 10.88.0.{last}"),
            ]
        };
        assert_eq!((shown(changes.removed), shown(changes.added)), (moved(2), moved(3)));
        let found: Vec<_> = host_ports_in(&router.elements()).collect();
        assert_eq!(found, [(web, pod(3))]);
        router.set_host_port(web, None);
        assert!(router.elements().is_empty());
    }

    #[test]
    fn a_service_gets_a_port_that_a_pod_has_when_the_pod_gives_it_back() {
        let mut router = ServiceRouter::default();
        let contested = port("0.0.0.0:30080", TransportProtocol::Tcp);
        router.set_host_port(contested, Some(pod(2)));
        let wanted = json!({ "type": "NodePort", "clusterIP": "10.96.0.10",
            "ports": [{ "port": 80, "nodePort": 30080 }] });
        router.set_service(key("web"), Some(&service(wanted)));
        router.set_slice(key("web-a"), Some(&slice(json!([ready(3)]))));
        let names = |router: &ServiceRouter| -> BTreeSet<_> {
            let contested = router.contested_ports();
            contested.map(|it| (it.wanted, it.host_port, it.service.name)).collect()
        };
        assert_eq!(names(&router), [(contested, contested, key("web"))].into());
        assert_eq!(router.rival_of(contested), None, "the pod has it");
        let changes = router.set_host_port(contested, None);
        assert!(shown(changes.added).contains(&"0.0.0.0:30080/TCP 0 10.88.0.3:8080".to_owned()));
        // from now on it is the Service's, at each address of the node
        let local = port("127.0.0.1:30080", TransportProtocol::Tcp);
        for port in [contested, local] {
            assert_eq!(router.rival_of(port).map(|rival| rival.name), Some(key("web")));
        }
        let udp = port("0.0.0.0:30080", TransportProtocol::Udp);
        assert_eq!(router.rival_of(udp), None);
    }

    /// One of them would take packets from the other, or get none itself.
    #[test]
    fn a_service_at_all_addresses_waits_for_a_pod_that_has_its_port_at_one() {
        let mut router = ServiceRouter::default();
        let (everywhere, local) = ("0.0.0.0:30080", "127.0.0.1:30080");
        let [everywhere, local] = [everywhere, local].map(|at| port(at, TransportProtocol::Tcp));
        router.set_host_port(local, Some(pod(2)));
        let wanted = json!({ "type": "NodePort", "clusterIP": "10.96.0.10",
            "ports": [{ "port": 30080, "nodePort": 30080 }] });
        router.set_service(key("web"), Some(&service(wanted)));
        router.set_slice(key("web-a"), Some(&slice(json!([ready(3)]))));
        let contested: Vec<_> = router.contested_ports().collect();
        let [ContestedPort { wanted, host_port, service }] = &contested[..] else {
            panic!("{contested:?}")
        };
        assert_eq!((*wanted, *host_port, &service.name), (everywhere, local, &key("web")));
        let leads = |router: &ServiceRouter, frontend: Frontend| {
            router.elements().iter().any(|element| element.frontend() == Some(frontend))
        };
        let cluster_ip = port("10.96.0.10:30080", TransportProtocol::Tcp);
        assert!(leads(&router, cluster_ip) && !leads(&router, everywhere));
        let changes = router.set_host_port(local, None);
        assert!(shown(changes.added).contains(&"0.0.0.0:30080/TCP 0 10.88.0.3:8080".to_owned()));
        assert_eq!(router.contested_ports().count(), 0);
        // a pod at all addresses of the node leaves the Service its cluster IP
        router.set_service(key("web"), None);
        router.set_host_port(everywhere, Some(pod(2)));
        router.set_service(key("web"), Some(&plain()));
        assert!(leads(&router, port("10.96.0.10:80", TransportProtocol::Tcp)));
        assert_eq!(router.contested_ports().count(), 0);
    }

    #[test]
    fn flows_of_udp_to_the_machine_end_when_the_port_leads_to_a_pod() {
        let mut router = ServiceRouter::default();
        for (protocol, flows) in [(TransportProtocol::Udp, 1), (TransportProtocol::Sctp, 0)] {
            let changes = router.set_host_port(port("0.0.0.0:53", protocol), Some(pod(2)));
            assert_eq!(changes.stale_flows().len(), flows, "{protocol}");
        }
        let dns = port("0.0.0.0:53", TransportProtocol::Udp);
        let changes = router.set_host_port(dns, Some(pod(3)));
        let endpoints: Vec<_> = changes.stale_flows().into_iter().map(|it| it.endpoint).collect();
        assert_eq!(endpoints, [pod(2)]);
    }
}
