//! What load balancers outside ask each node (`spec.healthCheckNodePort`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{ServiceIdentity, ServiceRouter};
use crate::routed::{RoutedFrontend, TrafficPolicy};

/// What a load balancer outside is to hear of a Service on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Where it asks.
    pub port: u16,
    /// For which Service.
    pub service: ServiceIdentity,
    /// How many ready endpoints this node has.
    pub local_endpoints: usize,
}

impl ServiceRouter {
    /// The health check ports, and what is to be said there.
    pub fn health_checks(&self) -> impl Iterator<Item = HealthCheck> + '_ {
        self.checked.iter().filter_map(|key| {
            let service = self.services.get(key)?;
            let is_local = |routed: &&RoutedFrontend| routed.policy == TrafficPolicy::Local;
            let frontends = service.frontends.iter().filter(is_local);
            let local = |routed| self.endpoints_of((key, service), routed).ready;
            let addresses: BTreeSet<IpAddr> =
                frontends.flat_map(local).map(|endpoint| endpoint.ip()).collect();
            // a pod has one of each family at most
            let of_ipv4 = addresses.iter().filter(|address| address.is_ipv4()).count();
            let identity = ServiceIdentity { name: key.clone(), uid: service.uid.clone() };
            let local_endpoints = of_ipv4.max(addresses.len() - of_ipv4);
            let port = service.health_port?;
            Some(HealthCheck { port, service: identity, local_endpoints })
        })
    }
}
