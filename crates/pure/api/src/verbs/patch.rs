//! patch: changes an object in part, in one of the patch formats.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::{AnyObject, KindEntry, KindOrigin};
use rekindle_types::validation::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::create::create_object;
use super::update::{self, FieldOwnership, ProposedObject, change};
use crate::admission;
use crate::auth::AccessAttributes;
use crate::call::{ATTEMPTS_MAX, ApiCall, ObjectPart};
use crate::custom::VersionCodec;
use crate::decode::{self, FieldValidation, UnreadableBody};
use crate::managed_fields::{self, AppliedConfig};
use crate::object_meta;
use crate::outcome::RequestOutcome;
use crate::patch::Patch;
use crate::request::{Representation, RequestVerb};
use crate::status::ApiError;

pub(crate) fn patch(call: &ApiCall<'_>, part: ObjectPart) -> Result<RequestOutcome, ApiError> {
    if managed_fields::is_apply(&call.request.content_type) {
        return apply(call, part);
    }
    let patch = read(call)?;
    if let Some(entry) = stored_version(call, part, &patch)? {
        let in_stored = call.in_stored_version(&entry);
        let mut first = Some(patch);
        return change(&in_stored, part, |old| {
            let patch = first.take().map_or_else(|| read(call), Ok)?;
            propose(&in_stored, patch, old.to_value())
        });
    }
    let mut first = Some(patch);
    change(call, part, |old| {
        // who has lost a race reads it once more, so that nobody else has to keep a copy
        let patch = first.take().map_or_else(|| read(call), Ok)?;
        match part == ObjectPart::Status && patch.is_of_status() {
            true => propose_status(call, patch, old),
            false => propose(call, patch, old.to_value()),
        }
    })
}

/// The version that an object is stored in, when a patch needs no other one: it changes who holds
/// or owns the object, no policy and no webhook looks at it, and the answer shows metadata alone.
/// So the work of controllers does not wait for a webhook that converts objects.
fn stored_version(
    call: &ApiCall<'_>,
    part: ObjectPart,
    patch: &Patch,
) -> Result<Option<Arc<KindEntry>>, ApiError> {
    let is_of_metadata = matches!(call.form()?, Representation::Metadata(..))
        && part == ObjectPart::Main
        && patch.is_of_status()
        && patch.says_only("status", &[])
        && patch.says_only("metadata", &HELD_BY);
    if VersionCodec::of_converted(call.entry).is_none() || !is_of_metadata {
        return Ok(None);
    }
    let stored = call.newest()?;
    let object = call.api.read(call.entry, &stored)?;
    if admission::is_change_reviewed(call, object.as_ref())? {
        return Ok(None);
    }
    Ok(call.api.custom.stored_version(call.api, call.entry, &stored))
}

/// The metadata that says who holds and owns an object, and which version of it is meant.
const HELD_BY: [&str; 4] = ["uid", "resourceVersion", "finalizers", "ownerReferences"];

/// Applies a configuration: the object is made when it is not there.
fn apply(call: &ApiCall<'_>, part: ObjectPart) -> Result<RequestOutcome, ApiError> {
    let config = AppliedConfig::read(call)?;
    let is_there = || call.api.store.newest(&call.key()).is_some();
    for _ in 0..ATTEMPTS_MAX {
        let is_new = part == ObjectPart::Main && !is_there();
        if is_new {
            match create_applied(call, &config) {
                // it was made in between; a webhook may refuse with any reason
                Err(error) if error.status().reason == "AlreadyExists" && is_there() => continue,
                other => return other,
            }
        }
        let applied = change(call, part, |old| {
            let mut object = config.change(call, part, old)?;
            object_meta::settle_namespace(call.entry, object.meta_mut(), call.path)?;
            object_meta::check_name(object.meta(), call.path)?;
            let warnings = config.warnings.clone();
            Ok(ProposedObject { object, warnings, ownership: FieldOwnership::Applied })
        });
        match applied {
            // it went in between
            Err(error)
                if part == ObjectPart::Main
                    && error.code() == StatusCode::NOT_FOUND
                    && !is_there() => {}
            other => return other,
        }
    }
    Err(ApiError::modified(call.entry, &call.path.name))
}

