//! A volume: its phase, what becomes of it when its claim is gone, and its protection while it is
//! bound.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use rekindle_types::{EventSeverity, Tick, local_path};
use serde_json::json;

use super::{
    COMPONENT, claim_name, claim_ref, claim_uid, is_protected, volume_name, wanted_volume,
};
use crate::events::EventNote;
use crate::patches::{status_patch, without_finalizer};
use crate::plan::WriteOperation;
use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan, owners};

/// Keeps a volume until no claim is bound to it.
const PROTECTION: &str = "kubernetes.io/pv-protection";

/// How the names of provisioners begin that were part of Kubernetes.
const IN_TREE: &str = "kubernetes.io/";

/// Whose a volume is.
enum VolumeHolder {
    /// No claim has it; one may be wished for that has not got it yet.
    None,
    /// This claim is about to get it, or has it: the phase, when it is known.
    Claim(Option<&'static str>),
    /// A claim that is gone, as far as this view shows: its id and UID.
    Departed(ObjectId, String),
}

/// The next step for a volume.
pub(crate) fn reconcile(view: &ClusterView, name: &str, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(volume) = view.persistent_volume(&NamespacedName::new("", name)) else { return plan };
    let object = ViewObject::from(volume.clone());
    let holder = holder(view, volume);
    if owners::is_terminating(&volume.metadata) && is_protected(&object, PROTECTION) {
        match holder {
            VolumeHolder::Claim(_) => {}
            VolumeHolder::None => plan.then(without_finalizer(&object, PROTECTION)),
            VolumeHolder::Departed(id, uid) => {
                plan.then(WriteOperation::CheckAbsent { id, uid: Some(uid) });
                plan.then(without_finalizer(&object, PROTECTION));
            }
        }
        return plan;
    }
    match holder {
        VolumeHolder::None => show(volume, "Available", now, &mut plan),
        VolumeHolder::Claim(Some(phase)) => show(volume, phase, now, &mut plan),
        VolumeHolder::Claim(None) => {}
        VolumeHolder::Departed(id, uid) => match phase(volume) {
            "Released" => reclaim(volume, now, &mut plan),
            "Failed" => {}
            _ => {
                plan.then(WriteOperation::CheckAbsent { id, uid: Some(uid) });
                show(volume, "Released", now, &mut plan);
            }
        },
    }
    plan
}

fn holder(view: &ClusterView, volume: &PersistentVolume) -> VolumeHolder {
    let Some(reference) = claim_ref(volume) else { return VolumeHolder::None };
    let Some(uid) = claim_uid(reference) else { return VolumeHolder::None };
    let name = claim_name(reference);
    let claim = view.persistent_volume_claim(&name);
    let claim = claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid));
    match claim.map(|claim| wanted_volume(claim)) {
        Some(Some(has)) if has == volume_name(volume) => VolumeHolder::Claim(Some("Bound")),
        // It got another one meanwhile: this one was made or reserved for it and is not needed.
        Some(Some(_)) => VolumeHolder::Claim(Some("Released")),
        Some(None) => VolumeHolder::Claim(None),
        None => {
            let id = ObjectId::new(ResourceKind::PersistentVolumeClaim, name);
            VolumeHolder::Departed(id, uid.to_owned())
        }
    }
}

/// What was promised for the end of the claim. What a provisioner made is the provisioner's to
/// remove: a node, or an external one.
fn reclaim(volume: &Arc<PersistentVolume>, now: Tick, plan: &mut WritePlan) {
    let policy = volume.spec.as_ref().and_then(|s| s.persistent_volume_reclaim_policy.as_deref());
    let annotations = volume.metadata.annotations.as_ref();
    let maker = annotations.and_then(|all| all.get(local_path::PROVISIONED_BY));
    let (reason, text) = match policy {
        Some("Delete") if maker.is_none_or(|maker| maker.starts_with(IN_TREE)) => {
            let name = volume_name(volume);
            let why = format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume \
                 plugin matched"
            );
            ("VolumeFailedDelete", why)
        }
        Some("Recycle") => {
            ("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned())
        }
        Some(_) | None => return,
    };
    let about = ViewObject::from(volume.clone());
    plan.notes.push(EventNote::new(&about, EventSeverity::Warning, reason, &*text, COMPONENT));
    plan.then(status(&about, "Failed", Some(&text), now));
}

fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn show(volume: &Arc<PersistentVolume>, wanted: &str, now: Tick, plan: &mut WritePlan) {
    if phase(volume) != wanted {
        plan.then(status(&ViewObject::from(volume.clone()), wanted, None, now));
    }
}

fn status(volume: &ViewObject, phase: &str, message: Option<&str>, now: Tick) -> WriteOperation {
    let status = json!({
        "phase": phase, "message": message, "reason": null,
        "lastPhaseTransitionTime": now.to_time(),
    });
    status_patch(volume.kind(), volume.meta(), status)
}
