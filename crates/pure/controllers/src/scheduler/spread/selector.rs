//! Which pods a constraint counts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::held::HeldPod;
use rekindle_types::labels::{self, Labels};

use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, owners};

/// Labels that a pod must have, and a selector that must match.
#[derive(Default)]
pub(super) struct Selector<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    more: Option<&'a LabelSelector>,
}

impl<'a> Selector<'a> {
    /// That of a constraint. One without a selector counts no pods (API reference).
    pub(super) fn from_constraint(constraint: &'a TopologySpreadConstraint) -> Option<Self> {
        let more = Some(constraint.label_selector.as_ref()?);
        Some(Self { labels: BTreeMap::new(), more })
    }

    /// The pods like this one, where it has no constraints of its own: those that its controller
    /// selects, and all of its Services [kube-scheduler, `DefaultSelector`]. None for a pod that
    /// neither knows.
    pub(super) fn by_default(view: &'a ClusterView, pod: &'a HeldPod) -> Option<Self> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut selector = Self::default();
        for object in view.covering(ResourceKind::Service, namespace, pod.metadata.labels.as_ref())
        {
            if let ViewObject::Service(service) = object {
                let labels = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                selector.require(labels.into_iter().flatten());
            }
        }
        match controller(view, pod, namespace) {
            Some(ViewObject::ReplicationController(controller)) => {
                let labels = controller.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                selector.require(labels.into_iter().flatten());
            }
            Some(ViewObject::ReplicaSet(set)) => selector.more = Some(&set.spec.selector),
            Some(ViewObject::StatefulSet(set)) => selector.more = Some(&set.spec.selector),
            Some(_) | None => {}
        }
        let is_empty = selector.labels.is_empty() && selector.more.is_none_or(labels::is_empty);
        (!is_empty).then_some(selector)
    }

    fn require(&mut self, labels: impl Iterator<Item = (&'a String, &'a String)>) {
        self.labels.extend(labels.map(|(key, value)| (key.as_str(), value.as_str())));
    }

    /// True when it means pods with these labels.
    pub(super) fn matches(&self, labels: Option<&Labels>) -> bool {
        let has = |(key, value): (&&str, &&str)| {
            labels.and_then(|labels| labels.get(*key)).is_some_and(|found| found == value)
        };
        self.labels.iter().all(has)
            && self.more.is_none_or(|selector| labels::matches(selector, labels))
    }

    /// The labels without which it means no pod.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let more = self.more.and_then(|selector| selector.match_labels.as_ref());
        let more = more.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        self.labels.iter().map(|(key, value)| (*key, *value)).chain(more)
    }
}

/// The object that the pod names as its controller, as upstream finds it: by its name.
fn controller<'a>(view: &'a ClusterView, pod: &HeldPod, namespace: &str) -> Option<&'a ViewObject> {
    let owner = owners::controller_of(&pod.metadata)?;
    let kinds =
        [ResourceKind::ReplicaSet, ResourceKind::StatefulSet, ResourceKind::ReplicationController];
    let is_named = |kind: &ResourceKind| {
        kind.info().kind == owner.kind && kind.api_version() == owner.api_version
    };
    let kind = kinds.into_iter().find(is_named)?;
    view.get(&ObjectId::new(kind, NamespacedName::new(namespace, owner.name.as_str())))
}
