//! The endpoints of a Service's port: what slices say of them, and the node, which knows more.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use rekindle_types::{NamespacedName, PodUid};

use super::{PodRouting, ServiceRouter, WithdrawalCause, forget};
use crate::routed::{
    EndpointHints, EndpointUse, RoutedEndpoint, RoutedFrontend, RoutedNode, RoutedService,
    RoutedSlice, TrafficPolicy,
};

impl ServiceRouter {
    /// All that the frontend could lead to.
    pub(super) fn endpoints_of(
        &self,
        (key, service): (&NamespacedName, &RoutedService),
        routed: &RoutedFrontend,
    ) -> KnownEndpoints<'_> {
        let mut known = Vec::new();
        for name in self.slices_of.get(key).into_iter().flatten() {
            let key = NamespacedName { namespace: key.namespace.clone(), name: name.clone() };
            let Some(slice) = self.slices.get(&key) else { continue };
            let port = slice.ports.iter().find(|port| {
                port.name == routed.port_name && port.protocol == routed.frontend.protocol
            });
            let Some(port) = port else { continue };
            for endpoint in &slice.endpoints {
                if endpoint.address.is_ipv4() != routed.frontend.address.is_ipv4() {
                    continue;
                }
                let routing = endpoint.pod.as_ref().and_then(|pod| self.pods.get(pod));
                let (address, use_) = place_and_use(service, slice, endpoint, routing);
                let is_restarting = match routing {
                    Some(PodRouting::Withdrawn(cause)) => cause.is_restart(),
                    Some(PodRouting::Admitted(_) | PodRouting::Gone) | None => false,
                };
                let at = SocketAddr::new(address, port.number);
                known.push(KnownEndpoint { at, use_, is_restarting, endpoint });
            }
        }
        KnownEndpoints { policy: routed.policy, known }
    }

    /// A slice of this Service no longer has the pod; another one may.
    pub(super) fn look_at_pod_again(&mut self, pod: &PodUid, service: &NamespacedName) {
        let names = self.slices_of.get(service).into_iter().flatten();
        let mut slices = names.filter_map(|name| {
            let namespace = service.namespace.clone();
            self.slices.get(&NamespacedName { namespace, name: name.clone() })
        });
        if !slices.any(|slice| slice.endpoints.iter().any(|e| e.pod.as_ref() == Some(pod))) {
            forget(&mut self.services_of_pod, pod, service);
        }
    }
}

/// The endpoints that are known of a frontend.
pub(super) struct KnownEndpoints<'a> {
    policy: TrafficPolicy,
    known: Vec<KnownEndpoint<'a>>,
}

struct KnownEndpoint<'a> {
    at: SocketAddr,
    use_: EndpointUse,
    is_restarting: bool,
    /// As the slice has it.
    endpoint: &'a RoutedEndpoint,
}

