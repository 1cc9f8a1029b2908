//! The Endpoints object of a Service: ready addresses, and those that are not, by ports.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::EventSeverity;

use super::wanted::{self, BackendPod, BackendPort};
use super::{hostname, is_ours, mirrored};
use crate::events::EventNote;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};
use crate::{
    ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan, owners, pods,
};

/// Addresses of one object, at most.
const ADDRESSES_MAX: usize = 1000;
/// The annotation that says that there are more.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The label that says who made it.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// `source.component` of its events.
const COMPONENT: &str = "endpoint-controller";

/// What is to be done for the Endpoints of a Service.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let known = view.endpoints(name);
    let Some(service) = view.service(name) else {
        let is_orphaned = view.memories().orphaned_endpoints.contains(name);
        let goes = |meta: &ObjectMeta| {
            (is_orphaned || is_made_here(meta)) && !owners::is_terminating(meta)
        };
        if let Some(left) = known.filter(|left| goes(&left.metadata)) {
            let id = ObjectId::new(ResourceKind::Service, name.clone());
            plan.then(WriteOperation::CheckAbsent { id, uid: None });
            plan.then(WriteOperation::delete(
                &ViewObject::Endpoints(left.clone()),
                DependentPolicy::Default,
            ));
        }
        return plan;
    };
    if !is_ours(service) {
        return plan;
    }
    let (subsets, size) = subsets(view, service);
    let labels = mirrored(service, &[(MANAGED_BY, MANAGER)]);
    let metadata = match known {
        Some(known) => {
            let stands = are(&subsets, known.subsets.as_deref().unwrap_or_default(), service)
                && known.subsets.as_ref().is_none_or(|known| !known.is_empty())
                && known.metadata.labels.as_ref() == Some(&labels)
                && size.is_noted(&known.metadata);
            if stands || owners::is_terminating(&known.metadata) {
                return plan;
            }
            known.metadata.clone()
        }
        None => ObjectMeta {
            name: Some(name.name.clone()),
            namespace: Some(name.namespace.clone()),
            ..ObjectMeta::default()
        },
    };
    let subsets = subsets.iter().map(|subset| subset.shown(service)).collect();
    let mut wanted = Endpoints {
        metadata: ObjectMeta { labels: Some(labels), ..metadata },
        subsets: Some(subsets).filter(|subsets: &Vec<_>| !subsets.is_empty()),
    };
    size.note(&mut wanted.metadata);
    match known {
        Some(_) => plan.then(WriteOperation::Update(wanted.into())),
        None => plan.then_all(vec![creation(service, wanted)]),
    }
    plan
}

fn creation(service: &Arc<Service>, wanted: Endpoints) -> PlannedWrite {
    let about = ViewObject::Service(service.clone());
    let name = NamespacedName::from_meta(&service.metadata);
    let message = format!("Failed to create endpoint for service {name}: ");
    let failure = EventNote::new(
        &about,
        EventSeverity::Warning,
        "FailedToCreateEndpoint",
        message,
        COMPONENT,
    );
    let report = WriteNotes { success: Vec::new(), failure };
    PlannedWrite { write: WriteOperation::Create(wanted.into()), report: Some(report) }
}

fn is_made_here(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == MANAGER)
}

/// Whether the object holds all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressCompleteness {
    All,
    Truncated,
}

impl AddressCompleteness {
    /// True when the annotation says so already.
    fn is_noted(self, meta: &ObjectMeta) -> bool {
        let noted = meta.annotations.as_ref().and_then(|all| all.get(OVER_CAPACITY));
        noted.map(String::as_str) == self.annotation()
    }

    fn note(self, meta: &mut ObjectMeta) {
        match self.annotation() {
            Some(value) => {
                let annotations = meta.annotations.get_or_insert_default();
                annotations.insert(OVER_CAPACITY.to_owned(), value.to_owned());
            }
            None => {
                if let Some(annotations) = &mut meta.annotations {
                    annotations.remove(OVER_CAPACITY);
                }
            }
        }
    }

    const fn annotation(self) -> Option<&'static str> {
        match self {
            AddressCompleteness::All => None,
            AddressCompleteness::Truncated => Some("truncated"),
        }
    }
}

