//! The quality of service class of a pod, from its requests and limits (upstream `qos.ComputePodQOS`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use rekindle_types::Quantity;

use crate::validation::quantities::{self, ResourceList};

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(spec: &PodSpec) -> &'static str {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut all_limited = true;
    let none = ResourceRequirements::default();
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers: Vec<&ResourceRequirements> =
        containers.map(|container| container.resources.as_ref().unwrap_or(&none)).collect();
    // Resources of the pod as a whole count in place of the containers'.
    let counted = match &spec.resources {
        Some(resources) if resources.limits.is_some() || resources.requests.is_some() => {
            vec![resources]
        }
        Some(_) | None => of_containers,
    };
    for resources in counted {
        add(&mut requests, resources.requests.as_ref());
        let limited = add(&mut limits, resources.limits.as_ref());
        all_limited &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the CPU and the memory of a list to the sums; answers how many of the two it names above zero.
fn add(sums: &mut BTreeMap<&'static str, i64>, list: Option<&ResourceList>) -> usize {
    let mut named = 0;
    for name in ["cpu", "memory"] {
        let amount = list.and_then(|list| list.get(name));
        let amount = amount.and_then(|amount| quantities::read(amount).ok());
        let millis = amount.map_or(0, Quantity::millis);
        if millis > 0 {
            named += 1;
            let sum = sums.entry(name).or_insert(0);
            *sum = sum.saturating_add(millis);
        }
    }
    named
}
