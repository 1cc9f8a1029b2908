//! Values of a wrong type, in the words of Go's JSON decoder as users know them from Kubernetes,
//! with the field's path. Words that a field of our own kinds does not have are of the right type
//! upstream, where a schema's `enum` refuses them.

use rekindle_kinds::registry::DecodeError;
use rekindle_types::validation::field_error::FieldError;
use serde_json::Value;

/// `json: cannot unmarshal string into field spec.replicas of type int32`.
pub(super) fn text(error: &DecodeError) -> String {
    match unreadable(&error.problem) {
        Some((found, expected)) => format!(
            "json: cannot unmarshal {found} into field {} of type {}",
            error.path,
            expected_name(expected)
        ),
        None => format!("json: field {}: {}", error.path, error.problem),
    }
}

/// The same as validation tells it, when the field has a word that is none of its own.
pub(super) fn unsupported_word(error: &DecodeError) -> Option<FieldError> {
    let rest = error.problem.strip_prefix("unknown variant `")?;
    // the words behind it are ours; in the one before it anything may stand
    let (word, supported) = rest.rsplit_once("`, expected ")?;
    let supported: Vec<&str> = supported.split('`').skip(1).step_by(2).collect();
    Some(FieldError::not_supported(error.path.as_str(), word, &supported))
}

/// What was found, and what serde calls the type that it is not of, or that is too small for it.
fn unreadable(problem: &str) -> Option<(String, &str)> {
    if let Some(rest) = problem.strip_prefix("invalid type: ") {
        let (found, expected) = rest.split_once(", expected ")?;
        return Some((found_name(found).to_owned(), expected));
    }
    let (number, expected) = problem.strip_prefix("invalid value: integer `")?.split_once('`')?;
    Some((format!("number {number}"), expected.strip_prefix(", expected ")?))
}

/// What serde calls a found value, as JSON calls it.
fn found_name(found: &str) -> &str {
    match found.split([' ', '`']).next().unwrap_or(found) {
        "string" => "string",
        "integer" | "floating" => "number",
        "boolean" => "bool",
        "sequence" => "array",
        "map" => "object",
        "null" | "unit" | "Option" => "null",
        _ => found,
    }
}

/// What serde calls an expected type, as the API reference calls it.
fn expected_name(expected: &str) -> &str {
    match expected {
        "i32" => "int32",
        "i64" => "int64",
        "u8" => "uint8",
        "u16" => "uint16",
        "u32" => "uint32",
        "u64" => "uint64",
        "f64" => "float64",
        "a boolean" => "bool",
        "a string" | "a borrowed string" => "string",
        "a map" => "object",
        "a sequence" => "array",
        other => other.strip_prefix("struct ").unwrap_or(other),
    }
}

/// What JSON calls the type of a value.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    enum One {
        A,
    }

    #[derive(Debug, serde::Deserialize)]
    enum Two {
        A,
        B,
    }

    #[derive(Debug, serde::Deserialize)]
    enum Three {
        A,
        B,
        C,
    }

    fn word_of<T: serde::de::DeserializeOwned + std::fmt::Debug>(word: &str) -> String {
        let problem = serde_json::from_value::<T>(word.into()).unwrap_err().to_string();
        let error = DecodeError { path: "spec.x".to_owned(), problem };
        unsupported_word(&error).unwrap().to_string()
    }

    #[test]
    fn a_word_that_a_field_does_not_have_is_told_beside_those_that_it_has() {
        let cases = [
            (word_of::<One>("Z"), r#"spec.x: Unsupported value: "Z": supported values: "A""#),
            (word_of::<Two>(""), r#"spec.x: Unsupported value: "": supported values: "A", "B""#),
            (
                word_of::<Three>("`, expected `X`"),
                r#"spec.x: Unsupported value: "`, expected `X`": supported values: "A", "B", "C""#,
            ),
        ];
        for (told, expected) in cases {
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_value_of_another_type_is_no_word() {
        let problem = "invalid type: integer `3`, expected a string".to_owned();
        let error = DecodeError { path: "spec.x".to_owned(), problem };
        assert_eq!(unsupported_word(&error), None);
    }

    #[test]
    fn serde_texts_become_texts_of_the_kubernetes_api() {
        for (problem, text_) in [
            (
                "invalid type: string \"two\", expected i32",
                "json: cannot unmarshal string into field spec.x of type int32",
            ),
            (
                "invalid type: integer `3`, expected a string",
                "json: cannot unmarshal number into field spec.x of type string",
            ),
            (
                "invalid type: map, expected a sequence",
                "json: cannot unmarshal object into field spec.x of type array",
            ),
            (
                "invalid type: sequence, expected struct PodSpec",
                "json: cannot unmarshal array into field spec.x of type PodSpec",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "json: cannot unmarshal number -1 into field spec.x of type uint32",
            ),
            ("premature end of input", "json: field spec.x: premature end of input"),
        ] {
            let error = DecodeError { path: "spec.x".to_owned(), problem: problem.to_owned() };
            assert_eq!(text(&error), text_);
        }
    }
}
