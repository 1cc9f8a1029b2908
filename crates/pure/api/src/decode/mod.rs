//! From the bytes of a request to an object: bounded, strict, with the path of everything that is
//! wrong.

mod built_in_form;
pub(crate) mod media_type;
mod strict_errors;
mod tracked;
pub mod type_error;
mod unstored;

use serde_json::{Map, Value};

use crate::status::ApiError;

use crate::protobuf::{self, ProtobufError};

use rekindle_kinds::registry::{AnyObject, DecodeError, KindEntry, KindOrigin};
use rekindle_types::validation::field_error::FieldError;
pub use strict_errors::StrictErrors;
use tracked::BodyReadError;
pub use tracked::{DEPTH_MAX, VALUES_MAX};
pub(crate) use unstored::{UnstoredBody, UnstoredKind, unstored};

/// The most bytes of a body, as upstream (3 MiB).
pub const BODY_BYTES_MAX: usize = 3 << 20;

/// What a client wants done about fields that do not belong there (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Refuse the request.
    Strict,
    /// Drop them and say so in Warning headers. The default, as upstream.
    #[default]
    Warn,
    /// Drop them.
    Ignore,
}

/// A format that a body can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON.
    Json,
    /// YAML, one document.
    Yaml,
    /// Kubernetes' protobuf.
    Protobuf,
}

/// A body as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// Its content; the last of duplicate fields counts.
    pub value: Value,
    /// The paths of fields that stood there twice.
    pub duplicate_fields: Vec<String>,
}

/// The format that a `Content-Type` names; none at all is JSON.
pub fn body_format(content_type: &str) -> Result<BodyFormat, ApiError> {
    let (media_type, parameters) = media_type::split(content_type);
    match media_type.to_ascii_lowercase().as_str() {
        _ if !media_type::are_readable(parameters) => Err(unknown_format()),
        "" | "application/json" => Ok(BodyFormat::Json),
        "application/vnd.kubernetes.protobuf" => Ok(BodyFormat::Protobuf),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(BodyFormat::Yaml),
        _ => Err(unknown_format()),
    }
}

fn unknown_format() -> ApiError {
    ApiError::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// How much of a body an error shows.
const SHOWN_BYTES_MAX: usize = 30;
/// How much of a body an error quotes.
const DOCUMENT_BYTES_MAX: usize = 4_096;

/// Reads a body.
pub fn read(format: BodyFormat, bytes: &[u8]) -> Result<Body, ApiError> {
    if bytes.len() > BODY_BYTES_MAX {
        return Err(ApiError::too_large(BODY_BYTES_MAX));
    }
    let (result, what) = match format {
        BodyFormat::Protobuf => return read_protobuf(bytes),
        BodyFormat::Json => (tracked::from_json(bytes), "json"),
        BodyFormat::Yaml => (tracked::from_yaml(bytes), "yaml"),
    };
    let (value, duplicate_fields) = result.map_err(|error| {
        body_error(error, |why| format!("couldn't get version/kind; {what} parse error: {why}"))
    })?;
    Ok(Body { value, duplicate_fields })
}

/// Reads the body of a patch, which is always JSON and has no kind.
pub fn read_patch(bytes: &[u8]) -> Result<Body, ApiError> {
    if bytes.len() > BODY_BYTES_MAX {
        return Err(ApiError::too_large(BODY_BYTES_MAX));
    }
    let (value, duplicate_fields) = tracked::from_json(bytes)
        .map_err(|error| body_error(error, |why| format!("error decoding patch: {why}")))?;
    Ok(Body { value, duplicate_fields })
}

/// Reads the body of an apply: YAML, or JSON, which most clients send.
pub fn read_apply(bytes: &[u8]) -> Result<Body, ApiError> {
    if bytes.len() > BODY_BYTES_MAX {
        return Err(ApiError::too_large(BODY_BYTES_MAX));
    }
    let looks_like_json = bytes.trim_ascii_start().starts_with(b"{");
    let as_json = looks_like_json.then(|| tracked::from_json(bytes)).and_then(Result::ok);
    let (value, duplicate_fields) = match as_json {
        Some(read) => read,
        None if bytes.trim_ascii().is_empty() => (Value::Null, Vec::new()),
        None => tracked::from_yaml(bytes)
            .map_err(|error| body_error(error, |why| format!("error decoding YAML: {why}")))?,
    };
    match value {
        Value::Object(_) => Ok(Body { value, duplicate_fields }),
        Value::Null => Ok(Body { value: Value::Object(Map::new()), duplicate_fields }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ApiError::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
                 unmarshal {} into Go value of type map[string]interface {{}}",
                type_error::json_type(&value)
            )))
        }
    }
}

