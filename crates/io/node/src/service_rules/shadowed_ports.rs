//! Node ports at which a process of the machine listens. Rules come before sockets, so clients
//! reach the Service there and not the process, as with kube-proxy. An event names the port.

use std::collections::BTreeSet;
use std::io;

use rekindle_services::{Frontend, ServiceRouter};

use super::open_ports::PortTaken;
use super::port_hold::hold;

/// Node ports that were looked at: once, when a Service gets one.
#[derive(Debug, Default)]
pub(super) struct ShadowedPorts(BTreeSet<Frontend>);

impl ShadowedPorts {
    /// The node ports that are new, and that a process has.
    pub(super) fn follow(&mut self, router: &ServiceRouter) -> Vec<PortTaken> {
        let ports: BTreeSet<Frontend> = router.node_ports().collect();
        self.0.retain(|port| ports.contains(port));
        let new = ports.into_iter().filter(|port| self.0.insert(*port));
        let taken = new.filter_map(|port| {
            let error = taken(port)?;
            Some(PortTaken { port, service: router.service_of(port)?, error })
        });
        taken.collect()
    }
}

/// Why the port is not free, if another process has it.
fn taken(port: Frontend) -> Option<io::Error> {
    hold(port).err().filter(|error| error.kind() == io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use k8s_openapi::api::core::v1::Service;
    use rekindle_types::NamespacedName;
    use serde_json::json;

    use super::*;

    fn service(node_port: u16, kind: &str) -> Service {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web", "uid": "u1" },
            "spec": { "type": kind, "clusterIP": "10.96.0.10",
                "ports": [{ "port": 80, "nodePort": node_port }] },
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_node_port_that_a_process_has_is_named_once_for_each_service_that_gets_it() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = other.local_addr().unwrap().port();
        let (mut router, mut ports) = (ServiceRouter::default(), ShadowedPorts::default());
        let mut follow = |kind: &str| {
            let key = NamespacedName::new("shop", "web");
            router.set_service(key, Some(&service(number, kind)));
            let found = ports.follow(&router).into_iter();
            found.map(|taken| (taken.port.port, taken.service.uid)).collect::<Vec<_>>()
        };
        assert_eq!(follow("NodePort"), [(number, "u1".to_owned())]);
        assert_eq!(follow("NodePort"), []);
        assert_eq!(follow("ClusterIP"), [], "it has no node port any more");
        assert_eq!(follow("NodePort"), [(number, "u1".to_owned())]);
        assert_eq!(follow("ClusterIP"), []);
        drop(other);
        assert_eq!(follow("NodePort"), [], "the port is free");
        // it was looked at and not held
        TcpListener::bind(("127.0.0.1", number)).unwrap();
    }
}
