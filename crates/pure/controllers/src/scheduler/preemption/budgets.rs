//! For which pods a disruption budget would be broken if all of them ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::held::Pod;

use crate::{Kind, NamespacedName, Object, View};

/// Pods whose end breaks a budget, and those whose end does not, each in the order in which they
/// came.
pub(super) struct Split<'a> {
    pub(super) breaking: Vec<&'a Arc<Pod>>,
    pub(super) allowed: Vec<&'a Arc<Pod>>,
}

/// Takes from the budgets pod by pod. One whose eviction was granted already takes nothing more.
pub(super) fn split<'a>(view: &View, pods: Vec<&'a Arc<Pod>>) -> Split<'a> {
    let mut left: BTreeMap<NamespacedName, i32> = BTreeMap::new();
    let mut split = Split { breaking: Vec::new(), allowed: Vec::new() };
    for pod in pods {
        let name = NamespacedName::of(&pod.metadata);
        let mut is_broken = false;
        let labels = pod.metadata.labels.as_ref();
        for object in view.covering(Kind::PodDisruptionBudget, &name.namespace, labels) {
            let Object::PodDisruptionBudget(budget) = object else { continue };
            let status = budget.status.as_ref();
            let is_granted = status
                .and_then(|status| status.disrupted_pods.as_ref())
                .is_some_and(|granted| granted.contains_key(&name.name));
            if is_granted {
                continue;
            }
            let allowed = status.and_then(|status| status.disruptions_allowed).unwrap_or_default();
            let left = left.entry(NamespacedName::of(&budget.metadata)).or_insert(allowed);
            *left -= 1;
            is_broken |= *left < 0;
        }
        if is_broken { split.breaking.push(pod) } else { split.allowed.push(pod) }
    }
    split
}

/// The first of these pods whose end, after those before it, breaks a budget.
pub(crate) fn breaking_a_budget<'a>(view: &View, pods: Vec<&'a Arc<Pod>>) -> Option<&'a Arc<Pod>> {
    split(view, pods).breaking.into_iter().next()
}
