//! A claim: bound to a volume, protected while it is in use.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use rekindle_types::{EventSeverity, local_path};
use serde_json::{Value, json};

use super::matching::{self, Reservation, reservation};
use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, COMPONENT, STORAGE_PROVISIONER, belongs_to, is_protected,
    users_of, volume_name, wanted_volume,
};
use crate::events::EventNote;
use crate::patches::{decided_on, status_patch, without_finalizer};
use crate::plan::{PatchTarget, WriteOperation};
use crate::{
    ClusterView, NamespacedName, ResourceKind, ViewObject, WritePlan, cluster, owners, scheduler,
};

/// Keeps a claim until no pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// What [`STORAGE_PROVISIONER`] was called at first.
const OLD_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The provisioner of classes whose volumes are made by people.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The next step for a claim.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(claim) = view.persistent_volume_claim(name) else { return plan };
    let object = ViewObject::from(claim.clone());
    if owners::is_terminating(&claim.metadata) {
        if is_protected(&object, PROTECTION) && users_of(view, name).next().is_none() {
            plan.then(without_finalizer(&object, PROTECTION));
        }
        return plan;
    }
    match wanted_volume(claim) {
        Some(wanted) => go_on_with(view, claim, wanted, &mut plan),
        None => find(view, claim, &mut plan),
    }
    plan
}

/// The claim names its volume: by an earlier step, or because the user wants that one.
fn go_on_with(
    view: &ClusterView,
    claim: &Arc<PersistentVolumeClaim>,
    wanted: &str,
    plan: &mut WritePlan,
) {
    let was_bound = annotation(claim, BIND_COMPLETED).is_some();
    let Some(volume) = view.persistent_volume(&NamespacedName::new("", wanted)) else {
        if was_bound {
            lose(
                claim,
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
                plan,
            );
        } else {
            let text = format!("volume {wanted:?} does not exist");
            say(claim, EventSeverity::Warning, "FailedBinding", text, plan);
        }
        return;
    };
    match reservation(volume, claim) {
        Reservation::ByUid => bind(claim, volume, plan),
        Reservation::Free | Reservation::ByName if was_bound => {
            lose(claim, "Bound claim has lost reference to PersistentVolume", plan);
        }
        Reservation::Free | Reservation::ByName => {
            match matching::mismatch(volume, claim) {
                // A volume on its way out is nobody's.
                None if !owners::is_terminating(&volume.metadata) => bind(claim, volume, plan),
                None => {}
                Some(why) => {
                    let text = format!("Cannot bind to requested volume {wanted:?}: {why}");
                    say(claim, EventSeverity::Warning, "VolumeMismatch", text, plan);
                }
            }
        }
        Reservation::Other if was_bound => {
            lose(claim, "Bound claim has lost reference to PersistentVolume", plan);
        }
        Reservation::Other => {
            let text = format!("volume {wanted:?} already bound to a different claim.");
            say(claim, EventSeverity::Warning, "FailedBinding", text, plan);
        }
    }
}

/// The claim has no volume yet.
fn find(view: &ClusterView, claim: &Arc<PersistentVolumeClaim>, plan: &mut WritePlan) {
    let candidates = matching::candidates(view, claim);
    let is_free = |volume: &PersistentVolume| reservation(volume, claim) == Reservation::Free;
    if let Some(volume) = candidates.iter().find(|volume| !is_free(volume)) {
        return bind(claim, volume, plan);
    }
    let name = class_name(claim);
    let class = view.storage_class(&NamespacedName::new("", name));
    let waits = class.is_some_and(|class| waits_for_pod(class));
    let selected = annotation(claim, local_path::SELECTED_NODE).filter(|_| waits);
    let node = selected.and_then(|node| view.node(node));
    let fits =
        |volume: &PersistentVolume| node.is_none_or(|node| scheduler::fits_volume(volume, node));
    let found = candidates.into_iter().find(|volume| fits(volume));
    let is_asked = annotation(claim, STORAGE_PROVISIONER) == Some(local_path::PROVISIONER);
    let is_of_node = class.is_some_and(|class| class.provisioner == local_path::PROVISIONER);
    let is_to_make = is_asked || (is_of_node && found.is_none());
    if selected.is_some() && node.is_none_or(|node| is_to_make && cluster::is_silent(node)) {
        return deselect(claim, plan);
    }
    if is_asked {
        return; // its node makes one
    }
    if waits && node.is_none() {
        let text = "waiting for first consumer to be created before binding".to_owned();
        return say(claim, EventSeverity::Normal, "WaitForFirstConsumer", text, plan);
    }
    match found {
        Some(volume) => bind(claim, volume, plan),
        // What the node had for it went to another claim.
        None if node.is_some() && !class.is_some_and(|class| makes_volumes(class)) => {
            deselect(claim, plan);
        }
        None => provision(claim, name, class, plan),
    }
}

