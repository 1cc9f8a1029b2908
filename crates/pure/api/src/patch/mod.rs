//! The patch formats: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

mod budget;
mod directives;
mod json_patch;
mod json_path;
mod merge;
mod order;
mod strategic;
mod value_key;

use serde_json::Value;

use crate::decode;
use crate::decode::media_type::media_type;
use crate::managed_fields;
use crate::status::ApiError;

pub use budget::PATCH_STEPS_MAX;
use budget::WorkBudget;

/// A patch as read.
#[derive(Clone, Debug)]
pub struct Patch {
    format: PatchFormat,
    value: Value,
    duplicate_fields: Vec<String>,
}

#[derive(Clone, Debug)]
enum PatchFormat {
    Json(json_patch::JsonPatch),
    Merge,
    StrategicMerge,
}

/// A patch that does not fit, or asks too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It cannot be applied to this object.
    #[error("{0}")]
    DoesNotFit(String),
    /// It is no patch of its format.
    #[error("{0}")]
    Malformed(String),
    /// It would make something larger or deeper than allowed, or take more work.
    #[error("{0}")]
    TooMuch(String),
}

/// About how many bytes of text a value holds.
///
/// # Errors
/// It is too large to be looked at, in words.
pub(crate) fn text_bytes(value: &Value) -> Result<usize, String> {
    let measured = WorkBudget::new().measure(value, "measuring an object");
    measured.map(|size| size.bytes).map_err(|error| error.to_string())
}

/// The object after these operations of a JSON patch, or why they do not fit.
///
/// # Errors
/// In words.
pub(crate) fn apply_operations(operations: &Value, object: Value) -> Result<Value, String> {
    let operations = json_patch::read(operations).map_err(|error| error.to_string())?;
    let patched = json_patch::apply(&operations, object, &mut WorkBudget::new());
    patched.map_err(|error| error.to_string())
}

