//! What a quota demands of a pod: to say how much CPU and memory each of its containers needs,
//! where the quota bounds that.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_types::pods::{AnyContainer, AnyPod, AnySpec};
use rekindle_types::resources;

use crate::amount::QuotaAmount;
use crate::terms::QuotaTerms;

/// What the containers of a pod must say and do not, in upstream's words; none when they say all.
/// A pod that says it as a whole need not say it for each container (KEP-2837).
pub fn unmet_demands(terms: &QuotaTerms, pod: &impl AnyPod) -> Option<String> {
    let spec = pod.spec()?;
    let (requests, limits) = (spec.requests(), spec.limits());
    let mut own = requests.iter().chain(limits.iter());
    if own.any(|(name, _)| resources::is_pod_level(name)) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.containers().iter().chain(spec.init_containers()) {
        let (requests, limits) = (container.requests(), container.limits());
        for (name, amount) in terms.amounts() {
            let is_said = match amount {
                QuotaAmount::Requests(resource @ ("cpu" | "memory")) => requests.names(resource),
                QuotaAmount::Limits(resource @ ("cpu" | "memory")) => limits.names(resource),
                QuotaAmount::Objects(_)
                | QuotaAmount::LivePods
                | QuotaAmount::Requests(_)
                | QuotaAmount::Limits(_)
                | QuotaAmount::NodePorts
                | QuotaAmount::LoadBalancers
                | QuotaAmount::Storage
                | QuotaAmount::ClaimsOfClass(_)
                | QuotaAmount::StorageOfClass(_) => true,
            };
            if !is_said {
                missing.entry(name).or_default().insert(container.name());
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let said = missing.into_iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    Some(format!("must specify {}", said.collect::<Vec<_>>().join("; ")))
}
