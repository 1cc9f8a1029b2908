//! Which fields of a schema objects can be selected by.

use serde_json::Value;

/// Checks that a path leads to one text, number or truth value of the schema, outside of metadata.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(path: &str, schema: &Value) -> Result<(), &'static str> {
    const NO_FIELD: &str = "is an invalid path: does not refer to a valid field";
    if path.contains(['[', ']']) {
        return Err("is an invalid path: array notation is not allowed");
    }
    let names = path.strip_prefix('.').ok_or(NO_FIELD)?;
    if names.split('.').next() == Some("metadata") {
        return Err(NO_FIELD);
    }
    let found = names.split('.').try_fold(schema, |schema, name| schema["properties"].get(name));
    match found.ok_or(NO_FIELD)?["type"].as_str() {
        Some("string" | "boolean" | "integer") => Ok(()),
        Some(_) | None => {
            Err("must point to a field of type string, boolean or integer. Enum string fields and \
             strings with formats are allowed.")
        }
    }
}
