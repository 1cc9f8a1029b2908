//! The ReplicaSet controller: so many pods of one template, no more and no fewer. A
//! ReplicationController is the same by another name (`replicas`).
//!
//! Source of behaviour: the API reference of apps/v1 ReplicaSet and upstream's controller. A pod is
//! claimed when nobody manages it and the selector matches, and let go when the selector matches no
//! more. Missing pods are created in batches of 1, 2, 4, … so that a template that can never be
//! created (a quota, a webhook) costs one refused request and not five hundred.

mod claim;
mod members;
mod ranking;
mod replicas;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use rekindle_types::held::HeldPod;
use rekindle_types::labels::Labels;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration, labels};

use crate::avoidance::{self, Avoided};
use crate::events::EventNote;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};
use crate::view::{ManagedPod, PodActivity};
use crate::{
    ClusterView, ControllerKey, ObjectChange, ObjectId, ResourceKind, ViewObject, WritePlan, names,
    owners, pods,
};
pub(crate) use claim::{OwnershipClaim, claim, claim_pods};
use replicas::ReplicaOwner;
pub(crate) use status::REPLICA_FAILURE;

/// Pods created or deleted at most in one go, as upstream.
const BURST: usize = 500;
/// The event when a pod cannot be created; also the reason of condition ReplicaFailure.
/// The event when a pod cannot be deleted; also the reason of condition ReplicaFailure.
const FAILED_DELETE: &str = "FailedDelete";

/// The ReplicaSets and ReplicationControllers that a change concerns.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.id.kind {
        // Pods rank by the other ReplicaSets of the same owner only when they are deleted: no need
        // to look then.
        ResourceKind::ReplicaSet | ResourceKind::ReplicationController => {
            keys.extend(key_of(&change.id))
        }
        ResourceKind::Pod if change.of_pod().is_some_and(count_alike) => {}
        ResourceKind::Pod => {
            for side in change.sides() {
                match owners::controller_of(side.meta()) {
                    Some(owner) => {
                        keys.extend(view.by_uid(&owner.uid).and_then(|owner| key_of(&owner.id())));
                    }
                    None => keys.extend(candidates(view, side.meta())),
                }
            }
        }
        _ => {}
    }
}

/// True when nothing changed that is looked at here: whose the pod is, and whether it counts, is
/// ready, is going. A pod is written several times before it is ready, and with a thousand of them
/// nobody should count them all for each of these writes.
pub(crate) fn count_alike((before, after): (&HeldPod, &HeldPod)) -> bool {
    before.metadata.uid == after.metadata.uid
        && before.metadata.labels == after.metadata.labels
        && before.metadata.owner_references == after.metadata.owner_references
        && before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
        && pods::is_finished(before) == pods::is_finished(after)
        && ready_since(before) == ready_since(after)
}

/// Since when the pod is ready; none while it is not.
fn ready_since(pod: &HeldPod) -> Option<Option<&Time>> {
    let ready = pods::condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    Some(ready.last_transition_time.as_ref())
}

fn key_of(id: &ObjectId) -> Option<ControllerKey> {
    match id.kind {
        ResourceKind::ReplicaSet => Some(ControllerKey::ReplicaSet(id.name.clone())),
        ResourceKind::ReplicationController => {
            Some(ControllerKey::ReplicationController(id.name.clone()))
        }
        _ => None,
    }
}

/// Those that would adopt a pod with this metadata.
fn candidates<'a>(
    view: &'a ClusterView,
    pod: &'a ObjectMeta,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    let kinds = [ResourceKind::ReplicaSet, ResourceKind::ReplicationController];
    let all = kinds.into_iter().flat_map(move |kind| view.in_namespace(kind, namespace));
    all.filter(|object| match object {
        ViewObject::ReplicaSet(set) => selects(&set.spec.selector, pod.labels.as_ref()),
        ViewObject::ReplicationController(set) => {
            selects(&replicas::selector(set), pod.labels.as_ref())
        }
        _ => false,
    })
    .filter_map(|object| key_of(&object.id()))
}

/// True when the selector matches these labels. An empty selector selects nothing here.
fn selects(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    !labels::is_empty(selector) && labels::matches(selector, labels)
}

