//! patch: changes an object in part, in one of the patch formats.

use super::update::{Proposal, change};
use crate::call::{Call, Part};
use crate::decode::{self, FieldValidation};
use crate::object_meta;
use crate::outcome::Outcome;
use crate::patch::Patch;
use crate::registry::FieldError;
use crate::status::ApiError;

pub(crate) fn patch(call: &Call<'_>, part: Part) -> Result<Outcome, ApiError> {
    let mut first = Some(read(call)?);
    change(call, part, |old| {
        // who has lost a race reads it once more, so that nobody else has to keep a copy
        let patch = first.take().map_or_else(|| read(call), Ok)?;
        // the rest of the object comes from the old one then, whatever is proposed
        let is_of_status = part == Part::Status && patch.is_of_status();
        let old = match is_of_status {
            true => old.to_status_value(&|field| patch.replaces(&["status", field])),
            false => old.to_value(),
        };
        propose(call, patch, old)
    })
}

fn read(call: &Call<'_>) -> Result<Patch, ApiError> {
    Patch::read(&call.request.content_type, &call.request.body)
}

/// The object that a patch makes of the current one.
fn propose(
    call: &Call<'_>,
    mut patch: Patch,
    old: serde_json::Value,
) -> Result<Proposal, ApiError> {
    let schema = (call.entry.schema_name)();
    let duplicate_fields = patch.take_duplicate_fields();
    let patched = patch.apply(&schema, old)?;
    let invalid = |why: String| match read(call) {
        Ok(patch) => ApiError::invalid_patch(&FieldError::invalid("patch", patch.shown(), why)),
        Err(error) => error,
    };
    let body = decode::Body { value: patched, duplicate_fields };
    let fields = body.value.as_object();
    let same = |name: &str, expected: &str| {
        fields.and_then(|fields| fields.get(name)).and_then(serde_json::Value::as_str)
            == Some(expected)
    };
    if !same("apiVersion", call.entry.api_version) || !same("kind", call.entry.kind) {
        return Err(ApiError::bad_request(format!(
            "the patch would make something else of the {}: apiVersion and kind cannot change",
            call.entry.kind
        )));
    }
    let (mut object, strict_errors) =
        decode::object_and_strict_errors(call.entry, body).map_err(&invalid)?;
    let warnings = match call.options.field_validation {
        FieldValidation::Strict if !strict_errors.is_empty() => {
            return Err(invalid(format!("strict decoding error: {}", strict_errors.join(", "))));
        }
        FieldValidation::Warn => strict_errors,
        FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
    };
    object_meta::settle_namespace(call.entry, object.meta_mut(), call.path)?;
    object_meta::settle_name(object.meta_mut(), call.path)?;
    Ok(Proposal { object, warnings })
}
