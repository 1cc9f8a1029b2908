//! Server-side apply: from the configuration of one owner to the object that becomes of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use rekindle_kinds::registry::{AnyObject, KindEntry, builtin_types, managed_entries};
use rekindle_structured_merge::{
    AppliedObject, FieldConflicts, FieldOperation, FieldOwner, FieldOwners, FieldSet,
    OwnershipChange, SchemaMismatch, TypedSchema,
};
use rekindle_types::Tick;
use serde_json::{Value, json};

use super::{last_applied, owner, remove_entries};
use crate::call::{ApiCall, ObjectPart};
use crate::decode::{self, FieldValidation};
use crate::status::{ApiError, FieldCause};
use crate::subresources::scale;

/// The type of an autoscaling/v1 Scale.
const SCALE: ObjectType<'_> = ObjectType { api_version: "autoscaling/v1", kind: "Scale" };

/// The type that an object says it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObjectType<'t> {
    api_version: &'t str,
    kind: &'t str,
}

impl std::fmt::Display for ObjectType<'_> {
    /// As Go shows a GroupVersionKind.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.api_version.contains('/') { "" } else { "/" };
        write!(f, "{slash}{}, Kind={}", self.api_version, self.kind)
    }
}

/// What an owner wants of an object: all that it cares about, and nothing else.
pub(crate) struct AppliedConfig {
    config: Value,
    /// For Warning headers.
    pub(crate) warnings: Vec<String>,
}

/// The object that an apply makes, still as JSON, with its entries.
struct AppliedTree {
    object: Value,
    entries: Option<Vec<ManagedFieldsEntry>>,
}

impl AppliedConfig {
    /// Reads and checks the body of an apply to an object of the call's kind.
    pub(crate) fn read(call: &ApiCall<'_>) -> Result<Self, ApiError> {
        let expected = ObjectType { api_version: &call.entry.api_version, kind: &call.entry.kind };
        Self::read_as(call, expected, call.entry.codec.merge_schema())
    }

    fn read_as(
        call: &ApiCall<'_>,
        expected: ObjectType<'_>,
        schema: TypedSchema<'_>,
    ) -> Result<Self, ApiError> {
        let body = decode::read_apply(&call.request.body)?;
        let text = |field| body.value.get(field).and_then(Value::as_str).unwrap_or_default();
        let given = ObjectType { api_version: text("apiVersion"), kind: text("kind") };
        if given != expected {
            return Err(ApiError::bad_request(format!("invalid object type: {given}")));
        }
        if body.value.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let mismatches = schema.validate(&body.value);
        if !mismatches.is_empty() {
            return Err(untyped(expected, &body.value, &mismatches));
        }
        let duplicates = body.duplicate_fields.iter();
        let duplicates: Vec<_> =
            duplicates.map(|path| format!("duplicate field {path:?}")).collect();
        let warnings = match call.options.field_validation {
            FieldValidation::Strict if !duplicates.is_empty() => {
                let why = duplicates.join(", ");
                return Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")));
            }
            FieldValidation::Warn => duplicates,
            FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
        };
        Ok(Self { config: body.value, warnings })
    }

    /// The object that the call's object becomes.
    pub(crate) fn change(
        &self,
        call: &ApiCall<'_>,
        part: ObjectPart,
        old: &dyn AnyObject,
    ) -> Result<Box<dyn AnyObject>, ApiError> {
        let mut live = without_entries(old);
        if call.path.is_scale() {
            scale::drop_zero_count(old, &mut live);
        }
        let kept = old.meta().managed_fields.as_deref().unwrap_or_default();
        let owners = managed_entries::read(kept).map_err(|error| {
            ApiError::internal(format!("failed to decode managed fields: {error}"))
        })?;
        let ignored = owner::ignored(call.entry, part, Some(old));
        let owners = match owners.is_empty() {
            true => before_first_apply(call, &ignored, old),
            false => owners,
        };
        let mut applied = self.applied(call, &ignored, &live, owners)?;
        if call.path.is_scale() {
            scale::show_zero_count(old, &mut applied.object);
        }
        self.decode_applied(call, applied)
    }

    /// A new object, of a call whose object is not there.
    pub(crate) fn create(&self, call: &ApiCall<'_>) -> Result<Box<dyn AnyObject>, ApiError> {
        let given = |field: &str| {
            self.config["metadata"].get(field).and_then(Value::as_str).unwrap_or_default()
        };
        let ignored = owner::ignored(call.entry, ObjectPart::Main, None);
        let applied = self.applied(call, &ignored, &json!({}), FieldOwners::default())?;
        if given("name").is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.path.name
            )));
        }
        let uid = given("uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was \
                 found"
            );
            return Err(ApiError::conflict(call.entry, &call.path.name, &why));
        }
        let mut object = self.decode_applied(call, applied)?;
        object.meta_mut().resource_version = None;
        Ok(object)
    }

    fn applied(
        &self,
        call: &ApiCall<'_>,
        ignored: &FieldSet,
        live: &Value,
        owners: FieldOwners,
    ) -> Result<AppliedTree, ApiError> {
        let owner = owner::of_call(call, FieldOperation::Apply);
        let is_forced = call.options.flag("force");
        let change = ownership_change(call, &owner, ignored);
        let applied = change.apply(live, &self.config, &owners, is_forced);
        let applied = match applied {
            Err(conflicts) if owner.manager == last_applied::KUBECTL => {
                let theirs = last_applied::unchanged_since(change, call.entry, live);
                let left = conflicts.without(&theirs);
                match left.0.is_empty() {
                    true => change.apply(live, &self.config, &owners, true),
                    false => Err(left),
                }
            }
            other => other,
        };
        let AppliedObject { mut object, owners } =
            applied.map_err(|error| conflict(call, error))?;
        if owner.manager == last_applied::KUBECTL {
            last_applied::follow(&mut object, &self.config);
        }
        Ok(AppliedTree { object, entries: managed_entries::write(&owners) })
    }

    fn decode_applied(
        &self,
        call: &ApiCall<'_>,
        applied: AppliedTree,
    ) -> Result<Box<dyn AnyObject>, ApiError> {
        let type_ = ObjectType { api_version: &call.entry.api_version, kind: &call.entry.kind };
        let value = call.entry.codec.merge_schema().with_texts_for_nulls(applied.object);
        let body = decode::Body { value, duplicate_fields: Vec::new() };
        // 500, as upstream
        let unfit = |why: String| {
            ApiError::without_reason(format!(
                "failed to convert new object ({}; {type_}) to proper version: unable to convert unstructured object to {type_}: {why}",
                named(&self.config),
            ))
        };
        let (mut object, _) = decode::object_and_strict_errors(call.entry, &body)
            .map_err(|why| why.into_error(unfit))?;
        object.meta_mut().managed_fields = applied.entries;
        Ok(object)
    }
}

