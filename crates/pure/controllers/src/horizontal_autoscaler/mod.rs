//! The controller of HorizontalPodAutoscalers: how many replicas a workload has, by what its pods
//! use.
//!
//! ```text
//!  reading of metrics.k8s.io and of adapters, every 15 s
//!    ─► samples ─► replica_count ─► metrics ─► limits ─► /scale of the target
//!                   one metric       the most   windows, policies, range
//! ```
//! Each reading makes the controller look once. It also looks when an autoscaler is new or scales
//! in another way, and when a write of its own was refused. The newest reading may be 15 s old
//! then. What it remembers between two looks lies in [`history`]. Source of behaviour: the
//! documentation of HorizontalPodAutoscaler, KEP-853 (behaviour), KEP-1610 (containers), KEP-4951
//! (tolerance) and upstream's `pkg/controller/podautoscaler`.

mod adapter_metrics;
mod adapter_queries;
mod conditions;
mod decision;
pub(crate) mod history;
mod limits;
mod metrics;
mod replica_count;
mod samples;
mod selected_pods;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use rekindle_types::{EventSeverity, Tick};

use crate::events::EventNote;
use crate::plan::{PlannedWrite, ScaleWrite, WriteNotes, WriteOperation};
use crate::readings::NamespaceReading;
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ViewObject, WritePlan,
    owners,
};
pub(crate) use adapter_queries::queries;
use conditions::ABLE_TO_SCALE;
use decision::{Rescale, ScalingDecision, ScalingInputs, decide};
pub use history::ReplicaRecommendation;

/// `source.component` of its events, as upstream.
const COMPONENT: &str = "horizontal-pod-autoscaler";
/// The reason of the event about a scale that could not be written.
const FAILED_RESCALE: &str = "FailedRescale";

/// An autoscaler that is new, or is to scale in another way. What it writes into its own status is
/// no news.
pub(crate) fn affected(change: &ObjectChange, keys: &mut BTreeSet<ControllerKey>) {
    let Some(ViewObject::HorizontalPodAutoscaler(after)) = &change.after else { return };
    let is_known = match &change.before {
        Some(ViewObject::HorizontalPodAutoscaler(before)) => {
            !Arc::ptr_eq(before, after)
                && before.metadata.uid == after.metadata.uid
                && before.spec == after.spec
        }
        Some(_) | None => false,
    };
    if !is_known {
        keys.insert(ControllerKey::HorizontalAutoscaler(change.id.name.clone()));
    }
}

/// What is to be done for an autoscaler, by the newest reading of what the pods use.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(autoscaler) = view.horizontal_pod_autoscaler(name) else { return plan };
    // the first reading is on its way, and is a reason to look again
    let Some(reading) = view.reading(&name.namespace) else { return plan };
    // so is the first one with all that it wants to know now
    if owners::is_terminating(&autoscaler.metadata) || !is_read(view, autoscaler, reading) {
        return plan;
    }
    let decision = decide(ScalingInputs { view, autoscaler, reading, now });
    let object = ViewObject::from(autoscaler.clone());
    plan.notes = decision.notes.iter().map(|warning| warning.about(&object)).collect();
    plan.recommendation.clone_from(&decision.recommendation);
    match &decision.rescale {
        Some(rescale) => then_scale(view, autoscaler, &decision, rescale, now, &mut plan),
        None => then_status(autoscaler, status(view, autoscaler, &decision, None), &mut plan),
    }
    plan
}

/// The custom resource whose scale has to be read for an autoscaler, if its target is one.
pub(crate) fn scale_query(
    view: &ClusterView,
    autoscaler: &HorizontalPodAutoscaler,
) -> Option<ObjectId> {
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    target::unwatched(view, namespace, &autoscaler.spec.scale_target_ref)
}

/// Whether a reading has everything that an autoscaler asks for.
fn is_read(
    view: &ClusterView,
    autoscaler: &HorizontalPodAutoscaler,
    reading: &NamespaceReading,
) -> bool {
    scale_query(view, autoscaler).is_none_or(|id| reading.scales.contains_key(&id))
        && queries(view, autoscaler).iter().all(|query| reading.metrics.contains_key(query))
}

