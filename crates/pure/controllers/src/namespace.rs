//! Deletes what is in a namespace that is being deleted, kind by kind, and then lets the namespace
//! go.
//!
//! Owners go before what they own, so that nothing is re-created meanwhile (the API refuses
//! creations by then anyway). Before the finalizer is taken away the server is asked, kind by kind,
//! whether anything is left.

mod conditions;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use rekindle_types::{ResourceScope, Tick};

use crate::plan::{PlannedWrite, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WritePlan, owners,
};
use conditions::RemainingContent;

/// The finalizer in `spec.finalizers` that this controller takes away.
const FINALIZER: &str = "kubernetes";

pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let name = match &change.after {
        Some(ViewObject::Namespace(_)) => &change.id.name.name,
        _ if change.id.kind.info().scope == ResourceScope::Cluster => return,
        after if change.before.as_ref().map(hold) == after.as_ref().map(hold) => return,
        _ => &change.id.name.namespace,
    };
    let namespace = view.namespace(&NamespacedName::new("", name.as_str()));
    if namespace.is_some_and(|namespace| owners::is_terminating(&namespace.metadata)) {
        keys.insert(ControllerKey::Namespace(name.clone()));
    }
}

/// What of an object keeps its namespace.
fn hold(object: &ViewObject) -> (bool, &[String]) {
    let meta = object.meta();
    (owners::is_terminating(meta), meta.finalizers.as_deref().unwrap_or_default())
}

pub(crate) fn reconcile(view: &ClusterView, name: &str, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(namespace) = view.namespace(&NamespacedName::new("", name)) else { return plan };
    if !owners::is_terminating(&namespace.metadata) || !has_finalizer(namespace) {
        return plan;
    }
    let kinds = || {
        // owners of a user's own kinds go first: their operators make again what goes before them
        let all = view.custom_kinds().chain(ResourceKind::ALL);
        all.filter(|kind| kind.info().scope == ResourceScope::Namespaced)
    };
    let left = RemainingContent::count(view, name, kinds());
    for kind in kinds() {
        let is_undeleted = view.in_namespace(kind, name).any(|o| !owners::is_terminating(o.meta()));
        // A kind that is not watched may have objects, and so may any kind while the view lags
        // behind the namespace's deletion: when nothing is known to be left, every kind is deleted
        // once more.
        let is_last_sweep = left.is_empty();
        if is_undeleted || is_last_sweep {
            plan.then(WriteOperation::DeleteAll {
                of: ObjectId::new(kind, NamespacedName::new(name, "")),
            });
        }
    }
    // What is deleted now is not reported as left: its end, or its deletion timestamp, brings the
    // next look.
    let report = || conditions::updated(namespace, &left, now).map(ViewObject::from);
    if !left.is_empty() {
        if plan.batches.is_empty() {
            plan.batches
                .extend(report().map(|status| vec![WriteOperation::UpdateStatus(status).into()]));
        }
        return plan;
    }
    let checks = kinds().map(|kind| {
        PlannedWrite::from(WriteOperation::CheckEmpty {
            of: ObjectId::new(kind, NamespacedName::new(name, "")),
        })
    });
    plan.then_all(checks.collect());
    let finalized = finalized(namespace);
    // One that others hold is looked at after this.
    match report().filter(|_| is_held(&finalized)) {
        Some(status) => plan.then(WriteOperation::UpdateStatus(status)),
        None => plan.then(WriteOperation::Finalize(Box::new(finalized))),
    }
    plan
}

/// True when somebody else keeps the namespace.
fn is_held(namespace: &Namespace) -> bool {
    let in_spec = namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
    let in_metadata = namespace.metadata.finalizers.iter().flatten();
    in_spec.chain(in_metadata).next().is_some()
}

fn has_finalizer(namespace: &Namespace) -> bool {
    let spec = namespace.spec.as_ref();
    spec.is_some_and(|spec| spec.finalizers.iter().flatten().any(|f| f == FINALIZER))
}

fn finalized(namespace: &Namespace) -> Namespace {
    let mut namespace = namespace.clone();
    if let Some(spec) = &mut namespace.spec {
        spec.finalizers.get_or_insert_default().retain(|f| f != FINALIZER);
    }
    namespace
}
