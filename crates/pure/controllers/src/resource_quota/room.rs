//! Room that a quota gets, and who waits for it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ResourceQuota;
use rekindle_quota::QuotaUsage;

use crate::{ClusterView, ControllerKey, ObjectChange, ViewObject, affected};

/// How the API server begins what it says when a quota refuses an object.
const REFUSAL: &str = "exceeded quota: ";

/// The keys of controllers that a quota had refused, when this change gives it room.
pub(super) fn refused(view: &ClusterView, change: &ObjectChange) -> BTreeSet<ControllerKey> {
    if !gives_room(change) {
        return BTreeSet::new();
    }
    let failures = view.failures_in(&change.id.name.namespace);
    let refused = failures.filter(|(_, failure)| failure.message.contains(REFUSAL));
    // what is known about the object changed, not the object
    let touched = refused.filter_map(|(id, _)| view.touched(id));
    touched.flat_map(|touched| affected(view, &touched)).collect()
}

/// Whether a quota went, allows more, or is used less.
fn gives_room(change: &ObjectChange) -> bool {
    let Some(ViewObject::ResourceQuota(before)) = &change.before else { return false };
    let Some(ViewObject::ResourceQuota(after)) = &change.after else { return true };
    let hard = |quota: &ResourceQuota| {
        QuotaUsage::read(quota.spec.as_ref().and_then(|spec| spec.hard.as_ref()))
    };
    let used = |quota: &ResourceQuota| {
        QuotaUsage::read(quota.status.as_ref().and_then(|status| status.used.as_ref()))
    };
    has_fallen(&used(before), &used(after)) || has_fallen(&hard(after), &hard(before))
}

/// Whether an amount is less than it was, or is not there any more.
fn has_fallen(before: &QuotaUsage, after: &QuotaUsage) -> bool {
    before.iter().any(|(name, amount)| after.get(name).is_none_or(|after| amount.exceeds(after)))
}
