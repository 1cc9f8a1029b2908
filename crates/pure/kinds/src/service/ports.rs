//! What is wrong with the ports of a Service.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::json;

use super::needs::{node_port, service_type};
use crate::validation::{ListKeys, Path, invalid_each, items, names, ports, text};

/// The port of the nodes' own server, which broken load balancers would open.
const KUBELET_PORT: i32 = 10_250;

/// Each port for itself, and their names.
pub(super) fn each(list: &[ServicePort], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, port) in list.iter().enumerate() {
        let entry = field.index(index);
        let name = text(port.name.as_ref());
        if !name.is_empty() {
            errors.extend(invalid_each(&entry.child("name"), name, names::dns_label(name)));
            if taken.add(name).is_some() {
                errors.push(FieldError::duplicate(entry.child("name"), name));
            }
        } else if list.len() > 1 {
            errors.push(FieldError::required(entry.child("name"), ""));
        }
        errors.extend(ports::number(port.port, &entry.child("port")));
        let protocol = text(port.protocol.as_ref());
        errors.extend(ports::protocol(protocol, &entry.child("protocol")));
        if let Some(target) = &port.target_port {
            errors.extend(ports::number_or_name(target, &entry.child("targetPort")));
        }
        errors.extend(ports::app_protocol(port.app_protocol.as_ref(), &entry));
    }
    errors
}

/// A load balancer must not lead to the kubelet.
pub(super) fn of_kubelet(list: &[ServicePort], field: &Path) -> Option<FieldError> {
    let index = list.iter().position(|port| port.port == KUBELET_PORT)?;
    let detail =
        format!("may not expose port {KUBELET_PORT} externally since it is used by kubelet");
    Some(FieldError::invalid(field.index(index), KUBELET_PORT, detail))
}

/// The ports of the nodes, and which ports come twice.
pub(super) fn together(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let list = items(spec.ports.as_ref());
    let mut errors = Vec::new();
    let on_nodes = list.iter().enumerate().filter_map(|(at, port)| Some((at, node_port(port)?)));
    if service_type(spec) == "ClusterIP" {
        errors.extend(on_nodes.clone().map(|(index, _)| {
            let field = field.index(index).child("nodePort");
            FieldError::forbidden(field, "may not be used when `type` is 'ClusterIP'")
        }));
    }
    let mut taken: ListKeys<(&str, i32)> = ListKeys::new();
    for (index, number) in on_nodes {
        if taken.add((text(list[index].protocol.as_ref()), number)).is_some() {
            errors.push(FieldError::duplicate(field.index(index).child("nodePort"), number));
        }
    }
    let mut taken: ListKeys<(&str, i32)> = ListKeys::new();
    for (index, port) in list.iter().enumerate() {
        let protocol = text(port.protocol.as_ref());
        if taken.add((protocol, port.port)).is_some() {
            errors.push(duplicate_port(field.index(index), protocol, port.port));
        }
    }
    errors
}

/// Shown as upstream shows it.
fn duplicate_port(field: Path, protocol: &str, port: i32) -> FieldError {
    let (name, target) = ("", IntOrString::Int(0));
    let shown = [
        ("Name", json!(name)),
        ("Protocol", json!(protocol)),
        ("AppProtocol", json!(null)),
        ("Port", json!(port)),
        ("TargetPort", json!(target)),
        ("NodePort", json!(0)),
    ]
    .map(|(name, value)| format!("{name:?}:{value}"));
    let problem = FieldProblem::Duplicate(format!("{{{}}}", shown.join(",")));
    FieldError { field: field.into(), problem, detail: String::new() }
}