fn create_applied(call: &ApiCall<'_>, config: &AppliedConfig) -> Result<RequestOutcome, ApiError> {
    call.api.authorize(
        &call.request.identity,
        &AccessAttributes::Resource {
            verb: RequestVerb::Create.name(),
            group: &call.path.group,
            resource: &call.path.resource,
            subresource: "",
            namespace: &call.path.namespace,
            name: &call.path.name,
        },
    )?;
    let mut object = config.create(call)?;
    object_meta::settle_namespace(call.entry, object.meta_mut(), call.path)?;
    object.meta_mut().name.get_or_insert_with(|| call.path.name.clone());
    object_meta::check_name(object.meta(), call.path)?;
    create_object(call, object, config.warnings.clone(), FieldOwnership::Applied)
}

fn read(call: &ApiCall<'_>) -> Result<Patch, ApiError> {
    match call.entry.origin {
        KindOrigin::BuiltIn => Patch::read(&call.request.content_type, &call.request.body),
        KindOrigin::Definition => {
            Patch::read_for_custom(&call.request.content_type, &call.request.body)
        }
    }
}

/// The same of a patch of metadata and status: the rest of the object comes from the old one,
/// whatever is proposed. Most patches say of the metadata no more than which version of which
/// object they are for.
fn propose_status(
    call: &ApiCall<'_>,
    patch: Patch,
    old: &dyn AnyObject,
) -> Result<ProposedObject, ApiError> {
    let metadata = old.meta();
    let is_replaced = |field: &str| patch.replaces(&["status", field]);
    if !patch.says_only("metadata", &["uid", "resourceVersion"]) {
        let old = old.to_status_value(metadata, &is_replaced);
        return propose(call, patch, old);
    }
    let named = ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        ..ObjectMeta::default()
    };
    let old = old.to_status_value(&named, &is_replaced);
    let mut proposal = propose(call, patch, old)?;
    let ObjectMeta { uid, resource_version, .. } = std::mem::take(proposal.object.meta_mut());
    *proposal.object.meta_mut() = ObjectMeta { uid, resource_version, ..metadata.clone() };
    Ok(proposal)
}

/// The object that a patch makes of the current one.
fn propose(
    call: &ApiCall<'_>,
    mut patch: Patch,
    old: serde_json::Value,
) -> Result<ProposedObject, ApiError> {
    let schema = call.entry.codec.schema_name();
    let duplicate_fields = patch.take_duplicate_fields();
    let mut strict_errors = patch.take_unknown_fields();
    let keeps_type = patch.keeps_type();
    let mut body = decode::Body { value: patch.apply(&schema, old)?, duplicate_fields };
    let type_change = settle_type(call.entry, keeps_type, &mut body.value);
    let invalid = |why: String| match read(call) {
        Ok(patch) => {
            ApiError::invalid_patch(&FieldError::invalid("patch", patch.shown(&body.value), why))
        }
        Err(error) => error,
    };
    let (mut object, more) = match type_change.map_err(|why| why.into_error(invalid))? {
        PatchedType::Kept => decode::object_and_strict_errors(call.entry, &body),
        PatchedType::Unversioned { unknown_fields, bare } => {
            strict_errors.extend(unknown_fields);
            decode::object_and_strict_errors(call.entry, &bare)
        }
    }
    .map_err(|why| why.into_error(invalid))?;
    strict_errors.extend(more.texts());
    let warnings = match call.options.field_validation {
        FieldValidation::Strict if !strict_errors.is_empty() => {
            return Err(invalid(format!("strict decoding error: {}", strict_errors.join(", "))));
        }
        FieldValidation::Warn => strict_errors,
        FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
    };
    update::check_place(call, object.meta_mut())
        .map_err(|error| error.with_warnings(warnings.clone()))?;
    Ok(ProposedObject { object, warnings, ownership: FieldOwnership::Tracked })
}

