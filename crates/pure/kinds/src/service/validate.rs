//! What is wrong with a Service, in the order in which upstream says it.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use rekindle_types::connection_hold::{ANNOTATION, ConnectionHold};
use rekindle_types::validation::field_error::FieldError;

use super::needs::{
    HEADLESS, is_externally_accessible, is_headless, is_load_balancer, needs_cluster_ip,
    needs_health_check_port, service_type,
};
use super::{endpoint_fields, families, ports};
use crate::validation::{Path, invalid_each, items, labels, names, text};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const TRAFFIC_DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const SET_ONCE: &str = "may not change once set";
/// The two names of one annotation.
const TOPOLOGY_ANNOTATIONS: [&str; 2] =
    ["service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"];

/// Everything wrong with a Service.
pub(super) fn all(service: &Service) -> Vec<FieldError> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let field = Path::new("spec");
    let mut errors: Vec<FieldError> =
        topology_errors(service).into_iter().chain(hold_error(service)).collect();
    if items(spec.ports.as_ref()).is_empty() && !is_headless(spec) && needs_cluster_ip(spec) {
        errors.push(FieldError::required(field.child("ports"), ""));
    }
    errors.extend(type_errors(spec, &field));
    errors.extend(ports::each(items(spec.ports.as_ref()), &field.child("ports")));
    errors.extend(labels::labels(spec.selector.as_ref(), &field.child("selector")));
    errors.extend(endpoint_fields::affinity(spec, &field));
    errors.extend(families::cluster_ip_errors(spec));
    errors.extend(endpoint_fields::external_ips(spec, &field));
    if !TYPES.contains(&service_type(spec)) {
        let error = FieldError::not_supported(field.child("type"), service_type(spec), &TYPES);
        errors.push(error);
    }
    errors.extend(ports::together(spec, &field.child("ports")));
    errors.extend(endpoint_fields::source_ranges(service, spec, &field));
    errors.extend(load_balancer_errors(spec, &field));
    errors.extend(external_policy_errors(spec, &field));
    let internal = spec.internal_traffic_policy.as_ref();
    errors.extend(one_of(internal, "internalTrafficPolicy", &TRAFFIC_POLICIES));
    let distribution = spec.traffic_distribution.as_ref();
    errors.extend(one_of(distribution, "trafficDistribution", &TRAFFIC_DISTRIBUTIONS));
    errors
}

/// Everything wrong with a change.
pub(super) fn change(new: &ServiceSpec, old: &ServiceSpec) -> Vec<FieldError> {
    let mut errors = families::change_errors(new, old);
    let field = Path::new("spec");
    let class = text(new.load_balancer_class.as_ref());
    let had_class = old.load_balancer_class.as_deref();
    if is_load_balancer(old)
        && is_load_balancer(new)
        && new.load_balancer_class.as_deref() != had_class
    {
        errors.push(FieldError::invalid(field.child("loadBalancerClass"), class, SET_ONCE));
    }
    let port = |spec: &ServiceSpec| spec.health_check_node_port.unwrap_or(0);
    if needs_health_check_port(old) && needs_health_check_port(new) && port(new) != port(old) {
        let field = field.child("healthCheckNodePort");
        errors.push(FieldError::invalid(field, port(new), "field is immutable"));
    }
    errors
}

/// For how long connections wait is ours to say: upstream knows no such annotation.
fn hold_error(service: &Service) -> Option<FieldError> {
    let text = service.metadata.annotations.as_ref()?.get(ANNOTATION)?;
    let problem = ConnectionHold::parse(text).err()?;
    let field = Path::new("metadata").child("annotations").key(ANNOTATION);
    Some(FieldError::invalid(field, text, problem))
}

/// The two annotations for one thing must agree.
fn topology_errors(service: &Service) -> Option<FieldError> {
    let annotations = service.metadata.annotations.as_ref()?;
    let [mode, hints] = TOPOLOGY_ANNOTATIONS.map(|name| annotations.get(name));
    let mode = mode.filter(|mode| hints.is_some_and(|hints| hints != *mode))?;
    let [name, other] = TOPOLOGY_ANNOTATIONS;
    let field = Path::new("metadata").child("annotations").key(name);
    let detail = format!("must match annotations[{other}] when both are specified");
    Some(FieldError::invalid(field, mode, detail))
}

fn type_errors(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    match service_type(spec) {
        type_ @ ("LoadBalancer" | "NodePort") => {
            let mut errors = Vec::new();
            if is_load_balancer(spec) {
                errors.extend(ports::of_kubelet(items(spec.ports.as_ref()), &field.child("ports")));
            }
            if is_headless(spec) {
                let detail = format!("may not be set to 'None' for {type_} services");
                let field = field.child("clusterIPs").index(0);
                errors.push(FieldError::invalid(field, HEADLESS, detail));
            }
            errors
        }
        "ExternalName" => external_name_errors(spec, field),
        _ => Vec::new(),
    }
}

fn external_name_errors(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = [
        ("clusterIPs", spec.cluster_ips.is_some()),
        ("ipFamilies", spec.ip_families.is_some()),
        ("ipFamilyPolicy", spec.ip_family_policy.is_some()),
    ]
    .into_iter()
    .filter(|(_, is_set)| *is_set)
    .map(|(name, _)| {
        FieldError::forbidden(field.child(name), "may not be set for ExternalName services")
    })
    .collect();
    let name = text(spec.external_name.as_ref());
    let name = name.strip_suffix('.').unwrap_or(name);
    let field = field.child("externalName");
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else {
        errors.extend(invalid_each(&field, name, names::dns_subdomain(name)));
    }
    errors
}

fn load_balancer_errors(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.allocate_load_balancer_node_ports.is_some() && !is_load_balancer(spec) {
        let field = field.child("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(field, ONLY_LOAD_BALANCER));
    }
    if let Some(class) = &spec.load_balancer_class {
        let field = field.child("loadBalancerClass");
        if is_load_balancer(spec) {
            errors.extend(invalid_each(&field, class, names::qualified(class)));
        } else {
            errors.push(FieldError::forbidden(&field, ONLY_LOAD_BALANCER));
        }
    }
    errors
}

fn external_policy_errors(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy = spec.external_traffic_policy.as_ref();
    if is_externally_accessible(spec) {
        errors.extend(one_of(policy, "externalTrafficPolicy", &TRAFFIC_POLICIES));
    } else if let Some(policy) = policy {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(field.child("externalTrafficPolicy"), policy, detail));
    }
    let field = field.child("healthCheckNodePort");
    match spec.health_check_node_port {
        Some(port) if needs_health_check_port(spec) => {
            errors.extend(crate::validation::ports::number(port, &field));
        }
        Some(port) => errors.push(FieldError::invalid(
            field,
            port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
        None => {}
    }
    errors
}

fn one_of(value: Option<&String>, name: &str, known: &[&str]) -> Option<FieldError> {
    let value = value.filter(|value| !known.contains(&value.as_str()))?;
    Some(FieldError::not_supported(Path::new("spec").child(name), value, known))
}