/// Without merge keys there is no strategic merge.
const STRATEGIC_OF_CUSTOM: &str = "the body of the request was in an unknown format \
    (application/strategic-merge-patch+json) - accepted media types include: \
    application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Patch {
    /// Reads a patch of a custom object.
    ///
    /// # Errors
    /// 415 in a format that such kinds do not have, and those of [`Patch::read`].
    pub fn read_for_custom(content_type: &str, body: &[u8]) -> Result<Self, ApiError> {
        if media_type(content_type) == STRATEGIC {
            return Err(ApiError::unsupported_patch_type(STRATEGIC_OF_CUSTOM));
        }
        Self::read(content_type, body)
    }

    /// Reads a patch in the format that its content type names.
    pub fn read(content_type: &str, body: &[u8]) -> Result<Self, ApiError> {
        let media_type = media_type(content_type);
        let read = || decode::read_patch(body);
        let (format, body) = match media_type {
            JSON_PATCH => {
                let body = read()?;
                (PatchFormat::Json(json_patch::read(&body.value)?), body)
            }
            MERGE => (PatchFormat::Merge, read()?),
            STRATEGIC => (PatchFormat::StrategicMerge, read()?),
            _ => return Err(unknown_format()),
        };
        if !body.value.is_object() && !matches!(format, PatchFormat::Json(_)) {
            return Err(ApiError::bad_request(
                "error decoding patch: json: cannot unmarshal a value that is not an object into a patch",
            ));
        }
        Ok(Self { format, value: body.value, duplicate_fields: body.duplicate_fields })
    }

    /// Whether it says nothing but what concerns metadata and status.
    pub fn is_of_status(&self) -> bool {
        let only = |fields: &serde_json::Map<String, Value>| {
            fields.keys().all(|field| matches!(field.as_str(), "metadata" | "status"))
        };
        match self.format {
            PatchFormat::Json(_) => false,
            PatchFormat::Merge | PatchFormat::StrategicMerge => {
                self.value.as_object().is_some_and(only)
            }
        }
    }

    /// Whether it says nothing of this field of the object, or nothing but these fields of it.
    pub fn says_only(&self, field: &str, known: &[&str]) -> bool {
        match (&self.format, self.value.get(field)) {
            (PatchFormat::Json(_), _) => false,
            (PatchFormat::Merge | PatchFormat::StrategicMerge, None) => true,
            (PatchFormat::Merge | PatchFormat::StrategicMerge, Some(Value::Object(said))) => {
                said.keys().all(|name| known.contains(&name.as_str()))
            }
            (PatchFormat::Merge | PatchFormat::StrategicMerge, Some(_)) => false,
        }
    }

    /// Whether nothing of what stands at this path is left when it was applied.
    pub fn replaces(&self, path: &[&str]) -> bool {
        let found = path.iter().try_fold(&self.value, |value, field| value.get(field));
        match self.format {
            // lists may merge with what is there
            PatchFormat::Json(_) | PatchFormat::StrategicMerge => false,
            PatchFormat::Merge => found.is_some_and(|value| !value.is_object()),
        }
    }

    /// Whether the object stays of its type, also when the patch names another one: a strategic
    /// patch is merged into an object of a known type.
    pub fn keeps_type(&self) -> bool {
        matches!(self.format, PatchFormat::StrategicMerge)
    }

    /// The object after the patch. `schema` names its type, for the merge keys of strategic merge.
    pub fn apply(self, schema: &str, object: Value) -> Result<Value, ApiError> {
        let Self { format, value, duplicate_fields: _ } = self;
        let mut budget = WorkBudget::new();
        let patched = match &format {
            PatchFormat::Json(operations) => json_patch::apply(operations, object, &mut budget),
            PatchFormat::Merge => merge::apply(object, value, &mut budget),
            PatchFormat::StrategicMerge => strategic::apply(schema, object, &value, &mut budget),
        };
        patched.map_err(|error| match (&format, error) {
            (PatchFormat::Json(_), PatchError::DoesNotFit(why)) => {
                ApiError::unprocessable_patch(&why)
            }
            (_, PatchError::Malformed(why)) | (PatchFormat::Merge, PatchError::DoesNotFit(why)) => {
                ApiError::bad_request(why)
            }
            // 500, as upstream
            (PatchFormat::StrategicMerge, PatchError::DoesNotFit(why)) => ApiError::failure(why),
            (_, PatchError::TooMuch(why)) => ApiError::too_large_because(&why),
        })
    }

    /// What error texts show of a patch whose result cannot be read: a strategic one itself, of the
    /// others what they make of the object.
    pub fn shown(&self, patched: &Value) -> String {
        match self.format {
            PatchFormat::StrategicMerge => go_map(&self.value),
            PatchFormat::Json(_) | PatchFormat::Merge => beginning(patched.to_string()),
        }
    }

    /// Takes out the fields that stood twice in the patch. In a JSON patch they are no fields of
    /// the object.
    pub fn take_duplicate_fields(&mut self) -> Vec<String> {
        match self.format {
            PatchFormat::Json(_) => Vec::new(),
            PatchFormat::Merge | PatchFormat::StrategicMerge => {
                std::mem::take(&mut self.duplicate_fields)
            }
        }
    }

    /// What a strict reader refuses of the patch itself.
    pub fn take_unknown_fields(&mut self) -> Vec<String> {
        match &mut self.format {
            PatchFormat::Json(patch) => std::mem::take(&mut patch.unknown_fields),
            PatchFormat::Merge | PatchFormat::StrategicMerge => Vec::new(),
        }
    }
}

/// Refuses a content type that is none of a patch.
///
/// # Errors
/// 415.
pub(crate) fn check_media_type(content_type: &str) -> Result<(), ApiError> {
    let is_known = matches!(media_type(content_type), JSON_PATCH | MERGE | STRATEGIC);
    if is_known || managed_fields::is_apply(content_type) { Ok(()) } else { Err(unknown_format()) }
}

fn unknown_format() -> ApiError {
    ApiError::unsupported_patch_type("415: Unsupported Media Type")
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A value as upstream's error texts show those of strategic patches: `map[a:1 b:[x y]]`.
fn go_map(value: &Value) -> String {
    let mut text = String::new();
    write_go(value, &mut text);
    beginning(text)
}

const SHOWN_CHARS_MAX: usize = 2_000;

fn write_go(value: &Value, text: &mut String) {
    if text.len() > SHOWN_CHARS_MAX * 4 {
        return;
    }
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(word) => text.push_str(word),
        Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                write_go(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push_str("map[");
            for (index, (name, item)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(name);
                text.push(':');
                write_go(item, text);
            }
            text.push(']');
        }
    }
}

/// As much of a text as an error shows.
fn beginning(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
