//! Ports of the machine that lead to one pod each (`hostPort`). They are frontends as those of
//! Services are, and no Service has one as long as a pod has it.

use std::net::SocketAddr;

use super::{ServiceIdentity, ServiceRouter};
use crate::frontend::Frontend;
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
            false => self.update([port].into()),
        }
    }

    /// The Service that a packet to this port would go to now: no pod gets the port.
    pub fn rival_of(&self, port: Frontend) -> Option<ServiceIdentity> {
        let same_ports = [port, port.of_node()].into_iter();
        let mut free = same_ports.filter(|port| !self.host_ports.contains_key(port));
        free.find_map(|port| self.service_of(port))
    }

    /// Services that want a port which leads to a pod. They wait until it is free.
    pub fn contested_ports(&self) -> impl Iterator<Item = (Frontend, ServiceIdentity)> + '_ {
        self.host_ports.keys().filter_map(|port| Some((*port, self.service_of(*port)?)))
    }
}

/// The host ports among these elements, and where each leads: how an engine finds those of the one
/// before.
pub fn host_ports_in(elements: &RuleElements) -> impl Iterator<Item = (Frontend, SocketAddr)> + '_ {
    elements.iter().filter_map(|element| {
        let RuleElement::Endpoint(frontend, _, endpoint) = *element else { return None };
        let is_host_port = elements.contains(&RuleElement::HostPort(frontend));
        is_host_port.then_some((frontend, endpoint))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{key, ready, service, shown, slice};
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
        let names: Vec<_> = router.contested_ports().map(|(port, of)| (port, of.name)).collect();
        assert_eq!(names, [(contested, key("web"))]);
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