/// The scale, and then the status that says so. As long as the scale cannot be written, the status
/// says that first. It says first, too, that the target is scaled to zero: a target that is at zero
/// without that is left alone, also after an engine that was killed in between.
fn then_scale(
    view: &ClusterView,
    autoscaler: &Arc<HorizontalPodAutoscaler>,
    decision: &ScalingDecision,
    rescale: &Rescale,
    now: Tick,
    plan: &mut WritePlan,
) {
    let object = ViewObject::from(autoscaler.clone());
    let is_to_zero = rescale.replicas == 0;
    let mut scaled = decision.clone();
    scaled.conditions.note_rescale(rescale.replicas);
    let failure = view.failure(&object.id()).filter(|failure| failure.reason == FAILED_RESCALE);
    if let Some(failure) = failure {
        let text = format!(
            "the HPA controller was unable to update the target scale: {}",
            failure.message
        );
        let mut failed = if is_to_zero { scaled.clone() } else { decision.clone() };
        failed.conditions.fail(ABLE_TO_SCALE, "FailedUpdateScale", text);
        failed.desired = autoscaler.status.as_ref().map_or(0, |status| status.desired_replicas);
        then_status(autoscaler, status(view, autoscaler, &failed, None), plan);
    }
    let text =
        format!("the HPA controller was able to update the target scale to {}", rescale.replicas);
    scaled.conditions.hold(ABLE_TO_SCALE, "SucceededRescale", text);
    let scaled = status(view, autoscaler, &scaled, Some(now));
    if failure.is_none() && is_to_zero {
        then_status(autoscaler, scaled.clone(), plan);
    }
    let size = format!("New size: {}; reason: {}", rescale.replicas, rescale.reason);
    let note = |severity, reason, text| EventNote::new(&object, severity, reason, text, COMPONENT);
    let notes = WriteNotes::new(
        note(EventSeverity::Normal, "SuccessfulRescale", size.clone()),
        note(EventSeverity::Warning, FAILED_RESCALE, format!("{size}; error: ")),
    );
    let write = WriteOperation::Scale(ScaleWrite {
        target: rescale.target.id.clone(),
        uid: rescale.target.scale.uid.clone(),
        resource_version: rescale.target.scale.resource_version.clone(),
        replicas: rescale.replicas,
        change: rescale.change,
        autoscaler: object.uid().to_owned(),
    });
    plan.then_all(vec![PlannedWrite { write, report: Some(notes) }]);
    if failure.is_none() && !is_to_zero {
        then_status(autoscaler, scaled, plan);
    }
}

fn then_status(
    autoscaler: &Arc<HorizontalPodAutoscaler>,
    status: HorizontalPodAutoscalerStatus,
    plan: &mut WritePlan,
) {
    if autoscaler.status.as_ref() == Some(&status) {
        return;
    }
    let mut updated = autoscaler.as_ref().clone();
    updated.status = Some(status);
    plan.then(WriteOperation::UpdateStatus(updated.into()));
}

/// The status after a look, which scales at `scaled_at` if it does.
fn status(
    view: &ClusterView,
    autoscaler: &HorizontalPodAutoscaler,
    decision: &ScalingDecision,
    scaled_at: Option<Tick>,
) -> HorizontalPodAutoscalerStatus {
    let before = autoscaler.status.clone().unwrap_or_default();
    // what was written just before an answer was lost is known from the history
    let uid = autoscaler.metadata.uid.as_deref().unwrap_or_default();
    let remembered = view.scaling_history(uid).last_change();
    let written = before.last_scale_time.as_ref().map(Tick::from);
    let last_scale = scaled_at.or(remembered).map(Tick::whole_second).max(written);
    HorizontalPodAutoscalerStatus {
        conditions: Some(decision.conditions.clone().into_list()),
        current_metrics: decision.metrics.clone(),
        current_replicas: decision.current.or(before.current_replicas),
        desired_replicas: decision.desired,
        last_scale_time: last_scale.map(Tick::to_time),
        observed_generation: autoscaler.metadata.generation,
    }
}
