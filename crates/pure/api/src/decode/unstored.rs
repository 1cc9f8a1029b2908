//! Bodies of kinds that are never stored: requests for tokens, bindings, evictions.

use rekindle_types::ObjectJson;
use serde_json::{Map, Value};

use super::{FieldValidation, StrictErrors, body_format, read, type_error};
use crate::request::ApiRequest;
use crate::status::ApiError;

/// The kind that a path takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnstoredKind {
    /// `policy/v1`.
    pub(crate) api_version: &'static str,
    /// `Eviction`.
    pub(crate) kind: &'static str,
}

/// A body as read, with the warnings that its reading gave.
pub(crate) struct UnstoredBody<T> {
    /// The object.
    pub(crate) object: T,
    /// For Warning headers.
    pub(crate) warnings: Vec<String>,
}

/// Reads the body of a request. `apiVersion` and `kind` may be left out, as kube-rs does.
///
/// # Errors
/// 400, in upstream's words.
pub(crate) fn unstored<T: ObjectJson>(
    request: &ApiRequest,
    field_validation: FieldValidation,
    wanted: UnstoredKind,
) -> Result<UnstoredBody<T>, ApiError> {
    let format = body_format(&request.content_type)?;
    let mut body = read(format, &request.body)?;
    wanted.check(&mut body.value)?;
    let (object, unknown) = T::from_value_strictly(&body.value)
        .map_err(|error| wanted.unreadable(wanted.kind, &type_error::text(&error)))?;
    let strict_errors = StrictErrors { unknown, duplicate: body.duplicate_fields }
        .texts_of_document(format, &request.body);
    match field_validation {
        FieldValidation::Strict if !strict_errors.is_empty() => {
            let why = format!("strict decoding error: {}", strict_errors.join(", "));
            Err(wanted.unreadable(wanted.kind, &why))
        }
        FieldValidation::Strict | FieldValidation::Ignore => {
            Ok(UnstoredBody { object, warnings: Vec::new() })
        }
        FieldValidation::Warn => Ok(UnstoredBody { object, warnings: strict_errors }),
    }
}

impl UnstoredKind {
    fn unreadable(self, given: &str, why: &str) -> ApiError {
        let version = self.api_version.rsplit('/').next().unwrap_or(self.api_version);
        let kind = self.kind;
        ApiError::bad_request(format!(
            "{given} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    }

    /// Takes `apiVersion` and `kind` out, which must be these if they are there.
    fn check(self, value: &mut Value) -> Result<(), ApiError> {
        let kind = self.kind;
        let Value::Object(fields) = value else {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get \
                 version/kind; json parse error: json: cannot unmarshal {} into an object",
                type_error::json_type(value)
            )));
        };
        let text = |fields: &Map<String, Value>, field: &str| {
            fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (api_version, given) = (text(fields, "apiVersion"), text(fields, "kind"));
        let is_version = api_version.is_empty() || api_version == self.api_version;
        if !is_version || !(given.is_empty() || given == kind) {
            let why = format!(
                "no kind {given:?} is registered for version {api_version:?}: send {kind} of {}",
                self.api_version
            );
            return Err(self.unreadable(&given, &why));
        }
        fields.remove("apiVersion");
        fields.remove("kind");
        Ok(())
    }
}
