//! Garbage collection by owner references.
//!
//! Source: the Kubernetes documentation on garbage collection and upstream's collector. An object
//! whose owners are all gone is deleted; an owner is known by its UID, and its absence is checked
//! at the server before anything is deleted because of it. Only the deletion of an object of a
//! user's kind that a watch showed is not checked: its definition may be gone. An object deleted in
//! the foreground waits (finalizer `foregroundDeletion`) until its dependents with
//! `blockOwnerDeletion` are gone; one deleted with orphaning (finalizer `orphan`) first lets its
//! dependents go. Owners of a kind that this view does not hold are left to other controllers:
//! their dependents are never touched. Nor is an object without a namespace for the sake of an
//! owner that would have one: nothing says where to look for that.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_types::{EventSeverity, ResourceScope};
use serde_json::json;

use crate::events::EventNote;
use crate::kind::ViewDetail;
use crate::patches::{references_patch, without_finalizer};
use crate::plan::{DeleteGrace, DeleteWrite, DependentPolicy, PlannedWrite, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ViewObject, WritePlan,
    owners,
};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const COMPONENT: &str = "garbage-collector-controller";

/// The objects that a change may turn into garbage, or may let go.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let latest = change.latest();
    let was = change.before.as_ref().map(CollectableObject::from_object);
    let is = change.after.as_ref().map(CollectableObject::from_object);
    if was == is {
        return;
    }
    if let Some(is) = &is {
        if !is.references.is_empty() || is.finalizers.waits_for_collector() {
            keys.insert(ControllerKey::Garbage(change.id.clone()));
        }
        if is.finalizers == Finalizers::Foreground {
            keys.extend(
                view.dependents(latest.uid()).map(|object| ControllerKey::Garbage(object.id())),
            );
        }
    } else {
        keys.extend(
            view.dependents(latest.uid()).map(|object| ControllerKey::Garbage(object.id())),
        );
    }
    // An owner that waits for its dependents may be free now.
    for reference in change.before.iter().flat_map(|before| owners::references(before.meta())) {
        if let Some(owner) = view.by_uid(&reference.uid)
            && finalizers(owner).waits_for_collector()
        {
            keys.insert(ControllerKey::Garbage(owner.id()));
        }
    }
}

/// The part of an object that the collector looks at.
#[derive(PartialEq)]
struct CollectableObject<'a> {
    uid: &'a str,
    references: &'a [OwnerReference],
    finalizers: Finalizers,
    is_terminating: bool,
}

impl<'a> CollectableObject<'a> {
    fn from_object(object: &'a ViewObject) -> Self {
        Self {
            uid: object.uid(),
            references: owners::references(object.meta()),
            finalizers: finalizers(object),
            is_terminating: owners::is_terminating(object.meta()),
        }
    }
}

/// What a deletion of the object waits for, as far as the collector is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finalizers {
    /// Nothing of ours, or it is not being deleted.
    None,
    /// Its dependents must be let go.
    Orphan,
    /// Its dependents must be gone.
    Foreground,
}

impl Finalizers {
    const fn waits_for_collector(self) -> bool {
        match self {
            Finalizers::None => false,
            Finalizers::Orphan | Finalizers::Foreground => true,
        }
    }
}

fn finalizers(object: &ViewObject) -> Finalizers {
    let meta = object.meta();
    if !owners::is_terminating(meta) {
        Finalizers::None
    } else if owners::has_finalizer(meta, ORPHAN) {
        Finalizers::Orphan
    } else if owners::has_finalizer(meta, FOREGROUND) {
        Finalizers::Foreground
    } else {
        Finalizers::None
    }
}

/// Whether what is to be done about an object depends on objects of kinds that are not listed yet.
/// One that waits for its dependents, or for letting them go, may have some of any kind. So may one
/// with an owner that waits: it is deleted in the foreground if it has dependents itself. All
/// others depend on their owners.
pub(crate) fn depends_on_unlisted(view: &ClusterView, id: &ObjectId) -> bool {
    let Some(object) = view.get(id).filter(|_| view.is_any_unlisted()) else { return false };
    finalizers(object).waits_for_collector()
        || owners::references(object.meta()).iter().any(|reference| {
            if view.by_uid(&reference.uid).is_some_and(|o| finalizers(o) == Finalizers::Foreground)
            {
                return true;
            }
            let kind = view.kind_of_reference(&reference.api_version, &reference.kind);
            kind.is_some_and(|kind| view.is_unlisted(kind))
        })
}

/// What is to be done about an object that may be garbage.
pub(crate) fn reconcile(view: &ClusterView, id: &ObjectId) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(object) = view.get(id) else { return plan };
    match finalizers(object) {
        Finalizers::Orphan => orphan_dependents(view, object, &mut plan),
        Finalizers::Foreground => await_dependents(view, object, &mut plan),
        Finalizers::None if owners::is_terminating(object.meta()) => {}
        Finalizers::None => collect(view, object, &mut plan),
    }
    plan
}

