//! Pods whose eviction the API has granted and that were not seen to go yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};

use super::departures::PodLife;
use crate::{ClusterView, NamespacedName, pods};

/// How long a granted eviction may take until the pod is seen as being deleted (upstream's
/// `DeletionTimeout`).
pub(super) const DELETION_TIMEOUT: TickDuration = TickDuration::from_secs(2 * 60);

/// The pods of a budget, by what has become of their evictions.
pub(super) struct BudgetPods<'a> {
    /// Those that are still expected to go, with the time of their eviction.
    pub(super) waiting: BTreeMap<String, Time>,
    /// Those that should have gone by now: they are counted again.
    pub(super) not_deleted: Vec<&'a Arc<HeldPod>>,
    /// Ready, not going, and not expected to go.
    pub(super) healthy: i32,
    /// When the next one is counted again.
    pub(super) again_at: Option<Tick>,
}

impl<'a> BudgetPods<'a> {
    /// Looks at the pods that a budget covers.
    ///
    /// The view may not show yet that an evicted pod was made, or that it was ready: its eviction
    /// is remembered until the view shows that it goes, or two minutes have gone by. Upstream
    /// forgets the eviction of a pod that it does not see.
    pub(super) fn new(
        view: &ClusterView,
        budget: &PodDisruptionBudget,
        covered: &[&'a Arc<HeldPod>],
        now: Tick,
    ) -> Self {
        let evicted = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
        let mut found =
            Self { waiting: BTreeMap::new(), not_deleted: Vec::new(), healthy: 0, again_at: None };
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        for (name, at) in evicted.into_iter().flatten() {
            let due = Tick::from(at) + DELETION_TIMEOUT;
            let name_of_pod = NamespacedName::new(namespace, name);
            let pod = view.pod(&name_of_pod).map(|pod| PodLife::of(pod));
            let pod = pod.or_else(|| view.memories().departures.last(&name_of_pod));
            if due > now && pod.is_none_or(|pod| pod.has_yet_to_go(at.into())) {
                found.waiting.insert(name.clone(), at.clone());
                found.again_at = Some(found.again_at.map_or(due, |next| next.min(due)));
            }
        }
        for &pod in covered.iter().filter(|pod| !pods::is_terminating(pod)) {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            if found.waiting.contains_key(name) {
                continue;
            }
            let at = evicted.and_then(|evicted| evicted.get(name));
            if at.is_some_and(|at| PodLife::of(pod).has_yet_to_go(at.into())) {
                found.not_deleted.push(pod);
            }
            found.healthy += i32::from(pods::is_ready(pod));
        }
        found
    }
}
