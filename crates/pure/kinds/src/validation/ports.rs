//! Ports by number or name.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::validation::field_error::FieldError;

use super::{Path, invalid_each, names, numbers};

/// The transport protocols of a port.
pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A port's number.
pub fn number(port: i32, field: &Path) -> Option<FieldError> {
    numbers::in_range(port, 1, 65535, field)
}

/// A port by number or by the name that a container gives it.
pub fn number_or_name(port: &IntOrString, field: &Path) -> Vec<FieldError> {
    match port {
        IntOrString::Int(port) => number(*port, field).into_iter().collect(),
        IntOrString::String(name) => invalid_each(field, name, names::port(name)).collect(),
    }
}

/// The protocol of a port.
pub fn protocol(protocol: &str, field: &Path) -> Option<FieldError> {
    if protocol.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    (!PROTOCOLS.contains(&protocol)).then(|| FieldError::not_supported(field, protocol, &PROTOCOLS))
}

/// What is wrong with the application protocol of the port at `entry`.
pub(crate) fn app_protocol(protocol: Option<&String>, entry: &Path) -> Vec<FieldError> {
    let Some(protocol) = protocol else { return Vec::new() };
    invalid_each(&entry.child("appProtocol"), protocol, names::qualified(protocol)).collect()
}
