//! When an object really goes: a deletion was asked for, its grace is over, and nobody holds it
//! with a finalizer.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Namespace, ReplicationController};
use rekindle_kinds::registry::{AnyObject, KindEntry};

/// The finalizer that keeps an owner until its dependents are gone (foreground deletion).
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents were let go.
pub(crate) const ORPHAN: &str = "orphan";

/// Whether the garbage collector looks after the object. As upstream it leaves Events alone: nobody
/// would take its finalizers away.
pub(crate) fn is_collected(object: &dyn AnyObject) -> bool {
    !object.as_any().is::<Event>()
}

/// Whether its dependents stay when a deletion does not say what becomes of them. As upstream,
/// where it was so before there was a garbage collector.
pub(crate) fn keeps_dependents(object: &dyn AnyObject) -> bool {
    object.as_any().is::<ReplicationController>() || object.as_any().is::<Job>()
}

/// The warning about a deletion of Jobs that does not say what becomes of their pods.
pub(crate) fn orphaning_warning(entry: &KindEntry) -> Option<String> {
    let text = "child pods are preserved by default when jobs are deleted; set \
                propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                suppress this warning";
    (entry.group_and_kind() == ("batch", "Job")).then(|| text.to_owned())
}

/// Whether nothing keeps the object any more.
pub(crate) fn may_go(object: &dyn AnyObject) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
        && !is_held(object)
}

/// Whether a finalizer holds the object; a namespace has some in its spec, too.
pub(crate) fn is_held(object: &dyn AnyObject) -> bool {
    let holds = |list: Option<&Vec<String>>| list.is_some_and(|list| !list.is_empty());
    let namespace = object.as_any().downcast_ref::<Namespace>();
    holds(object.meta().finalizers.as_ref())
        || holds(namespace.and_then(|namespace| namespace.spec.as_ref()?.finalizers.as_ref()))
}

/// The old object with nothing but the namespace finalizers (and those in the metadata) of the new
/// one.
pub(crate) fn with_finalizers_of(new: &dyn AnyObject, old: &dyn AnyObject) -> Box<dyn AnyObject> {
    let mut object = old.boxed_clone();
    object.meta_mut().finalizers.clone_from(&new.meta().finalizers);
    let wanted = new.as_any().downcast_ref::<Namespace>().and_then(|new| new.spec.clone());
    if let Some(namespace) = object.as_any_mut().downcast_mut::<Namespace>() {
        namespace.spec = wanted;
    }
    object
}