/// What the client gets.
fn body_error(error: BodyReadError, malformed: impl FnOnce(String) -> String) -> ApiError {
    match error {
        BodyReadError::TooManyValues => ApiError::too_large_because(&error.to_string()),
        BodyReadError::Malformed(why) if why.starts_with("EOF while parsing") => {
            ApiError::bad_request(malformed("unexpected end of JSON input".to_owned()))
        }
        BodyReadError::Malformed(why) => ApiError::bad_request(malformed(why)),
    }
}

/// How many values there are in one.
fn count_values(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count_values).sum::<usize>(),
    }
}

fn read_protobuf(bytes: &[u8]) -> Result<Body, ApiError> {
    let value = protobuf::read(bytes).map_err(|error| match error {
        ProtobufError::Kind { .. } | ProtobufError::Field { .. } => ApiError::unsupported_media_type(format!(
            "the body of the request (application/vnd.kubernetes.protobuf) cannot be read: {error}"
        )),
        ProtobufError::Magic
        | ProtobufError::Wire(_)
        | ProtobufError::TooDeep
        | ProtobufError::Value { .. } => ApiError::bad_request(format!("protobuf parse error: {error}")),
    })?;
    // The smallest value takes two bytes of a body and 32 in the tree, so that they can be counted
    // at the end.
    if count_values(&value) > VALUES_MAX {
        return Err(body_error(BodyReadError::TooManyValues, |why| why));
    }
    Ok(Body { value, duplicate_fields: Vec::new() })
}

/// An object as decoded, with the warnings that its reading gave.
pub struct DecodedObject {
    /// The object.
    pub object: Box<dyn AnyObject>,
    /// For Warning headers.
    pub warnings: Vec<String>,
}

/// Reads an object of `entry`'s kind from the body of a request.
///
/// # Errors
/// 400, 413, 415 and 422, in upstream's words.
pub fn object(
    entry: &KindEntry,
    (format, document): (BodyFormat, &[u8]),
    validation: FieldValidation,
) -> Result<DecodedObject, ApiError> {
    let mut body = read_of_kind(entry, format, document)?;
    if let Err(error) = check_type(entry, document, &mut body.value) {
        return Err(error.with_warnings(unknown_fields(entry, &body, validation)));
    }
    let cannot = |why: String| {
        let (kind, version) = (&entry.kind, &entry.version);
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    };
    let (object, strict_errors) =
        object_and_strict_errors(entry, &body).map_err(|why| why.into_error(cannot))?;
    let strict_errors = match validation {
        FieldValidation::Ignore => Vec::new(),
        // a custom object is looked through by the names of its schema
        FieldValidation::Strict | FieldValidation::Warn
            if entry.origin == KindOrigin::Definition =>
        {
            strict_errors.texts()
        }
        FieldValidation::Strict | FieldValidation::Warn => {
            strict_errors.texts_of_document(format, document)
        }
    };
    match validation {
        FieldValidation::Strict if !strict_errors.is_empty() => {
            Err(cannot(format!("strict decoding error: {}", strict_errors.join(", "))))
        }
        FieldValidation::Strict | FieldValidation::Warn | FieldValidation::Ignore => {
            Ok(DecodedObject { object, warnings: strict_errors })
        }
    }
}

/// Reads the body of an object. Of a custom one, an error also says what was wanted, and how the
/// body begins.
fn read_of_kind(entry: &KindEntry, format: BodyFormat, document: &[u8]) -> Result<Body, ApiError> {
    read(format, document).map_err(|error| match (entry.origin, error.code().as_u16()) {
        (KindOrigin::Definition, 400) => unrecognized(entry, &error.status().message, document),
        _ => error,
    })
}

/// The answer to a body that is no custom object.
fn unrecognized(entry: &KindEntry, why: &str, document: &[u8]) -> ApiError {
    let kind = &entry.kind;
    let shown = shown_beginning(document);
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// What an object says of its type in this field: nothing is an empty text.
///
/// # Errors
/// Why the type cannot be read.
fn type_text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<&'a str, String> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go \
             struct field .{field} of type string",
            type_error::json_type(other)
        )),
    }
}