/// The entries of an object after a part of the server has applied `config` to it, by force and
/// under this name. Of an object that has no owners none are noted.
pub(crate) fn entries_after_own_apply(
    entry: &KindEntry,
    live: &dyn AnyObject,
    (manager, config): (&str, &Value),
    now: Tick,
) -> Option<Vec<ManagedFieldsEntry>> {
    let kept = live.meta().managed_fields.as_deref().unwrap_or_default();
    let owners = managed_entries::read(kept).ok().filter(|owners| !owners.is_empty())?;
    let owner = FieldOwner {
        manager: manager.to_owned(),
        operation: FieldOperation::Apply,
        api_version: String::new(),
        subresource: String::new(),
    };
    let change = OwnershipChange {
        schema: entry.codec.merge_schema(),
        owner: &owner,
        api_version: &entry.api_version,
        ignored: &owner::ignored(entry, ObjectPart::Main, Some(live)),
        now_seconds: Some(now.to_time().0.as_second()),
    };
    let applied = change.apply(&without_entries(live), config, &owners, true);
    managed_entries::write(&applied.ok()?.owners)
}

/// The object without its entries.
fn without_entries(object: &dyn AnyObject) -> Value {
    let mut value = object.to_value();
    remove_entries(&mut value);
    value
}

/// A Scale that is applied, as a configuration of the workload behind it.
pub(crate) fn apply_scale(call: &ApiCall<'_>) -> Result<AppliedConfig, ApiError> {
    let scale = AppliedConfig::read_as(call, SCALE, builtin_types::of_scale())?;
    let mut config = json!({"apiVersion": call.entry.api_version, "kind": call.entry.kind});
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = scale.config["metadata"].get(field) {
            config["metadata"][field] = value.clone();
        }
    }
    if let Some(replicas) = scale.config["spec"].get("replicas") {
        config["spec"]["replicas"] = replicas.clone();
    }
    Ok(AppliedConfig { config, warnings: scale.warnings })
}

/// Who owns what of an object that has no owners: all of it is of one that is made up.
fn before_first_apply(call: &ApiCall<'_>, ignored: &FieldSet, old: &dyn AnyObject) -> FieldOwners {
    let owner = FieldOwner {
        manager: FieldOwners::BEFORE_FIRST_APPLY.to_owned(),
        ..owner::of_call(call, FieldOperation::Update)
    };
    let mut tracked = old.tracked_value();
    remove_entries(&mut tracked);
    let change = ownership_change(call, &owner, ignored);
    change.update(&old.blank_value(&tracked), &tracked, FieldOwners::default())
}

fn ownership_change<'a>(
    call: &'a ApiCall<'_>,
    owner: &'a FieldOwner,
    ignored: &'a FieldSet,
) -> OwnershipChange<'a> {
    OwnershipChange {
        schema: call.entry.codec.merge_schema(),
        owner,
        api_version: &call.entry.api_version,
        ignored,
        now_seconds: owner::write_seconds(call),
    }
}

/// 409, with a cause for each field.
fn conflict(call: &ApiCall<'_>, mut conflicts: FieldConflicts) -> ApiError {
    if call.path.is_scale() {
        // upstream looks for them in the Scale
        let owners = conflicts.0.iter_mut().map(|conflict| &mut conflict.owner);
        owners.for_each(|owner| owner.api_version = SCALE.api_version.to_owned());
    }
    let causes = conflicts.0.iter().map(|conflict| FieldCause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.owner),
        field: conflict.path.to_string(),
    });
    ApiError::apply_conflict(conflicts.to_string(), causes.collect())
}

/// 500, as upstream answers a configuration that does not fit its type.
fn untyped(expected: ObjectType<'_>, config: &Value, mismatches: &[SchemaMismatch]) -> ApiError {
    let what = match mismatches {
        [one] => one.to_string(),
        many => many.iter().fold("errors:".to_owned(), |all, one| format!("{all}\n  {one}")),
    };
    ApiError::without_reason(format!(
        "failed to create typed patch object ({}; {expected}): {what}",
        named(config)
    ))
}

/// The namespace and the name that a configuration gives.
fn named(config: &Value) -> String {
    let metadata =
        |field: &str| config["metadata"].get(field).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", metadata("namespace"), metadata("name"))
}
