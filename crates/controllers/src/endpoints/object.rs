//! The Endpoints object of a Service: ready addresses, and those that are not, by ports.

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::wanted::{self, Family, Member, Port};
use super::{hostname, is_ours, mirrored};
use crate::plan::{Propagation, Write};
use crate::{Kind, NamespacedName, Object, ObjectId, Plan, View, owners, pods};

/// Addresses of one object, at most.
const ADDRESSES_MAX: usize = 1000;
/// The annotation that says that there are more.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The label that says who made it.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// What is to be done for the Endpoints of a Service.
pub(crate) fn reconcile(view: &View, name: &NamespacedName) -> Plan {
    let mut plan = Plan::default();
    let known = view.endpoints(name);
    let Some(service) = view.service(name) else {
        if let Some(left) = known.filter(|left| is_made_here(&left.metadata)) {
            let id = ObjectId::new(Kind::Service, name.clone());
            plan.then(Write::CheckAbsent { id, uid: None });
            plan.then(Write::delete(&Object::Endpoints(left.clone()), Propagation::Default));
        }
        return plan;
    };
    if !is_ours(service) {
        return plan;
    }
    let (subsets, size) = subsets(view, service);
    let mut wanted = known.map_or_else(
        || Endpoints {
            metadata: ObjectMeta {
                name: Some(name.name.clone()),
                namespace: Some(name.namespace.clone()),
                ..ObjectMeta::default()
            },
            subsets: None,
        },
        |known| known.as_ref().clone(),
    );
    wanted.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
    wanted.metadata.labels = Some(mirrored(service, &[(MANAGED_BY, MANAGER)]));
    note_size(&mut wanted.metadata, size);
    match known {
        Some(known) if owners::is_terminating(&known.metadata) || **known == wanted => {}
        Some(_) => plan.then(Write::Update(wanted.into())),
        None => plan.then(Write::Create(wanted.into())),
    }
    plan
}

fn is_made_here(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == MANAGER)
        && !owners::is_terminating(meta)
}

/// Whether the object holds all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    All,
    Truncated,
}

fn note_size(meta: &mut ObjectMeta, size: Size) {
    match size {
        Size::Truncated => {
            let annotations = meta.annotations.get_or_insert_default();
            annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
        }
        Size::All => {
            if let Some(annotations) = &mut meta.annotations {
                annotations.remove(OVER_CAPACITY);
            }
        }
    }
}

/// The addresses by ports. A pod that lacks every port of the Service is in none of them.
fn subsets(view: &View, service: &Service) -> (Vec<EndpointSubset>, Size) {
    let has_ports = service
        .spec
        .as_ref()
        .is_some_and(|spec| spec.ports.as_ref().is_some_and(|ports| !ports.is_empty()));
    let publishes = wanted::publishes_not_ready(service);
    let family = Family::of(service)[0];
    let mut room = ADDRESSES_MAX;
    let mut size = Size::All;
    let mut subsets = Vec::new();
    for (ports, mut members) in wanted::members(view, service, family) {
        members.retain(|member| publishes || !pods::is_terminating(member.pod));
        if members.is_empty() || (has_ports && ports.is_empty()) {
            continue;
        }
        let is_ready = |member: &Member<'_>| publishes || pods::is_ready(member.pod);
        let (ready, others): (Vec<_>, Vec<_>) = members.into_iter().partition(is_ready);
        let mut take = |list: Vec<Member<'_>>| -> Option<Vec<EndpointAddress>> {
            if list.len() > room {
                size = Size::Truncated;
            }
            let taken: Vec<_> =
                list.iter().take(room).map(|member| address(member, service)).collect();
            room -= taken.len();
            Some(taken).filter(|taken| !taken.is_empty())
        };
        let (addresses, not_ready_addresses) = (take(ready), take(others));
        if addresses.is_some() || not_ready_addresses.is_some() {
            let ports = ports.iter().map(shown).collect();
            let ports = Some(ports).filter(|ports: &Vec<_>| !ports.is_empty());
            subsets.push(EndpointSubset { addresses, not_ready_addresses, ports });
        }
    }
    (subsets, size)
}

fn address(member: &Member<'_>, service: &Service) -> EndpointAddress {
    EndpointAddress {
        ip: member.address.to_owned(),
        hostname: hostname(member.pod, service),
        node_name: pods::node(member.pod).map(str::to_owned),
        target_ref: Some(wanted::reference(member.pod)),
    }
}

fn shown(port: &Port) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()).filter(|name| !name.is_empty()),
        protocol: Some(port.protocol.clone()),
        port: port.number,
        app_protocol: port.app_protocol.clone(),
    }
}
