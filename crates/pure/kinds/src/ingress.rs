//! Ingress (networking.k8s.io/v1): which Services HTTP requests go to. Stored for the controllers
//! that a user installs; there is none here, and a warning says so.

use k8s_openapi::api::networking::v1::{
    Ingress, IngressBackend, IngressLoadBalancerStatus, IngressRule, IngressSpec, IngressStatus,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::preparation;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, or_none};
use crate::validation::{MISTAKES_MAX, Path, invalid_each, items, names, ports, text};

/// The annotation that named the class before there was a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// What no path may contain, and what none may end with.
const BAD_PATH_PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_PATH_ENDS: [&str; 2] = ["/..", "/."];

impl ApiKind for Ingress {
    const NAMES: ResourceNames = ResourceNames {
        singular: "ingress",
        short_names: &["ing"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Class", "string", "The name of the IngressClass resource."),
        column("Hosts", "string", "Hosts that this Ingress is for."),
        column("Address", "string", "Addresses at which it can be reached."),
        column("Ports", "string", "Ports at which it can be reached."),
        AGE,
    ];

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        let load_balancer = Some(IngressLoadBalancerStatus::default());
        self.status = Some(IngressStatus { load_balancer });
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let none = IngressSpec::default();
        spec_errors(self.spec.as_ref().unwrap_or(&none), &Path::new("spec"))
    }

    fn validate_new(&self) -> Vec<FieldError> {
        let annotation = self.metadata.annotations.as_ref();
        let annotation = annotation.and_then(|all| all.get(CLASS_ANNOTATION));
        let class = self.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_ref());
        match (annotation, class) {
            (Some(annotation), Some(class)) if annotation != class => {
                vec![FieldError::invalid(
                    Path::new("annotations").child(CLASS_ANNOTATION),
                    annotation,
                    "must match `ingressClassName` when both are specified",
                )]
            }
            (Some(_) | None, Some(_) | None) => Vec::new(),
        }
    }

    fn warnings(&self) -> Vec<String> {
        vec![
            "an Ingress is stored only: install a controller of ingresses that acts on it"
                .to_owned(),
        ]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let spec = self.spec.as_ref();
        let rules = items(spec.and_then(|spec| spec.rules.as_ref()));
        let has_tls = !items(spec.and_then(|spec| spec.tls.as_ref())).is_empty();
        let status = self.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let addresses = items(status.and_then(|status| status.ingress.as_ref())).iter();
        let addresses: Vec<&str> = addresses
            .map(|at| at.ip.as_ref().or(at.hostname.as_ref()))
            .map(text)
            .filter(|address| !address.is_empty())
            .collect();
        vec![
            text(self.metadata.name.as_ref()).into(),
            or_none(spec.and_then(|spec| spec.ingress_class_name.as_ref())),
            hosts(rules).into(),
            addresses.join(",").into(),
            if has_tls { "80, 443" } else { "80" }.into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for Ingress {
    preparation::updates_of_status_and_metadata!();
}

/// The first three hosts, and how many more there are.
fn hosts(rules: &[IngressRule]) -> String {
    const SHOWN_MAX: usize = 3;
    let hosts: Vec<&str> =
        rules.iter().map(|rule| text(rule.host.as_ref())).filter(|host| !host.is_empty()).collect();
    match hosts.len() {
        0 => "*".to_owned(),
        count if count > SHOWN_MAX => {
            format!("{} + {} more...", hosts[..SHOWN_MAX].join(","), count - SHOWN_MAX)
        }
        _ => hosts.join(","),
    }
}

fn spec_errors(spec: &IngressSpec, field: &Path) -> Vec<FieldError> {
    let rules = items(spec.rules.as_ref());
    let mut errors = Vec::new();
    if rules.is_empty() && spec.default_backend.is_none() {
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid("null".to_owned()),
            detail: "either `defaultBackend` or `rules` must be specified".to_owned(),
        });
    }
    if let Some(backend) = &spec.default_backend {
        errors.extend(backend_errors(backend, &field.child("defaultBackend")));
    }
    for (index, rule) in rules.iter().enumerate() {
        if errors.len() >= MISTAKES_MAX {
            return errors;
        }
        errors.extend(rule_errors(rule, &field.child("rules").index(index)));
    }
    for (index, tls) in items(spec.tls.as_ref()).iter().enumerate() {
        let field = field.child("tls").index(index);
        for (index, host) in items(tls.hosts.as_ref()).iter().enumerate() {
            let field = field.child("hosts").index(index);
            errors.extend(invalid_each(&field, host, host_messages(host)));
        }
        let secret = text(tls.secret_name.as_ref());
        if !secret.is_empty() {
            let messages = names::dns_subdomain(secret);
            errors.extend(invalid_each(&field.child("secretName"), secret, messages));
        }
    }
    if let Some(class) = &spec.ingress_class_name {
        let messages = names::dns_subdomain(class);
        errors.extend(invalid_each(&field.child("ingressClassName"), class, messages));
    }
    errors
}

