//! Service (core/v1). Cluster DNS answers for its name; nothing routes to an address of its own, so
//! none is allocated, and a warning says so where one is asked for.

use k8s_openapi::api::core::v1::{
    ClientIPConfig, Service, ServicePort, ServiceSpec, ServiceStatus, SessionAffinityConfig,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::Tick;

use super::defaults;
use crate::registry::field_error::FieldError;
use crate::registry::resource::{
    ApiKind, NameRule, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, list_or_none, or_none, wide};
use crate::validation::{ListKeys, Path, invalid_each, items, labels, names, ports, text};

/// Seconds that a client sticks to its endpoint.
const CLIENT_IP_TIMEOUT_S: i32 = 10_800;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

impl ApiKind for Service {
    const NAMES: ResourceNames = ResourceNames {
        singular: "service",
        short_names: &["svc"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const NAME_RULE: NameRule = NameRule::Dns1035Label;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Type", "string", "How the Service is exposed."),
        column("Cluster-IP", "string", "The IP address of the service."),
        column("External-IP", "string", "The addresses outside the cluster at which it answers."),
        column("Port(s)", "string", "The ports that are exposed by this service."),
        AGE,
        wide("Selector", "string", "The labels of the pods that traffic goes to."),
    ];

    fn set_defaults(&mut self) {
        defaults(self.spec.get_or_insert_default());
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status =
            Some(ServiceStatus { load_balancer: Some(Default::default()), ..Default::default() });
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        self.spec.as_ref().map_or_else(Vec::new, |spec| spec_errors(spec, &Path::new("spec")))
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let mut warnings = Vec::new();
        let headless = text(spec.cluster_ip.as_ref()) == "None";
        if !headless && text(spec.type_.as_ref()) != "ExternalName" {
            warnings.push(
                "spec: no address is allocated by this version of Rekindle, and nothing routes to one: the name of this Service \
                 is that of its pods, as if clusterIP were None; connect to the pods' own ports (targetPort)"
                    .to_owned(),
            );
        }
        if matches!(text(spec.type_.as_ref()), "LoadBalancer" | "NodePort") {
            warnings.push(format!(
                "spec.type: {}: no port of the node is opened by this version of Rekindle",
                text(spec.type_.as_ref())
            ));
        }
        warnings
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let none = ServiceSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let selector: Vec<String> =
            spec.selector.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(spec.type_.as_ref()).into(),
            or_none(items(spec.cluster_ips.as_ref()).first().or(spec.cluster_ip.as_ref())),
            external_ip(spec, self.status.as_ref()).into(),
            shown_ports(items(spec.ports.as_ref())).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            list_or_none(selector.iter().map(String::as_str)).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for Service {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
    }
}

fn defaults(spec: &mut ServiceSpec) {
    defaults::drop_empty_text(&mut spec.cluster_ip);
    defaults::drop_empty_list(&mut spec.cluster_ips);
    defaults::text(&mut spec.type_, "ClusterIP");
    defaults::text(&mut spec.session_affinity, "None");
    match text(spec.session_affinity.as_ref()) {
        "None" => spec.session_affinity_config = None,
        "ClientIP" => {
            let config = spec.session_affinity_config.get_or_insert(SessionAffinityConfig {
                client_ip: Some(ClientIPConfig { timeout_seconds: None }),
            });
            let client = config.client_ip.get_or_insert_default();
            client.timeout_seconds.get_or_insert(CLIENT_IP_TIMEOUT_S);
        }
        _ => {} // validation names it
    }
    for port in spec.ports.iter_mut().flatten() {
        defaults::text(&mut port.protocol, "TCP");
        let unset = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::String(name)) => name.is_empty(),
            Some(IntOrString::Int(_)) => false,
        };
        if unset {
            port.target_port = Some(IntOrString::Int(port.port));
        }
    }
    let type_ = text(spec.type_.as_ref()).to_owned();
    let external = matches!(type_.as_str(), "LoadBalancer" | "NodePort")
        || (type_ == "ClusterIP" && !items(spec.external_ips.as_ref()).is_empty());
    if external {
        defaults::text(&mut spec.external_traffic_policy, "Cluster");
    }
    if type_ != "ExternalName" {
        defaults::text(&mut spec.internal_traffic_policy, "Cluster");
    }
    if type_ == "LoadBalancer" {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
    // As clients expect it: the list mirrors the single address.
    if spec.cluster_ips.is_none() {
        spec.cluster_ips = spec.cluster_ip.clone().map(|address| vec![address]);
    }
    if spec.cluster_ip.is_none() {
        spec.cluster_ip = items(spec.cluster_ips.as_ref()).first().cloned();
    }
}

fn spec_errors(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let type_ = text(spec.type_.as_ref());
    let headless = spec.cluster_ip.as_deref() == Some("None");
    let list = items(spec.ports.as_ref());
    if list.is_empty() && !headless && type_ != "ExternalName" {
        errors.push(FieldError::required(field.child("ports"), ""));
    }
    match type_ {
        "LoadBalancer" | "NodePort" if headless => errors.push(FieldError::invalid(
            field.child("clusterIPs").index(0),
            "None",
            format!("may not be set to 'None' for {type_} services"),
        )),
        "ExternalName" => {
            if spec.cluster_ip.is_some() {
                errors.push(FieldError::forbidden(
                    field.child("clusterIPs"),
                    "may not be set for ExternalName services",
                ));
            }
            let name = text(spec.external_name.as_ref());
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.push(FieldError::required(field.child("externalName"), ""));
            } else {
                let messages = names::dns_subdomain(name);
                errors.extend(invalid_each(&field.child("externalName"), name, messages));
            }
        }
        known if TYPES.contains(&known) => {}
        other => errors.push(FieldError::not_supported(field.child("type"), other, &TYPES)),
    }
    if let Some(address) = spec.cluster_ip.as_deref().filter(|address| *address != "None")
        && address.parse::<std::net::IpAddr>().is_err()
    {
        errors.push(FieldError::invalid(
            field.child("clusterIPs").index(0),
            address,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
    }
    errors.extend(labels::labels(spec.selector.as_ref(), &field.child("selector")));
    let affinity = text(spec.session_affinity.as_ref());
    if !matches!(affinity, "ClientIP" | "None") {
        errors.push(FieldError::not_supported(
            field.child("sessionAffinity"),
            affinity,
            &["ClientIP", "None"],
        ));
    }
    errors.extend(port_errors(list, &field.child("ports")));
    errors
}

fn port_errors(list: &[ServicePort], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken_names: ListKeys<&str> = ListKeys::new();
    let mut taken_ports: ListKeys<(&str, i32)> = ListKeys::new();
    for (index, port) in list.iter().enumerate() {
        let entry = field.index(index);
        let name = text(port.name.as_ref());
        if name.is_empty() && list.len() > 1 {
            errors.push(FieldError::required(entry.child("name"), ""));
        } else if !name.is_empty() {
            errors.extend(invalid_each(&entry.child("name"), name, names::dns_label(name)));
            if taken_names.add(name).is_some() {
                errors.push(FieldError::duplicate(entry.child("name"), name));
            }
        }
        errors.extend(ports::number(port.port, &entry.child("port")));
        let protocol = text(port.protocol.as_ref());
        errors.extend(ports::protocol(protocol, &entry.child("protocol")));
        if let Some(target) = &port.target_port {
            errors.extend(ports::number_or_name(target, &entry.child("targetPort")));
        }
        if taken_ports.add((protocol, port.port)).is_some() {
            let shown = format!("{}/{protocol}", port.port);
            errors.push(FieldError::duplicate(&entry, shown));
        }
    }
    errors
}

fn shown_ports(list: &[ServicePort]) -> String {
    let shown: Vec<String> = list
        .iter()
        .map(|port| {
            let protocol = text(port.protocol.as_ref());
            match port.node_port.unwrap_or(0) {
                0 => format!("{}/{protocol}", port.port),
                node_port => format!("{}:{node_port}/{protocol}", port.port),
            }
        })
        .collect();
    list_or_none(shown.iter().map(String::as_str))
}

fn external_ip(spec: &ServiceSpec, status: Option<&ServiceStatus>) -> String {
    let external = items(spec.external_ips.as_ref()).iter().map(String::as_str);
    match text(spec.type_.as_ref()) {
        "ExternalName" => text(spec.external_name.as_ref()).to_owned(),
        "LoadBalancer" => {
            let balancer = status.and_then(|status| status.load_balancer.as_ref());
            let ingress = items(balancer.and_then(|balancer| balancer.ingress.as_ref()));
            let addresses = ingress.iter().map(|ingress| match text(ingress.ip.as_ref()) {
                "" => text(ingress.hostname.as_ref()),
                ip => ip,
            });
            let all: Vec<&str> = addresses.chain(external).filter(|a| !a.is_empty()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ => list_or_none(external),
    }
}
