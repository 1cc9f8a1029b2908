//! The ReplicaSet controller: so many pods of one template, no more and no fewer.
//!
//! Source of behaviour: the API reference of apps/v1 ReplicaSet and upstream's controller. A pod is claimed when nobody
//! manages it and the selector matches, and let go when the selector matches no more. Missing pods are created in batches
//! of 1, 2, 4, … so that a template that can never be created (a quota, a webhook) costs one refused request and not five
//! hundred.

mod claim;
mod ranking;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::{Tick, TickDuration, labels};

use crate::avoidance::{self, Avoided};
use crate::events::{Note, Severity};
use crate::plan::{Propagation, Report, Step, Write};
use crate::{Change, Key, Kind, NamespacedName, Object, Plan, View, names, owners, pods};
pub(crate) use claim::{Claim, claim, claim_pods, references_patch};
pub(crate) use status::REPLICA_FAILURE;

/// Pods created or deleted at most in one go, as upstream.
const BURST: usize = 500;
/// `source.component` of its events.
const COMPONENT: &str = "replicaset-controller";
/// The event when a pod cannot be created; also the reason of condition ReplicaFailure.
const FAILED_CREATE: &str = "FailedCreate";
/// The event when a pod cannot be deleted; also the reason of condition ReplicaFailure.
const FAILED_DELETE: &str = "FailedDelete";

/// The ReplicaSets that a change concerns.
pub(crate) fn affected(view: &View, change: &Change, keys: &mut BTreeSet<Key>) {
    match change.id.kind {
        Kind::ReplicaSet => {
            keys.insert(Key::ReplicaSet(change.id.name.clone()));
            // Pods rank by the other ReplicaSets of the same owner only when they are deleted: no need to look then.
        }
        Kind::Pod => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => {
                        if let Some(Object::ReplicaSet(rs)) = view.by_uid(&owner.uid) {
                            keys.insert(Key::ReplicaSet(NamespacedName::of(&rs.metadata)));
                        }
                    }
                    None => keys.extend(candidates(view, side.meta()).map(Key::ReplicaSet)),
                }
            }
        }
        _ => {}
    }
}

/// The ReplicaSets that would adopt a pod with this metadata.
fn candidates<'a>(
    view: &'a View,
    pod: &'a ObjectMeta,
) -> impl Iterator<Item = NamespacedName> + 'a {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    view.in_namespace(Kind::ReplicaSet, namespace).filter_map(move |object| match object {
        Object::ReplicaSet(rs) if selects(rs, pod) => Some(NamespacedName::of(&rs.metadata)),
        _ => None,
    })
}

/// True when the ReplicaSet's selector matches these labels. An empty selector selects nothing here.
fn selects(rs: &ReplicaSet, pod: &ObjectMeta) -> bool {
    let selector = &rs.spec.selector;
    !labels::is_empty(selector) && labels::matches(selector, pod.labels.as_ref())
}

/// What is to be done for a ReplicaSet.
pub(crate) fn reconcile(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(rs) = view.replica_set(name) else { return plan };
    let selected = |pod: &ObjectMeta| selects(rs, pod);
    let claimed = claim_pods(view, Kind::ReplicaSet, &rs.metadata, selected, &mut plan);
    let active: Vec<&Arc<Pod>> = claimed.iter().copied().filter(|p| pods::is_active(p)).collect();
    let is_kept = !owners::is_terminating(&rs.metadata);
    if is_kept {
        manage(view, rs, &active, now, &mut plan);
    }
    let terminating = claimed.iter().filter(|p| pods::is_terminating(p) && !pods::is_finished(p));
    status::update(view, rs, &active, terminating.count(), now, &mut plan);
    plan
}

/// Creates what is missing, deletes what is too many.
fn manage(view: &View, rs: &Arc<ReplicaSet>, active: &[&Arc<Pod>], now: Tick, plan: &mut Plan) {
    if !plan.batches.is_empty() {
        return; // pods are being adopted or let go: count them first
    }
    let wanted = usize::try_from(wanted(rs)).unwrap_or(0);
    if active.len() < wanted {
        create(view, rs, (wanted - active.len()).min(BURST), now, plan);
    } else if active.len() > wanted {
        let count = (active.len() - wanted).min(BURST);
        let doomed = ranking::least_valuable(view, rs, active, count, now);
        plan.then_all(doomed.into_iter().map(|pod| deletion(rs, pod)).collect());
    }
}

