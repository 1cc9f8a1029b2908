//! Deletes what is in a namespace that is being deleted, kind by kind, and then lets the namespace go.
//!
//! Owners go before what they own, so that nothing is re-created meanwhile (the API refuses creations by then anyway).
//! Before the finalizer is taken away the server is asked, kind by kind, whether anything is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use rekindle_types::Tick;

use crate::kind::{Held, Scope};
use crate::plan::{Step, Write};
use crate::{Change, Key, Kind, NamespacedName, Object, ObjectId, Plan, View, owners};

/// The finalizer in `spec.finalizers` that this controller takes away.
const FINALIZER: &str = "kubernetes";

pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    match &change.after {
        Some(Object::Namespace(namespace)) if owners::is_terminating(&namespace.metadata) => {
            keys.insert(Key::Namespace(change.id.name.name.clone()));
        }
        None if change.id.kind.info().scope == Scope::Namespaced => {
            let name = &change.id.name.namespace;
            let namespace = view.namespace(&NamespacedName::new("", name.as_str()));
            if namespace.is_some_and(|ns| owners::is_terminating(&ns.metadata)) {
                keys.insert(Key::Namespace(name.clone()));
            }
        }
        _ => {}
    }
}

pub(crate) fn reconcile(view: &View, name: &str, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(namespace) = view.namespace(&NamespacedName::new("", name)) else { return plan };
    if !owners::is_terminating(&namespace.metadata) || !has_finalizer(namespace) {
        return plan;
    }
    let kinds = || Kind::ALL.into_iter().filter(|kind| kind.info().scope == Scope::Namespaced);
    let left: BTreeMap<Kind, usize> = kinds()
        .map(|kind| (kind, view.in_namespace(kind, name).count()))
        .filter(|(_, count)| *count > 0)
        .collect();
    for kind in kinds() {
        let is_undeleted = view.in_namespace(kind, name).any(|o| !owners::is_terminating(o.meta()));
        // A kind that is not watched may have objects, and so may any kind while the view lags behind the namespace's
        // deletion: when nothing is known to be left, every kind is deleted once more.
        let is_last_sweep = left.is_empty();
        if is_undeleted || is_last_sweep {
            plan.then(Write::DeleteAll { of: ObjectId::new(kind, NamespacedName::new(name, "")) });
        }
    }
    if !left.is_empty() {
        report_remaining(namespace, &left, now, &mut plan);
        return plan;
    }
    let checks = kinds().map(|kind| {
        Step::from(Write::CheckEmpty { of: ObjectId::new(kind, NamespacedName::new(name, "")) })
    });
    plan.then_all(checks.collect());
    plan.then(Write::Finalize(Box::new(finalized(namespace))));
    plan
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

/// Condition NamespaceContentRemaining, with upstream's wording.
fn report_remaining(
    namespace: &Arc<Namespace>,
    left: &BTreeMap<Kind, usize>,
    now: Tick,
    plan: &mut Plan,
) {
    let parts: Vec<String> = left
        .iter()
        .filter(|(kind, _)| kind.info().held != Held::Nothing)
        .map(|(kind, count)| {
            let info = kind.info();
            format!("{}.{} has {count} resource instances", info.plural, info.group)
        })
        .collect();
    let message = format!("Some resources are remaining: {}", parts.join(", "));
    let mut updated = namespace.as_ref().clone();
    let conditions = updated.status.get_or_insert_default().conditions.get_or_insert_default();
    let current = conditions.iter().find(|c| c.type_ == "NamespaceContentRemaining").cloned();
    if current.as_ref().is_some_and(|c| c.message.as_deref() == Some(&message)) {
        return;
    }
    conditions.retain(|c| c.type_ != "NamespaceContentRemaining");
    conditions.push(NamespaceCondition {
        type_: "NamespaceContentRemaining".to_owned(),
        status: "True".to_owned(),
        reason: Some("SomeResourcesRemain".to_owned()),
        message: Some(message),
        last_transition_time: current
            .and_then(|c| c.last_transition_time)
            .or_else(|| Some(now.to_time())),
    });
    plan.then(Write::UpdateStatus(Object::from(updated)));
}