/// What is to be done for a ReplicaSet or a ReplicationController.
pub(crate) fn reconcile(view: &ClusterView, id: &ObjectId, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(set) = view.get(id).and_then(ReplicaOwner::from_object) else { return plan };
    let rs = &set.rs;
    let claimed = members::claim(view, id.kind, rs, &mut plan);
    let of_standing = |standing| claimed.iter().filter(move |member| member.standing == standing);
    let active: Vec<&ManagedPod> = of_standing(PodActivity::Active).copied().collect();
    let is_kept = !owners::is_terminating(&rs.metadata);
    if is_kept {
        manage(view, &set, &active, now, &mut plan);
    }
    let terminating = of_standing(PodActivity::Terminating).count();
    status::update(view, &set, &active, terminating, now, &mut plan);
    plan
}

/// Creates what is missing, deletes what is too many.
fn manage(
    view: &ClusterView,
    set: &ReplicaOwner,
    active: &[&ManagedPod],
    now: Tick,
    plan: &mut WritePlan,
) {
    if !plan.batches.is_empty() {
        return; // pods are being adopted or let go: count them first
    }
    let wanted = usize::try_from(wanted(&set.rs)).unwrap_or(0);
    if active.len() < wanted {
        create(view, set, (wanted - active.len()).min(BURST), now, plan);
    } else if active.len() > wanted {
        let count = (active.len() - wanted).min(BURST);
        let active: Vec<&Arc<HeldPod>> = active.iter().map(|member| &member.pod).collect();
        let doomed = ranking::least_valuable(view, &set.rs, &active, count, now);
        plan.then_all(doomed.into_iter().map(|pod| deletion(set, pod)).collect());
    }
}

/// `spec.replicas` with its default.
pub(crate) fn wanted(rs: &ReplicaSet) -> i32 {
    rs.spec.replicas.unwrap_or(1)
}

fn create(view: &ClusterView, set: &ReplicaOwner, missing: usize, now: Tick, plan: &mut WritePlan) {
    let namespace = set.rs.metadata.namespace.as_deref().unwrap_or_default();
    let workload = owners::root_uid(view, &set.about);
    let avoided = avoidance::nodes_avoided_by_workload(view, namespace, &workload, now);
    let meta = &set.rs.metadata;
    let stem = format!("{}-", names::base(meta.name.as_deref().unwrap_or_default()));
    let series = meta.uid.clone().unwrap_or_default();
    let names = names::free(view, meta, stem, series).take(missing);
    plan.then_ever_more(names.map(|name| creation(set, name, &avoided)));
}

fn creation(set: &ReplicaOwner, name: String, avoided: &Avoided) -> PlannedWrite {
    let (rs, about) = (&set.rs, &set.about);
    let template = rs.spec.template.clone().unwrap_or_default();
    let from = template.metadata.unwrap_or_default();
    let mut pod = v1::Pod {
        metadata: ObjectMeta {
            generate_name: rs.metadata.name.as_ref().map(|name| format!("{name}-")),
            name: Some(name.clone()),
            namespace: rs.metadata.namespace.clone(),
            labels: from.labels,
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: Some(vec![owners::controller_reference(about.kind(), &rs.metadata)]),
            ..Default::default()
        },
        spec: template.spec,
        status: None,
    };
    avoidance::exclude(&mut pod, avoided);
    let success = EventNote::new(
        about,
        EventSeverity::Normal,
        event::SUCCESSFUL_CREATE,
        format!("Created pod: {name}"),
        set.component(),
    );
    let failure = EventNote::new(
        about,
        EventSeverity::Warning,
        event::FAILED_CREATE,
        "Error creating: ",
        set.component(),
    );
    PlannedWrite {
        write: WriteOperation::Create(pod.into()),
        report: Some(WriteNotes::new(success, failure)),
    }
}

fn deletion(set: &ReplicaOwner, pod: &Arc<HeldPod>) -> PlannedWrite {
    let about = &set.about;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let success = EventNote::new(
        about,
        EventSeverity::Normal,
        "SuccessfulDelete",
        format!("Deleted pod: {name}"),
        set.component(),
    );
    let failure = EventNote::new(
        about,
        EventSeverity::Warning,
        FAILED_DELETE,
        "Error deleting: ",
        set.component(),
    );
    let write = WriteOperation::delete(&ViewObject::Pod(pod.clone()), DependentPolicy::Default);
    PlannedWrite { write, report: Some(WriteNotes::new(success, failure)) }
}

/// `spec.minReadySeconds`.
fn min_ready(rs: &ReplicaSet) -> TickDuration {
    TickDuration::of_field(rs.spec.min_ready_seconds.unwrap_or(0))
}
