//! Configuration that a driver understands, and nothing else.

use k8s_openapi::api::resource::v1::OpaqueDeviceConfiguration;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::Value;

use crate::validation::Path;
use crate::validation::driver_name::name_errors as driver_errors;

/// The most entries of configuration of a claim or a class.
pub(super) const CONFIGURATIONS_MAX: usize = 32;
/// The most that a driver is given, as JSON.
pub(super) const DATA_BYTES_MAX: usize = 10 * 1024;

/// What is wrong with one entry of configuration.
pub(super) fn errors(opaque: Option<&OpaqueDeviceConfiguration>, field: &Path) -> Vec<FieldError> {
    let field = field.child("opaque");
    let Some(opaque) = opaque else { return vec![FieldError::required(field, "")] };
    let mut errors = driver_errors(&opaque.driver, &field.child("driver"));
    errors.extend(data_error(&opaque.parameters, &field.child("parameters")));
    errors
}

/// What is wrong with data for a driver, or of one: it must be an object in JSON.
pub(super) fn data_error(data: &RawExtension, field: &Path) -> Option<FieldError> {
    if data.0.is_null() {
        return Some(FieldError::required(field, ""));
    }
    if data.0.to_string().len() > DATA_BYTES_MAX {
        return Some(FieldError::too_long(field, DATA_BYTES_MAX));
    }
    let why = "must be a valid JSON object";
    (!matches!(data.0, Value::Object(_))).then(|| FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid("\"<value omitted>\"".to_owned()),
        detail: why.to_owned(),
    })
}
