//! What is wrong with the fields that say which clients reach a Service, from where and for how
//! long.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use rekindle_types::load_balancer;
use rekindle_types::validation::field_error::FieldError;

use super::families::family_of;
use super::needs::is_load_balancer;
use crate::endpoint_slice::special_address;
use crate::validation::{Path, addresses, items, text};

const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
/// A day: the most that a client sticks to its endpoint.
const CLIENT_IP_TIMEOUT_MAX_S: i32 = 86_400;

/// The session affinity and its bounds.
pub(super) fn affinity(spec: &ServiceSpec, field: &Path) -> Option<FieldError> {
    let affinity = text(spec.session_affinity.as_ref());
    if !AFFINITIES.contains(&affinity) {
        let field = field.child("sessionAffinity");
        return Some(FieldError::not_supported(field, affinity, &AFFINITIES));
    }
    let config = spec.session_affinity_config.as_ref()?;
    let seconds = config.client_ip.as_ref()?.timeout_seconds?;
    let is_bounded = (1..=CLIENT_IP_TIMEOUT_MAX_S).contains(&seconds);
    (affinity == "ClientIP" && !is_bounded).then(|| {
        let field = field.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        let detail = format!("must be greater than 0 and less than {CLIENT_IP_TIMEOUT_MAX_S}");
        FieldError::invalid(field, seconds, detail)
    })
}

/// The addresses at which nodes take packets for it.
pub(super) fn external_ips(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let field = field.child("externalIPs");
    let list = items(spec.external_ips.as_ref()).iter().enumerate();
    list.filter_map(|(index, address)| {
        let field = field.index(index);
        addresses::address_error(address, &field).or_else(|| special_address(address, &field))
    })
    .collect()
}

/// The ranges of clients that a load balancer lets through, as field or annotation.
pub(super) fn source_ranges(
    service: &Service,
    spec: &ServiceSpec,
    field: &Path,
) -> Vec<FieldError> {
    let annotations = service.metadata.annotations.as_ref();
    let annotated =
        annotations.and_then(|annotations| annotations.get(load_balancer::SOURCE_RANGES));
    let (field, ranges): (Path, Vec<(Option<usize>, &str)>) =
        match (&spec.load_balancer_source_ranges, annotated) {
            (Some(ranges), _) => {
                let ranges = ranges.iter().enumerate();
                let ranges = ranges.map(|(index, range)| (Some(index), range.trim())).collect();
                (field.child("LoadBalancerSourceRanges"), ranges)
            }
            (None, Some(annotated)) => {
                let ranges = annotated.trim().split(',').map(|range| (None, range.trim()));
                let field =
                    Path::new("metadata").child("annotations").key(load_balancer::SOURCE_RANGES);
                (field, ranges.filter(|_| !annotated.trim().is_empty()).collect())
            }
            (None, None) => return Vec::new(),
        };
    let mut errors = Vec::new();
    if !is_load_balancer(spec) {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&field, detail));
    }
    errors.extend(ranges.into_iter().filter_map(|(index, range)| {
        let field = index.map_or_else(|| field.clone(), |index| field.index(index));
        addresses::range_error(range, &field)
    }));
    errors
}

/// The family of a range that can be read.
pub(crate) fn family_of_range(range: &str) -> Option<&'static str> {
    range.split_once('/')?.0.parse().ok().map(family_of)
}

/// An address must be written as the API writes it: it is a name.
pub(crate) fn shown_as_address(name: &str, field: &Path) -> Option<FieldError> {
    match name.parse::<IpAddr>() {
        Ok(address) if address.to_string() == name => None,
        Ok(address) => {
            let detail = format!("must be in canonical form ({:?})", address.to_string());
            Some(FieldError::invalid(field, name, detail))
        }
        Err(_) => Some(FieldError::invalid(field, name, addresses::NOT_AN_ADDRESS)),
    }
}
