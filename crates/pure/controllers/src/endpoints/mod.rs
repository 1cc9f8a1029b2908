//! The addresses behind a Service: EndpointSlices, and the older Endpoints object.
//!
//! Source of behaviour: the API references of discovery.k8s.io/v1 EndpointSlice and v1 Endpoints,
//! the documentation of both, and upstream's two controllers.
//!
//! ```text
//!   Service ──selects──► pods with an address ──► ports that each has (`wanted`) ─► slices of at most 100 (`slices`)
//!                                                                               └─► one Endpoints object (`object`)
//! ```
//!
//! A Service without a selector leads where its user says: in slices, or in Endpoints, which
//! `mirroring` copies into slices. Endpoints go with their Service, also those that a user wrote
//! (`orphaned_endpoints`). The view knows the pods of each Service.

mod mirroring;
mod object;
mod orphaned_endpoints;
mod shown;
mod slices;
mod wanted;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
use rekindle_types::labels::{Labels, ZONE};

use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, owners,
    pods,
};
pub(crate) use mirroring::reconcile as reconcile_mirrored;
pub(crate) use object::reconcile as reconcile_object;
pub(crate) use orphaned_endpoints::OrphanedEndpoints;
pub(crate) use slices::{is_of_service, reconcile as reconcile_slices};

/// The label that makes a Service, and what is made for it, headless.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation of a lock of leader election. Such locks were Endpoints once.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The Services that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    mirroring::affected(view, change, keys);
    match change.latest() {
        ViewObject::Service(_) => keys.extend(both(&change.id.name)),
        ViewObject::Pod(_) => {
            if change.before.as_ref().map(shown) == change.after.as_ref().map(shown) {
                return;
            }
            for side in change.sides() {
                keys.extend(services_of(view, side.meta()).flat_map(|service| both(&service)));
            }
        }
        ViewObject::EndpointSlice(slice) => {
            let owner = owners::controller_of(&slice.metadata);
            if let Some(ViewObject::Service(service)) =
                owner.and_then(|owner| view.by_uid(&owner.uid))
            {
                keys.insert(ControllerKey::EndpointSlices(NamespacedName::from_meta(
                    &service.metadata,
                )));
            } else if let Some(service) = slices::service_of(slice) {
                let namespace = change.id.name.namespace.as_str();
                keys.insert(ControllerKey::EndpointSlices(NamespacedName::new(namespace, service)));
            }
        }
        ViewObject::Endpoints(_) => {
            keys.insert(ControllerKey::Endpoints(change.id.name.clone()));
        }
        ViewObject::Node(_) => {
            let zone = |side: &Option<ViewObject>| match side {
                Some(ViewObject::Node(node)) => zone(node).map(str::to_owned),
                _ => None,
            };
            if zone(&change.before) != zone(&change.after) {
                for pod in view.pods_on(&change.id.name.name) {
                    keys.extend(
                        services_of(view, &pod.metadata).map(ControllerKey::EndpointSlices),
                    );
                }
            }
        }
        _ => {}
    }
}

fn both(service: &NamespacedName) -> [ControllerKey; 2] {
    [ControllerKey::EndpointSlices(service.clone()), ControllerKey::Endpoints(service.clone())]
}

fn zone(node: &Node) -> Option<&str> {
    node.metadata.labels.as_ref()?.get(ZONE).map(String::as_str).filter(|zone| !zone.is_empty())
}

/// The Services whose selector matches a pod.
fn services_of<'a>(
    view: &'a ClusterView,
    pod: &'a ObjectMeta,
) -> impl Iterator<Item = NamespacedName> + 'a {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    view.covering(ResourceKind::Service, namespace, pod.labels.as_ref())
        .map(|service| service.id().name)
}

/// True when the Service has a selector and it matches these labels.
pub(crate) fn selects(service: &Service, labels: Option<&Labels>) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| {
        let has = |(key, value): (&String, &String)| labels.and_then(|l| l.get(key)) == Some(value);
        !selector.is_empty() && selector.iter().all(has)
    })
}

/// True when these controllers say where it leads.
fn is_ours(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    has_selector(service)
        && spec.type_.as_deref() != Some("ExternalName")
        && !owners::is_terminating(&service.metadata)
}

fn has_selector(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

fn is_leader_lock(endpoints: &ObjectMeta) -> bool {
    endpoints.annotations.as_ref().is_some_and(|all| all.contains_key(LEADER))
}

/// The labels of the Service and those that say what it is.
fn mirrored(service: &Service, own: &[(&str, &str)]) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    for (key, value) in own {
        labels.insert((*key).to_owned(), (*value).to_owned());
    }
    labels
}

/// All of a pod that an endpoint shows or depends on; a status that says the same of it is no news.
fn shown(object: &ViewObject) -> impl PartialEq {
    let ViewObject::Pod(pod) = object else { return None };
    let status = pod.status.as_ref().filter(|_| !pods::is_finished(pod))?;
    let spec = pod.spec.as_ref()?;
    Some((
        (&status.pod_ip, &status.pod_ips),
        (pods::is_ready(pod), pods::is_terminating(pod)),
        (&pod.node_name, &spec.hostname, &spec.subdomain),
        (&pod.metadata.uid, &pod.metadata.labels),
    ))
}

/// Its name is said by DNS: it has a host name, and its subdomain is the Service.
fn hostname<'a>(pod: &'a HeldPod, service: &Service) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let is_of_service = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.as_deref().filter(|hostname| is_of_service && !hostname.is_empty())
}
