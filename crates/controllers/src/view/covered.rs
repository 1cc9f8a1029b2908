//! Which pods each disruption budget covers, kept up to date object by object: a budget finds its pods without a look at all
//! the others of its namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::View;
use crate::{Kind, NamespacedName, Object, ObjectId, disruption};

/// The pods of each budget.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered {
    by_budget: BTreeMap<NamespacedName, BTreeSet<NamespacedName>>,
}

impl View {
    /// The pods that a disruption budget covers, by name.
    pub fn covered_by<'a>(&'a self, budget: &NamespacedName) -> impl Iterator<Item = &'a Arc<Pod>> {
        let names = self.covered.by_budget.get(budget).into_iter().flatten();
        names.filter_map(|name| self.pod(name))
    }

    /// An object came or changed.
    pub(super) fn note_cover(&mut self, before: Option<&Object>, object: &Object) {
        match object {
            Object::Pod(pod) => {
                let labels = pod.metadata.labels.as_ref();
                if matches!(before, Some(Object::Pod(before)) if before.metadata.labels.as_ref() == labels)
                {
                    return;
                }
                let name = object.id().name;
                for (budget, pods) in self.covered.of_namespace(&name.namespace) {
                    let id = ObjectId::new(Kind::PodDisruptionBudget, budget.clone());
                    match self.objects.get(&id) {
                        Some(Object::PodDisruptionBudget(b)) if disruption::selects(b, labels) => {
                            pods.insert(name.clone());
                        }
                        _ => {
                            pods.remove(&name);
                        }
                    }
                }
            }
            Object::PodDisruptionBudget(budget) => {
                let selector = budget.spec.as_ref().map(|spec| &spec.selector);
                if matches!(before, Some(Object::PodDisruptionBudget(before))
                    if before.spec.as_ref().map(|spec| &spec.selector) == selector)
                {
                    return;
                }
                let name = object.id().name;
                let pods = self.in_namespace(Kind::Pod, &name.namespace);
                let covered = pods
                    .filter(|pod| disruption::selects(budget, pod.meta().labels.as_ref()))
                    .map(|pod| pod.id().name)
                    .collect();
                self.covered.by_budget.insert(name, covered);
            }
            _ => {}
        }
    }

    /// An object went.
    pub(super) fn forget_cover(&mut self, id: &ObjectId) {
        match id.kind {
            Kind::Pod => {
                for (_, pods) in self.covered.of_namespace(&id.name.namespace) {
                    pods.remove(&id.name);
                }
            }
            Kind::PodDisruptionBudget => {
                self.covered.by_budget.remove(&id.name);
            }
            _ => {}
        }
    }
}

impl Covered {
    /// The budgets of a namespace with their pods.
    fn of_namespace<'a>(
        &'a mut self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a NamespacedName, &'a mut BTreeSet<NamespacedName>)> {
        self.by_budget
            .range_mut(NamespacedName::new(namespace, "")..)
            .take_while(move |(name, _)| name.namespace == namespace)
    }
}
