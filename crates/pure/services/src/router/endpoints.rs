//! The endpoints of a Service's port: what slices say of them, and the node, which knows more.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use rekindle_types::{NamespacedName, PodUid};

use super::{PodRouting, ServiceRouter, WithdrawalCause, forget};
use crate::routed::{
    EndpointUse, RoutedEndpoint, RoutedFrontend, RoutedService, RoutedSlice, TrafficPolicy,
};

impl ServiceRouter {
    pub(super) fn endpoints_of(
        &self,
        (key, service): (&NamespacedName, &RoutedService),
        routed: &RoutedFrontend,
    ) -> FoundEndpoints {
        let (mut ready, mut last_resort) = (BTreeSet::new(), BTreeSet::new());
        let (mut is_elsewhere, mut is_restarting) = (false, false);
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
                let address = SocketAddr::new(address, port.number);
                is_restarting |= match routing {
                    Some(PodRouting::Withdrawn(cause)) => cause.is_restart(),
                    Some(PodRouting::Admitted(_) | PodRouting::Gone) | None => false,
                };
                let is_local = routed.policy == TrafficPolicy::Cluster || endpoint.is_on_node;
                match (use_, is_local) {
                    (EndpointUse::None, _) => {}
                    (EndpointUse::Ready | EndpointUse::LastResort, false) => is_elsewhere = true,
                    (EndpointUse::Ready, true) => drop(ready.insert(address)),
                    (EndpointUse::LastResort, true) => drop(last_resort.insert(address)),
                }
            }
        }
        FoundEndpoints { ready, last_resort, is_elsewhere, is_restarting }
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

/// Where a frontend may lead.
pub(super) struct FoundEndpoints {
    pub(super) ready: BTreeSet<SocketAddr>,
    /// Those that are being ended and still serve.
    pub(super) last_resort: BTreeSet<SocketAddr>,
    /// Whether there are some that the traffic policy leaves out, as another node has them.
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
