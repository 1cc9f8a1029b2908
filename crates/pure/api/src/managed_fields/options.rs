//! The options of a write that concern owners.

use rekindle_types::validation::field_error::FieldError;

use crate::call::ApiCall;
use crate::decode::media_type::media_type;
use crate::request::RequestVerb;
use crate::status::ApiError;

/// Bytes of an owner's name, as upstream.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The group of the options' kinds.
const GROUP: &str = "meta.k8s.io";

/// The content type of an apply.
const APPLY_MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// Whether a request is an apply.
pub(crate) fn is_apply(content_type: &str) -> bool {
    media_type(content_type) == APPLY_MEDIA_TYPE
}

/// Refuses options that make no sense.
pub(crate) fn check(call: &ApiCall<'_>, verb: RequestVerb) -> Result<(), ApiError> {
    let kind = match verb {
        RequestVerb::Create => "CreateOptions",
        RequestVerb::Update => "UpdateOptions",
        RequestVerb::Patch => "PatchOptions",
        RequestVerb::Get
        | RequestVerb::List
        | RequestVerb::Watch
        | RequestVerb::Delete
        | RequestVerb::DeleteCollection => return Ok(()),
    };
    let manager = call.options.get("fieldManager").unwrap_or_default();
    let is_apply = verb == RequestVerb::Patch && is_apply(&call.request.content_type);
    let mut errors = Vec::new();
    if is_apply && manager.is_empty() {
        errors.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if verb == RequestVerb::Patch && !is_apply && call.options.get("force").is_some() {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX));
    }
    if let Some(character) = manager.chars().find(|character| !is_printable(*character)) {
        let at = manager.find(character).unwrap_or_default();
        errors.push(FieldError::invalid(
            "fieldManager",
            manager.to_owned(),
            format!("invalid character {} (at position {at})", go_quoted(character)),
        ));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_kind(GROUP, kind, "", &errors)),
    }
}

/// Go's `unicode.IsPrint`, as far as names of programs need it: no control characters, and of
/// spaces the plain one.
fn is_printable(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}

/// A character as upstream's message shows it (`%#U`).
fn go_quoted(character: char) -> String {
    format!("U+{:04X}", u32::from(character))
}