/// What is wrong with a host, which may begin with `*.`.
fn host_messages(host: &str) -> Vec<String> {
    if host.contains('*') {
        names::wildcard_dns_subdomain(host)
    } else {
        names::dns_subdomain(host)
    }
}

fn rule_errors(rule: &IngressRule, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let host = text(rule.host.as_ref());
    if !host.is_empty() {
        let field = field.child("host");
        if host.parse::<std::net::IpAddr>().is_ok() {
            let why = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(&field, host, why));
        } else {
            errors.extend(invalid_each(&field, host, host_messages(host)));
        }
    }
    let Some(http) = &rule.http else { return errors };
    let field = field.child("http").child("paths");
    if http.paths.is_empty() {
        errors.push(FieldError::required(&field, ""));
    }
    for (index, path) in http.paths.iter().enumerate() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        let field = field.index(index);
        errors.extend(path_errors(&path.path_type, text(path.path.as_ref()), &field));
        errors.extend(backend_errors(&path.backend, &field.child("backend")));
    }
    errors
}

fn path_errors(path_type: &str, path: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let invalid = |why: String| FieldError::invalid(field.child("path"), path, why);
    match path_type {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.push(invalid("must be an absolute path".to_owned()));
            }
            for part in BAD_PATH_PARTS.into_iter().filter(|part| path.contains(part)) {
                errors.push(invalid(format!("must not contain '{part}'")));
            }
            for end in BAD_PATH_ENDS.into_iter().filter(|end| path.ends_with(end)) {
                errors.push(invalid(format!("cannot end with '{end}'")));
            }
        }
        "ImplementationSpecific" if !path.is_empty() && !path.starts_with('/') => {
            errors.push(invalid("must be an absolute path".to_owned()));
        }
        "ImplementationSpecific" => {}
        "" => {
            errors.push(FieldError::required(field.child("pathType"), "pathType must be specified"))
        }
        other => {
            errors.push(FieldError::not_supported(field.child("pathType"), other, &PATH_TYPES));
        }
    }
    errors
}

/// What is wrong with a reference to an object by group, kind and name.
pub(super) fn reference_errors(
    (group, kind, name): (Option<&str>, &str, &str),
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(group) = group {
        errors.extend(invalid_each(&field.child("apiGroup"), group, names::dns_subdomain(group)));
    }
    for (child, value) in [("kind", kind), ("name", name)] {
        let field = field.child(child);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else {
            errors.extend(invalid_each(&field, value, names::path_segment(value)));
        }
    }
    errors
}

fn backend_errors(backend: &IngressBackend, field: &Path) -> Vec<FieldError> {
    let wrong = |why: &str| vec![FieldError::invalid(field, "", why)];
    match (&backend.resource, &backend.service) {
        (Some(_), Some(_)) => wrong("cannot set both resource and service backends"),
        (None, None) => wrong("resource or service backend is required"),
        (Some(resource), None) => {
            let group = resource.api_group.as_deref();
            reference_errors((group, &resource.kind, &resource.name), &field.child("resource"))
        }
        (None, Some(service)) => {
            let backend = field;
            let field = field.child("service");
            let mut errors = Vec::new();
            if service.name.is_empty() {
                errors.push(FieldError::required(field.child("name"), ""));
            } else {
                let messages = names::dns_label(&service.name);
                errors.extend(invalid_each(&field.child("name"), &service.name, messages));
            }
            let port = service.port.clone().unwrap_or_default();
            let (name, number) = (text(port.name.as_ref()), port.number.unwrap_or(0));
            match (name, number) {
                ("", 0) => {
                    errors.push(FieldError::required(backend, "port name or number is required"))
                }
                ("", number) => {
                    errors.extend(ports::number(number, &field.child("port").child("number")));
                }
                (name, 0) => {
                    let field = field.child("port").child("name");
                    errors.extend(invalid_each(&field, name, names::port(name)));
                }
                (_, _) => errors.push(FieldError::invalid(
                    backend,
                    "",
                    "cannot set both port name & port number",
                )),
            }
            errors
        }
    }
}
