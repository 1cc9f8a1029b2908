//! The ports of the node that a pod's spec asks for (`hostPort`, `hostIP`).

use std::net::{IpAddr, Ipv6Addr};

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use rekindle_pod::{EvictionCause, PodEviction};
use rekindle_runtime::NamespaceOwner;
use rekindle_services::{Frontend, HostPort, TransportProtocol};
use rekindle_types::pods::{AnySpec, is_finished};
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::{IpFamily, TickDuration, node_ports};

use crate::container_spec::pod_namespaces;

/// Those to be opened at addresses of these families, each once. None of a pod on the node's
/// network: its containers open them themselves.
pub(crate) fn host_ports(pod: &Pod, families: &[IpFamily]) -> Vec<HostPort> {
    match pod_namespaces(pod).network {
        NamespaceOwner::Own => {}
        NamespaceOwner::Host => return Vec::new(),
    }
    let opened = |port| addresses(port).filter_map(move |address| host_port(port, address));
    let ports = named_ports(pod).flat_map(opened);
    let is_served = |port: &HostPort| {
        // no answer from a pod could come back to ::1; the API has warned of it
        families.contains(&port.frontend.family()) && port.frontend.address != Ipv6Addr::LOCALHOST
    };
    let mut found: Vec<HostPort> = ports.filter(is_served).collect();
    found.sort();
    found.dedup();
    found
}

/// Ports that the pod asks for at IPv6 by name, although none of its addresses is one.
pub(crate) fn unserved_ports(pod: &Pod, addresses: &[IpAddr]) -> Vec<String> {
    let is_own_network = pod_namespaces(pod).network == NamespaceOwner::Own;
    if !is_own_network || addresses.iter().any(IpAddr::is_ipv6) {
        return Vec::new();
    }
    let named = named_ports(pod).filter_map(|port| host_port(port, host_ip(port)?));
    let of_ipv6 = named.filter(|port| port.frontend.family() == IpFamily::V6);
    of_ipv6.map(|port| port.frontend.to_string()).collect()
}

/// Those that no other pod of the node may have with this one: what is opened for it, and what a
/// pod on the node's network names as its own. All addresses of the node are those of both
/// families, as the scheduler counts them ([`node_ports::collide`]).
pub(crate) fn claimed_ports(pod: &Pod) -> Vec<HostPort> {
    let claimed = |port| {
        let address = host_ip(port).filter(|address| !address.is_unspecified());
        let all = IpFamily::ALL.map(IpFamily::unspecified);
        let addresses = address.map_or_else(|| all.to_vec(), |address| vec![address]);
        addresses.into_iter().filter_map(move |address| host_port(port, address))
    };
    named_ports(pod).flat_map(claimed).collect()
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

/// Where a port is opened. Without an address, or at `::`, that is in both families. An IPv4
/// address in the form of IPv6 is what it stands for.
fn addresses(port: &ContainerPort) -> impl Iterator<Item = IpAddr> {
    let all = IpFamily::ALL.map(IpFamily::unspecified);
    match host_ip(port) {
        Some(address) if address != Ipv6Addr::UNSPECIFIED => vec![address],
        Some(_) | None => all.to_vec(),
    }
    .into_iter()
}

/// Validation lets only addresses in.
fn host_ip(port: &ContainerPort) -> Option<IpAddr> {
    let text = port.host_ip.as_deref().filter(|text| !text.is_empty())?;
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

fn host_port(port: &ContainerPort, address: IpAddr) -> Option<HostPort> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port != 0);
    let protocol = TransportProtocol::parse(port.protocol.as_deref())?;
    let frontend = Frontend { address, protocol, port: number(port.host_port?)? };
    Some(HostPort { frontend, pod_port: number(port.container_port)? })
}