/// `spec.replicas` with its default.
pub(crate) fn wanted(rs: &ReplicaSet) -> i32 {
    rs.spec.replicas.unwrap_or(1)
}

fn create(view: &View, rs: &Arc<ReplicaSet>, missing: usize, now: Tick, plan: &mut Plan) {
    let namespace = rs.metadata.namespace.as_deref().unwrap_or_default();
    let workload = owners::root_uid(view, &Object::ReplicaSet(rs.clone()));
    let avoided = avoidance::of_workload(view, namespace, &workload, now);
    let names = free_names(view, rs).take(missing);
    plan.then_ever_more(names.map(|name| creation(rs, name, &avoided)));
}

/// Names for new pods: the first of the ReplicaSet's own series that are neither taken nor were lately.
fn free_names<'a>(view: &'a View, rs: &'a ReplicaSet) -> impl Iterator<Item = String> + 'a {
    let uid = rs.metadata.uid.as_deref().unwrap_or_default();
    let namespace = rs.metadata.namespace.as_deref().unwrap_or_default();
    let base = name_base(rs.metadata.name.as_deref().unwrap_or_default());
    let mut given = BTreeSet::new();
    (0u32..).map(move |number| format!("{base}-{}", names::suffix(uid, number))).filter(
        move |name| {
            view.pod(&NamespacedName::new(namespace, name.as_str())).is_none()
                && !view.is_retired_name(uid, name)
                && given.insert(name.clone())
        },
    )
}

/// The part of a generated name before its suffix: cut so that the whole has at most 63 letters, as upstream.
pub(crate) fn name_base(owner: &str) -> &str {
    let end = owner.len().min(63 - 6);
    owner[..end].trim_end_matches(['-', '.'])
}

fn creation(rs: &Arc<ReplicaSet>, name: String, avoided: &Avoided) -> Step {
    let about = Object::ReplicaSet(rs.clone());
    let template = rs.spec.template.clone().unwrap_or_default();
    let from = template.metadata.unwrap_or_default();
    let mut pod = Pod {
        metadata: ObjectMeta {
            generate_name: rs.metadata.name.as_ref().map(|name| format!("{name}-")),
            name: Some(name.clone()),
            namespace: rs.metadata.namespace.clone(),
            labels: from.labels,
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: Some(vec![owners::controller_reference(
                Kind::ReplicaSet,
                &rs.metadata,
            )]),
            ..Default::default()
        },
        spec: template.spec,
        status: None,
    };
    avoidance::exclude(&mut pod, avoided);
    let success = Note::new(
        &about,
        Severity::Normal,
        "SuccessfulCreate",
        format!("Created pod: {name}"),
        COMPONENT,
    );
    let failure =
        Note::new(&about, Severity::Warning, FAILED_CREATE, "Error creating: ", COMPONENT);
    Step { write: Write::Create(pod.into()), report: Some(Report { success, failure }) }
}

fn deletion(rs: &Arc<ReplicaSet>, pod: &Arc<Pod>) -> Step {
    let about = Object::ReplicaSet(rs.clone());
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let success = Note::new(
        &about,
        Severity::Normal,
        "SuccessfulDelete",
        format!("Deleted pod: {name}"),
        COMPONENT,
    );
    let failure =
        Note::new(&about, Severity::Warning, FAILED_DELETE, "Error deleting: ", COMPONENT);
    let write = Write::delete(&Object::Pod(pod.clone()), Propagation::Default);
    Step { write, report: Some(Report { success, failure }) }
}

/// `spec.minReadySeconds`.
fn min_ready(rs: &ReplicaSet) -> TickDuration {
    let seconds = rs.spec.min_ready_seconds.unwrap_or(0);
    TickDuration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