/// Lets the dependents go, then the object.
fn orphan_dependents(view: &ClusterView, owner: &ViewObject, plan: &mut WritePlan) {
    let dependents = view.dependents(owner.uid());
    let releases = dependents.map(|object| PlannedWrite::from(without_owner(object, owner.uid())));
    plan.then_all(releases.collect());
    plan.then(without_finalizer(owner, ORPHAN));
}

/// Lets the object go once no dependent is left that blocks it. The dependents are deleted one by
/// one, each for itself (`collect`). Objects that wait for each other in a circle would do so for
/// ever: each that sees it stops blocking its own owners.
fn await_dependents(view: &ClusterView, owner: &ViewObject, plan: &mut WritePlan) {
    let blocks = |object: &ViewObject| {
        object.uid() != owner.uid()
            && owners::references(object.meta()).iter().any(|r| blocks(view, r, object, owner))
    };
    if !view.dependents(owner.uid()).any(blocks) {
        plan.then(without_finalizer(owner, FOREGROUND));
    } else if waits_for_itself(view, owner) {
        plan.then(unblocked(owner));
    }
}

/// True when an owner that waits for the object waits, by way of its own owners, for itself. Looked
/// for upwards: an object has few owners.
fn waits_for_itself(view: &ClusterView, object: &ViewObject) -> bool {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![object];
    while let Some(next) = ahead.pop() {
        for owner in waiting_owners(view, next) {
            if owner.uid() == object.uid() && next.uid() != object.uid() {
                return true;
            }
            if seen.insert(owner.uid()) {
                ahead.push(owner);
            }
        }
    }
    false
}

/// The owners that cannot go before the object.
fn waiting_owners<'a>(
    view: &'a ClusterView,
    object: &'a ViewObject,
) -> impl Iterator<Item = &'a ViewObject> {
    owners::references(object.meta()).iter().filter_map(|reference| {
        view.by_uid(&reference.uid).filter(|owner| {
            finalizers(owner) == Finalizers::Foreground && blocks(view, reference, object, owner)
        })
    })
}

/// The object with references for which no owner waits.
fn unblocked(object: &ViewObject) -> WriteOperation {
    let references: Vec<_> = owners::references(object.meta())
        .iter()
        .map(|reference| OwnerReference { block_owner_deletion: Some(false), ..reference.clone() })
        .collect();
    references_patch(object, json!(references))
}

/// True for a reference by which the deletion of this owner waits for the object. One that looks
/// for the owner where it is not does not: it never finds out that the owner waits.
fn blocks(
    view: &ClusterView,
    reference: &OwnerReference,
    object: &ViewObject,
    owner: &ViewObject,
) -> bool {
    reference.uid == owner.uid()
        && reference.block_owner_deletion == Some(true)
        && owner_id(view, object, reference) == OwnerLookup::Known(owner.id())
}

/// Where the owner of a reference is to be found.
#[derive(PartialEq)]
enum OwnerLookup {
    /// Under this name.
    Known(ObjectId),
    /// Its kind lives in namespaces, and the object in none.
    Nowhere,
    /// Its kind is not held: others look after it.
    Elsewhere,
}

fn owner_id(view: &ClusterView, object: &ViewObject, reference: &OwnerReference) -> OwnerLookup {
    let kind = view.kind_of_reference(&reference.api_version, &reference.kind);
    let Some(kind) = kind.filter(|kind| kind.info().held != ViewDetail::Nothing) else {
        return OwnerLookup::Elsewhere;
    };
    let namespace = match (kind.info().scope, namespace_of(object)) {
        (ResourceScope::Cluster, _) => "",
        (ResourceScope::Namespaced, "") => return OwnerLookup::Nowhere,
        (ResourceScope::Namespaced, namespace) => namespace,
    };
    OwnerLookup::Known(ObjectId::new(kind, NamespacedName::new(namespace, reference.name.as_str())))
}

/// The object's namespace; empty for one that has none.
fn namespace_of(object: &ViewObject) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

/// What an owner reference is worth.
enum OwnerState {
    /// The owner lives, or we cannot know.
    Solid,
    /// The owner can be nowhere. The object is kept, and an event says why.
    Misplaced,
    /// The owner is being deleted in the foreground: its dependents go before it.
    Waiting,
    /// The view has no such owner: to be checked at the server.
    Absent(ObjectId),
    /// A watch showed that the owner, of a user's kind, was deleted. Its definition may have gone
    /// with it, and then the server cannot be asked.
    Deleted,
}

