//! Endpoints (v1): all addresses behind a Service in one object, as clients older than
//! EndpointSlices read them.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use super::endpoint_slice::{SHOWN_MAX, ip_errors, some_of_all};
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, invalid_each, items, names, ports, text};

impl ApiKind for Endpoints {
    const NAMES: ResourceNames = ResourceNames {
        singular: "endpoints",
        short_names: &["ep"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const CREATES_ON_UPDATE: bool = true;
    const DEPRECATION: Option<&'static str> =
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Endpoints", "string", "The addresses and ports behind the service."), AGE];

    fn set_defaults(&mut self) {
        for subset in self.subsets.iter_mut().flatten() {
            for port in subset.ports.iter_mut().flatten() {
                defaults::text(&mut port.protocol, "TCP");
            }
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("subsets");
        let subsets = items(self.subsets.as_ref()).iter().enumerate();
        subsets.flat_map(|(index, subset)| subset_errors(subset, &field.index(index))).collect()
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let subsets = items(self.subsets.as_ref());
        let first: Vec<String> = subsets.iter().flat_map(shown).take(SHOWN_MAX).collect();
        let all = subsets.iter().map(count_shown).fold(0, usize::saturating_add);
        vec![
            text(self.metadata.name.as_ref()).into(),
            some_of_all(&first, all, "<none>").into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// The ready addresses of a subset, once for each port.
fn shown(subset: &EndpointSubset) -> impl Iterator<Item = String> + '_ {
    let addresses = items(subset.addresses.as_ref());
    let ports = items(subset.ports.as_ref());
    let headless = addresses.iter().filter(|_| ports.is_empty());
    let with_port = |port: &EndpointPort, address: &EndpointAddress| {
        let ip = &address.ip;
        if ip.contains(':') {
            format!("[{ip}]:{}", port.port)
        } else {
            format!("{ip}:{}", port.port)
        }
    };
    let with_ports =
        ports.iter().flat_map(move |port| addresses.iter().map(move |a| with_port(port, a)));
    headless.map(|address| address.ip.clone()).chain(with_ports)
}

/// How many these are, without making each of them: as many as addresses times ports.
fn count_shown(subset: &EndpointSubset) -> usize {
    let addresses = items(subset.addresses.as_ref()).len();
    addresses.saturating_mul(items(subset.ports.as_ref()).len().max(1))
}

fn subset_errors(subset: &EndpointSubset, field: &Path) -> Vec<FieldError> {
    let (ready, others) =
        (items(subset.addresses.as_ref()), items(subset.not_ready_addresses.as_ref()));
    let mut errors = Vec::new();
    if ready.is_empty() && others.is_empty() {
        errors.push(FieldError::required(field, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (name, addresses) in [("addresses", ready), ("notReadyAddresses", others)] {
        for (index, address) in addresses.iter().enumerate() {
            errors.extend(address_errors(address, &field.child(name).index(index)));
        }
    }
    let list = items(subset.ports.as_ref());
    for (index, port) in list.iter().enumerate() {
        let field = field.child("ports").index(index);
        let name = text(port.name.as_ref());
        if name.is_empty() && list.len() > 1 {
            errors.push(FieldError::required(field.child("name"), ""));
        } else if !name.is_empty() {
            errors.extend(invalid_each(&field.child("name"), name, names::dns_label(name)));
        }
        errors.extend(ports::number(port.port, &field.child("port")));
        errors.extend(ports::protocol(text(port.protocol.as_ref()), &field.child("protocol")));
        errors.extend(ports::app_protocol(port.app_protocol.as_ref(), &field));
    }
    errors
}

fn address_errors(address: &EndpointAddress, field: &Path) -> Vec<FieldError> {
    let mut errors = ip_errors(&address.ip, &field.child("ip"));
    if let Some(hostname) = address.hostname.as_deref().filter(|hostname| !hostname.is_empty()) {
        errors.extend(invalid_each(&field.child("hostname"), hostname, names::dns_label(hostname)));
    }
    if let Some(node) = &address.node_name {
        errors.extend(invalid_each(&field.child("nodeName"), node, names::dns_subdomain(node)));
    }
    errors
}
