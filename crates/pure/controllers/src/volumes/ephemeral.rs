//! Claims that a pod brings along (`volumes[*].ephemeral`): made for it, owned by it, gone with it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::EventSeverity;
use rekindle_types::held::{HeldPod, HeldVolumeSource};
use rekindle_types::reasons::event;

use super::claim_of;
use crate::events::EventNote;
use crate::plan::{PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, NamespacedName, ResourceKind, ViewObject, WritePlan, owners, pods};

/// `source.component` of its events, as upstream.
const COMPONENT: &str = "ephemeral_volume";

/// Makes the claims of a pod that are missing. One of that name which is not the pod's is left
/// alone, and said so.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(pod) = view.pod(name).filter(|pod| pods::is_active(pod)) else { return plan };
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    for volume in volumes {
        let HeldVolumeSource::Ephemeral(template) = &volume.source else { continue };
        let Some(used) = claim_of(pod, volume) else { continue };
        let claim = NamespacedName::new(name.namespace.clone(), used.claim.as_ref());
        match (view.persistent_volume_claim(&claim), template) {
            (Some(found), _) if is_of(found, pod) => {}
            (Some(_), _) => plan.notes.push(note(pod, not_owner(&claim.name, &name.name))),
            (None, Some(template)) => {
                let given = template.metadata.clone().unwrap_or_default();
                let metadata = ObjectMeta {
                    name: Some(claim.name.clone()),
                    namespace: Some(claim.namespace.clone()),
                    labels: given.labels,
                    annotations: given.annotations,
                    owner_references: Some(vec![owners::controller_reference(
                        ResourceKind::Pod,
                        &pod.metadata,
                    )]),
                    ..ObjectMeta::default()
                };
                let made = PersistentVolumeClaim {
                    metadata,
                    spec: Some(template.spec.clone()),
                    status: None,
                };
                let text = format!("Created claim {}", claim.name);
                let about = ViewObject::from(pod.clone());
                let success = EventNote::new(
                    &about,
                    EventSeverity::Normal,
                    event::SUCCESSFUL_CREATE,
                    text,
                    COMPONENT,
                );
                let failure = note(pod, format!("create claim {}: ", claim.name));
                let report = Some(WriteNotes::new(success, failure));
                plan.then_all(vec![PlannedWrite {
                    write: WriteOperation::Create(made.into()),
                    report,
                }]);
            }
            (None, None) => {}
        }
    }
    plan
}

/// True when the claim was made for this pod.
pub(crate) fn is_of(claim: &PersistentVolumeClaim, pod: &HeldPod) -> bool {
    let owner = owners::controller_of(&claim.metadata);
    owner.is_some_and(|owner| Some(owner.uid.as_str()) == pod.metadata.uid.as_deref())
}

/// Upstream's words for a claim that only has the name.
pub(crate) fn not_owner(claim: &str, pod: &str) -> String {
    format!("PVC {claim:?} was not created for pod {pod:?} (pod is not owner)")
}

fn note(pod: &Arc<HeldPod>, text: String) -> EventNote {
    let about = ViewObject::from(pod.clone());
    EventNote::new(&about, EventSeverity::Warning, event::FAILED_CREATE, text, COMPONENT)
}