/// The pods with the same ports. What stands is compared with it before anything is made of it.
struct SubsetDraft<'a> {
    ports: Vec<BackendPort<'a>>,
    ready: Vec<BackendPod<'a>>,
    others: Vec<BackendPod<'a>>,
}

impl SubsetDraft<'_> {
    fn shown(&self, service: &Service) -> EndpointSubset {
        let addresses = |members: &[BackendPod<'_>]| {
            let addresses = members.iter().map(|member| address(member, service)).collect();
            Some(addresses).filter(|addresses: &Vec<_>| !addresses.is_empty())
        };
        EndpointSubset {
            addresses: addresses(&self.ready),
            not_ready_addresses: addresses(&self.others),
            ports: ports(&self.ports),
        }
    }

    /// True when the subset is that already.
    fn is(&self, known: &EndpointSubset, service: &Service) -> bool {
        let EndpointSubset { addresses, not_ready_addresses, ports: known_ports } = known;
        let are = |members: &[BackendPod<'_>], known: Option<&Vec<EndpointAddress>>| match known {
            Some(known) => {
                !known.is_empty()
                    && known.len() == members.len()
                    && members.iter().zip(known).all(|(member, known)| is(member, known, service))
            }
            None => members.is_empty(),
        };
        are(&self.ready, addresses.as_ref())
            && are(&self.others, not_ready_addresses.as_ref())
            && *known_ports == ports(&self.ports)
    }
}

/// True when these are the subsets, in this order.
fn are(subsets: &[SubsetDraft<'_>], known: &[EndpointSubset], service: &Service) -> bool {
    known.len() == subsets.len()
        && subsets.iter().zip(known).all(|(subset, known)| subset.is(known, service))
}

/// The addresses by ports. A pod that lacks every port of the Service is in none of them.
fn subsets<'a>(
    view: &'a ClusterView,
    service: &'a Service,
) -> (Vec<SubsetDraft<'a>>, AddressCompleteness) {
    let has_ports = service
        .spec
        .as_ref()
        .is_some_and(|spec| spec.ports.as_ref().is_some_and(|ports| !ports.is_empty()));
    let publishes = wanted::publishes_not_ready(service);
    let family = wanted::families(service)[0];
    let mut room = ADDRESSES_MAX;
    let mut size = AddressCompleteness::All;
    let mut subsets = Vec::new();
    for (ports, mut members) in wanted::members(view, service, family) {
        members.retain(|member| publishes || !pods::is_terminating(member.pod));
        if members.is_empty() || (has_ports && ports.is_empty()) {
            continue;
        }
        let is_ready = |member: &BackendPod<'_>| publishes || pods::is_ready(member.pod);
        let (mut ready, mut others): (Vec<_>, Vec<_>) = members.into_iter().partition(is_ready);
        for list in [&mut ready, &mut others] {
            if list.len() > room {
                size = AddressCompleteness::Truncated;
            }
            list.truncate(room);
            room -= list.len();
        }
        if !ready.is_empty() || !others.is_empty() {
            subsets.push(SubsetDraft { ports, ready, others });
        }
    }
    (subsets, size)
}

fn address(member: &BackendPod<'_>, service: &Service) -> EndpointAddress {
    EndpointAddress {
        ip: member.address.to_owned(),
        hostname: hostname(member.pod, service).map(str::to_owned),
        node_name: pods::node(member.pod).map(str::to_owned),
        target_ref: Some(wanted::reference(member.pod)),
    }
}

/// True when the address is that already.
fn is(member: &BackendPod<'_>, known: &EndpointAddress, service: &Service) -> bool {
    let EndpointAddress { ip, hostname: known_hostname, node_name, target_ref } = known;
    ip == member.address
        && known_hostname.as_deref() == hostname(member.pod, service)
        && node_name.as_deref() == pods::node(member.pod)
        && target_ref.as_ref().is_some_and(|known| wanted::is_reference(known, member.pod))
}

fn ports(ports: &[BackendPort<'_>]) -> Option<Vec<EndpointPort>> {
    let ports = ports.iter().map(|port| EndpointPort {
        name: Some(port.name).filter(|name| !name.is_empty()).map(str::to_owned),
        protocol: Some(port.protocol.to_owned()),
        port: port.number,
        app_protocol: port.app_protocol.map(str::to_owned),
    });
    Some(ports.collect()).filter(|ports: &Vec<_>| !ports.is_empty())
}
