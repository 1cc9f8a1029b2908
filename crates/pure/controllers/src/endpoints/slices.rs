//! EndpointSlices: what stays keeps its place, so that a pod that comes or goes changes one slice
//! and not all of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::IpFamily;
use rekindle_types::labels::{Labels, SERVICE_NAME, SLICE_CONTROLLER, SLICE_MANAGED_BY};

use super::shown::{self, Nearness, PodEndpoint};
use super::wanted::{self, BackendPod, BackendPort};
use super::{hostname, is_ours, mirrored, zone};
use crate::plan::{DependentPolicy, PlannedWrite, WriteOperation};
use crate::{
    ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan, names, owners, pods,
};

/// Endpoints of one slice, at most (upstream's default).
const ENDPOINTS_MAX: usize = 100;

/// What is to be done for the slices of a Service.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(service) = view.service(name).filter(|service| is_ours(service)) else { return plan };
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let mut work = SliceSync {
        view,
        service,
        labels: mirrored(
            service,
            &[(SERVICE_NAME, name.name.as_str()), (SLICE_MANAGED_BY, SLICE_CONTROLLER)],
        ),
        taken: 0,
        written: Vec::new(),
        deleted: Vec::new(),
    };
    let families = wanted::families(service);
    for family in IpFamily::ALL {
        let own =
            view.dependents_of(uid, ResourceKind::EndpointSlice).filter_map(
                |object| match object {
                    ViewObject::EndpointSlice(slice) if is_made_here(slice, uid, family) => {
                        Some(slice)
                    }
                    _ => None,
                },
            );
        let own: Vec<&Arc<EndpointSlice>> = own.collect();
        if families.contains(&family) {
            work.pack(family, own);
        } else {
            work.deleted.extend(own);
        }
    }
    let id = ObjectId::new(ResourceKind::Service, name.clone());
    work.deleted.extend(left_over(view, &id, uid));
    let SliceSync { written, deleted, .. } = work;
    // What is new before what is old goes: nobody is left out meanwhile.
    plan.then_all(written);
    let deletions = deleted.into_iter().map(|slice| ViewObject::EndpointSlice(slice.clone()));
    plan.then_all(
        deletions
            .map(|slice| WriteOperation::delete(&slice, DependentPolicy::Default).into())
            .collect(),
    );
    plan
}

/// Slices under the name of a Service that are not its own: of one before it, which left them
/// behind when it was deleted, or whose slices are not collected yet. Whoever reads slices finds
/// them by that name.
fn left_over<'a>(
    view: &'a ClusterView,
    service: &ObjectId,
    uid: &'a str,
) -> impl Iterator<Item = &'a Arc<EndpointSlice>> {
    let slices =
        view.naming(service, ResourceKind::EndpointSlice).filter_map(|object| match object {
            ViewObject::EndpointSlice(slice) => Some(slice),
            _ => None,
        });
    slices.filter(move |slice| {
        let meta = &slice.metadata;
        service_of(slice).is_some()
            && owners::controller_of(meta).is_none_or(|owner| owner.uid != uid)
            && !owners::is_terminating(meta)
    })
}

/// The Service that a slice of ours is for, by its labels.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<&str> {
    let labels = slice.metadata.labels.as_ref()?;
    labels.get(SLICE_MANAGED_BY).filter(|manager| *manager == SLICE_CONTROLLER)?;
    labels.get(SERVICE_NAME).map(String::as_str)
}

/// True for a slice that is made here for some Service.
pub(crate) fn is_of_service(slice: &EndpointSlice) -> bool {
    service_of(slice).is_some()
}

fn is_made_here(slice: &EndpointSlice, service_uid: &str, family: IpFamily) -> bool {
    let meta = &slice.metadata;
    let manager = meta.labels.as_ref().and_then(|labels| labels.get(SLICE_MANAGED_BY));
    slice.address_type == family.name()
        && manager.is_some_and(|manager| manager == SLICE_CONTROLLER)
        && owners::controller_of(meta).is_some_and(|owner| owner.uid == service_uid)
        && !owners::is_terminating(meta)
}

/// The slices of one Service while they are put in order.
struct SliceSync<'a> {
    view: &'a ClusterView,
    service: &'a Arc<Service>,
    labels: Labels,
    /// Numbers of names that were given in this look.
    taken: u32,
    written: Vec<PlannedWrite>,
    deleted: Vec<&'a Arc<EndpointSlice>>,
}

impl<'a> SliceSync<'a> {
    /// Puts all addresses of a family into slices. A Service without any has one slice that is
    /// empty.
    fn pack(&mut self, family: IpFamily, own: Vec<&'a Arc<EndpointSlice>>) {
        let mut by_ports: BTreeMap<Vec<BackendPort<'_>>, Vec<&Arc<EndpointSlice>>> =
            BTreeMap::new();
        for slice in own {
            by_ports.entry(ports_of(slice)).or_default().push(slice);
        }
        let members = wanted::members(self.view, self.service, family);
        let is_empty = members.is_empty();
        for (ports, members) in members {
            let own = by_ports.remove(&ports).unwrap_or_default();
            self.fill(family, &ports, &members, own);
        }
        let mut idle = by_ports.into_values().flatten();
        if is_empty {
            self.write(family, idle.next(), &[], &[]);
        }
        self.deleted.extend(idle);
    }

