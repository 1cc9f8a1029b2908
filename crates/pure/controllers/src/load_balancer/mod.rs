//! Addresses of Services of type LoadBalancer: those of the nodes. Their machine opens the ports.
//!
//! Source of behaviour: the API reference of `ServiceStatus.loadBalancer` and of
//! `spec.loadBalancerClass`; for the choice of addresses k3s' ServiceLB (external ones first).
//!
//! ```text
//!   nodes ─► addresses ─┐
//!   other Services ─► has an older one a port of it? ─► status.loadBalancer.ingress, or an Event
//! ```
//! It gets addresses of its own families only, and another Service may have the same port of
//! another family. A Service that is of another class is left alone: another implementation writes
//! its status.

mod ports;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, NodeAddress, Service};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, IpFamily, load_balancer};
use serde_json::json;

use crate::events::EventNote;
use crate::patches::status_patch;
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners,
};
use ports::{older_rival, share_a_port};

/// `source.component` of its events, as upstream's controller.
const COMPONENT: &str = "service-controller";
/// Packets come to the nodes as clients send them (KEP-1860).
const IP_MODE: &str = "VIP";

/// The Services that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let sides: Vec<&Arc<Service>> = change.sides().filter_map(balancer).collect();
    if !sides.is_empty() {
        if !change.is_removal() {
            keys.insert(ControllerKey::LoadBalancer(change.id.name.clone()));
        }
        // its ports may be free for another one now
        let rivals = balancers(view).filter(|other| {
            let is_another = NamespacedName::from_meta(&other.metadata) != change.id.name;
            is_another && sides.iter().any(|side| share_a_port(side, other))
        });
        keys.extend(rivals.map(|rival| key(rival)));
    }
    if node_addresses_of(change.before.as_ref()) != node_addresses_of(change.after.as_ref()) {
        keys.extend(balancers(view).map(|service| key(service)));
    }
}

/// The addresses of a node; none of anything else.
fn node_addresses_of(object: Option<&ViewObject>) -> &[NodeAddress] {
    let Some(ViewObject::Node(node)) = object else { return &[] };
    let status = node.status.as_ref();
    status.and_then(|status| status.addresses.as_deref()).unwrap_or_default()
}

/// What is to be done for a Service.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(service) = view.service(name) else { return plan };
    if owners::is_terminating(&service.metadata) || !load_balancer::is_served_here(service) {
        return plan;
    }
    let wanted = match older_rival(service, balancers(view)) {
        Some((rival, port)) => {
            let rival = NamespacedName::from_meta(&rival.metadata);
            let text = format!(
                "Port {port} of the machine belongs to the load balancer {rival}; give one of them another port"
            );
            plan.notes.push(note(service, EventSeverity::Warning, event::PORT_CONFLICT, text));
            Vec::new()
        }
        None => node_addresses(view, service),
    };
    if *shown(service) == *wanted {
        return plan;
    }
    if shown(service).is_empty() {
        let text = "Ensured load balancer".to_owned();
        plan.notes.push(note(service, EventSeverity::Normal, "EnsuredLoadBalancer", text));
    }
    let status = json!({ "loadBalancer": { "ingress": wanted } });
    plan.then(status_patch(ResourceKind::Service, &service.metadata, status));
    plan
}

/// The addresses that it has.
fn shown(service: &Service) -> &[LoadBalancerIngress] {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default()
}

/// The families of a Service. Without any it has an address of the first one.
fn families(service: &Service) -> impl Iterator<Item = IpFamily> {
    let names = service.spec.as_ref().and_then(|spec| spec.ip_families.as_deref());
    let names = names.unwrap_or_default();
    IpFamily::ALL.into_iter().filter(move |family| {
        names.iter().any(|name| name == family.name())
            || (names.is_empty() && *family == IpFamily::V4)
    })
}

/// Where clients reach the nodes by the families of a Service: at external addresses if there are
/// any. Nodes of one machine may share one.
fn node_addresses(view: &ClusterView, service: &Service) -> Vec<LoadBalancerIngress> {
    let is_of_service = |address: &NodeAddress| {
        let family = address.address.parse().map(IpFamily::from_address);
        family.is_ok_and(|family| families(service).any(|of_service| of_service == family))
    };
    let of_type = |type_: &str| -> BTreeSet<&str> {
        let nodes = view.of_kind(ResourceKind::Node).map(|(_, object)| object);
        let addresses = nodes.flat_map(|node| node_addresses_of(Some(node)));
        let addresses =
            addresses.filter(|address| address.type_ == type_ && is_of_service(address));
        addresses.map(|address| address.address.as_str()).collect()
    };
    let external = of_type("ExternalIP");
    let addresses = if external.is_empty() { of_type("InternalIP") } else { external };
    let ingress = |address: &str| LoadBalancerIngress {
        ip: Some(address.to_owned()),
        ip_mode: Some(IP_MODE.to_owned()),
        ..LoadBalancerIngress::default()
    };
    addresses.into_iter().map(ingress).collect()
}

/// The Services that are served here.
fn balancers(view: &ClusterView) -> impl Iterator<Item = &Arc<Service>> {
    view.of_kind(ResourceKind::Service).filter_map(|(_, object)| balancer(object))
}

fn balancer(object: &ViewObject) -> Option<&Arc<Service>> {
    let ViewObject::Service(service) = object else { return None };
    Some(service).filter(|service| load_balancer::is_served_here(service))
}

fn key(service: &Service) -> ControllerKey {
    ControllerKey::LoadBalancer(NamespacedName::from_meta(&service.metadata))
}

fn note(
    service: &Arc<Service>,
    severity: EventSeverity,
    reason: &'static str,
    text: String,
) -> EventNote {
    EventNote::new(&ViewObject::from(service.clone()), severity, reason, text, COMPONENT)
}
