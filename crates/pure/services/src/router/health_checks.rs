//! What load balancers outside ask each node (`spec.healthCheckNodePort`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use rekindle_types::NamespacedName;

use super::{ServiceIdentity, ServiceRouter};
use crate::frontend::{Frontend, TransportProtocol};
use crate::routed::{RoutedFrontend, RoutedService, TrafficPolicy};

/// What a load balancer outside is to hear of a Service on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Where it asks: a port at all addresses of one family.
    pub at: Frontend,
    /// For which Service.
    pub service: ServiceIdentity,
    /// How many ready endpoints this node has.
    pub local_endpoints: usize,
}

impl ServiceRouter {
    /// The health check ports in each family of their Service, and what is to be said there.
    pub fn health_checks(&self) -> impl Iterator<Item = HealthCheck> + '_ {
        self.checked.iter().flat_map(move |key| {
            let checked = self.services.get(key).and_then(|it| Some((it, it.health_port?)));
            checked.into_iter().flat_map(move |(service, port)| {
                let name = ServiceIdentity { name: key.clone(), uid: service.uid.clone() };
                let local_endpoints = self.local_endpoints(key, service);
                service.families.iter().map(move |family| {
                    let (address, protocol) = (family.unspecified(), TransportProtocol::Tcp);
                    let at = Frontend { address, protocol, port };
                    HealthCheck { at, service: name.clone(), local_endpoints }
                })
            })
        })
    }

    fn local_endpoints(&self, key: &NamespacedName, service: &RoutedService) -> usize {
        let is_local = |routed: &&RoutedFrontend| routed.policy == TrafficPolicy::Local;
        let frontends = service.frontends.iter().filter(is_local);
        let local = |routed| self.endpoints_of((key, service), routed).for_all().ready;
        let addresses: BTreeSet<IpAddr> =
            frontends.flat_map(local).map(|endpoint| endpoint.ip()).collect();
        // a pod has one of each family at most
        let of_ipv4 = addresses.iter().filter(|address| address.is_ipv4()).count();
        of_ipv4.max(addresses.len() - of_ipv4)
    }
}