/// How a body begins: as text if it is JSON, else in hexadecimal digits.
fn shown_beginning(document: &[u8]) -> String {
    let beginning = &document[..document.len().min(SHOWN_BYTES_MAX)];
    let shown = match beginning.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(beginning).into_owned(),
        Some(_) => beginning.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if beginning.len() < document.len() { format!("{shown} ...") } else { shown }
}

/// The fields that are warned of in a custom object of another version.
fn unknown_fields(entry: &KindEntry, body: &Body, validation: FieldValidation) -> Vec<String> {
    let value = &body.value;
    let said = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let is_of_kind = entry.origin == KindOrigin::Definition
        && said("kind") == entry.kind
        && said("apiVersion") != entry.api_version;
    if !is_of_kind || validation != FieldValidation::Warn {
        return Vec::new();
    }
    object_and_strict_errors(entry, body).map_or_else(|_| Vec::new(), |(_, errors)| errors.texts())
}

/// Why a body is no object of its kind.
pub enum UnreadableBody {
    /// A field has a word that is none of its own. The error is that of validation, with the
    /// object's name.
    Word(ApiError),
    /// A field has a value of a wrong type.
    Type(String),
}

impl UnreadableBody {
    fn new(entry: &KindEntry, value: &Value, error: &DecodeError) -> Self {
        match type_error::unsupported_word(error) {
            Some(word) => {
                let name = value.pointer("/metadata/name").and_then(Value::as_str);
                Self::Word(ApiError::invalid(entry, name.unwrap_or_default(), &[word]))
            }
            None => Self::Type(type_error::text(error)),
        }
    }

    /// What the client gets, with this answer about a wrong type.
    pub fn into_error(self, of_type: impl FnOnce(String) -> ApiError) -> ApiError {
        match self {
            Self::Word(error) => error,
            Self::Type(why) => of_type(why),
        }
    }
}

/// The object and what a strict reader would refuse: unknown and duplicate fields. The error names
/// the field.
pub fn object_and_strict_errors(
    entry: &KindEntry,
    body: &Body,
) -> Result<(Box<dyn AnyObject>, StrictErrors), UnreadableBody> {
    let value = built_in_form::settled(entry, &body.value).map_err(UnreadableBody::Type)?;
    let decoded = match entry.codec.decode(&value) {
        Ok(decoded) => decoded,
        Err(first) => {
            let why = UnreadableBody::new(entry, &value, &first);
            // Go reads `null` as "not given" wherever it stands; so a null may be all that is
            // wrong.
            match has_nulls(&value) {
                true => entry.codec.decode(&without_nulls(value.into_owned())).map_err(|_| why)?,
                false => return Err(why),
            }
        }
    };
    let strict_errors =
        StrictErrors { unknown: decoded.unknown_fields, duplicate: body.duplicate_fields.clone() };
    Ok((decoded.object, strict_errors))
}

/// `apiVersion` and `kind` may be left out, but not differ from what the path says.
fn check_type(entry: &KindEntry, document: &[u8], value: &mut Value) -> Result<(), ApiError> {
    if value.is_null() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = value.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into a {}",
            type_error::json_type(value),
            entry.kind
        )));
    };
    let text =
        |field: &str| type_text(fields, field).map_err(|why| unrecognized(entry, &why, document));
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if entry.origin == KindOrigin::Definition && kind.is_empty() {
        let text = String::from_utf8_lossy(&document[..document.len().min(DOCUMENT_BYTES_MAX)]);
        let why = format!("Object 'Kind' is missing in '{text}'");
        return Err(unrecognized(entry, &why, document));
    }
    let needs_version = entry.origin == KindOrigin::Definition;
    if (needs_version || !api_version.is_empty()) && api_version != entry.api_version {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            entry.api_version
        )));
    }
    if kind != entry.kind && entry.origin != KindOrigin::BuiltIn {
        let error = FieldError::invalid("kind", kind, format!("must be {}", entry.kind));
        let name = fields.get("metadata").and_then(|meta| meta["name"].as_str());
        return Err(ApiError::invalid_kind(&entry.group, kind, name.unwrap_or_default(), &[error]));
    }
    if !kind.is_empty() && kind != entry.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: the kind in the data does not match the resource {}",
            entry.version, entry.kind, entry.plural
        )));
    }
    fields.insert("apiVersion".to_owned(), entry.api_version.as_ref().into());
    fields.insert("kind".to_owned(), entry.kind.as_ref().into());
    Ok(())
}

fn has_nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_nulls),
        Value::Object(fields) => fields.values().any(has_nulls),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Without the fields whose value is null; a null inside a list stays, it holds a place there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