/// The other pod of a machine with one of these addresses that has a port which `pod` asks for, and
/// its node. One on the node's network counts, too: the ports that it names are those that its
/// containers open.
pub(crate) fn holder(pod: &Pod, machine: &[IpAddr], others: &[Pod]) -> Option<String> {
    let wanted = claimed_ports(pod);
    let holds = |other: &&Pod| {
        let status = other.status.as_ref();
        let address = status.and_then(|status| status.host_ip.as_deref());
        let here = address.is_some_and(|ip| ip.parse().is_ok_and(|ip| machine.contains(&ip)));
        let clashes = |port: &HostPort| wanted.iter().any(|wanted| clash(*wanted, *port));
        other.metadata.uid != pod.metadata.uid
            && here
            && !is_finished(other)
            && claimed_ports(other).iter().any(clashes)
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
    use rekindle_types::IpStack;
    use serde_json::{Value, json};

    use super::*;

    fn ports_of(spec: &Value, stack: IpStack) -> Vec<String> {
        let pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
        let text = |port: &HostPort| format!("{} -> {}", port.frontend, port.pod_port);
        host_ports(&pod, stack.families()).iter().map(text).collect()
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
            { "containerPort": 85, "hostPort": 8085, "hostIP": "fd00::7" },
            { "containerPort": 86, "hostPort": 8086, "hostIP": "::" },
            { "containerPort": 87, "hostPort": 8087, "hostIP": "0.0.0.0" },
            { "containerPort": 88, "hostPort": 8088, "hostIP": "::ffff:192.0.2.7" },
        ]);
        let spec = json!({
            "containers": [{ "name": "a", "ports": server }, { "name": "b", "ports": server }],
            "initContainers": [
                { "name": "s", "restartPolicy": "Always", "ports": [{ "containerPort": 1, "hostPort": 2 }] },
                { "name": "i", "ports": [{ "containerPort": 3, "hostPort": 4 }] },
            ],
        });
        let of_ipv4 = [
            "0.0.0.0:2/TCP -> 1",
            "0.0.0.0:8080/TCP -> 80",
            "0.0.0.0:8086/TCP -> 86",
            "0.0.0.0:8087/TCP -> 87",
            "0.0.0.0:8083/SCTP -> 83",
            "127.0.0.1:5353/UDP -> 53",
            "192.0.2.7:8088/TCP -> 88",
        ];
        assert_eq!(ports_of(&spec, IpStack::Single), of_ipv4);
        let of_ipv6 = [
            "[::]:2/TCP -> 1",
            "[::]:8080/TCP -> 80",
            "[::]:8086/TCP -> 86",
            "[::]:8083/SCTP -> 83",
            "[fd00::7]:8085/TCP -> 85",
        ];
        assert_eq!(ports_of(&spec, IpStack::Dual), [&of_ipv4[..], &of_ipv6].concat());
        let pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
        let first: IpAddr = [10, 88, 0, 2].into();
        let second: IpAddr = Ipv6Addr::new(0xfd52, 0, 0, 0, 0, 0, 0, 2).into();
        let mut unserved = unserved_ports(&pod, &[first]);
        unserved.dedup();
        assert_eq!(unserved[..3], ["[::1]:8084/TCP", "[fd00::7]:8085/TCP", "[::]:8086/TCP"]);
        assert!(unserved_ports(&pod, &[first, second]).is_empty());
    }

    /// Source: kubelet and scheduler, `HostPortInfo`.
    #[test]
    fn a_port_at_all_addresses_is_claimed_in_both_families() {
        let claims = |host_ip: &str| {
            let ports = json!([{ "containerPort": 80, "hostPort": 80, "hostIP": host_ip }]);
            let spec = json!({ "containers": [{ "name": "a", "ports": ports }] });
            claimed_ports(&serde_json::from_value(json!({ "spec": spec })).expect("a pod"))
        };
        let addresses = ["", "0.0.0.0", "::", "192.0.2.7", "127.0.0.1", "fd00::7", "::1"];
        for one in addresses {
            for other in addresses {
                let expected = node_ports::collide(one, other);
                let refused = refusal(&claims(one), claims(other).iter()).is_some();
                assert_eq!(refused, expected, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_pod_on_the_nodes_network_opens_its_ports_itself() {
        let ports = json!([{ "containerPort": 80, "hostPort": 80 }]);
        let spec = json!({ "hostNetwork": true, "containers": [{ "name": "a", "ports": ports }] });
        assert!(ports_of(&spec, IpStack::Dual).is_empty());
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