    /// Puts the pods with the same ports into the slices that have them already, then into those
    /// with room, then into new ones.
    fn fill(
        &mut self,
        family: IpFamily,
        ports: &[BackendPort<'_>],
        members: &[BackendPod<'_>],
        own: Vec<&'a Arc<EndpointSlice>>,
    ) {
        let mut left: BTreeMap<&str, PodEndpoint<'_>> = members
            .iter()
            .map(|member| {
                (member.pod.metadata.uid.as_deref().unwrap_or_default(), self.shown(member))
            })
            .collect();
        let mut filled: Vec<(&Arc<EndpointSlice>, Vec<PodEndpoint<'_>>)> = Vec::new();
        for slice in own {
            let known = slice.endpoints.iter().flatten();
            let stays =
                known.filter_map(|endpoint| left.remove(uid_of(endpoint)?)).take(ENDPOINTS_MAX);
            filled.push((slice, stays.collect()));
        }
        // A slice that is written anyway takes them first, and of those the fullest.
        filled.sort_by_cached_key(|(slice, shown)| {
            let known = slice.endpoints.as_deref();
            (known.is_some_and(|known| shown::are(shown, known)), Reverse(shown.len()))
        });
        let mut rest = left.into_values();
        for (slice, mut shown) in filled {
            let room = ENDPOINTS_MAX.saturating_sub(shown.len());
            shown.extend(rest.by_ref().take(room));
            if shown.is_empty() {
                self.deleted.push(slice);
            } else {
                self.write(family, Some(slice), ports, &shown);
            }
        }
        loop {
            let shown: Vec<PodEndpoint<'_>> = rest.by_ref().take(ENDPOINTS_MAX).collect();
            if shown.is_empty() {
                return;
            }
            self.write(family, None, ports, &shown);
        }
    }

    /// Writes a slice if it is new or changed. What stands is compared before anything is made.
    fn write(
        &mut self,
        family: IpFamily,
        known: Option<&Arc<EndpointSlice>>,
        ports: &[BackendPort<'_>],
        shown: &[PodEndpoint<'_>],
    ) {
        let ports: Vec<EndpointPort> = ports.iter().map(shown_port).collect();
        let ports = Some(ports).filter(|ports| !ports.is_empty());
        let metadata = match known {
            Some(known) => {
                let stands = match known.endpoints.as_deref() {
                    Some(known) => !shown.is_empty() && shown::are(shown, known),
                    None => shown.is_empty(),
                };
                let is_labelled = known.metadata.labels.as_ref() == Some(&self.labels);
                if stands && is_labelled && known.ports == ports {
                    return;
                }
                known.metadata.clone()
            }
            None => {
                let owner = (ResourceKind::Service, &self.service.metadata);
                new_meta(self.view, owner, family, &mut self.taken)
            }
        };
        let endpoints = shown.iter().map(PodEndpoint::endpoint).collect();
        let slice = EndpointSlice {
            metadata: ObjectMeta { labels: Some(self.labels.clone()), ..metadata },
            address_type: family.name().to_owned(),
            endpoints: Some(endpoints).filter(|endpoints: &Vec<_>| !endpoints.is_empty()),
            ports,
        };
        let write = match known {
            Some(_) => WriteOperation::Update(slice.into()),
            None => WriteOperation::Create(slice.into()),
        };
        self.written.push(write.into());
    }

    /// A pod that is being deleted is not ready, and serves for as long as its probe says so:
    /// traffic goes to it when there is no other [KEP-1669].
    fn shown<'m>(&self, member: &BackendPod<'m>) -> PodEndpoint<'m>
    where
        'a: 'm,
    {
        let pod = member.pod;
        let (serving, terminating) = (pods::is_ready(pod), pods::is_terminating(pod));
        let node = pods::node(pod);
        PodEndpoint {
            pod,
            address: member.address,
            ready: wanted::publishes_not_ready(self.service) || (serving && !terminating),
            serving,
            terminating,
            hostname: hostname(pod, self.service),
            node,
            zone: node.and_then(|node| self.view.node(node)).and_then(|node| zone(node)),
            nearness: Nearness::of(self.service),
        }
    }
}

/// What a new slice of this owner and family begins with. `taken` counts the names of its series.
pub(super) fn new_meta(
    view: &ClusterView,
    (kind, owner): (ResourceKind, &ObjectMeta),
    family: IpFamily,
    taken: &mut u32,
) -> ObjectMeta {
    let stem = owner.name.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let series = format!("{}/{}", owner.uid.as_deref().unwrap_or_default(), family.name());
    let named =
        |number| (number, format!("{}-{}", names::base(stem), names::suffix(&series, number)));
    let is_free = |(_, name): &(u32, String)| {
        let name = NamespacedName::new(namespace, name.as_str());
        view.get(&ObjectId::new(ResourceKind::EndpointSlice, name)).is_none()
    };
    let (number, name) =
        (*taken..).map(named).find(is_free).expect("there are more names than slices");
    *taken = number + 1;
    ObjectMeta {
        generate_name: Some(format!("{stem}-")),
        name: Some(name),
        namespace: owner.namespace.clone(),
        owner_references: Some(vec![owners::controller_reference(kind, owner)]),
        ..ObjectMeta::default()
    }
}

fn uid_of(endpoint: &Endpoint) -> Option<&str> {
    endpoint.target_ref.as_ref()?.uid.as_deref()
}

pub(super) fn shown_port(port: &BackendPort<'_>) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.to_owned()),
        protocol: Some(port.protocol.to_owned()),
        port: Some(port.number),
        app_protocol: port.app_protocol.map(str::to_owned),
    }
}

pub(super) fn ports_of(slice: &EndpointSlice) -> Vec<BackendPort<'_>> {
    let ports = slice.ports.iter().flatten().map(|port| BackendPort {
        name: port.name.as_deref().unwrap_or_default(),
        protocol: port.protocol.as_deref().unwrap_or_default(),
        number: port.port.unwrap_or(0),
        app_protocol: port.app_protocol.as_deref(),
    });
    let mut ports: Vec<BackendPort<'_>> = ports.collect();
    ports.sort();
    ports
}
