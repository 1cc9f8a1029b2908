//! The secondary indexes, each kept up to date object by object. They hold the objects themselves,
//! which are shared: whoever goes through a thousand pods of an owner does not look each of them up
//! by its name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rekindle_types::held::HeldPod;

use super::finished::FinishedPods;
use super::members::{ControllerMembers, ManagedPod};
use super::mentions::ReferenceIndex;
use super::objects::{self, Objects, remove_from};
use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject, owners, pods};

/// Names remembered per owner after their pods are gone.
const RETIRED_NAMES_MAX: usize = 64;

/// Pods by their names.
pub(super) type Pods = BTreeMap<NamespacedName, Arc<HeldPod>>;

/// The indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewIndex {
    by_uid: BTreeMap<String, ViewObject>,
    dependents: BTreeMap<String, Objects>,
    members: ControllerMembers,
    mentions: ReferenceIndex,
    unmanaged: Objects,
    by_node: BTreeMap<String, Pods>,
    unscheduled: Pods,
    /// Those of `unscheduled` whose place depends on other pods.
    looking_around: BTreeSet<NamespacedName>,
    /// Those of `unscheduled` for which room is made or kept, by node.
    nominated: BTreeMap<String, Pods>,
    finished: FinishedPods,
    retired_names: BTreeMap<String, VecDeque<String>>,
}

impl ViewIndex {
    pub(super) fn insert(&mut self, id: &ObjectId, object: &ViewObject) {
        self.by_uid.insert(object.uid().to_owned(), object.clone());
        for reference in owners::references(object.meta()) {
            let dependents = self.dependents.entry(reference.uid.clone()).or_default();
            dependents.insert(id.clone(), object.clone());
        }
        self.mentions.insert(id, object);
        if is_manageable(id.kind) && owners::controller_of(object.meta()).is_none() {
            self.unmanaged.insert(id.clone(), object.clone());
        }
        let ViewObject::Pod(pod) = object else { return };
        self.finished.insert(pod);
        self.members.insert(&id.name, pod);
        let put = |map: &mut BTreeMap<String, Pods>, node: &str| {
            map.entry(node.to_owned()).or_default().insert(id.name.clone(), pod.clone());
        };
        match pods::node(pod) {
            Some(node) => put(&mut self.by_node, node),
            None if pods::is_active(pod) => {
                self.unscheduled.insert(id.name.clone(), pod.clone());
                if pods::looks_at_others(pod) {
                    self.looking_around.insert(id.name.clone());
                }
                if let Some(node) = pods::nominated_node(pod) {
                    put(&mut self.nominated, node);
                }
            }
            None => {}
        }
    }

    pub(super) fn remove(&mut self, id: &ObjectId, object: &ViewObject) {
        if self.by_uid.get(object.uid()).is_some_and(|known| known.is_called(id)) {
            self.by_uid.remove(object.uid());
        }
        for reference in owners::references(object.meta()) {
            remove_from(&mut self.dependents, &reference.uid, id);
        }
        self.mentions.remove(id, object);
        self.unmanaged.remove(id);
        let ViewObject::Pod(pod) = object else { return };
        self.finished.remove(pod);
        self.members.remove(&id.name, pod);
        self.unscheduled.remove(&id.name);
        self.looking_around.remove(&id.name);
        if let Some(node) = pods::node(pod) {
            remove_from(&mut self.by_node, node, &id.name);
        }
        if let Some(node) = pods::nominated_node(pod) {
            remove_from(&mut self.nominated, node, &id.name);
        }
    }

    /// Remembers the name of a pod that is gone, and forgets the names of an owner that is gone.
    pub(super) fn retire_name(&mut self, id: &ObjectId, object: &ViewObject) {
        self.retired_names.remove(object.uid());
        if id.kind != ResourceKind::Pod {
            return;
        }
        let Some(owner) = owners::controller_of(object.meta()) else { return };
        if !self.by_uid.contains_key(&owner.uid) {
            return;
        }
        let names = self.retired_names.entry(owner.uid.clone()).or_default();
        if names.len() == RETIRED_NAMES_MAX {
            names.pop_front();
        }
        names.push_back(id.name.name.clone());
    }

    pub(super) fn is_retired_name(&self, owner_uid: &str, name: &str) -> bool {
        self.retired_names.get(owner_uid).is_some_and(|names| names.iter().any(|n| n == name))
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&ViewObject> {
        self.by_uid.get(uid)
    }

    pub(super) fn dependents(&self, owner_uid: &str) -> impl Iterator<Item = &ViewObject> {
        self.dependents.get(owner_uid).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn dependents_of(
        &self,
        owner_uid: &str,
        kind: ResourceKind,
    ) -> impl Iterator<Item = &ViewObject> {
        let all = self.dependents.get(owner_uid).into_iter();
        all.flat_map(move |all| objects::objects_of_kind(all, kind)).map(|(_, object)| object)
    }

    pub(super) fn members_of(&self, controller_uid: &str) -> impl Iterator<Item = &ManagedPod> {
        self.members.of(controller_uid)
    }

    pub(super) fn naming<'a>(
        &'a self,
        named: &ObjectId,
        kind: ResourceKind,
    ) -> impl Iterator<Item = &'a ViewObject> + use<'a> {
        self.mentions.of(named, kind)
    }

    pub(super) fn unmanaged<'a>(
        &'a self,
        kind: ResourceKind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a ViewObject> {
        objects::in_namespace(&self.unmanaged, kind, namespace)
    }

    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn finished_beyond(&self, kept: usize) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.finished.beyond(kept)
    }

    pub(super) fn nominated_to(&self, node: &str) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.nominated.get(node).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn nominated(
        &self,
    ) -> impl Iterator<Item = (&str, impl Iterator<Item = &Arc<HeldPod>>)> {
        self.nominated.iter().map(|(node, pods)| (node.as_str(), pods.values()))
    }

    pub(super) fn is_any_nominated(&self) -> bool {
        !self.nominated.is_empty()
    }

    pub(super) fn looking_around(&self) -> impl Iterator<Item = &NamespacedName> {
        self.looking_around.iter()
    }

    pub(super) fn unscheduled(&self) -> impl ExactSizeIterator<Item = &Arc<HeldPod>> {
        self.unscheduled.values()
    }
}

/// Kinds that a controller adopts when nobody manages them.
const fn is_manageable(kind: ResourceKind) -> bool {
    matches!(kind, ResourceKind::Pod | ResourceKind::ReplicaSet | ResourceKind::ControllerRevision)
}
