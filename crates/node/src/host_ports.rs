//! The ports of the node that a pod's spec asks for (`hostPort`, `hostIP`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};
use rekindle_net::{HostPort, PortProtocol};
use rekindle_runtime::Namespace;

use crate::container_spec::pod_namespaces;

/// Those to be opened, each once. None of a pod on the node's network: its containers open them themselves. SCTP is not carried;
/// the API has warned of it.
pub(crate) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    match pod_namespaces(pod).network {
        Namespace::Own => {}
        Namespace::Host => return Vec::new(),
    }
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(sidecar);
    let ports = sidecars.chain(&spec.containers).flat_map(|c| c.ports.iter().flatten());
    let mut found: Vec<HostPort> = ports.filter_map(host_port).collect();
    found.sort();
    found.dedup();
    found
}

fn host_port(port: &ContainerPort) -> Option<HostPort> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port != 0);
    let protocol = match port.protocol.as_deref() {
        None | Some("TCP") => PortProtocol::Tcp,
        Some("UDP") => PortProtocol::Udp,
        Some(_) => return None,
    };
    let address = match port.host_ip.as_deref() {
        None | Some("") => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        // validation lets only addresses in
        Some(text) => text.parse().ok()?,
    };
    Some(HostPort {
        protocol,
        listen: SocketAddr::new(address, number(port.host_port?)?),
        pod_port: number(port.container_port)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ports_of(spec: Value) -> Vec<String> {
        let pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
        let text = |p: &HostPort| format!("{} {} -> {}", p.protocol, p.listen, p.pod_port);
        host_ports(&pod).iter().map(text).collect()
    }

    #[test]
    fn ports_of_containers_and_sidecars_are_opened_once() {
        let server = json!([
            { "containerPort": 80, "hostPort": 8080 },
            { "containerPort": 53, "hostPort": 5353, "hostIP": "127.0.0.1", "protocol": "UDP" },
            { "containerPort": 81 },
            { "containerPort": 82, "hostPort": 0 },
            { "containerPort": 83, "hostPort": 8083, "protocol": "SCTP" },
        ]);
        let spec = json!({
            "containers": [{ "name": "a", "ports": server }, { "name": "b", "ports": server }],
            "initContainers": [
                { "name": "s", "restartPolicy": "Always", "ports": [{ "containerPort": 1, "hostPort": 2 }] },
                { "name": "i", "ports": [{ "containerPort": 3, "hostPort": 4 }] },
            ],
        });
        let expected = ["TCP 0.0.0.0:2 -> 1", "TCP 0.0.0.0:8080 -> 80", "UDP 127.0.0.1:5353 -> 53"];
        assert_eq!(ports_of(spec), expected);
    }

    #[test]
    fn a_pod_on_the_nodes_network_opens_its_ports_itself() {
        let ports = json!([{ "containerPort": 80, "hostPort": 80 }]);
        let spec = json!({ "hostNetwork": true, "containers": [{ "name": "a", "ports": ports }] });
        assert!(ports_of(spec).is_empty());
    }
}
