//! The secondary indexes, each kept up to date object by object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{Kind, NamespacedName, Object, ObjectId, owners, pods};

/// Names remembered per owner after their pods are gone.
const RETIRED_NAMES_MAX: usize = 64;

/// The indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_uid: BTreeMap<String, ObjectId>,
    dependents: BTreeMap<String, BTreeSet<ObjectId>>,
    unmanaged: BTreeSet<ObjectId>,
    by_node: BTreeMap<String, BTreeSet<ObjectId>>,
    unscheduled: BTreeSet<ObjectId>,
    /// Those of `unscheduled` whose place depends on other pods.
    looking_around: BTreeSet<ObjectId>,
    /// Those of `unscheduled` for which room is made, by node.
    nominated: BTreeMap<String, BTreeSet<ObjectId>>,
    retired_names: BTreeMap<String, VecDeque<String>>,
}

impl Index {
    pub(super) fn insert(&mut self, id: &ObjectId, object: &Object) {
        self.by_uid.insert(object.uid().to_owned(), id.clone());
        for reference in owners::references(object.meta()) {
            self.dependents.entry(reference.uid.clone()).or_default().insert(id.clone());
        }
        if is_manageable(id.kind) && owners::controller_of(object.meta()).is_none() {
            self.unmanaged.insert(id.clone());
        }
        if let Object::Pod(pod) = object {
            match pods::node(pod) {
                Some(node) => {
                    self.by_node.entry(node.to_owned()).or_default().insert(id.clone());
                }
                None if pods::is_active(pod) => {
                    self.unscheduled.insert(id.clone());
                    if pods::looks_at_others(pod) {
                        self.looking_around.insert(id.clone());
                    }
                    if let Some(node) = pods::nominated_node(pod) {
                        self.nominated.entry(node.to_owned()).or_default().insert(id.clone());
                    }
                }
                None => {}
            }
        }
    }

    pub(super) fn remove(&mut self, id: &ObjectId, object: &Object) {
        if self.by_uid.get(object.uid()) == Some(id) {
            self.by_uid.remove(object.uid());
        }
        for reference in owners::references(object.meta()) {
            remove_from(&mut self.dependents, &reference.uid, id);
        }
        self.unmanaged.remove(id);
        self.unscheduled.remove(id);
        self.looking_around.remove(id);
        if let Object::Pod(pod) = object
            && let Some(node) = pods::node(pod)
        {
            remove_from(&mut self.by_node, node, id);
        }
        if let Object::Pod(pod) = object
            && let Some(node) = pods::nominated_node(pod)
        {
            remove_from(&mut self.nominated, node, id);
        }
    }

    /// Remembers the name of a pod that is gone, and forgets the names of an owner that is gone.
    pub(super) fn retire_name(&mut self, id: &ObjectId, object: &Object) {
        self.retired_names.remove(object.uid());
        if id.kind != Kind::Pod {
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

    pub(super) fn by_uid(&self, uid: &str) -> Option<&ObjectId> {
        self.by_uid.get(uid)
    }

    pub(super) fn dependents(&self, owner_uid: &str) -> impl Iterator<Item = &ObjectId> {
        self.dependents.get(owner_uid).into_iter().flatten()
    }

    pub(super) fn unmanaged<'a>(
        &'a self,
        kind: Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a ObjectId> {
        let first = ObjectId::new(kind, NamespacedName::new(namespace, ""));
        self.unmanaged
            .range(first..)
            .take_while(move |id| id.kind == kind && id.name.namespace == namespace)
    }

    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = &ObjectId> {
        self.by_node.get(node).into_iter().flatten()
    }

    pub(super) fn nominated_to(&self, node: &str) -> impl Iterator<Item = &ObjectId> {
        self.nominated.get(node).into_iter().flatten()
    }

    pub(super) fn looking_around(&self) -> impl Iterator<Item = &ObjectId> {
        self.looking_around.iter()
    }

    pub(super) fn unscheduled(&self) -> impl ExactSizeIterator<Item = &ObjectId> {
        self.unscheduled.iter()
    }
}

/// Kinds that a controller adopts when nobody manages them.
const fn is_manageable(kind: Kind) -> bool {
    matches!(kind, Kind::Pod | Kind::ReplicaSet | Kind::ControllerRevision)
}

fn remove_from(map: &mut BTreeMap<String, BTreeSet<ObjectId>>, key: &str, id: &ObjectId) {
    if let Some(set) = map.get_mut(key) {
        set.remove(id);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
