//! What Services hold: each number with the count of its holders. Two Services of an older store
//! may hold the same one; it is free again when both are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use rekindle_kinds::service::needs::{
    is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports, node_ports,
};
use rekindle_kinds::validation::items;

/// How many hold each number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HolderCounts<K> {
    counts: BTreeMap<K, u32>,
}

impl<K> Default for HolderCounts<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> HolderCounts<K> {
    pub(super) fn hold(&mut self, key: K) {
        *self.counts.entry(key).or_default() += 1;
    }

    pub(super) fn release(&mut self, key: K) {
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    pub(super) fn is_held(&self, key: K) -> bool {
        self.counts.contains_key(&key)
    }

    pub(super) fn held(&self) -> impl Iterator<Item = K> + '_ {
        self.counts.keys().copied()
    }
}

/// The addresses and ports of the nodes that one Service holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceHoldings {
    pub(super) addresses: BTreeSet<IpAddr>,
    pub(super) ports: BTreeSet<u16>,
}

impl ServiceHoldings {
    /// What a stored Service holds.
    pub(super) fn of_service(service: &Service) -> Self {
        service.spec.as_ref().map(Self::of_spec).unwrap_or_default()
    }

    /// What a Service with this spec holds.
    pub(super) fn of_spec(spec: &ServiceSpec) -> Self {
        let mut holdings = Self::default();
        if needs_cluster_ip(spec) && !is_headless(spec) {
            let list = items(spec.cluster_ips.as_ref()).iter();
            holdings.addresses = list.filter_map(|address| address.parse().ok()).collect();
        }
        let numbers = node_ports(spec).filter(|_| needs_node_ports(spec));
        let health = spec.health_check_node_port.filter(|_| needs_health_check_port(spec));
        holdings.ports =
            numbers.chain(health).filter_map(|number| u16::try_from(number).ok()).collect();
        holdings
    }
}

/// A free number of the first band that has one. The search begins at a
/// place that the seed gives and meets each number once.
pub(super) fn choose_number(
    bands: Vec<RangeInclusive<u128>>,
    seed: u128,
    is_taken: impl Fn(u128) -> bool,
) -> Option<u128> {
    bands.into_iter().find_map(|band| {
        let (first, last) = band.into_inner();
        let size = (last - first).saturating_add(1);
        let start = first + seed % size;
        (start..=last).chain(first..start).find(|number| !is_taken(*number))
    })
}
