//! Mirrors Endpoints that a user writes, for a Service without a selector, into EndpointSlices.
//! Rules, cluster DNS and proxies read slices only.
//!
//! Source of behaviour: KEP-0752, upstream's `pkg/controller/endpointslicemirroring`.
//!
//! ```text
//!   Endpoints --> addresses by family and ports --> slices of at most 1,000 addresses each
//!       |
//!       +-- skip-mirror, a lock of leader election, no Service, or one with a selector: none
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as ObjectPort, EndpointSubset, Endpoints,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::labels::{Labels, SERVICE_NAME, SLICE_MANAGED_BY};
use rekindle_types::{EventSeverity, IpFamily};

use super::slices::{new_meta, ports_of, shown_port};
use super::wanted::BackendPort;
use super::{has_selector, is_leader_lock};
use crate::deployment::LAST_APPLIED;
use crate::events::EventNote;
use crate::plan::{DependentPolicy, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WritePlan, owners,
};

/// The value of the label that says who writes a slice; also `source.component` of events.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const COMPONENT: &str = "endpoint-slice-mirroring-controller";
/// Endpoints with this label of value `true` are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// It says when an endpoint changed. Of a copy it would say something else.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Addresses of a subset that are mirrored, and those of a slice, at most.
const ADDRESSES_MAX: usize = 1000;

/// The Services with mirrored slices that a change concerns.
pub(super) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.latest() {
        ViewObject::Service(_) => {
            let is_free = |side: &ViewObject| matches!(side, ViewObject::Service(service) if !has_selector(service));
            if change.sides().any(is_free) {
                keys.insert(ControllerKey::MirroredSlices(change.id.name.clone()));
            }
        }
        ViewObject::Endpoints(_) => {
            let service = view.service(&change.id.name);
            if service.is_some_and(|service| !has_selector(service)) {
                keys.insert(ControllerKey::MirroredSlices(change.id.name.clone()));
            }
        }
        ViewObject::EndpointSlice(_) => {
            let namespace = change.id.name.namespace.as_str();
            let services = change.sides().filter_map(|side| match side {
                ViewObject::EndpointSlice(slice) => service_of(slice),
                _ => None,
            });
            let names = services.map(|service| NamespacedName::new(namespace, service));
            keys.extend(names.map(ControllerKey::MirroredSlices));
        }
        _ => {}
    }
}

/// What is to be done for the mirrored slices of a Service.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let known = mirrored_slices(view, name);
    let is_free = view.service(name).is_some_and(|service| !has_selector(service));
    let endpoints = view.endpoints(name).filter(|endpoints| is_free && is_mirrored(endpoints));
    let (written, old) = match endpoints {
        Some(endpoints) => {
            let uid = endpoints.metadata.uid.as_deref().unwrap_or_default();
            let is_own = |slice: &Arc<EndpointSlice>| {
                owners::controller_of(&slice.metadata).is_some_and(|owner| owner.uid == uid)
            };
            let (own, mut old) = known.into_iter().partition::<Vec<_>, _>(|slice| is_own(slice));
            let (written, unused) = Mirror { view, endpoints, taken: 0 }.slices(own);
            old.extend(unused);
            (written, old)
        }
        None => (Vec::new(), known),
    };
    if !written.is_empty()
        && let Some(endpoints) = endpoints
    {
        plan.notes.extend(note_of_skipped(endpoints));
    }
    // what is new before what is old goes, as no connection is to be lost in between
    plan.then_all(written.into_iter().map(Into::into).collect());
    let old = old.into_iter().map(|slice| ViewObject::EndpointSlice(Arc::clone(slice)));
    let deletions = old.map(|slice| WriteOperation::delete(&slice, DependentPolicy::Default));
    plan.then_all(deletions.map(Into::into).collect());
    plan
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    let Endpoints { metadata, .. } = endpoints;
    let skip = metadata.labels.as_ref().and_then(|labels| labels.get(SKIP));
    skip.is_none_or(|skip| skip != "true")
        && !is_leader_lock(metadata)
        && !owners::is_terminating(metadata)
}

/// The Service that a slice is mirrored for.
fn service_of(slice: &EndpointSlice) -> Option<&str> {
    let labels = slice.metadata.labels.as_ref()?;
    labels.get(SLICE_MANAGED_BY).filter(|manager| *manager == MANAGER)?;
    labels.get(SERVICE_NAME).map(String::as_str)
}

fn mirrored_slices<'a>(
    view: &'a ClusterView,
    service: &NamespacedName,
) -> Vec<&'a Arc<EndpointSlice>> {
    let id = ObjectId::new(ResourceKind::Service, service.clone());
    let slices = view.naming(&id, ResourceKind::EndpointSlice).filter_map(|object| match object {
        ViewObject::EndpointSlice(slice) => Some(slice),
        _ => None,
    });
    let is_mirrored = |slice: &&Arc<EndpointSlice>| {
        service_of(slice).is_some() && !owners::is_terminating(&slice.metadata)
    };
    slices.filter(is_mirrored).collect()
}

