//! Garbage collection by owner references.
//!
//! Source: the Kubernetes documentation on garbage collection and upstream's collector. An object whose owners are all gone
//! is deleted; an owner is known by its UID, and its absence is checked at the server before anything is deleted because
//! of it. An object deleted in the foreground waits (finalizer `foregroundDeletion`) until its dependents with
//! `blockOwnerDeletion` are gone; one deleted with orphaning (finalizer `orphan`) first lets its dependents go. Owners of a
//! kind that this view does not hold are left to whoever knows them: their dependents are never touched.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use crate::kind::{Held, Scope};
use crate::plan::{Delete, Grace, Part, Propagation, Step, Write};
use crate::{Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View, owners};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The objects that a change may turn into garbage, or may let go.
pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    let latest = change.latest();
    let was = change.before.as_ref().map(Concern::of);
    let is = change.after.as_ref().map(Concern::of);
    if was == is {
        return;
    }
    if let Some(is) = &is {
        if !is.references.is_empty() || is.finalizers.waits_for_collector() {
            keys.insert(Key::Garbage(change.id.clone()));
        }
        if is.finalizers == Finalizers::Foreground {
            keys.extend(view.dependents(latest.uid()).map(|object| Key::Garbage(object.id())));
        }
    } else {
        keys.extend(view.dependents(latest.uid()).map(|object| Key::Garbage(object.id())));
    }
    // An owner that waits for its dependents may be free now.
    for reference in change.before.iter().flat_map(|before| owners::references(before.meta())) {
        if let Some(owner) = view.by_uid(&reference.uid)
            && finalizers(owner).waits_for_collector()
        {
            keys.insert(Key::Garbage(owner.id()));
        }
    }
}

/// The part of an object that the collector looks at.
#[derive(PartialEq)]
struct Concern<'a> {
    uid: &'a str,
    references: &'a [OwnerReference],
    finalizers: Finalizers,
    is_terminating: bool,
}

impl<'a> Concern<'a> {
    fn of(object: &'a Object) -> Self {
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

fn finalizers(object: &Object) -> Finalizers {
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

/// What is to be done about an object that may be garbage.
pub(crate) fn reconcile(view: &View, id: &ObjectId) -> Plan {
    let mut plan = Plan::default();
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
fn orphan_dependents(view: &View, owner: &Object, plan: &mut Plan) {
    let dependents = view.dependents(owner.uid());
    let releases = dependents.map(|object| Step::from(without_owner(object, owner.uid())));
    plan.then_all(releases.collect());
    plan.then(without_finalizer(owner, ORPHAN));
}

/// Lets the object go once no dependent is left that blocks it. The dependents are deleted one by one, each for itself (`collect`).
fn await_dependents(view: &View, owner: &Object, plan: &mut Plan) {
    let blocks = |object: &Object| {
        owners::references(object.meta())
            .iter()
            .any(|r| r.uid == owner.uid() && r.block_owner_deletion == Some(true))
    };
    if !view.dependents(owner.uid()).any(blocks) {
        plan.then(without_finalizer(owner, FOREGROUND));
    }
}

/// What an owner reference is worth.
enum Standing {
    /// The owner lives, or we cannot know.
    Solid,
    /// The owner is being deleted in the foreground and waits for this dependent.
    Waiting,
    /// The view has no such owner: to be checked at the server.
    Absent(ObjectId),
}

fn standing(view: &View, object: &Object, reference: &OwnerReference) -> Standing {
    let kind = Kind::of_reference(&reference.api_version, &reference.kind);
    let Some(kind) = kind.filter(|kind| kind.info().held != Held::Nothing) else {
        return Standing::Solid;
    };
    let namespace = match kind.info().scope {
        Scope::Namespaced => object.meta().namespace.as_deref().unwrap_or_default(),
        Scope::Cluster => "",
    };
    let id = ObjectId::new(kind, NamespacedName::new(namespace, reference.name.as_str()));
    match view.get(&id).filter(|owner| owner.uid() == reference.uid) {
        None => Standing::Absent(id),
        Some(owner)
            if finalizers(owner) == Finalizers::Foreground
                && reference.block_owner_deletion == Some(true) =>
        {
            Standing::Waiting
        }
        Some(_) => Standing::Solid,
    }
}

/// Deletes the object if none of its owners is left; drops the references to those that are gone if one is.
fn collect(view: &View, object: &Object, plan: &mut Plan) {
    let references = owners::references(object.meta());
    let (mut solid, mut waiting, mut checks) = (Vec::new(), 0, Vec::new());
    for reference in references {
        match standing(view, object, reference) {
            Standing::Solid => solid.push(reference),
            Standing::Waiting => waiting += 1,
            Standing::Absent(id) => {
                checks.push(Step::from(Write::CheckAbsent { id, uid: Some(reference.uid.clone()) }))
            }
        }
    }
    if references.is_empty() || (checks.is_empty() && waiting == 0) {
        return;
    }
    plan.then_all(checks);
    if !solid.is_empty() {
        plan.then(crate::replica_set::references_patch(object, json!(solid)));
    } else if waiting > 0 && view.dependents(object.uid()).next().is_some() {
        plan.then(deletion(object, Propagation::Foreground));
    } else {
        plan.then(deletion(object, wanted_propagation(object)));
    }
}

/// Finalizers that are on the object already say how its own deletion shall go.
fn wanted_propagation(object: &Object) -> Propagation {
    if owners::has_finalizer(object.meta(), ORPHAN) {
        Propagation::Orphan
    } else if owners::has_finalizer(object.meta(), FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

fn deletion(object: &Object, propagation: Propagation) -> Write {
    Write::Delete(Delete {
        id: object.id(),
        uid: object.uid().to_owned(),
        propagation,
        grace: Grace::Own,
    })
}

fn without_owner(object: &Object, owner_uid: &str) -> Write {
    let left: Vec<_> =
        owners::references(object.meta()).iter().filter(|r| r.uid != owner_uid).collect();
    crate::replica_set::references_patch(object, json!(left))
}

/// A patch that takes a finalizer away, if the object is still as it was looked at.
pub(crate) fn without_finalizer(object: &Object, finalizer: &str) -> Write {
    let meta = object.meta();
    let left: Vec<_> = meta.finalizers.iter().flatten().filter(|f| *f != finalizer).collect();
    Write::Patch {
        id: object.id(),
        part: Part::Whole,
        patch: json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": left,
        }}),
    }
}
