//! The spec as a whole.

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodSpec};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::checked_pod::CheckedPod;
use super::volume::CheckedVolumes;
use super::{
    SpecHolder, claims, containers, one_of, one_of_if_set, placement, resources, security, volume,
    windows,
};
use crate::validation::{Path, addresses, invalid_each, items, labels, names, numbers, text};

/// Everything wrong with a pod spec.
pub(crate) fn pod_spec(spec: &PodSpec, holder: SpecHolder, field: &Path) -> Vec<FieldError> {
    let volumes = items(spec.volumes.as_ref());
    let CheckedVolumes { mut errors, names } =
        volume::volumes(volumes, holder, &field.child("volumes"));
    let devices = items(spec.resource_claims.as_ref());
    errors.extend(claims::validate_pod_claims(devices, &field.child("resourceClaims")));
    errors.extend(containers::all(&CheckedPod::new(spec, names, holder), field));
    errors.extend(one_of(
        spec.restart_policy.as_ref(),
        &["Always", "OnFailure", "Never"],
        field.child("restartPolicy"),
    ));
    errors.extend(labels::labels(spec.node_selector.as_ref(), &field.child("nodeSelector")));
    errors.extend(security::pod(spec, field));
    errors.extend(security::own_users(spec, field));
    errors.extend(placement::check(spec, field));
    errors.extend(resources::pod_level(spec, field));
    errors.extend(windows::host_processes(spec, field));
    errors.extend(system(spec, field));
    errors.extend(host_network_ports(spec, holder, field));
    errors.extend(dns(spec, field));
    errors.extend(host_aliases(items(spec.host_aliases.as_ref()), &field.child("hostAliases")));
    errors.extend(scalars(spec, field));
    errors
}

fn scalars(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(seconds) = spec.active_deadline_seconds {
        let field = field.child("activeDeadlineSeconds");
        errors.extend(numbers::in_range(seconds, 1, i64::from(i32::MAX), &field));
    }
    let subdomains = [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
        ("runtimeClassName", &spec.runtime_class_name),
    ];
    for (name, value) in subdomains {
        if let Some(value) = value {
            errors.extend(invalid_each(&field.child(name), value, names::dns_subdomain(value)));
        }
    }
    for (name, value) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(value) = value {
            errors.extend(invalid_each(&field.child(name), value, names::dns_label(value)));
        }
    }
    errors.extend(hostname_override(spec, &field.child("hostnameOverride")));
    errors.extend(one_of_if_set(
        spec.preemption_policy.as_ref(),
        &["PreemptLowerPriority", "Never"],
        field.child("preemptionPolicy"),
    ));
    for (index, gate) in items(spec.readiness_gates.as_ref()).iter().enumerate() {
        let field = field.child("readinessGates").index(index).child("conditionType");
        let kind = &gate.condition_type;
        errors.extend(invalid_each(&field, kind, names::qualified(kind)));
    }
    errors
}

/// What the pod is for, and what it cannot have then.
fn system(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let Some(os) = &spec.os else { return Vec::new() };
    let at = field.child("os");
    match os.name.as_str() {
        "linux" => windows::none_for_linux(spec, field),
        "windows" => windows::none_of_linux(spec, field),
        "" => vec![FieldError::required(at.child("name"), "")],
        other => vec![FieldError::not_supported(at, other, &["linux", "windows"])],
    }
}

/// A list that is wrong as a whole, shown as JSON.
fn invalid_list(field: &Path, list: &[String], detail: &str) -> FieldError {
    FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid(serde_json::json!(list).to_string()),
        detail: detail.to_owned(),
    }
}