/// Addresses that one slice may have beside each other.
type SliceGroup<'a> = (IpFamily, Vec<BackendPort<'a>>);

/// Endpoints while slices are made of them.
struct Mirror<'a> {
    view: &'a ClusterView,
    endpoints: &'a Arc<Endpoints>,
    /// Numbers of names that were given in this look.
    taken: u32,
}

impl<'a> Mirror<'a> {
    /// What is to be written, and those of `own` that have nothing to show any more.
    fn slices(
        mut self,
        own: Vec<&'a Arc<EndpointSlice>>,
    ) -> (Vec<WriteOperation>, Vec<&'a Arc<EndpointSlice>>) {
        let (mut written, mut unused) = (Vec::new(), own);
        for ((family, ports), endpoints) in groups(self.endpoints) {
            for endpoints in endpoints.chunks(ADDRESSES_MAX) {
                let fits = |slice: &&Arc<EndpointSlice>| {
                    slice.address_type == family.name() && ports_of(slice) == ports
                };
                let known = unused.iter().position(fits).map(|place| unused.remove(place));
                written.extend(self.write(known, family, &ports, endpoints));
            }
        }
        (written, unused)
    }

    /// The write of a slice, unless it stands as it is to be.
    fn write(
        &mut self,
        known: Option<&Arc<EndpointSlice>>,
        family: IpFamily,
        ports: &[BackendPort<'_>],
        endpoints: &[Endpoint],
    ) -> Option<WriteOperation> {
        let own = &self.endpoints.metadata;
        let ports: Vec<EndpointPort> = ports.iter().map(shown_port).collect();
        let metadata = match known {
            Some(known) => known.metadata.clone(),
            None => new_meta(self.view, (ResourceKind::Endpoints, own), family, &mut self.taken),
        };
        let slice = EndpointSlice {
            metadata: ObjectMeta {
                labels: Some(labels(own)),
                annotations: annotations(own),
                ..metadata
            },
            address_type: family.name().to_owned(),
            endpoints: Some(endpoints.to_vec()),
            ports: Some(ports).filter(|ports| !ports.is_empty()),
        };
        match known {
            Some(known) if **known == slice => None,
            Some(_) => Some(WriteOperation::Update(slice.into())),
            None => Some(WriteOperation::Create(slice.into())),
        }
    }
}

fn labels(endpoints: &ObjectMeta) -> Labels {
    let mut labels = endpoints.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name.clone().unwrap_or_default());
    labels.insert(SLICE_MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn annotations(endpoints: &ObjectMeta) -> Option<BTreeMap<String, String>> {
    let mut annotations = endpoints.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key != TRIGGER_TIME && key != LAST_APPLIED);
    Some(annotations).filter(|annotations| !annotations.is_empty())
}

/// The addresses of all subsets. Subsets that have the same ports share a slice.
fn groups(endpoints: &Endpoints) -> BTreeMap<SliceGroup<'_>, Vec<Endpoint>> {
    let mut groups: BTreeMap<SliceGroup<'_>, Vec<Endpoint>> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let mut ports: Vec<BackendPort<'_>> = subset.ports.iter().flatten().map(port).collect();
        ports.sort();
        for (address, is_ready) in addresses(subset).take(ADDRESSES_MAX) {
            // validation lets only addresses in
            let Ok(ip) = address.ip.parse().map(|ip: IpAddr| ip.to_canonical()) else { continue };
            let endpoint = endpoint(address, ip, is_ready);
            let group = (IpFamily::from_address(ip), ports.clone());
            groups.entry(group).or_default().push(endpoint);
        }
    }
    groups
}

/// The addresses of a subset, the ready ones first.
fn addresses(subset: &EndpointSubset) -> impl Iterator<Item = (&EndpointAddress, bool)> {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)))
}

fn port(port: &ObjectPort) -> BackendPort<'_> {
    BackendPort {
        name: port.name.as_deref().unwrap_or_default(),
        protocol: port.protocol.as_deref().unwrap_or("TCP"),
        number: port.port,
        app_protocol: port.app_protocol.as_deref(),
    }
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, is_ready: bool) -> Endpoint {
    let conditions = EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() };
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(conditions),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn note_of_skipped(endpoints: &Arc<Endpoints>) -> Option<EventNote> {
    let subsets = endpoints.subsets.iter().flatten();
    let skipped: usize =
        subsets.map(|subset| addresses(subset).count().saturating_sub(ADDRESSES_MAX)).sum();
    let text = format!(
        "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
    );
    let about = ViewObject::Endpoints(Arc::clone(endpoints));
    let (severity, reason) = (EventSeverity::Warning, "TooManyAddressesToMirror");
    (skipped > 0).then(|| EventNote::new(&about, severity, reason, text, COMPONENT))
}
