//! The ports of the node that a pod's spec asks for (`hostPort`, `hostIP`).

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_runtime::NamespaceOwner;
use rekindle_services::{Frontend, HostPort, TransportProtocol};
use rekindle_types::pods::{AnySpec, is_finished};
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::{TickDuration, node_ports};

use crate::container_spec::pod_namespaces;

/// Those to be opened, each once. None of a pod on the node's network: its containers open them
/// themselves. Pods have no address of IPv6, so nothing leads to them from one; the API has warned
/// of it.
pub(crate) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    match pod_namespaces(pod).network {
        NamespaceOwner::Own => {}
        NamespaceOwner::Host => return Vec::new(),
    }
    let ports = named_ports(pod).filter_map(host_port);
    let mut found: Vec<HostPort> = ports.filter(|it| it.frontend.address.is_ipv4()).collect();
    found.sort();
    found.dedup();
    found
}

/// Those that no other pod of the node may have with this one: what is opened for it, and what a
/// pod on the node's network names as its own.
pub(crate) fn claimed_ports(pod: &Pod) -> Vec<HostPort> {
    named_ports(pod).filter_map(host_port).collect()
}

/// Why a pod that asks for these ports is not taken up, if other pods of the node have one of them.
/// A port that a process of the machine has, or a pod of another node of it, is no reason: neither
/// does the kubelet look for such, and it may be free again soon. Source: kubelet,
/// `pkg/kubelet/lifecycle/predicate.go`, `generalFilter`.
pub(crate) fn refusal<'a>(
    wanted: &[HostPort],
    mut taken: impl Iterator<Item = &'a HostPort>,
) -> Option<PodEviction> {
    taken.find(|taken| wanted.iter().any(|wanted| clash(*wanted, **taken)))?;
    let (refusal, why) = (AdmissionRefusal::NodePorts, node_ports::NO_FREE_PORT);
    Some(PodEviction {
        cause: EvictionCause::NotAdmitted { refusal },
        message: format!("Predicate {} failed: {why}", refusal.as_str()),
        grace: TickDuration::ZERO,
    })
}

/// The ports of sidecars and regular containers.
fn named_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let containers = pod.spec.iter().flat_map(AnySpec::lasting);
    containers.flat_map(|container| container.ports.iter().flatten())
}

fn host_port(port: &ContainerPort) -> Option<HostPort> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port != 0);
    let protocol = TransportProtocol::parse(port.protocol.as_deref())?;
    let address = match port.host_ip.as_deref() {
        None | Some("") => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        // validation lets only addresses in
        Some(text) => text.parse().ok()?,
    };
    let frontend = Frontend { address, protocol, port: number(port.host_port?)? };
    Some(HostPort { frontend, pod_port: number(port.container_port)? })
}

/// The other pod of a machine with one of these addresses that has a port which `pod` asks for, and
/// its node. One on the node's network counts, too: the ports that it names are those that its
/// containers open.
pub(crate) fn holder(pod: &Pod, machine: &[IpAddr], others: &[Pod]) -> Option<String> {
    let wanted = host_ports(pod);
    let holds = |other: &&Pod| {
        let status = other.status.as_ref();
        let address = status.and_then(|status| status.host_ip.as_deref());
        let here = address.is_some_and(|ip| ip.parse().is_ok_and(|ip| machine.contains(&ip)));
        let clashes = |port: HostPort| wanted.iter().any(|wanted| clash(*wanted, port));
        other.metadata.uid != pod.metadata.uid
            && here
            && !is_finished(other)
            && named_ports(other).filter_map(host_port).any(clashes)
    };
    let other = others.iter().find(holds)?;
    let node = other.spec.as_ref()?.node_name.as_deref().unwrap_or_default();
    let namespace = other.metadata.namespace.as_deref().unwrap_or_default();
    let name = other.metadata.name.as_deref().unwrap_or_default();
    Some(format!("pod {namespace}/{name} of node {node}"))
}

fn clash(one: HostPort, other: HostPort) -> bool {
    one.frontend.overlaps(&other.frontend)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ports_of(spec: Value) -> Vec<String> {
        let pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
        let text = |port: &HostPort| format!("{} -> {}", port.frontend, port.pod_port);
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
            { "containerPort": 84, "hostPort": 8084, "hostIP": "::1" },
        ]);
        let spec = json!({
            "containers": [{ "name": "a", "ports": server }, { "name": "b", "ports": server }],
            "initContainers": [
                { "name": "s", "restartPolicy": "Always", "ports": [{ "containerPort": 1, "hostPort": 2 }] },
                { "name": "i", "ports": [{ "containerPort": 3, "hostPort": 4 }] },
            ],
        });
        let expected = [
            "0.0.0.0:2/TCP -> 1",
            "0.0.0.0:8080/TCP -> 80",
            "0.0.0.0:8083/SCTP -> 83",
            "127.0.0.1:5353/UDP -> 53",
        ];
        assert_eq!(ports_of(spec), expected);
    }

    #[test]
    fn a_pod_on_the_nodes_network_opens_its_ports_itself() {
        let ports = json!([{ "containerPort": 80, "hostPort": 80 }]);
        let spec = json!({ "hostNetwork": true, "containers": [{ "name": "a", "ports": ports }] });
        assert!(ports_of(spec).is_empty());
    }

    #[test]
    fn the_pod_that_has_a_port_is_named_with_its_node() {
        let pod = |name: &str, spec: Value, status: Value| -> Pod {
            let metadata = json!({ "name": name, "namespace": "shop", "uid": name });
            let pod = json!({ "metadata": metadata, "spec": spec, "status": status });
            serde_json::from_value(pod).expect("a pod")
        };
        let spec = |port: Value| {
            let containers = json!([{ "name": "a", "ports": [port] }]);
            json!({ "nodeName": "n", "hostNetwork": true, "containers": containers })
        };
        let here = json!({ "hostIP": "10.0.0.1", "phase": "Running" });
        let port = json!({ "containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1" });
        let mut wanted = spec(json!({ "containerPort": 1, "hostPort": 80 }));
        wanted["hostNetwork"] = json!(false);
        let wanted = pod("wanted", wanted, here.clone());
        let udp = json!({ "containerPort": 80, "hostPort": 80, "protocol": "UDP" });
        let cases = [
            ("same port", spec(port.clone()), here.clone(), true),
            (
                "other port",
                spec(json!({ "containerPort": 81, "hostPort": 81 })),
                here.clone(),
                false,
            ),
            ("other protocol", spec(udp), here.clone(), false),
            (
                "ended",
                spec(port.clone()),
                json!({ "hostIP": "10.0.0.1", "phase": "Failed" }),
                false,
            ),
            ("elsewhere", spec(port), json!({ "hostIP": "10.0.0.2" }), false),
        ];
        for (case, spec, status, found) in cases {
            let others = [wanted.clone(), pod("other", spec, status)];
            let said = holder(&wanted, &["10.0.0.1".parse().expect("an address")], &others);
            let expected = found.then(|| "pod shop/other of node n".to_owned());
            assert_eq!(said, expected, "{case}");
        }
    }
}
