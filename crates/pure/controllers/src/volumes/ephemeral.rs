//! Claims that a pod brings along (`volumes[*].ephemeral`): made for it, owned by it, gone with it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::{Pod, VolumeSource};
use rekindle_types::reasons::event;

use super::claim_of;
use crate::events::{Note, Severity};
use crate::plan::{Report, Step, Write};
use crate::{Kind, NamespacedName, Object, Plan, View, owners, pods};

/// `source.component` of its events, as upstream.
const COMPONENT: &str = "ephemeral_volume";

/// Makes the claims of a pod that are missing. One of that name which is not the pod's is left
/// alone, and said so.
pub(crate) fn reconcile(view: &View, name: &NamespacedName) -> Plan {
    let mut plan = Plan::default();
    let Some(pod) = view.pod(name).filter(|pod| pods::is_active(pod)) else { return plan };
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    for volume in volumes {
        let VolumeSource::Ephemeral(template) = &volume.source else { continue };
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
                        Kind::Pod,
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
                let about = Object::from(pod.clone());
                let success =
                    Note::new(&about, Severity::Normal, event::SUCCESSFUL_CREATE, text, COMPONENT);
                let failure = note(pod, format!("create claim {}: ", claim.name));
                let report = Some(Report::new(success, failure));
                plan.then_all(vec![Step { write: Write::Create(made.into()), report }]);
            }
            (None, None) => {}
        }
    }
    plan
}

/// True when the claim was made for this pod.
pub(crate) fn is_of(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owner = owners::controller_of(&claim.metadata);
    owner.is_some_and(|owner| Some(owner.uid.as_str()) == pod.metadata.uid.as_deref())
}

/// Upstream's words for a claim that only has the name.
pub(crate) fn not_owner(claim: &str, pod: &str) -> String {
    format!("PVC {claim:?} was not created for pod {pod:?} (pod is not owner)")
}

fn note(pod: &Arc<Pod>, text: String) -> Note {
    let about = Object::from(pod.clone());
    Note::new(&about, Severity::Warning, event::FAILED_CREATE, text, COMPONENT)
}
