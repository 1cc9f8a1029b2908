//! What is wrong with the status of a Service.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use rekindle_types::validation::field_error::FieldError;

use super::needs::is_load_balancer;
use crate::validation::{Path, addresses, invalid_each, items, names, text};

const IP_MODES: [&str; 2] = ["Proxy", "VIP"];

/// Everything wrong with the status.
pub(super) fn errors(service: &Service) -> Vec<FieldError> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let list = items(balancer.and_then(|balancer| balancer.ingress.as_ref()));
    let field = Path::new("status").child("loadBalancer").child("ingress");
    if list.is_empty() || service.spec.as_ref().is_some_and(is_load_balancer) {
        let list = list.iter().enumerate();
        return list.flat_map(|(at, ingress)| ingress_errors(ingress, &field.index(at))).collect();
    }
    let detail = "may only be used when `spec.type` is \"LoadBalancer\"";
    vec![FieldError::forbidden(field, detail)]
}

fn ingress_errors(ingress: &LoadBalancerIngress, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let address = text(ingress.ip.as_ref());
    if !address.is_empty() && address.parse::<IpAddr>().is_err() {
        errors.push(FieldError::invalid(field.child("ip"), address, addresses::NOT_AN_ADDRESS));
    }
    let mode = field.child("ipMode");
    match &ingress.ip_mode {
        None if !address.is_empty() => {
            errors.push(FieldError::required(mode, "must be specified when `ip` is set"));
        }
        Some(_) if address.is_empty() => {
            errors.push(FieldError::forbidden(mode, "may not be specified when `ip` is not set"));
        }
        Some(other) if !IP_MODES.contains(&other.as_str()) => {
            errors.push(FieldError::not_supported(mode, other, &IP_MODES));
        }
        Some(_) | None => {}
    }
    let host = text(ingress.hostname.as_ref());
    if !host.is_empty() {
        let field = field.child("hostname");
        errors.extend(invalid_each(&field, host, names::dns_subdomain(host)));
        if host.parse::<IpAddr>().is_ok() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(field, host, detail));
        }
    }
    errors
}
