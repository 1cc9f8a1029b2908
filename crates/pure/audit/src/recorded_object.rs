//! Bodies of requests and answers, as events hold them: JSON on one line.

use serde_json::Value;
use serde_json::value::RawValue;

/// Whether events show `metadata.managedFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedFieldsMode {
    /// They do.
    Keep,
    /// They do not.
    Omit,
}

/// A JSON document as an event holds it; none when it is not JSON.
pub fn recorded_json(json: &[u8], managed_fields: ManagedFieldsMode) -> Option<Box<RawValue>> {
    // a line break inside a JSON document can only stand between its tokens
    let is_one_line = !json.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    if is_one_line && managed_fields == ManagedFieldsMode::Keep {
        return serde_json::from_slice(json).ok();
    }
    recorded_value(serde_json::from_slice(json).ok()?, managed_fields)
}

/// The same, of what was read already.
pub fn recorded_value(
    mut value: Value,
    managed_fields: ManagedFieldsMode,
) -> Option<Box<RawValue>> {
    if managed_fields == ManagedFieldsMode::Omit {
        omit_managed_fields(&mut value);
    }
    serde_json::value::to_raw_value(&value).ok()
}

/// Takes them out of an object, of the items of a list, and of the rows of a table.
fn omit_managed_fields(document: &mut Value) {
    omit_from_object(document);
    for item in document.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        omit_from_object(item);
    }
    for row in document.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(object) = row.get_mut("object") {
            omit_from_object(object);
        }
    }
}

fn omit_from_object(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// What the body of a request says about its object's identity. Empty parts are not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedMetadata {
    /// The namespace.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// The UID.
    pub(crate) uid: String,
    /// The version of the object.
    pub(crate) resource_version: String,
}

impl RecordedMetadata {
    /// That of an object.
    pub fn of_object(object: &Value) -> Self {
        let metadata = object.get("metadata");
        let text = |field: &str| {
            let text = metadata.and_then(|metadata| metadata.get(field)?.as_str());
            text.unwrap_or_default().to_owned()
        };
        Self {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recorded(json: &str, mode: ManagedFieldsMode) -> Option<String> {
        recorded_json(json.as_bytes(), mode).map(|raw| raw.get().to_owned())
    }

    #[test]
    fn an_object_is_one_line_whatever_its_sender_wrote() {
        for (json, expected) in [
            (r#"{"b":1,"a":"x\ny"}"#, Some(r#"{"b":1,"a":"x\ny"}"#)),
            ("{\n  \"a\": [\r\n1]\n}", Some(r#"{"a":[1]}"#)),
            ("apiVersion: v1", None),
            ("", None),
        ] {
            assert_eq!(recorded(json, ManagedFieldsMode::Keep).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn managed_fields_are_taken_from_objects_lists_and_tables() {
        let object = r#"{"metadata":{"managedFields":[{"manager":"x"}],"name":"a"}}"#;
        let without = r#"{"metadata":{"name":"a"}}"#;
        for (json, expected) in [
            (object.to_owned(), without.to_owned()),
            (format!(r#"{{"items":[{object}]}}"#), format!(r#"{{"items":[{without}]}}"#)),
            (
                format!(r#"{{"rows":[{{"object":{object}}}]}}"#),
                format!(r#"{{"rows":[{{"object":{without}}}]}}"#),
            ),
            ("[1]".to_owned(), "[1]".to_owned()),
        ] {
            assert_eq!(recorded(&json, ManagedFieldsMode::Omit), Some(expected));
            assert_eq!(recorded(&json, ManagedFieldsMode::Keep), Some(json));
        }
    }

    #[test]
    fn a_body_names_its_object() {
        let object = json!({"metadata": {"name": "a", "uid": "u", "namespace": 1}});
        let found = RecordedMetadata::of_object(&object);
        let expected = RecordedMetadata {
            name: "a".to_owned(),
            uid: "u".to_owned(),
            ..RecordedMetadata::default()
        };
        assert_eq!(found, expected);
        for none in [json!([]), json!({}), json!({"metadata": 1})] {
            assert_eq!(RecordedMetadata::of_object(&none), RecordedMetadata::default());
        }
    }
}
