//! What is wrong with a request apart from its object, in the order in which upstream looks.

use crate::call::ApiCall;
use crate::request::{RequestVerb, accept};
use crate::status::ApiError;
use crate::{decode, managed_fields, patch};

/// What upstream looks at to find the handler of a path. No handler, no warnings.
///
/// # Errors
/// 406, or 415 for a patch.
pub(crate) fn check_media_types(call: &ApiCall<'_>, verb: RequestVerb) -> Result<(), ApiError> {
    if !call.path.subresource.is_empty() {
        return Ok(());
    }
    if verb == RequestVerb::Patch {
        patch::check_media_type(&call.request.content_type)?;
    }
    accept::check_media_types(&call.request.accept, call.has_protobuf())
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
    if call.path.subresource.is_empty() {
        call.form()?;
        if verb == RequestVerb::Create {
            decode::body_format(&call.request.content_type)?;
        }
    }
    if !call.path.is_long_running() {
        call.options.check(verb)?;
    }
    managed_fields::check_options(call, verb)
}
