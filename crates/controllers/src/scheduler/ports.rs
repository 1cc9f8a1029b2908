//! Ports of the node: two pods with the same one do not fit on it.

use k8s_openapi::api::core::v1::{ContainerPort, Pod};

use crate::{View, pods};

/// The address that stands for all of the node.
const ALL_ADDRESSES: &str = "0.0.0.0";

/// The ports of the node that a pod asks for.
pub(super) struct Ports<'a>(Vec<&'a ContainerPort>);

impl<'a> Ports<'a> {
    /// Those of its containers and sidecars; other init containers are over before anybody else could miss their port.
    pub(super) fn of(pod: &'a Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self(Vec::new()) };
        let sidecars = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let ports =
            spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter());
        Self(ports.flatten().filter(|port| port.host_port.is_some_and(|port| port > 0)).collect())
    }

    /// Why the node's pods keep the pod from it. Those that terminate have their ports until they are gone.
    pub(super) fn reason_against(
        &self,
        view: &View,
        pod: &Pod,
        node: &str,
    ) -> Option<&'static str> {
        if self.0.is_empty() {
            return None;
        }
        let mut others = view
            .pods_on(node)
            .filter(|other| other.metadata.uid != pod.metadata.uid && !pods::is_finished(other));
        let is_taken = others.any(|other| {
            Ports::of(other).0.iter().any(|taken| self.0.iter().any(|port| collide(port, taken)))
        });
        is_taken.then_some("node(s) didn't have free ports for the requested pod ports")
    }
}

fn collide(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let (on_a, on_b) = (address(a), address(b));
    a.host_port == b.host_port
        && protocol(a) == protocol(b)
        && (on_a == on_b || on_a == ALL_ADDRESSES || on_b == ALL_ADDRESSES)
}

fn address(port: &ContainerPort) -> &str {
    port.host_ip.as_deref().filter(|address| !address.is_empty()).unwrap_or(ALL_ADDRESSES)
}