/// Has the scheduler choose a node again: the one that was chosen is gone, or is not heard of and
/// would have had to make the volume, or has none left. A volume that was asked of the node is not
/// made there any more.
fn deselect(claim: &Arc<PersistentVolumeClaim>, plan: &mut WritePlan) {
    let mut annotations = json!({local_path::SELECTED_NODE: null});
    if annotation(claim, STORAGE_PROVISIONER) == Some(local_path::PROVISIONER) {
        annotations[STORAGE_PROVISIONER] = Value::Null;
    }
    plan.then(annotated(claim, annotations));
}

/// The write that gives the claim these annotations.
fn annotated(claim: &Arc<PersistentVolumeClaim>, annotations: Value) -> WriteOperation {
    let object = ViewObject::from(claim.clone());
    let mut metadata = decided_on(object.meta());
    metadata["annotations"] = annotations;
    let patch = json!({"metadata": metadata});
    WriteOperation::Patch { id: object.id(), part: PatchTarget::Whole, patch }
}

/// Asks the class's provisioner for a volume, or says why nobody makes one.
fn provision(
    claim: &Arc<PersistentVolumeClaim>,
    name: &str,
    class: Option<&Arc<StorageClass>>,
    plan: &mut WritePlan,
) {
    let Some(class) = class else {
        let (reason, text) = if name.is_empty() {
            let text = "no persistent volumes available for this claim and no storage class is set";
            ("FailedBinding", text.to_owned())
        } else {
            let text = format!("storageclass.storage.k8s.io {name:?} not found");
            ("ProvisioningFailed", text)
        };
        let severity = if name.is_empty() { EventSeverity::Normal } else { EventSeverity::Warning };
        return say(claim, severity, reason, text, plan);
    };
    let provisioner = &class.provisioner;
    if provisioner == local_path::PROVISIONER {
        if let Some(why) = beyond_folders(claim, class) {
            let text = format!("failed to provision volume with StorageClass {name:?}: {why}");
            return say(claim, EventSeverity::Warning, "ProvisioningFailed", text, plan);
        }
        if annotation(claim, local_path::SELECTED_NODE).is_none() {
            let text = format!(
                "failed to provision volume with StorageClass {name:?}: its folder lies on the node of the first pod, so that \
                 volumeBindingMode has to be WaitForFirstConsumer"
            );
            return say(claim, EventSeverity::Warning, "ProvisioningFailed", text, plan);
        }
        return plan.then(annotated(claim, json!({STORAGE_PROVISIONER: provisioner})));
    }
    if !makes_volumes(class) {
        let text = format!("no volume plugin matched name: {provisioner}");
        return say(claim, EventSeverity::Warning, "ProvisioningFailed", text, plan);
    }
    // External provisioners begin when they find their name here, and some read the old key.
    if annotation(claim, STORAGE_PROVISIONER) != Some(provisioner) {
        plan.then(annotated(
            claim,
            json!({STORAGE_PROVISIONER: provisioner, OLD_STORAGE_PROVISIONER: provisioner}),
        ));
    }
    let text = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    say(claim, EventSeverity::Normal, "ExternalProvisioning", text, plan);
}

