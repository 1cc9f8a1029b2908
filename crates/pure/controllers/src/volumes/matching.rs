//! Which volumes would do for a claim, and which of them is taken.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::{Quantity, labels};

use super::{all_volumes, claim_name, claim_ref, claim_uid, volume_name};
use crate::{ClusterView, NamespacedName, owners};

/// Who may have a volume, as far as its `claimRef` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    /// Anybody.
    Free,
    /// Whatever claim has this claim's name.
    ByName,
    /// This very claim.
    ByUid,
    /// Another claim.
    Other,
}

/// What a volume's `claimRef` means to a claim.
pub(super) fn reservation(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Reservation {
    let Some(reference) = claim_ref(volume) else { return Reservation::Free };
    if claim_name(reference) != NamespacedName::from_meta(&claim.metadata) {
        return Reservation::Other;
    }
    match claim_uid(reference) {
        None => Reservation::ByName,
        Some(uid) if Some(uid) == claim.metadata.uid.as_deref() => Reservation::ByUid,
        Some(_) => Reservation::Other,
    }
}

/// The volumes that the claim may have, the best first: one that names it, else the smallest free
/// ones that do.
pub(crate) fn candidates<'v>(
    view: &'v ClusterView,
    claim: &PersistentVolumeClaim,
) -> Vec<&'v Arc<PersistentVolume>> {
    let ranked = all_volumes(view).filter_map(|volume| {
        let rank = match reservation(volume, claim) {
            Reservation::ByUid => 0,
            Reservation::ByName if mismatch(volume, claim).is_none() => 1,
            Reservation::Free if would_do(volume, claim) => 2,
            Reservation::ByName | Reservation::Free | Reservation::Other => return None,
        };
        let is_there = !owners::is_terminating(&volume.metadata);
        is_there.then(|| ((rank, size(volume), volume_name(volume)), volume))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, volume)| volume).collect()
}

/// How large a volume the claim asks for, in bytes.
pub(crate) fn wanted_size(claim: &PersistentVolumeClaim) -> i128 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    amount(requests.and_then(|requests| requests.get("storage")))
}

/// Why a volume cannot be what the claim asks for.
pub(super) fn mismatch(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Option<&'static str> {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else { return Some("no spec") };
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let class = |name: &Option<String>| name.clone().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or("Filesystem".to_owned());
    if size(volume) < wanted_size(claim) {
        Some("requested PV is too small")
    } else if class(&has.storage_class_name) != class(&wants.storage_class_name) {
        Some("storageClassName does not match")
    } else if mode(&has.volume_mode) != mode(&wants.volume_mode) {
        Some("incompatible volumeMode")
    } else if !wants.access_modes.iter().flatten().all(|mode| modes.contains(mode)) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

fn would_do(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    mismatch(volume, claim).is_none()
        && selector.is_none_or(|s| labels::matches(s, volume.metadata.labels.as_ref()))
}

fn size(volume: &PersistentVolume) -> i128 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    amount(capacity.and_then(|capacity| capacity.get("storage")))
}

fn amount(text: Option<&QuantityText>) -> i128 {
    let quantity = text.and_then(|text| text.0.parse::<Quantity>().ok());
    quantity.map_or(0, |quantity| i128::from(quantity.units()))
}
