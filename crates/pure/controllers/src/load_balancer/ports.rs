//! Ports of the machine that load balancers want. One port of a family of addresses has one owner:
//! the Service that was created first.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::IpFamily;

use super::families;
use crate::owners;

/// The Service that owns a port which this one wants, too, and the port.
pub(super) fn older_rival<'a>(
    service: &Service,
    others: impl Iterator<Item = &'a Arc<Service>>,
) -> Option<(&'a Arc<Service>, String)> {
    let own = age(service);
    let mut older = others.filter(|other| age(other) < own);
    older.find_map(|other| {
        let port = ports(service).intersection(&ports(other)).next().copied()?;
        Some((other, format!("{}/{} ({})", port.number, port.protocol, port.family.name())))
    })
}

/// Whether both want a port.
pub(super) fn share_a_port(one: &Service, other: &Service) -> bool {
    !ports(one).is_disjoint(&ports(other))
}

/// A port of the machine, at its addresses of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BalancerPort<'a> {
    number: i32,
    protocol: &'a str,
    family: IpFamily,
}

/// One that is being deleted wants none.
fn ports(service: &Service) -> BTreeSet<BalancerPort<'_>> {
    if owners::is_terminating(&service.metadata) {
        return BTreeSet::new();
    }
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let of_families = ports.flat_map(|port| {
        let (number, protocol) = (port.port, port.protocol.as_deref().unwrap_or("TCP"));
        families(service).map(move |family| BalancerPort { number, protocol, family })
    });
    of_families.collect()
}

/// Orders Services from the oldest to the youngest.
fn age(service: &Service) -> (Option<&Time>, Option<&str>, Option<&str>) {
    let meta = &service.metadata;
    (meta.creation_timestamp.as_ref(), meta.namespace.as_deref(), meta.name.as_deref())
}
