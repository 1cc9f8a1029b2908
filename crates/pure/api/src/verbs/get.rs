//! get: one object, as durably stored.

use http::StatusCode;

use crate::call::ApiCall;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::revision;
use crate::status::ApiError;

pub(crate) fn get(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    revision::check_reached(call.api.store.revision(), &call.options.resource_version)?;
    let renderer = call.renderer()?;
    let object = call.shown(renderer.form, call.stored()?)?;
    Ok(ApiAnswer::json(StatusCode::OK, renderer.object(&object.value)?).into())
}