/// What a patch makes of the type of an object.
enum PatchedType {
    /// It stays.
    Kept,
    /// It has no version any more, so that upstream knows none of its fields.
    Unversioned {
        /// What a strict reader refuses.
        unknown_fields: Vec<String>,
        /// What is left of the object.
        bare: decode::Body,
    },
}

/// A patch makes nothing else of an object, whether it may name another type (`keeps_type`) or not.
fn settle_type(
    entry: &KindEntry,
    keeps_type: bool,
    patched: &mut Value,
) -> Result<PatchedType, UnreadableBody> {
    let found = decode::type_error::json_type(patched);
    let Some(fields) = patched.as_object_mut() else {
        let why = format!("json: cannot unmarshal {found} into a {}", entry.kind);
        return Err(UnreadableBody::Type(why));
    };
    for name in TYPE_FIELDS {
        match fields.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let found = decode::type_error::json_type(other);
                return Err(UnreadableBody::Type(format!(
                    "json: cannot unmarshal {found} into field {name} of type string"
                )));
            }
        }
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    // a kind that the patch takes away is the one of the path, as in any body
    let has_kind = kind == entry.kind || kind.is_empty() && entry.origin == KindOrigin::BuiltIn;
    if has_kind && api_version.is_empty() && !keeps_type && entry.origin == KindOrigin::BuiltIn {
        let unknown = fields.keys().filter(|name| !TYPE_FIELDS.contains(&name.as_str()));
        let unknown_fields = unknown.map(|name| format!("unknown field {name:?}")).collect();
        let value = json!({"apiVersion": entry.api_version, "kind": entry.kind});
        let bare = decode::Body { value, duplicate_fields: Vec::new() };
        return Ok(PatchedType::Unversioned { unknown_fields, bare });
    }
    let is_same = has_kind && api_version == entry.api_version;
    if !is_same
        && entry.origin == KindOrigin::Definition
        && !api_version.is_empty()
        && !kind.is_empty()
    {
        return Err(UnreadableBody::Word(other_custom_type(entry, fields)));
    }
    if !is_same && entry.origin == KindOrigin::Definition {
        let has_kind = !kind.is_empty();
        return Err(without_type(has_kind, patched));
    }
    if !is_same && !keeps_type {
        return Err(UnreadableBody::Type(format!(
            "apiVersion and kind cannot change: they are {:?} and {:?}, not {api_version:?} and {kind:?}",
            entry.api_version, entry.kind
        )));
    }
    fields.insert("apiVersion".to_owned(), entry.api_version.as_ref().into());
    fields.insert("kind".to_owned(), entry.kind.as_ref().into());
    Ok(PatchedType::Kept)
}

/// The answer to a patch that takes the kind or the version of a custom object away.
fn without_type(has_kind: bool, patched: &Value) -> UnreadableBody {
    if !has_kind {
        return UnreadableBody::Type(format!("Object 'Kind' is missing in '{patched}'"));
    }
    let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
    UnreadableBody::Word(ApiError::internal(why))
}

/// The answer to a custom object of another type than that of its path.
fn other_custom_type(entry: &KindEntry, fields: &Map<String, Value>) -> ApiError {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let own = [("kind", &entry.kind), ("apiVersion", &entry.api_version)];
    let errors: Vec<FieldError> = own
        .iter()
        .filter(|(name, own)| text(name) != own.as_ref())
        .map(|(name, own)| FieldError::invalid(*name, text(name), format!("must be {own}")))
        .collect();
    let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    let name = fields.get("metadata").and_then(|meta| meta["name"].as_str());
    ApiError::invalid_kind(group, text("kind"), name.unwrap_or_default(), &errors)
}

/// The fields that say of which type an object is.
const TYPE_FIELDS: [&str; 2] = ["apiVersion", "kind"];
