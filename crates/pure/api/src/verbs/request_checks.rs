//! What is wrong with a request apart from its object, in the order in which upstream looks.

use rekindle_kinds::registry::KindOrigin;

use crate::call::ApiCall;
use crate::request::RequestVerb;
use crate::request::accept::{self, HandlerTypes};
use crate::status::ApiError;
use crate::{decode, managed_fields, patch};

/// What upstream looks at to find the handler of a path. No handler, no warnings.
///
/// # Errors
/// 406, or 415 for a patch.
pub(crate) fn check_media_types(call: &ApiCall<'_>, verb: RequestVerb) -> Result<(), ApiError> {
    let path = call.path;
    if verb == RequestVerb::Patch && path.subresource.is_empty() {
        patch::check_media_type(&call.request.content_type)?;
    }
    // kinds of definitions have no routes of their own
    if path.is_long_running() || call.entry.origin == KindOrigin::Definition {
        return Ok(());
    }
    let is_read = matches!(verb, RequestVerb::List | RequestVerb::Watch);
    let handler = match is_read && path.name.is_empty() {
        true => HandlerTypes::Collection,
        false => HandlerTypes::Objects,
    };
    accept::check_handler(&call.request.accept, handler)
}

/// Before anything is looked at or written: the form of the answer, that of a new object, the
/// options.
///
/// # Errors
/// 406, 415, 400, or 422.
pub(crate) fn check_form_and_options(
    call: &ApiCall<'_>,
    verb: RequestVerb,
) -> Result<(), ApiError> {
    let is_create = verb == RequestVerb::Create;
    if is_create && call.path.subresource.is_empty() {
        call.form()?;
        decode::body_format(&call.request.content_type)?;
    } else if is_create && !call.path.is_long_running() {
        // of what a subresource makes there are no tables
        accept::negotiate_encoding(&call.request.accept)?;
    } else if !call.path.is_long_running() {
        call.form()?;
    }
    if !call.path.is_long_running() {
        call.options.check(verb)?;
    }
    managed_fields::check_options(call, verb)
}
