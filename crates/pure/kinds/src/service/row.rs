//! How a table shows a Service.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec, ServiceStatus};

use super::needs::node_port;
use crate::table::list_or_none;
use crate::validation::{items, text};

/// The ports, those of the nodes behind a colon.
pub(super) fn shown_ports(list: &[ServicePort]) -> String {
    let shown: Vec<String> = list
        .iter()
        .map(|port| {
            let protocol = text(port.protocol.as_ref());
            match node_port(port) {
                None => format!("{}/{protocol}", port.port),
                Some(number) => format!("{}:{number}/{protocol}", port.port),
            }
        })
        .collect();
    list_or_none(shown.iter().map(String::as_str))
}

/// Where clients outside of the cluster reach it.
pub(super) fn external_ip(spec: &ServiceSpec, status: Option<&ServiceStatus>) -> String {
    let external = items(spec.external_ips.as_ref()).iter().map(String::as_str);
    match text(spec.type_.as_ref()) {
        "ExternalName" => text(spec.external_name.as_ref()).to_owned(),
        "LoadBalancer" => {
            let balancer = status.and_then(|status| status.load_balancer.as_ref());
            let ingress = items(balancer.and_then(|balancer| balancer.ingress.as_ref()));
            let addresses = ingress.iter().map(|ingress| match text(ingress.ip.as_ref()) {
                "" => text(ingress.hostname.as_ref()),
                ip => ip,
            });
            let all: Vec<&str> = addresses.chain(external).filter(|a| !a.is_empty()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ => list_or_none(external),
    }
}
