//! What the user of a Service left out.

use k8s_openapi::api::core::v1::{
    ClientIPConfig, Service, ServicePort, ServiceSpec, SessionAffinityConfig,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::needs::{is_externally_accessible, is_load_balancer, needs_cluster_ip};
use crate::defaults;
use crate::validation::text;

/// Seconds that a client sticks to its endpoint.
const CLIENT_IP_TIMEOUT_S: i32 = 10_800;

/// Sets the defaults of a Service.
pub(super) fn set(service: &mut Service) {
    // upstream always prints it
    if let Some(status) = &mut service.status {
        status.load_balancer.get_or_insert_default();
    }
    let spec = service.spec.get_or_insert_default();
    drop_empty(spec);
    defaults::text(&mut spec.type_, "ClusterIP");
    defaults::text(&mut spec.session_affinity, "None");
    set_affinity(spec);
    for port in spec.ports.iter_mut().flatten() {
        set_port(port);
    }
    if is_externally_accessible(spec) {
        defaults::text(&mut spec.external_traffic_policy, "Cluster");
    }
    if needs_cluster_ip(spec) {
        defaults::absent_text(&mut spec.internal_traffic_policy, "Cluster");
    }
    if is_load_balancer(spec) {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
        set_ingress_modes(service);
    }
}

/// What is empty means the same as what is absent.
fn drop_empty(spec: &mut ServiceSpec) {
    for slot in [
        &mut spec.cluster_ip,
        &mut spec.external_name,
        &mut spec.external_traffic_policy,
        &mut spec.load_balancer_ip,
    ] {
        defaults::drop_empty_text(slot);
    }
    for slot in [
        &mut spec.cluster_ips,
        &mut spec.external_ips,
        &mut spec.ip_families,
        &mut spec.load_balancer_source_ranges,
    ] {
        defaults::drop_empty_list(slot);
    }
    defaults::drop_empty_list(&mut spec.ports);
    defaults::drop_empty_map(&mut spec.selector);
    defaults::drop_false(&mut spec.publish_not_ready_addresses);
    spec.health_check_node_port = spec.health_check_node_port.filter(|port| *port != 0);
}

fn set_affinity(spec: &mut ServiceSpec) {
    match text(spec.session_affinity.as_ref()) {
        "None" => spec.session_affinity_config = None,
        "ClientIP" => {
            let config = spec.session_affinity_config.get_or_insert(SessionAffinityConfig {
                client_ip: Some(ClientIPConfig { timeout_seconds: None }),
            });
            let client = config.client_ip.get_or_insert_default();
            client.timeout_seconds.get_or_insert(CLIENT_IP_TIMEOUT_S);
        }
        _ => {} // validation names it
    }
}

fn set_port(port: &mut ServicePort) {
    defaults::drop_empty_text(&mut port.name);
    defaults::text(&mut port.protocol, "TCP");
    port.node_port = port.node_port.filter(|number| *number != 0);
    let is_unset = match &port.target_port {
        None | Some(IntOrString::Int(0)) => true,
        Some(IntOrString::String(name)) => name.is_empty(),
        Some(IntOrString::Int(_)) => false,
    };
    if is_unset {
        port.target_port = Some(IntOrString::Int(port.port));
    }
}

/// An ingress with an address is one whose packets arrive with that address.
fn set_ingress_modes(service: &mut Service) {
    let balancer = service.status.as_mut().and_then(|status| status.load_balancer.as_mut());
    for ingress in balancer.and_then(|balancer| balancer.ingress.as_mut()).into_iter().flatten() {
        if !text(ingress.ip.as_ref()).is_empty() {
            defaults::text(&mut ingress.ip_mode, "VIP");
        }
    }
}
