//! Which pods each disruption budget and each Service covers, kept up to date object by object: it finds its pods without a look at
//! all the others of its namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::labels::Labels;

use super::View;
use crate::{Kind, NamespacedName, Object, ObjectId, disruption, endpoints};

/// The kinds that cover pods by their labels.
const COVERING: [Kind; 2] = [Kind::PodDisruptionBudget, Kind::Service];

/// The pods of each budget and of each Service.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered {
    by_object: BTreeMap<ObjectId, BTreeSet<NamespacedName>>,
}

impl View {
    /// The pods that a disruption budget covers, by name.
    pub fn covered_by<'a>(&'a self, budget: &NamespacedName) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods_covered_by(&ObjectId::new(Kind::PodDisruptionBudget, budget.clone()))
    }

    /// The pods that a Service selects, by name.
    pub fn selected_by<'a>(
        &'a self,
        service: &NamespacedName,
    ) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods_covered_by(&ObjectId::new(Kind::Service, service.clone()))
    }

    fn pods_covered_by<'a>(
        &'a self,
        id: &ObjectId,
    ) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let names = self.covered.by_object.get(id).into_iter().flatten();
        names.filter_map(|name| self.pod(name))
    }

    /// An object came or changed.
    pub(super) fn note_cover(&mut self, before: Option<&Object>, object: &Object) {
        if let Object::Pod(pod) = object {
            let labels = pod.metadata.labels.as_ref();
            if matches!(before, Some(Object::Pod(before)) if before.metadata.labels.as_ref() == labels)
            {
                return;
            }
            let name = object.id().name;
            for kind in COVERING {
                for (id, pods) in self.covered.of_namespace(kind, &name.namespace) {
                    if self.objects.get(id).is_some_and(|object| covers(object, labels)) {
                        pods.insert(name.clone());
                    } else {
                        pods.remove(&name);
                    }
                }
            }
            return;
        }
        let id = object.id();
        if !COVERING.contains(&id.kind) || before.is_some_and(|before| is_same(before, object)) {
            return;
        }
        let pods = self.in_namespace(Kind::Pod, &id.name.namespace);
        let covered = pods
            .filter(|pod| covers(object, pod.meta().labels.as_ref()))
            .map(|pod| pod.id().name)
            .collect();
        self.covered.by_object.insert(id, covered);
    }

    /// An object went.
    pub(super) fn forget_cover(&mut self, id: &ObjectId) {
        if id.kind == Kind::Pod {
            for kind in COVERING {
                for (_, pods) in self.covered.of_namespace(kind, &id.name.namespace) {
                    pods.remove(&id.name);
                }
            }
        } else if COVERING.contains(&id.kind) {
            self.covered.by_object.remove(id);
        }
    }
}

/// True when the object covers pods with these labels.
fn covers(object: &Object, labels: Option<&Labels>) -> bool {
    match object {
        Object::PodDisruptionBudget(budget) => disruption::selects(budget, labels),
        Object::Service(service) => endpoints::selects(service, labels),
        _ => false,
    }
}

/// True when both cover the same pods, whichever there are.
fn is_same(before: &Object, after: &Object) -> bool {
    match (before, after) {
        (Object::PodDisruptionBudget(before), Object::PodDisruptionBudget(after)) => {
            before.spec.as_ref().map(|spec| &spec.selector)
                == after.spec.as_ref().map(|spec| &spec.selector)
        }
        (Object::Service(before), Object::Service(after)) => {
            before.spec.as_ref().map(|spec| &spec.selector)
                == after.spec.as_ref().map(|spec| &spec.selector)
        }
        _ => false,
    }
}

impl Covered {
    /// The objects of a kind in a namespace with their pods.
    fn of_namespace<'a>(
        &'a mut self,
        kind: Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectId, &'a mut BTreeSet<NamespacedName>)> {
        self.by_object
            .range_mut(ObjectId::new(kind, NamespacedName::new(namespace, ""))..)
            .take_while(move |(id, _)| id.kind == kind && id.name.namespace == namespace)
    }
}