fn standing(view: &ClusterView, object: &ViewObject, reference: &OwnerReference) -> OwnerState {
    let deleted =
        || view.seen_deleted(&reference.uid).filter(|_| view.by_uid(&reference.uid).is_none());
    let id = match owner_id(view, object, reference) {
        OwnerLookup::Nowhere => return OwnerState::Misplaced,
        OwnerLookup::Known(id) => id,
        OwnerLookup::Elsewhere if deleted().is_some_and(|id| names(reference, object, id)) => {
            return OwnerState::Deleted;
        }
        OwnerLookup::Elsewhere => return OwnerState::Solid,
    };
    match view.get(&id).filter(|owner| owner.uid() == reference.uid) {
        None if deleted() == Some(&id) => OwnerState::Deleted,
        None => OwnerState::Absent(id),
        Some(owner) if finalizers(owner) == Finalizers::Foreground => OwnerState::Waiting,
        Some(_) => OwnerState::Solid,
    }
}

/// True when a reference of the object leads to this owner. As upstream, an owner that is gone with
/// its definition is not missed by a reference that leads elsewhere: the object is kept.
fn names(reference: &OwnerReference, object: &ViewObject, owner: &ObjectId) -> bool {
    let info = owner.kind.info();
    let namespace = match info.scope {
        ResourceScope::Cluster => "",
        ResourceScope::Namespaced => namespace_of(object),
    };
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    (info.group, info.kind) == (group, reference.kind.as_str())
        && owner.name == NamespacedName::new(namespace, reference.name.as_str())
}

/// True when the owner is there, in another namespace than the object: the reference will never
/// find it.
fn is_of_other_namespace(
    view: &ClusterView,
    object: &ViewObject,
    reference: &OwnerReference,
) -> bool {
    view.by_uid(&reference.uid).is_some_and(|owner| {
        !namespace_of(owner).is_empty() && namespace_of(owner) != namespace_of(object)
    })
}

/// Says that an owner reference cannot be followed, in upstream's words.
fn invalid_namespace(object: &ViewObject, reference: &OwnerReference) -> EventNote {
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    let namespace = namespace_of(object);
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace \
         {namespace:?}"
    );
    EventNote::new(object, EventSeverity::Warning, "OwnerRefInvalidNamespace", message, COMPONENT)
}

/// Deletes the object if none of its owners is left; drops the references to those that are gone if
/// one is.
fn collect(view: &ClusterView, object: &ViewObject, plan: &mut WritePlan) {
    let references = owners::references(object.meta());
    let (mut solid, mut waiting, mut checks) = (Vec::new(), 0, Vec::new());
    let mut is_any_deleted = false;
    for reference in references {
        match standing(view, object, reference) {
            OwnerState::Solid => solid.push(reference),
            OwnerState::Misplaced => {
                plan.notes.push(invalid_namespace(object, reference));
                solid.push(reference);
            }
            OwnerState::Waiting => waiting += 1,
            OwnerState::Deleted => is_any_deleted = true,
            OwnerState::Absent(id) => {
                if is_of_other_namespace(view, object, reference) {
                    plan.notes.push(invalid_namespace(object, reference));
                }
                checks.push(PlannedWrite::from(WriteOperation::CheckAbsent {
                    id,
                    uid: Some(reference.uid.clone()),
                }))
            }
        }
    }
    if references.is_empty() || (checks.is_empty() && waiting == 0 && !is_any_deleted) {
        return;
    }
    plan.then_all(checks);
    if !solid.is_empty() {
        plan.then(references_patch(object, json!(solid)));
    } else if waiting > 0 && view.dependents(object.uid()).next().is_some() {
        plan.then(deletion(object, DependentPolicy::Foreground));
    } else {
        plan.then(deletion(object, wanted_propagation(object)));
    }
}

/// Finalizers that are on the object already say how its own deletion shall go.
fn wanted_propagation(object: &ViewObject) -> DependentPolicy {
    if owners::has_finalizer(object.meta(), ORPHAN) {
        DependentPolicy::Orphan
    } else if owners::has_finalizer(object.meta(), FOREGROUND) {
        DependentPolicy::Foreground
    } else {
        DependentPolicy::Background
    }
}

fn deletion(object: &ViewObject, propagation: DependentPolicy) -> WriteOperation {
    WriteOperation::Delete(DeleteWrite {
        id: object.id(),
        uid: object.uid().to_owned(),
        propagation,
        grace: DeleteGrace::Own,
    })
}

fn without_owner(object: &ViewObject, owner_uid: &str) -> WriteOperation {
    let left: Vec<_> =
        owners::references(object.meta()).iter().filter(|r| r.uid != owner_uid).collect();
    references_patch(object, json!(left))
}
