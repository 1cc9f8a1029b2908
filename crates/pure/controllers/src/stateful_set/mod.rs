//! The StatefulSet controller: pods with a number each, a name and claims that stay theirs.
//!
//! Source of behaviour: the API reference of apps/v1 StatefulSet, the documentation of StatefulSets
//! and upstream's controller.
//!
//! ```text
//!   reconcile ─► claim pods and revisions ─► record the template's revision ─► walk up the ordinals: make, mend, wait
//!             ─► walk down what is beyond them: delete ─► rolling update: delete what is of another revision ─► status
//! ```
//!
//! Under `OrderedReady` a walk ends at the first pod that is not available; under `Parallel` it
//! goes on. A pod's name follows from its ordinal, so that the server refuses a second pod of one
//! ordinal whatever this view shows.
//!
//! Beyond upstream, in one point: a pod that is not ready and is of a revision that is neither the
//! current nor the new one is replaced although it blocks. Upstream waits for it for ever, after a
//! broken template was taken back (its documentation calls it "forced rollback", by hand).

mod claims;
mod identity;
mod make;
mod member;
mod rolling;
mod status;
mod walk;
mod writes;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, labels};

use crate::revisions::{self, RevisedWorkload, WorkloadRevisions};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ResourceKind, ViewObject, WritePlan,
    owners, pods, replica_set,
};
use walk::StatefulSetSync;

/// `source.component` of its events.
const COMPONENT: &str = "statefulset-controller";

/// The StatefulSets that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.id.kind {
        ResourceKind::StatefulSet => {
            keys.insert(ControllerKey::StatefulSet(change.id.name.clone()));
        }
        ResourceKind::Pod if change.of_pod().is_some_and(count_alike) => {}
        ResourceKind::Pod | ResourceKind::ControllerRevision => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => {
                        if let Some(ViewObject::StatefulSet(set)) = view.by_uid(&owner.uid) {
                            keys.insert(ControllerKey::StatefulSet(NamespacedName::from_meta(
                                &set.metadata,
                            )));
                        }
                    }
                    None => keys.extend(those(view, side.meta(), |set| selects(set, side.meta()))),
                }
            }
        }
        // A pod waits while a claim of an earlier one of its name is being deleted.
        ResourceKind::PersistentVolumeClaim => {
            let claim = change.id.name.name.as_str();
            keys.extend(those(view, change.latest().meta(), |set| claims::is_of(set, claim)));
        }
        _ => {}
    }
}

/// True when nothing changed that is looked at here: beside what a ReplicaSet counts, the phase.
fn count_alike((before, after): (&HeldPod, &HeldPod)) -> bool {
    replica_set::count_alike((before, after)) && pods::phase(before) == pods::phase(after)
}

/// The StatefulSets in the namespace of an object that meet a condition.
fn those<'a>(
    view: &'a ClusterView,
    object: &'a ObjectMeta,
    meets: impl Fn(&StatefulSet) -> bool + 'a,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    view.in_namespace(ResourceKind::StatefulSet, namespace).filter_map(move |object| match object {
        ViewObject::StatefulSet(set) if meets(set) => {
            Some(ControllerKey::StatefulSet(NamespacedName::from_meta(&set.metadata)))
        }
        _ => None,
    })
}

/// True when the set's selector matches these labels. An empty selector selects nothing here.
fn selects(set: &StatefulSet, object: &ObjectMeta) -> bool {
    let selector = &set.spec.selector;
    !labels::is_empty(selector) && labels::matches(selector, object.labels.as_ref())
}

/// Whether the set wants a pod of this name.
pub(crate) fn wants(set: &StatefulSet, pod_name: &str) -> bool {
    let ordinal = identity::ordinal_in(set, pod_name);
    ordinal.is_some_and(|ordinal| identity::ordinals(set).contains(&ordinal))
}

/// What is to be done for a StatefulSet.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(set) = view.stateful_set(name) else { return plan };
    let workload = RevisedWorkload {
        kind: ResourceKind::StatefulSet,
        meta: &set.metadata,
        selector: &set.spec.selector,
        template: &set.spec.template,
    };
    let is_member =
        |pod: &ObjectMeta| selects(set, pod) && identity::ordinal_of(set, pod).is_some();
    let Some(WorkloadRevisions { pods, history, present: update }) =
        revisions::holdings(view, workload, is_member, &mut plan)
    else {
        return plan;
    };
    let status = set.status.as_ref();
    let current = status
        .and_then(|status| status.current_revision.as_deref())
        .and_then(|name| history.find(name))
        .unwrap_or(&update);
    let members = member::members(set, &pods, (current, &update), now);
    let mut walk = StatefulSetSync::new(view, set, &members, (current, &update), now);
    walk.go();
    walk.into_plan(&mut plan);
    let counted = status::count(set, &members, current, &update);
    status::update(view, &counted, set, &mut plan);
    if plan.batches.is_empty() {
        let live = |revision: &ControllerRevision| {
            let name = revisions::name(revision);
            [revisions::name(current), revisions::name(&update)].contains(&name)
                || pods.iter().any(|pod| identity::revision_of(pod) == name)
        };
        plan.then_all(history.truncate(set.spec.revision_history_limit, live));
    }
    plan
}
