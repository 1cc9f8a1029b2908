//! get: one object, as durably stored.

use http::StatusCode;

use crate::call::ApiCall;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::status::ApiError;
use crate::{expiry, revision};

pub(crate) fn get(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let asked = &call.options.resource_version;
    if expiry::expires(call.entry) {
        // upstream reads Events from its database, which says this as it does of lists
        revision::parse(asked).map_err(|error| ApiError::bad_request(error.to_string()))?;
    }
    revision::check_reached(call.api.store.revision(), asked)
        .map_err(|error| if expiry::expires(call.entry) { error.without_retry() } else { error })?;
    let renderer = call.renderer()?;
    let object = call.shown(renderer.form, call.stored()?)?;
    Ok(ApiAnswer::json(StatusCode::OK, renderer.object(&object.value)?).into())
}