/// Which endpoints are near to clients on a node.
#[derive(Clone, Copy)]
enum Nearness<'a> {
    Node(&'a str),
    Zone(&'a str),
}

impl KnownEndpoints<'_> {
    /// Those for clients anywhere. All nodes of an engine are one machine: a client that is no pod
    /// is on each of them.
    pub(super) fn for_all(&self) -> FoundEndpoints {
        self.select(|it| self.policy == TrafficPolicy::Cluster || it.endpoint.node.is_some())
    }

    /// Those for the pods of a node, if they depend on it (`internalTrafficPolicy`, and the hints
    /// that `trafficDistribution` causes).
    pub(super) fn for_node(&self, name: &str, node: &RoutedNode) -> Option<FoundEndpoints> {
        match self.policy {
            TrafficPolicy::Local => {
                Some(self.select(|it| it.endpoint.node.as_deref() == Some(name)))
            }
            TrafficPolicy::Cluster => {
                let nearness = self.nearness(name, node)?;
                Some(self.select(|it| it.is_near(nearness)))
            }
        }
    }

    /// As kube-proxy decides it: by node or by zone where each ready endpoint has a hint of that
    /// kind, and one is meant for clients there.
    fn nearness<'n>(&self, name: &'n str, node: &'n RoutedNode) -> Option<Nearness<'n>> {
        // a slice that is behind has no hints yet
        let is_ready =
            |it: &&KnownEndpoint<'_>| [it.use_, it.endpoint.use_] == [EndpointUse::Ready; 2];
        let ready = || self.known.iter().filter(is_ready).map(|it| &it.endpoint.hints);
        let all_hint_at = |name: &str, list: fn(&EndpointHints) -> &[String]| {
            ready().all(|hints| !list(hints).is_empty())
                && ready().any(|hints| list(hints).iter().any(|hint| hint == name))
        };
        if all_hint_at(name, |hints| &hints.nodes) {
            return Some(Nearness::Node(name));
        }
        let zone = node.zone.as_deref()?;
        all_hint_at(zone, |hints| &hints.zones).then_some(Nearness::Zone(zone))
    }

    fn select(&self, is_meant: impl Fn(&KnownEndpoint<'_>) -> bool) -> FoundEndpoints {
        let mut found = FoundEndpoints::default();
        for known in &self.known {
            let is_meant = is_meant(known);
            found.is_restarting |= is_meant && known.is_restarting;
            match (known.use_, is_meant) {
                (EndpointUse::None, _) => {}
                (EndpointUse::Ready | EndpointUse::LastResort, false) => found.is_elsewhere = true,
                (EndpointUse::Ready, true) => drop(found.ready.insert(known.at)),
                (EndpointUse::LastResort, true) => drop(found.last_resort.insert(known.at)),
            }
        }
        found
    }
}

impl KnownEndpoint<'_> {
    /// By its hints, or by its place as long as the slice has none.
    fn is_near(&self, nearness: Nearness<'_>) -> bool {
        let (hints, place, wanted) = match nearness {
            Nearness::Node(name) => (&self.endpoint.hints.nodes, &self.endpoint.node, name),
            Nearness::Zone(name) => (&self.endpoint.hints.zones, &self.endpoint.zone, name),
        };
        match hints.is_empty() {
            true => place.as_deref() == Some(wanted),
            false => hints.iter().any(|hint| hint == wanted),
        }
    }
}

/// Where a frontend may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundEndpoints {
    pub(super) ready: BTreeSet<SocketAddr>,
    /// Those that are being ended and still serve.
    pub(super) last_resort: BTreeSet<SocketAddr>,
    /// Whether there are some that are left out, as another node has them.
    pub(super) is_elsewhere: bool,
    /// Whether there are some that are restarted in place.
    pub(super) is_restarting: bool,
}

/// What a slice says of an endpoint, and the node, which knows more.
fn place_and_use(
    service: &RoutedService,
    slice: &RoutedSlice,
    endpoint: &RoutedEndpoint,
    routing: Option<&PodRouting>,
) -> (IpAddr, EndpointUse) {
    let address = endpoint.address;
    match (routing, endpoint.use_) {
        (None, use_) => (address, use_),
        (Some(PodRouting::Admitted(addresses)), use_) if !slice.follows_pods => {
            let is_there = addresses.contains(&address);
            (address, if is_there { use_ } else { EndpointUse::None })
        }
        (Some(PodRouting::Admitted(addresses)), use_) => {
            let is_of_family = |other: &&IpAddr| other.is_ipv4() == address.is_ipv4();
            let place = match addresses.contains(&address) {
                true => Some(&address),
                false => addresses.iter().find(is_of_family),
            };
            match (place, use_) {
                (None, _) => (address, EndpointUse::None),
                (Some(place), EndpointUse::LastResort) => (*place, EndpointUse::LastResort),
                (Some(place), EndpointUse::Ready | EndpointUse::None) => {
                    (*place, EndpointUse::Ready)
                }
            }
        }
        (Some(PodRouting::Gone), _) => (address, EndpointUse::None),
        (Some(PodRouting::Withdrawn(cause)), use_) => {
            let use_ = match (cause, use_) {
                (_, EndpointUse::None) | (WithdrawalCause::Restarting, _) => EndpointUse::None,
                (WithdrawalCause::Terminating, EndpointUse::Ready | EndpointUse::LastResort) => {
                    EndpointUse::LastResort
                }
                (WithdrawalCause::ContainerDown | WithdrawalCause::Unready, use_) => {
                    match slice.follows_pods && !service.publishes_unready {
                        true => EndpointUse::None,
                        false => use_,
                    }
                }
            };
            (address, use_)
        }
    }
}
