//! EndpointSlice (discovery.k8s.io/v1): some of the addresses behind a Service.

use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use super::preparation::{self, DesiredState};
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{ListKeys, Path, addresses, invalid_each, items, names, ports, text};

/// What `kubectl get` shows of a list before it counts the rest.
pub(super) const SHOWN_MAX: usize = 3;
const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
/// The most zones, and the most nodes, of a hint.
const HINTS_MAX: usize = 8;

impl ApiKind for EndpointSlice {
    const NAMES: ResourceNames = ResourceNames {
        singular: "endpointslice",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("AddressType", "string", "The type of address carried by this EndpointSlice."),
        column("Ports", "string", "The network ports exposed by each endpoint in this slice."),
        column("Endpoints", "string", "The addresses of the endpoints in this slice."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        defaults::drop_empty_list(&mut self.endpoints);
        for endpoint in self.endpoints.iter_mut().flatten() {
            endpoint.conditions.get_or_insert_default();
        }
        for port in self.ports.iter_mut().flatten() {
            port.name.get_or_insert_default();
            defaults::text(&mut port.protocol, "TCP");
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        drop_topology(self);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        if self.endpoints != old.endpoints {
            drop_topology(self);
        }
        let of = |slice: &Self| {
            let labels = slice.metadata.labels.clone();
            (slice.endpoints.clone(), slice.ports.clone(), labels)
        };
        let desired = DesiredState::compare(&of(self), &of(old));
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
    }

    fn nulls(&self) -> Vec<&'static str> {
        let lists = [("endpoints", self.endpoints.is_none()), ("ports", self.ports.is_none())];
        lists.into_iter().filter(|(_, is_absent)| *is_absent).map(|(name, _)| name).collect()
    }

    fn warnings_of_new(&self) -> Vec<String> {
        let is_deprecated = self.address_type == "FQDN";
        let warning = || "spec.addressType: FQDN endpoints are deprecated".to_owned();
        is_deprecated.then(warning).into_iter().collect()
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        match self.address_type.as_str() {
            "" => errors.push(FieldError::required("addressType", "")),
            known if ADDRESS_TYPES.contains(&known) => {}
            other => {
                errors.push(FieldError::not_supported("addressType", other, &ADDRESS_TYPES));
            }
        }
        errors.extend(port_errors(items(self.ports.as_ref()), &Path::new("ports")));
        let endpoints = items(self.endpoints.as_ref());
        let field = Path::new("endpoints");
        if endpoints.len() > ENDPOINTS_MAX {
            errors.push(FieldError::too_many(field, ENDPOINTS_MAX));
        } else {
            for (index, endpoint) in endpoints.iter().enumerate() {
                errors.extend(endpoint_errors(endpoint, &self.address_type, &field.index(index)));
            }
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        if self.address_type == old.address_type {
            return Vec::new();
        }
        let detail = "field is immutable";
        vec![FieldError::invalid("addressType", self.address_type.as_str(), detail)]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let ports = items(self.ports.as_ref()).iter().map(|port| match (port.port, &port.name) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) if !name.is_empty() => name.clone(),
            (None, _) => "*".to_owned(),
        });
        let endpoints = items(self.endpoints.as_ref()).iter();
        let addresses = endpoints.flat_map(|endpoint| endpoint.addresses.iter().cloned());
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.address_type.as_str().into(),
            some_of(ports, "<unset>").into(),
            some_of(addresses, "<unset>").into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// A field of v1beta1, which clients of v1 cannot set.
fn drop_topology(slice: &mut EndpointSlice) {
    for endpoint in slice.endpoints.iter_mut().flatten() {
        endpoint.deprecated_topology = None;
    }
}

/// The first three, and how many more there are.
pub(super) fn some_of(values: impl Iterator<Item = String>, none: &str) -> String {
    let mut values = values;
    let shown: Vec<String> = values.by_ref().take(SHOWN_MAX).collect();
    some_of_all(&shown, shown.len() + values.count(), none)
}

/// The same, of which the first are given and how many there are in all.
pub(super) fn some_of_all(first: &[String], all: usize, none: &str) -> String {
    let shown = first.join(",");
    match all.saturating_sub(first.len()) {
        _ if first.is_empty() => none.to_owned(),
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn endpoint_errors(endpoint: &Endpoint, type_: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let addresses = field.child("addresses");
    if endpoint.addresses.is_empty() {
        errors.push(FieldError::required(&addresses, "must contain at least 1 address"));
    } else if endpoint.addresses.len() > ADDRESSES_MAX {
        errors.push(FieldError::too_many(&addresses, ADDRESSES_MAX));
    }
    for (index, address) in endpoint.addresses.iter().enumerate().take(ADDRESSES_MAX) {
        let field = addresses.index(index);
        match type_ {
            "IPv4" | "IPv6" => {
                // here upstream asks once only
                errors.extend(ip_errors(address, &field).into_iter().take(1));
                let is_of_family = |ip: IpAddr| ip.is_ipv4() == (type_ == "IPv4");
                if address.parse().is_ok_and(|ip| !is_of_family(ip)) {
                    let why = format!("must be an {type_} address");
                    errors.push(FieldError::invalid(&addresses, address.as_str(), why));
                }
            }
            "FQDN" => errors.extend(invalid_each(&field, address, names::dns_subdomain(address))),
            _ => {} // the type is named above
        }
    }
    if let Some(node) = &endpoint.node_name {
        errors.extend(invalid_each(&field.child("nodeName"), node, names::dns_subdomain(node)));
    }
    if let Some(hostname) = &endpoint.hostname {
        errors.extend(invalid_each(&field.child("hostname"), hostname, names::dns_label(hostname)));
    }
    errors.extend(hint_errors(endpoint, &field.child("hints")));
    errors
}

fn hint_errors(endpoint: &Endpoint, field: &Path) -> Vec<FieldError> {
    let Some(hints) = &endpoint.hints else { return Vec::new() };
    let zones = items(hints.for_zones.as_ref()).iter().map(|zone| zone.name.as_str());
    let nodes = items(hints.for_nodes.as_ref()).iter().map(|node| node.name.as_str());
    let mut errors = Vec::new();
    for (name, hinted) in
        [("forZones", zones.collect::<Vec<_>>()), ("forNodes", nodes.collect::<Vec<_>>())]
    {
        let field = field.child(name);
        if hinted.len() > HINTS_MAX {
            errors.push(FieldError::too_many(field, HINTS_MAX));
            continue;
        }
        let mut taken = ListKeys::new();
        for (index, hint) in hinted.into_iter().enumerate() {
            let field = field.index(index).child("name");
            if taken.add(hint).is_some() {
                errors.push(FieldError::duplicate(&field, hint));
            }
            errors.extend(invalid_each(&field, hint, names::label_value(hint)));
        }
    }
    errors
}

/// What is wrong with the IP address of an endpoint.
pub(super) fn ip_errors(address: &str, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        addresses::address_error(address, field).into_iter().collect();
    // upstream asks a second time, for special addresses
    match addresses::readable_address(address) {
        Some(_) => errors.extend(special_address(address, field)),
        None => errors.push(FieldError::invalid(field, address, "must be a valid IP address")),
    }
    errors
}

/// Addresses that mean the node itself, or nobody in particular: behind a Service they would lead
/// clients where no pod is.
pub(super) fn special_address(address: &str, field: &Path) -> Option<FieldError> {
    let ip = addresses::readable_address(address)?;
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_link_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let detail = if ip.is_unspecified() {
        format!("may not be unspecified ({address})")
    } else if ip.is_loopback() {
        "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()
    } else if is_link_local {
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
    } else if is_link_multicast {
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()
    } else {
        return None;
    };
    Some(FieldError::invalid(field, address, detail))
}

fn port_errors(list: &[EndpointPort], field: &Path) -> Vec<FieldError> {
    if list.len() > PORTS_MAX {
        return vec![FieldError::too_many(field, PORTS_MAX)];
    }
    let mut errors = Vec::new();
    let mut taken = ListKeys::new();
    for (index, port) in list.iter().enumerate() {
        let entry = field.index(index);
        let name = text(port.name.as_ref());
        if !name.is_empty() {
            errors.extend(invalid_each(&entry.child("name"), name, names::dns_label(name)));
        }
        if taken.add(name).is_some() {
            errors.push(FieldError::duplicate(entry.child("name"), name));
        }
        let protocol = text(port.protocol.as_ref());
        errors.extend(ports::protocol(protocol, &entry.child("protocol")));
        errors.extend(ports::app_protocol(port.app_protocol.as_ref(), &entry));
    }
    errors
}
