//! Where a Service leads: the pods that it selects, with the ports that each of them has for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::IpFamily;
use rekindle_types::held::HeldPod;
use rekindle_types::pods::AnySpec;

use crate::{ClusterView, NamespacedName, pods};

/// The families of a Service, the first one first; IPv4 when it does not say.
pub(super) fn families(service: &Service) -> Vec<IpFamily> {
    let named = service.spec.as_ref().and_then(|spec| spec.ip_families.as_deref());
    let named: Vec<IpFamily> = named
        .unwrap_or_default()
        .iter()
        .filter_map(|name| IpFamily::ALL.into_iter().find(|family| family.name() == name))
        .collect();
    if named.is_empty() { vec![IpFamily::V4] } else { named }
}

/// A port behind a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BackendPort<'a> {
    pub(super) name: &'a str,
    pub(super) protocol: &'a str,
    pub(super) number: i32,
    pub(super) app_protocol: Option<&'a str>,
}

/// A pod behind a Service.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackendPod<'a> {
    pub(super) pod: &'a Arc<HeldPod>,
    pub(super) address: &'a str,
}

/// The pods that the Service selects and that have an address, those that are being deleted too, by
/// the ports that they have.
pub(super) fn members<'a>(
    view: &'a ClusterView,
    service: &'a Service,
    family: IpFamily,
) -> BTreeMap<Vec<BackendPort<'a>>, Vec<BackendPod<'a>>> {
    let name = NamespacedName::from_meta(&service.metadata);
    let selected = view.selected_by(&name);
    let there = selected.filter(|pod| !pods::is_finished(pod));
    let members = there.filter_map(|pod| Some(BackendPod { pod, address: address(pod, family)? }));
    if !has_named_target(service) {
        // as most Services: all of their pods have the same
        let members: Vec<BackendPod<'_>> = members.collect();
        let Some(one) = members.first() else { return BTreeMap::new() };
        return BTreeMap::from([(ports(service, one.pod), members)]);
    }
    let mut by_ports: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for member in members {
        by_ports.entry(ports(service, member.pod)).or_default().push(member);
    }
    by_ports
}

/// True when a port of the Service leads to one that each pod has somewhere else.
fn has_named_target(service: &Service) -> bool {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    ports.iter().any(|port| matches!(port.target_port, Some(IntOrString::String(_))))
}

fn address(pod: &HeldPod, family: IpFamily) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let all = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    let is_of_family = |address: &&str| {
        address.parse().is_ok_and(|address| IpFamily::from_address(address) == family)
    };
    all.chain(status.pod_ip.as_deref()).find(is_of_family)
}

/// Sorted, so that another order in the Service is no change.
fn ports<'a>(service: &'a Service, pod: &HeldPod) -> Vec<BackendPort<'a>> {
    let list = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let mut ports: Vec<BackendPort<'_>> = list
        .iter()
        .filter_map(|port| {
            Some(BackendPort {
                name: port.name.as_deref().unwrap_or_default(),
                protocol: protocol(port.protocol.as_deref()),
                number: target(port, pod)?,
                app_protocol: port.app_protocol.as_deref(),
            })
        })
        .collect();
    ports.sort();
    ports
}

fn protocol(named: Option<&str>) -> &str {
    named.filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

/// The port of the pod that a port of the Service leads to; none when no container has one of that
/// name.
fn target(port: &ServicePort, pod: &HeldPod) -> Option<i32> {
    match &port.target_port {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) if name.is_empty() => Some(port.port),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let mut ports = spec.lasting().flat_map(|container| &container.ports);
            let named = ports.find(|found| {
                found.name.as_ref() == Some(name)
                    && protocol(found.protocol.as_deref()) == protocol(port.protocol.as_deref())
            });
            named.map(|found| found.container_port)
        }
    }
}

/// The pod, as what an address leads to.
pub(super) fn reference(pod: &HeldPod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// True when that is what [`reference`] says of the pod.
pub(super) fn is_reference(known: &ObjectReference, pod: &HeldPod) -> bool {
    let ObjectReference { api_version, field_path, kind, name, namespace, resource_version, uid } =
        known;
    let meta = &pod.metadata;
    kind.as_deref() == Some("Pod")
        && (namespace, name, uid) == (&meta.namespace, &meta.name, &meta.uid)
        && (api_version, field_path, resource_version) == (&None, &None, &None)
}

/// `spec.publishNotReadyAddresses`.
pub(super) fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}
