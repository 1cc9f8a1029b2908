//! NetworkPolicy (networking.k8s.io/v1): which pods and addresses may talk to the pods that it
//! selects.

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::preparation;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, addresses, items, ports, selector, text};

const INGRESS: &str = "Ingress";
const EGRESS: &str = "Egress";
const TYPES: [&str; 2] = [EGRESS, INGRESS];

impl ApiKind for NetworkPolicy {
    const NAMES: ResourceNames = ResourceNames {
        singular: "networkpolicy",
        short_names: &["netpol"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Pod-Selector", "string", "The pods that the policy isolates."), AGE];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.pod_selector.get_or_insert_default();
        let of_ingress = spec.ingress.iter_mut().flatten().filter_map(|rule| rule.ports.as_mut());
        let of_egress = spec.egress.iter_mut().flatten().filter_map(|rule| rule.ports.as_mut());
        for port in of_ingress.chain(of_egress).flatten() {
            port.protocol.get_or_insert_with(|| "TCP".to_owned());
        }
        if items(spec.policy_types.as_ref()).is_empty() {
            let egress = (!items(spec.egress.as_ref()).is_empty()).then_some(EGRESS);
            let types = [Some(INGRESS), egress].into_iter().flatten();
            spec.policy_types = Some(types.map(str::to_owned).collect());
        }
    }

    preparation::writes_of!(spec);

    fn validate(&self) -> Vec<FieldError> {
        let none = NetworkPolicySpec::default();
        spec_errors(self.spec.as_ref().unwrap_or(&none), &Path::new("spec"))
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let pods = self.spec.as_ref().and_then(|spec| spec.pod_selector.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            selector::format(&pods.cloned().unwrap_or_default()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// Source: upstream's `pkg/apis/networking/validation`.
fn spec_errors(spec: &NetworkPolicySpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(pods) = &spec.pod_selector {
        errors.extend(selector::check(pods, &field.child("podSelector")));
    }
    for (index, rule) in items(spec.ingress.as_ref()).iter().enumerate() {
        let field = field.child("ingress").index(index);
        let (ports, peers) = (items(rule.ports.as_ref()), items(rule.from.as_ref()));
        errors.extend(rule_errors(ports, peers, &field, "from"));
    }
    for (index, rule) in items(spec.egress.as_ref()).iter().enumerate() {
        let field = field.child("egress").index(index);
        let (ports, peers) = (items(rule.ports.as_ref()), items(rule.to.as_ref()));
        errors.extend(rule_errors(ports, peers, &field, "to"));
    }
    let types = items(spec.policy_types.as_ref());
    let field = field.child("policyTypes");
    if types.len() > TYPES.len() {
        errors.push(FieldError::invalid(field, types, "may not specify more than two policyTypes"));
        return errors;
    }
    let types = types.iter().enumerate();
    let unknown = types.filter(|(_, listed)| !TYPES.contains(&listed.as_str()));
    errors.extend(
        unknown.map(|(at, listed)| FieldError::not_supported(field.index(at), listed, &TYPES)),
    );
    errors
}

fn rule_errors(
    ports: &[NetworkPolicyPort],
    peers: &[NetworkPolicyPeer],
    field: &Path,
    peers_name: &'static str,
) -> Vec<FieldError> {
    let of_ports = ports.iter().enumerate();
    let of_ports =
        of_ports.flat_map(|(at, port)| port_errors(port, &field.child("ports").index(at)));
    let of_peers = peers.iter().enumerate();
    let of_peers =
        of_peers.flat_map(|(at, peer)| peer_errors(peer, &field.child(peers_name).index(at)));
    of_ports.chain(of_peers).collect()
}

fn port_errors(port: &NetworkPolicyPort, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(protocol) = &port.protocol
        && !ports::PROTOCOLS.contains(&protocol.as_str())
    {
        let field = field.child("protocol");
        errors.push(FieldError::not_supported(field, protocol, &["TCP", "UDP", "SCTP"]));
    }
    let end = field.child("endPort");
    match (&port.port, port.end_port) {
        (Some(asked), None) => errors.extend(ports::number_or_name(asked, &field.child("port"))),
        (Some(asked @ IntOrString::Int(first)), Some(last)) => {
            errors.extend(ports::number_or_name(asked, &field.child("port")));
            if last < *first {
                let detail = "must be greater than or equal to `port`";
                errors.push(FieldError::invalid(end.clone(), *first, detail));
            }
            errors.extend(ports::number(last, &end));
        }
        (Some(asked @ IntOrString::String(_)), Some(last)) => {
            let detail = "may not be specified when `port` is non-numeric";
            errors.push(FieldError::invalid(end, last, detail));
            errors.extend(ports::number_or_name(asked, &field.child("port")));
        }
        (None, Some(last)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(end, last, detail));
        }
        (None, None) => {}
    }
    errors
}

fn peer_errors(peer: &NetworkPolicyPeer, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(pods) = &peer.pod_selector {
        errors.extend(selector::check(pods, &field.child("podSelector")));
    }
    if let Some(namespaces) = &peer.namespace_selector {
        errors.extend(selector::check(namespaces, &field.child("namespaceSelector")));
    }
    if let Some(block) = &peer.ip_block {
        errors.extend(block_errors(block, &field.child("ipBlock")));
    }
    let selects = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
    match (selects, &peer.ip_block) {
        (false, None) => {
            errors.push(FieldError::required(field.clone(), "must specify a peer"));
        }
        (true, Some(_)) => {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(field.clone(), detail));
        }
        (true, None) | (false, Some(_)) => {}
    }
    errors
}

fn block_errors(block: &IPBlock, field: &Path) -> Vec<FieldError> {
    let cidr_field = field.child("cidr");
    if block.cidr.is_empty() {
        return vec![FieldError::required(cidr_field, "")];
    }
    if let Some(error) = addresses::range_error(&block.cidr, &cidr_field) {
        return vec![error];
    }
    let mut errors = Vec::new();
    for (index, except) in items(block.except.as_ref()).iter().enumerate() {
        let field = field.child("except").index(index);
        if let Some(error) = addresses::range_error(except, &field) {
            errors.push(error);
        } else if !is_strict_subset(except, &block.cidr) {
            errors.push(FieldError::invalid(field, except, "must be a strict subset of `cidr`"));
        }
    }
    errors
}

/// Of two ranges that can be read.
fn is_strict_subset(inner: &str, outer: &str) -> bool {
    let (Some(inner), Some(outer)) = (range_bits(inner), range_bits(outer)) else {
        return false;
    };
    let same_network = |length: u32| {
        inner.network >> (inner.length - length) == outer.network >> (outer.length - length)
    };
    inner.length == outer.length && outer.prefix < inner.prefix && {
        outer.prefix == 0 || same_network(outer.prefix)
    }
}

struct RangeBits {
    network: u128,
    prefix: u32,
    /// Of an address of its family.
    length: u32,
}

fn range_bits(range: &str) -> Option<RangeBits> {
    let (address, prefix) = range.split_once('/')?;
    let prefix = prefix.parse().ok()?;
    Some(match address.parse().ok()? {
        IpAddr::V4(address) => {
            RangeBits { network: address.to_bits().into(), prefix, length: u32::BITS }
        }
        IpAddr::V6(address) => RangeBits { network: address.to_bits(), prefix, length: u128::BITS },
    })
}
