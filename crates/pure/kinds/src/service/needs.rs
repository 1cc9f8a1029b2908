//! What a Service needs by its type: addresses, ports of the nodes, a port for health checks.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};

use crate::validation::{items, text};

/// The `clusterIP` of a headless Service.
pub(crate) const HEADLESS: &str = "None";

/// The type, which is set once defaults are in.
pub(crate) fn service_type(spec: &ServiceSpec) -> &str {
    text(spec.type_.as_ref())
}

/// Whether it gets cluster IPs, unless it is headless.
pub fn needs_cluster_ip(spec: &ServiceSpec) -> bool {
    service_type(spec) != "ExternalName"
}

/// Whether its first cluster IP says that it has none.
pub fn is_headless(spec: &ServiceSpec) -> bool {
    items(spec.cluster_ips.as_ref()).first().is_some_and(|address| address == HEADLESS)
}

/// The same of a Service whose endpoints its user writes.
pub fn is_headless_without_selector(spec: &ServiceSpec) -> bool {
    is_headless(spec) && !has_selector(spec)
}

/// Whether it selects pods.
pub fn has_selector(spec: &ServiceSpec) -> bool {
    spec.selector.as_ref().is_some_and(|selector| !selector.is_empty())
}

/// Whether its ports may be open on the nodes.
pub fn needs_node_ports(spec: &ServiceSpec) -> bool {
    matches!(service_type(spec), "NodePort" | "LoadBalancer")
}

/// Whether ports of the nodes are chosen for it.
pub fn gets_node_ports(spec: &ServiceSpec) -> bool {
    match service_type(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports.unwrap_or(true),
        _ => false,
    }
}

/// Whether load balancers ask its nodes for their health.
pub fn needs_health_check_port(spec: &ServiceSpec) -> bool {
    is_load_balancer(spec) && spec.external_traffic_policy.as_deref() == Some("Local")
}

/// Whether clients outside of the cluster reach it.
pub(crate) fn is_externally_accessible(spec: &ServiceSpec) -> bool {
    needs_node_ports(spec)
        || (service_type(spec) == "ClusterIP" && !items(spec.external_ips.as_ref()).is_empty())
}

/// Whether a load balancer leads to it.
pub(crate) fn is_load_balancer(spec: &ServiceSpec) -> bool {
    service_type(spec) == "LoadBalancer"
}

/// The port of the nodes of a port; none for zero, too.
pub fn node_port(port: &ServicePort) -> Option<i32> {
    port.node_port.filter(|number| *number != 0)
}

/// The ports of the nodes.
pub fn node_ports(spec: &ServiceSpec) -> impl Iterator<Item = i32> + '_ {
    items(spec.ports.as_ref()).iter().filter_map(node_port)
}