fn dns(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.extend(one_of(spec.dns_policy.as_ref(), &policies, field.child("dnsPolicy")));
    let config_field = field.child("dnsConfig");
    if text(spec.dns_policy.as_ref()) == "None" {
        match &spec.dns_config {
            None => errors.push(FieldError::required(
                &config_field,
                "must provide `dnsConfig` when `dnsPolicy` is None",
            )),
            Some(config) if items(config.nameservers.as_ref()).is_empty() => {
                errors.push(FieldError::required(
                    config_field.child("nameservers"),
                    "must provide at least one DNS nameserver when `dnsPolicy` is None",
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(config) = &spec.dns_config {
        errors.extend(dns_config(config, &config_field));
    }
    errors
}

fn dns_config(config: &PodDNSConfig, field: &Path) -> Vec<FieldError> {
    const NAMESERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_LIST_CHARS_MAX: usize = 2048;
    let mut errors = Vec::new();
    let nameservers = items(config.nameservers.as_ref());
    let nameservers_field = field.child("nameservers");
    if nameservers.len() > NAMESERVERS_MAX {
        let detail = "must not have more than 3 nameservers";
        errors.push(invalid_list(&nameservers_field, nameservers, detail));
    }
    for (index, address) in nameservers.iter().enumerate() {
        errors.extend(ip(address, nameservers_field.index(index)));
    }
    let searches = items(config.searches.as_ref());
    if searches.len() > SEARCHES_MAX {
        let detail = "must not have more than 32 search paths";
        errors.push(invalid_list(&field.child("searches"), searches, detail));
    }
    if searches.join(" ").len() > SEARCH_LIST_CHARS_MAX {
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(invalid_list(&field.child("searches"), searches, detail));
    }
    for (index, search) in searches.iter().enumerate() {
        let field = field.child("searches").index(index);
        errors.extend(search_domain(search, &field));
    }
    for (index, option) in items(config.options.as_ref()).iter().enumerate() {
        if text(option.name.as_ref()).is_empty() {
            let field = field.child("options").index(index);
            errors.push(FieldError::required(field, "must not be empty"));
        }
    }
    errors
}

/// A name with underscores, as SRV records have them, and maybe a dot at its end; or the root
/// alone.
fn search_domain(search: &str, field: &Path) -> Vec<FieldError> {
    match search {
        "." => Vec::new(),
        search => {
            let name = search.strip_suffix('.').unwrap_or(search);
            invalid_each(field, name, names::dns_subdomain_with_underscore(name)).collect()
        }
    }
}

fn host_aliases(aliases: &[HostAlias], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, alias) in aliases.iter().enumerate() {
        errors.extend(ip(&alias.ip, field.index(index).child("ip")));
        for (position, name) in items(alias.hostnames.as_ref()).iter().enumerate() {
            let field = field.index(index).child("hostnames").index(position);
            errors.extend(invalid_each(&field, name, names::dns_subdomain(name)));
        }
    }
    errors
}

/// It replaces the whole name, so it does not go with what else says how the pod is called
/// (KEP-4762).
fn hostname_override(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    /// What the kernel keeps of a host name.
    const BYTES_MAX: usize = 64;
    let Some(name) = &spec.hostname_override else { return Vec::new() };
    let mut errors: Vec<FieldError> =
        invalid_each(field, name, names::dns_subdomain(name)).collect();
    if name.len() > BYTES_MAX {
        errors.push(FieldError::too_long(field, BYTES_MAX));
    }
    if spec.set_hostname_as_fqdn == Some(true) {
        errors
            .push(FieldError::forbidden(field, "may not be set together with `setHostnameAsFQDN`"));
    }
    if spec.host_network == Some(true) {
        errors.push(FieldError::forbidden(field, "may not be set when `hostNetwork` is true"));
    }
    errors
}

fn host_network_ports(spec: &PodSpec, holder: SpecHolder, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.host_network != Some(true) {
        return errors;
    }
    for (index, container) in spec.containers.iter().enumerate() {
        for (position, port) in items(container.ports.as_ref()).iter().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            let checked = match holder {
                SpecHolder::Pod => true,
                SpecHolder::Template => host_port != 0,
            };
            if checked && host_port != port.container_port {
                let field = field.child("containers").index(index).child("ports").index(position);
                errors.push(FieldError::invalid(
                    field.child("hostPort"),
                    host_port,
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
    errors
}

/// What is wrong with an IP address.
pub(super) fn ip(address: &str, field: Path) -> Option<FieldError> {
    let is_none = address.parse::<std::net::IpAddr>().is_err();
    is_none.then(|| FieldError::invalid(field, address, addresses::NOT_AN_ADDRESS))
}
