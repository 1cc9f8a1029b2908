//! get: one object, as durably stored.

use http::StatusCode;

use crate::call::Call;
use crate::outcome::{Answer, Outcome};
use crate::revision;
use crate::status::ApiError;

pub(crate) fn get(call: &Call<'_>) -> Result<Outcome, ApiError> {
    revision::check_reached(call.api.store.revision(), &call.options.resource_version)?;
    let object = call.stored()?;
    Ok(Answer::json(StatusCode::OK, call.renderer()?.object(&object.value)?).into())
}
