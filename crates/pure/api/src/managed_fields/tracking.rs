//! Keeps managedFields through every write but an apply.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use rekindle_kinds::registry::{AnyObject, managed_entries};
use rekindle_structured_merge::{
    FieldOperation, FieldOwners, FieldPath, FieldSet, OwnershipChange,
};
use serde_json::Value;

use super::{owner, remove_entries};
use crate::call::{ApiCall, ObjectPart};
use crate::subresources::scale;

/// Fields of a new object that the server fills in where the client does not say: no owner has
/// them. Upstream its admission plugins fill them, after the owners were noted.
pub(crate) struct ServerFilled(FieldSet);

impl ServerFilled {
    /// To be made before the defaults.
    pub(crate) fn of_new(object: &dyn AnyObject) -> Self {
        let Some(pod) = object.as_any().downcast_ref::<Pod>() else {
            return Self(FieldSet::default());
        };
        let spec = pod.spec.as_ref();
        // two names of one field: who gives one owns both
        let names_no_account = spec.is_none_or(|spec| {
            spec.service_account.is_none() && spec.service_account_name.is_none()
        });
        let is_absent = [
            ("tolerations", spec.is_none_or(|spec| spec.tolerations.is_none())),
            ("serviceAccount", names_no_account),
            ("serviceAccountName", names_no_account),
            ("preemptionPolicy", spec.is_none_or(|spec| spec.preemption_policy.is_none())),
            ("priority", spec.is_none_or(|spec| spec.priority.is_none())),
        ];
        let absent = is_absent.into_iter().filter(|(_, is_absent)| *is_absent);
        Self(FieldSet::from_paths(absent.map(|(name, _)| FieldPath::of_fields(&["spec", name]))))
    }
}

/// Notes the owner of a new object's fields. The object has its defaults, and nothing of admission.
pub(crate) fn track_new(call: &ApiCall<'_>, object: &mut dyn AnyObject, filled: &ServerFilled) {
    let given = object.meta_mut().managed_fields.take();
    if managed_entries::are_reset(given.as_ref()) {
        return track_new_with(call, object, filled, FieldOwners::default());
    }
    let owners = managed_entries::read(given.as_deref().unwrap_or_default()).unwrap_or_default();
    track_new_with(call, object, filled, owners);
}

fn track_new_with(
    call: &ApiCall<'_>,
    object: &mut dyn AnyObject,
    filled: &ServerFilled,
    owners: FieldOwners,
) {
    let schema = call.entry.codec.merge_schema();
    let owner = owner::of_call(call, FieldOperation::Update);
    let change = OwnershipChange {
        schema,
        owner: &owner,
        api_version: &call.entry.api_version,
        ignored: &owner::ignored(call.entry, ObjectPart::Main, None).union(&filled.0),
        now_seconds: owner::write_seconds(call),
    };
    let tracked = object.tracked_value();
    let owners = change.update(&object.blank_value(&tracked), &tracked, owners);
    object.meta_mut().managed_fields = managed_entries::write(&owners);
}

/// Notes the owner of what an update changes. The object has its defaults; what the update may not
/// change may still be changed.
pub(crate) fn track_change(
    call: &ApiCall<'_>,
    part: ObjectPart,
    object: &mut dyn AnyObject,
    old: &dyn AnyObject,
) {
    let given = object.meta_mut().managed_fields.take();
    let kept = &old.meta().managed_fields;
    // no owners are noted of an object that has none, as upstream
    let read = |entries: &Option<Vec<ManagedFieldsEntry>>| {
        let owners =
            managed_entries::read(entries.as_deref().unwrap_or_default()).unwrap_or_default();
        Some(owners).filter(|owners| !owners.is_empty())
    };
    let is_main = call.path.subresource.is_empty();
    if is_main && managed_entries::are_reset(given.as_ref()) {
        return;
    }
    let is_given = is_main && given != *kept;
    let given = if is_given { read(&given) } else { None };
    if given.is_none() && kept.is_none() {
        return;
    }
    let is_of_scale = call.path.is_scale();
    if is_of_scale && !has_owner(&scale::count_field(old), kept.as_deref()) {
        // upstream notes no owner in a Scale that has none
        object.meta_mut().managed_fields.clone_from(kept);
        return;
    }
    let owner = owner::of_call(call, FieldOperation::Update);
    let (mut before, mut now) = compared(part, old, object);
    if is_of_scale {
        scale::drop_zero_count(old, &mut before);
        scale::drop_zero_count(object, &mut now);
    }
    let change = OwnershipChange {
        schema: call.entry.codec.merge_schema(),
        owner: &owner,
        api_version: &call.entry.api_version,
        ignored: &owner::ignored(call.entry, part, Some(old)),
        now_seconds: owner::write_seconds(call),
    };
    let changes = change.changes(&before, &now);
    if changes.is_empty() && given.is_none() {
        object.meta_mut().managed_fields.clone_from(kept);
        return;
    }
    if let Some(owners) = given.or_else(|| read(kept)) {
        object.meta_mut().managed_fields =
            managed_entries::write(&change.update_with(changes, owners));
    }
}

/// Whether any owner has a field.
fn has_owner(field: &FieldPath, entries: Option<&[ManagedFieldsEntry]>) -> bool {
    let owners = managed_entries::read(entries.unwrap_or_default()).unwrap_or_default();
    owners.sorted().iter().any(|(_, owned)| owned.fields.has(field))
}

/// What is compared of an object before and after an update: all of it, or as little as the update
/// can change.
fn compared(part: ObjectPart, old: &dyn AnyObject, new: &mut dyn AnyObject) -> (Value, Value) {
    let strip = |mut value: Value| {
        remove_entries(&mut value);
        value
    };
    if part != ObjectPart::Status {
        return (strip(old.tracked_value()), strip(new.tracked_value()));
    }
    let metadata = |meta: &ObjectMeta| ObjectMeta {
        labels: meta.labels.clone(),
        annotations: meta.annotations.clone(),
        finalizers: meta.finalizers.clone(),
        owner_references: meta.owner_references.clone(),
        ..ObjectMeta::default()
    };
    let (before, now) = (metadata(old.meta()), metadata(new.meta()));
    let nothing = ObjectMeta::default();
    let (before, now) = if before == now { (&nothing, &nothing) } else { (&before, &now) };
    let value = |object: &dyn AnyObject, meta| strip(object.to_status_value(meta, &|_| false));
    (value(old, before), value(new, now))
}

/// Takes back the times of entries when nothing else of the object has changed: a write that
/// changes nothing is none.
pub(crate) fn keep_times_of_unchanged(object: &mut dyn AnyObject, old: &dyn AnyObject) {
    let kept = &old.meta().managed_fields;
    let is_same = object.meta().managed_fields == *kept;
    if is_same || !managed_entries::same_but_for_times(&object.meta().managed_fields, kept) {
        return;
    }
    let written = std::mem::replace(&mut object.meta_mut().managed_fields, kept.clone());
    if !object.same_as(old) {
        object.meta_mut().managed_fields = written;
    }
}