/// What the claim wants that an empty folder on the node of its pod is not.
fn beyond_folders(claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<&'static str> {
    let spec = claim.spec.as_ref()?;
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        Some("its volumes are empty, nothing fills them with a dataSource")
    } else if spec.volume_mode.as_deref() == Some("Block") {
        Some("its volumes are folders, none is a block device")
    } else if spec.volume_attributes_class_name.as_ref().is_some_and(|name| !name.is_empty()) {
        Some("its volumes have no attributes of a VolumeAttributesClass")
    } else if class.allowed_topologies.as_ref().is_some_and(|terms| !terms.is_empty()) {
        Some("allowedTopologies are not supported, a volume is on the node of its pod")
    } else {
        None
    }
}

/// The next write that makes these two belong together. The volume's `claimRef` comes first: it is
/// what no other claim can have at the same time.
fn bind(claim: &Arc<PersistentVolumeClaim>, volume: &Arc<PersistentVolume>, plan: &mut WritePlan) {
    let claim_object = ViewObject::from(claim.clone());
    if !belongs_to(volume, claim) {
        let object = ViewObject::from(volume.clone());
        let mut metadata = decided_on(object.meta());
        if reservation(volume, claim) == Reservation::Free {
            metadata["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        let name = NamespacedName::from_meta(&claim.metadata);
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": name.namespace, "name": name.name, "uid": claim.metadata.uid,
        });
        let patch = json!({"metadata": metadata, "spec": {"claimRef": reference}});
        return plan.then(WriteOperation::Patch {
            id: object.id(),
            part: PatchTarget::Whole,
            patch,
        });
    }
    if wanted_volume(claim).is_none() || annotation(claim, BIND_COMPLETED).is_none() {
        let mut metadata = decided_on(&claim.metadata);
        metadata["annotations"] = json!({BIND_COMPLETED: "yes"});
        if wanted_volume(claim).is_none() {
            metadata["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
        }
        let patch = json!({"metadata": metadata, "spec": {"volumeName": volume_name(volume)}});
        return plan.then(WriteOperation::Patch {
            id: claim_object.id(),
            part: PatchTarget::Whole,
            patch,
        });
    }
    let spec = volume.spec.as_ref();
    let (modes, capacity) =
        spec.map_or((None, None), |s| (s.access_modes.clone(), s.capacity.clone()));
    let status = claim.status.clone().unwrap_or_default();
    if status.phase.as_deref() == Some("Bound")
        && status.access_modes == modes
        && status.capacity == capacity
    {
        return;
    }
    let status = json!({"phase": "Bound", "accessModes": modes, "capacity": capacity});
    plan.then(status_patch(ResourceKind::PersistentVolumeClaim, &claim.metadata, status));
}

fn lose(claim: &Arc<PersistentVolumeClaim>, text: &str, plan: &mut WritePlan) {
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
        return;
    }
    say(claim, EventSeverity::Warning, "ClaimLost", text.to_owned(), plan);
    let status = json!({"phase": "Lost"});
    plan.then(status_patch(ResourceKind::PersistentVolumeClaim, &claim.metadata, status));
}

fn say(
    claim: &Arc<PersistentVolumeClaim>,
    severity: EventSeverity,
    reason: &'static str,
    text: String,
    plan: &mut WritePlan,
) {
    let about = ViewObject::from(claim.clone());
    plan.notes.push(EventNote::new(&about, severity, reason, text, COMPONENT));
}

pub(crate) fn annotation<'c>(claim: &'c PersistentVolumeClaim, key: &str) -> Option<&'c str> {
    let value = claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
    value.map(String::as_str).filter(|value| !value.is_empty())
}

/// The claim's class; empty for none.
pub(crate) fn class_name(claim: &PersistentVolumeClaim) -> &str {
    let name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    name.unwrap_or_default()
}

/// Whether volumes of the class are bound only when a pod is on its way to a node.
pub(crate) fn waits_for_pod(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Whether somebody makes volumes of the class when they are asked for.
pub(crate) fn makes_volumes(class: &StorageClass) -> bool {
    !matches!(class.provisioner.as_str(), "" | NO_PROVISIONER)
}
