//! What an update of a Service means: values that were allocated stay when it does not mention
//! them, and fields that its new type has no use for go. Source: upstream's Service storage.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service, ServiceSpec};

use super::needs::{
    is_externally_accessible, is_load_balancer, needs_cluster_ip, needs_health_check_port,
    needs_node_ports, node_port, node_ports,
};
use crate::validation::text;

/// Completes a new Service from what it says of its addresses.
pub(super) fn complete_new(spec: &mut ServiceSpec) {
    if spec.cluster_ips.is_none() {
        spec.cluster_ips = spec.cluster_ip.clone().map(|address| vec![address]);
    }
}

/// Completes an update from the Service that it changes.
pub(super) fn complete(new: &mut Service, old: &Service) {
    new.status.clone_from(&old.status);
    let (Some(spec), Some(old)) = (&mut new.spec, &old.spec) else { return };
    keep_allocated(spec, old);
    follow_cluster_ip(spec, old);
    drop_unused(spec, old);
    if !is_load_balancer(spec)
        && let Some(status) = &mut new.status
    {
        status.load_balancer = Some(LoadBalancerStatus::default());
    }
}

/// Keeps what was allocated and is not mentioned: the manifest that made the Service can be sent
/// again.
fn keep_allocated(new: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if new.cluster_ip.is_none() {
            new.cluster_ip.clone_from(&old.cluster_ip);
        }
        if new.cluster_ips.is_none() {
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    if needs_node_ports(old) && needs_node_ports(new) {
        keep_node_ports(new, old);
    }
    if needs_health_check_port(old)
        && needs_health_check_port(new)
        && new.health_check_node_port.is_none()
    {
        new.health_check_node_port = old.health_check_node_port;
    }
}

/// A port keeps its port of the nodes by its name, unless another port asks for that.
fn keep_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let asked: BTreeSet<i32> = node_ports(new).collect();
    let by_name: BTreeMap<&str, i32> = old
        .ports
        .iter()
        .flatten()
        .filter_map(|port| Some((text(port.name.as_ref()), node_port(port)?)))
        .collect();
    for port in new.ports.iter_mut().flatten() {
        let known = by_name.get(text(port.name.as_ref())).filter(|known| !asked.contains(known));
        if port.node_port.is_none() {
            port.node_port = known.copied();
        }
    }
}

/// The list of cluster IPs follows the single one where only that is changed.
fn follow_cluster_ip(new: &mut ServiceSpec, old: &ServiceSpec) {
    if new.cluster_ip != old.cluster_ip && new.cluster_ips == old.cluster_ips {
        new.cluster_ips = new.cluster_ip.clone().map(|address| vec![address]);
    }
}

/// Drops what the new type has no use for and the user has not changed as well.
fn drop_unused(new: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        if (&new.cluster_ip, &new.cluster_ips) == (&old.cluster_ip, &old.cluster_ips) {
            new.cluster_ip = None;
            new.cluster_ips = None;
        }
        drop_same(&mut new.ip_families, old.ip_families.as_ref());
        drop_same(&mut new.ip_family_policy, old.ip_family_policy.as_ref());
        drop_same(&mut new.internal_traffic_policy, old.internal_traffic_policy.as_ref());
    }
    if needs_node_ports(old) && !needs_node_ports(new) {
        let known: BTreeSet<i32> = node_ports(old).collect();
        if node_ports(new).all(|number| known.contains(&number)) {
            for port in new.ports.iter_mut().flatten() {
                port.node_port = None;
            }
        }
    }
    if needs_health_check_port(old) && !needs_health_check_port(new) {
        drop_same(&mut new.health_check_node_port, old.health_check_node_port.as_ref());
    }
    if is_load_balancer(old) && !is_load_balancer(new) {
        let allocates = old.allocate_load_balancer_node_ports.as_ref();
        drop_same(&mut new.allocate_load_balancer_node_ports, allocates);
        drop_same(&mut new.load_balancer_class, old.load_balancer_class.as_ref());
    }
    if is_externally_accessible(old) && !is_externally_accessible(new) {
        drop_same(&mut new.external_traffic_policy, old.external_traffic_policy.as_ref());
    }
}

fn drop_same<T: PartialEq>(new: &mut Option<T>, old: Option<&T>) {
    if new.as_ref() == old {
        *new = None;
    }
}
