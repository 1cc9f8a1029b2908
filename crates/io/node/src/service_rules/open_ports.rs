//! Ports of the machine that lead to Services of type LoadBalancer. They are held by sockets: no
//! process of the machine takes one, and none loses its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use rekindle_services::{Frontend, RuleChanges, ServiceIdentity, ServiceRouter};
use tokio::time::Instant;

use super::port_hold::{PortHold, hold};

/// Until a port that another process has is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Those that are open.
#[derive(Debug, Default)]
pub(super) struct OpenPorts {
    held: BTreeMap<Frontend, PortHold>,
    /// Those that another process has. Each is reported once.
    taken: BTreeSet<Frontend>,
    retry_at: Option<Instant>,
}

/// A port that cannot be opened.
#[derive(Debug)]
pub(super) struct PortTaken {
    pub(super) port: Frontend,
    /// Who wants it.
    pub(super) service: ServiceIdentity,
    pub(super) error: io::Error,
}

impl OpenPorts {
    /// When a port that another process has is to be tried again.
    pub(super) const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Opens what the Services want and closes the rest. Answers what that changes in the rules,
    /// and what cannot be opened for the first time.
    pub(super) fn follow(&mut self, router: &mut ServiceRouter) -> (RuleChanges, Vec<PortTaken>) {
        let wanted: BTreeSet<Frontend> = router.wanted_ports().collect();
        let (mut changes, mut taken) = (RuleChanges::default(), Vec::new());
        self.taken.retain(|port| wanted.contains(port));
        let unwanted = self.held.extract_if(.., |port, _| !wanted.contains(port));
        for (port, _) in unwanted {
            changes = changes.then(router.port_closed(port));
        }
        for port in wanted {
            if self.held.contains_key(&port) {
                continue;
            }
            match hold(port) {
                Ok(held) => {
                    self.taken.remove(&port);
                    self.held.insert(port, held);
                    changes = changes.then(router.port_opened(port));
                }
                Err(error) => {
                    if self.taken.insert(port)
                        && let Some(service) = router.service_of(port)
                    {
                        taken.push(PortTaken { port, service, error });
                    }
                }
            }
        }
        self.retry_at = None;
        if !self.taken.is_empty() {
            self.try_again();
        }
        (changes, taken)
    }

    /// Looks at the ports again in a while.
    pub(super) fn try_again(&mut self) {
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    use k8s_openapi::api::core::v1::Service;
    use rekindle_services::TransportProtocol;
    use rekindle_testkit::free_port;
    use rekindle_types::NamespacedName;
    use serde_json::json;

    use super::*;

    fn balancer(port: u16) -> Service {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web", "uid": "u1" },
            "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.10",
                "ports": [{ "name": "t", "port": port }, { "name": "u", "port": port, "protocol": "UDP" }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } },
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_port_that_another_process_has_is_opened_when_it_is_free() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = other.local_addr().unwrap().port();
        let mut router = ServiceRouter::default();
        router.set_service(NamespacedName::new("shop", "web"), Some(&balancer(number)));
        let mut ports = OpenPorts::default();
        let (_, taken) = ports.follow(&mut router);
        let [PortTaken { port, service, error }] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!((port.port, port.protocol), (number, TransportProtocol::Tcp));
        assert_eq!((service.name.to_string().as_str(), service.uid.as_str()), ("shop/web", "u1"));
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(ports.retry_at().is_some());
        assert!(ports.follow(&mut router).1.is_empty(), "it is reported once");

        drop(other);
        let (changes, taken) = ports.follow(&mut router);
        assert!(taken.is_empty() && !changes.is_empty() && ports.retry_at().is_none());
        let refused = TcpListener::bind(("127.0.0.1", number)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "the port is held");
        UdpSocket::bind(("127.0.0.1", number)).unwrap_err();

        router.set_service(NamespacedName::new("shop", "web"), None);
        ports.follow(&mut router);
        TcpListener::bind(("127.0.0.1", number)).unwrap();
    }

    /// The report names the pod: `HostPorts::newly_contested`.
    #[tokio::test]
    async fn a_port_that_a_pod_has_is_reported_as_the_pods_only_and_opened_when_it_is_free() {
        let number = free_port();
        let (address, protocol) = (Ipv4Addr::LOCALHOST.into(), TransportProtocol::Tcp);
        let port = Frontend { address, protocol, port: number };
        let held = hold(port).unwrap();
        let mut router = ServiceRouter::default();
        router.set_host_port(port, Some(([10, 88, 0, 2], 80).into()));
        router.set_service(NamespacedName::new("shop", "web"), Some(&balancer(number)));
        let mut ports = OpenPorts::default();
        let (_, taken) = ports.follow(&mut router);
        assert!(taken.is_empty() && ports.retry_at().is_none(), "{taken:?}");
        assert_eq!(router.contested_ports().count(), 1);
        router.set_host_port(port, None);
        drop(held);
        let (changes, taken) = ports.follow(&mut router);
        assert!(taken.is_empty() && !changes.is_empty());
        TcpListener::bind(("127.0.0.1", number)).unwrap_err();
    }
}
