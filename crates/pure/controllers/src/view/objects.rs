//! Maps of objects by their names, and maps of those.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject};

/// Objects by what they are called: those of a kind stand together, and of them those of a
/// namespace.
pub(super) type Objects = BTreeMap<ObjectId, ViewObject>;

/// Those of a kind.
pub(super) fn objects_of_kind(
    objects: &Objects,
    kind: ResourceKind,
) -> impl Iterator<Item = (&ObjectId, &ViewObject)> {
    let first = ObjectId::new(kind, NamespacedName::default());
    objects.range(first..).take_while(move |(id, _)| id.kind == kind)
}

/// Those of a kind in a namespace.
pub(super) fn in_namespace<'a>(
    objects: &'a Objects,
    kind: ResourceKind,
    namespace: &'a str,
) -> impl Iterator<Item = &'a ViewObject> {
    entries_in_namespace(objects, kind, namespace).map(|(_, object)| object)
}

/// The same with what they are called.
pub(super) fn entries_in_namespace<'a>(
    objects: &'a Objects,
    kind: ResourceKind,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a ObjectId, &'a ViewObject)> {
    let first = ObjectId::new(kind, NamespacedName::new(namespace, ""));
    objects
        .range(first..)
        .take_while(move |(id, _)| id.kind == kind && id.name.namespace == namespace)
}

/// Takes one out of a map of maps, and its map with the last.
pub(super) fn remove_from<O, Q, K, V>(maps: &mut BTreeMap<O, BTreeMap<K, V>>, under: &Q, key: &K)
where
    O: Ord + Borrow<Q>,
    Q: Ord + ?Sized,
    K: Ord,
{
    if let Some(inner) = maps.get_mut(under) {
        inner.remove(key);
        if inner.is_empty() {
            maps.remove(under);
        }
    }
}
