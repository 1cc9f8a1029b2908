//! Which pods each disruption budget and each Service covers, kept up to date object by object: it
//! finds its pods without a look at all the others of its namespace, and a pod those that cover it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::held::HeldPod;
use rekindle_types::labels::Labels;

use super::ClusterView;
use super::index::Pods;
use super::selectors::Selectors;
use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject, disruption, endpoints};

/// The kinds that cover pods by their labels.
const COVERING: [ResourceKind; 2] = [ResourceKind::PodDisruptionBudget, ResourceKind::Service];

/// The pods of each budget and of each Service.
#[derive(Clone, Debug, Default)]
pub(super) struct CoverageIndex {
    /// The pods themselves, which are shared: whoever goes through them does not look each of them
    /// up by its name.
    by_object: BTreeMap<ObjectId, Pods>,
    selectors: Selectors,
}

impl ClusterView {
    /// The pods that a disruption budget covers, by name.
    pub fn covered_by<'a>(
        &'a self,
        budget: &NamespacedName,
    ) -> impl Iterator<Item = &'a Arc<HeldPod>> {
        self.covered.pods(&ObjectId::new(ResourceKind::PodDisruptionBudget, budget.clone()))
    }

    /// The pods that a Service selects, by name.
    pub fn selected_by<'a>(
        &'a self,
        service: &NamespacedName,
    ) -> impl Iterator<Item = &'a Arc<HeldPod>> {
        self.covered.pods(&ObjectId::new(ResourceKind::Service, service.clone()))
    }

    /// The budgets or the Services of a namespace that cover pods with these labels.
    pub(crate) fn covering<'a>(
        &'a self,
        kind: ResourceKind,
        namespace: &'a str,
        labels: Option<&'a Labels>,
    ) -> impl Iterator<Item = &'a ViewObject> {
        let all = self.covered.selectors.that_may_match(kind, namespace, labels);
        all.map(|(_, object)| object).filter(move |object| covers(object, labels))
    }

    /// An object came or changed.
    pub(super) fn note_cover(&mut self, before: Option<&ViewObject>, object: &ViewObject) {
        let id = object.id();
        if let ViewObject::Pod(pod) = object {
            if let Some(ViewObject::Pod(before)) = before
                && before.metadata.labels != pod.metadata.labels
            {
                self.covered.take_out(&id.name, before);
            }
            self.covered.put(id.name, pod);
            return;
        }
        if !COVERING.contains(&id.kind) {
            return;
        }
        if let Some(before) = before {
            self.covered.selectors.remove(&id, before);
        }
        self.covered.selectors.insert(&id, object);
        if before.is_some_and(|before| is_same(before, object)) {
            return;
        }
        let pods = self.in_namespace(ResourceKind::Pod, &id.name.namespace);
        let covered = pods.filter_map(|other| match other {
            ViewObject::Pod(pod) if covers(object, pod.metadata.labels.as_ref()) => {
                Some((other.id().name, pod.clone()))
            }
            _ => None,
        });
        let covered = covered.collect();
        self.covered.by_object.insert(id, covered);
    }

    /// An object went.
    pub(super) fn forget_cover(&mut self, id: &ObjectId, object: &ViewObject) {
        if let ViewObject::Pod(pod) = object {
            self.covered.take_out(&id.name, pod);
        } else if COVERING.contains(&id.kind) {
            self.covered.selectors.remove(id, object);
            self.covered.by_object.remove(id);
        }
    }
}

impl CoverageIndex {
    fn pods<'a>(&'a self, id: &ObjectId) -> impl Iterator<Item = &'a Arc<HeldPod>> + use<'a> {
        self.by_object.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// A pod is covered by whatever selects its labels.
    fn put(&mut self, name: NamespacedName, pod: &Arc<HeldPod>) {
        let Self { by_object, selectors } = self;
        for id in those_that_cover(selectors, &name.namespace, pod) {
            let pods = by_object.entry(id.clone()).or_default();
            match pods.get_mut(&name) {
                Some(known) => *known = pod.clone(),
                None => drop(pods.insert(name.clone(), pod.clone())),
            }
        }
    }

    /// A pod with these labels is not there any more.
    fn take_out(&mut self, name: &NamespacedName, pod: &HeldPod) {
        let Self { by_object, selectors } = self;
        for id in those_that_cover(selectors, &name.namespace, pod) {
            by_object.get_mut(id).map(|pods| pods.remove(name));
        }
    }
}

fn those_that_cover<'a>(
    selectors: &'a Selectors,
    namespace: &'a str,
    pod: &'a HeldPod,
) -> impl Iterator<Item = &'a ObjectId> {
    let labels = pod.metadata.labels.as_ref();
    COVERING
        .into_iter()
        .flat_map(move |kind| selectors.that_may_match(kind, namespace, labels))
        .filter(move |(_, object)| covers(object, labels))
        .map(|(id, _)| id)
}

/// True when the object covers pods with these labels.
fn covers(object: &ViewObject, labels: Option<&Labels>) -> bool {
    match object {
        ViewObject::PodDisruptionBudget(budget) => disruption::selects(budget, labels),
        ViewObject::Service(service) => endpoints::selects(service, labels),
        _ => false,
    }
}

/// True when both cover the same pods, whichever there are.
fn is_same(before: &ViewObject, after: &ViewObject) -> bool {
    match (before, after) {
        (ViewObject::PodDisruptionBudget(before), ViewObject::PodDisruptionBudget(after)) => {
            before.spec.as_ref().map(|spec| &spec.selector)
                == after.spec.as_ref().map(|spec| &spec.selector)
        }
        (ViewObject::Service(before), ViewObject::Service(after)) => {
            before.spec.as_ref().map(|spec| &spec.selector)
                == after.spec.as_ref().map(|spec| &spec.selector)
        }
        _ => false,
    }
}
