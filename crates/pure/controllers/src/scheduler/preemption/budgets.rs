//! For which pods a disruption budget would be broken if all of them ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::held::HeldPod;

use crate::{ClusterView, NamespacedName, ResourceKind, ViewObject};

/// Pods whose end breaks a budget, and those whose end does not, each in the order in which they
/// came.
pub(super) struct BudgetSplit<'a> {
    pub(super) breaking: Vec<&'a Arc<HeldPod>>,
    pub(super) allowed: Vec<&'a Arc<HeldPod>>,
}

/// Takes from the budgets pod by pod. One whose eviction was granted already takes nothing more.
pub(super) fn split<'a>(view: &ClusterView, pods: Vec<&'a Arc<HeldPod>>) -> BudgetSplit<'a> {
    let mut left: BTreeMap<NamespacedName, i32> = BTreeMap::new();
    let mut split = BudgetSplit { breaking: Vec::new(), allowed: Vec::new() };
    for pod in pods {
        let name = NamespacedName::from_meta(&pod.metadata);
        let mut is_broken = false;
        let labels = pod.metadata.labels.as_ref();
        for object in view.covering(ResourceKind::PodDisruptionBudget, &name.namespace, labels) {
            let ViewObject::PodDisruptionBudget(budget) = object else { continue };
            let status = budget.status.as_ref();
            let is_granted = status
                .and_then(|status| status.disrupted_pods.as_ref())
                .is_some_and(|granted| granted.contains_key(&name.name));
            if is_granted {
                continue;
            }
            let allowed = status.and_then(|status| status.disruptions_allowed).unwrap_or_default();
            let left = left.entry(NamespacedName::from_meta(&budget.metadata)).or_insert(allowed);
            *left -= 1;
            is_broken |= *left < 0;
        }
        if is_broken { split.breaking.push(pod) } else { split.allowed.push(pod) }
    }
    split
}

/// The first of these pods whose end, after those before it, breaks a budget.
pub(crate) fn breaking_a_budget<'a>(
    view: &ClusterView,
    pods: Vec<&'a Arc<HeldPod>>,
) -> Option<&'a Arc<HeldPod>> {
    split(view, pods).breaking.into_iter().next()
}
