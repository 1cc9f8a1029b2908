//! Fills the defaults of a schema in.

use serde_json::Value;

use crate::StructuralSchema;

impl StructuralSchema {
    /// Fills in what is absent and has a default. A null in a field that is not nullable counts as
    /// absent: it becomes the default, or goes.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && !fields.contains_key(&**name)
                    {
                        fields.insert(String::from(&**name), default.clone());
                    }
                }
                fields.retain(|name, value| {
                    let Some(schema) = self.of_field(name) else { return true };
                    if schema.takes_as_absent(value) {
                        let Some(default) = &schema.default else { return false };
                        *value = default.clone();
                    }
                    schema.fill_defaults(value);
                    true
                });
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    if let Some(default) = &schema.default
                        && schema.takes_as_absent(item)
                    {
                        *item = default.clone();
                    }
                    schema.fill_defaults(item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn takes_as_absent(&self, value: &Value) -> bool {
        value.is_null() && !self.is_nullable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_fill_what_is_absent_or_null_and_a_second_run_changes_nothing() {
        let schema = StructuralSchema::compile(&json!({"properties": {
            "a": {"default": 1},
            "nested": {"default": {}, "properties": {"b": {"default": "x"}}},
            "no_default": {"properties": {"b": {"default": "x"}}},
            "nullable": {"nullable": true, "default": 1},
            "list": {"items": {"default": 3, "properties": {"c": {"default": 2}}}},
            "map": {"additionalProperties": {"properties": {"c": {"default": 2}}}},
        }}))
        .unwrap();
        for (given, filled) in [
            (json!({}), json!({"a": 1, "nested": {"b": "x"}, "nullable": 1})),
            (
                json!({"a": null, "no_default": null, "nullable": null}),
                json!({"a": 1, "nested": {"b": "x"}, "nullable": null}),
            ),
            (
                json!({"a": 2, "nullable": 0, "list": [{}, null], "map": {"k": {}, "gone": null}}),
                json!({
                    "a": 2, "nested": {"b": "x"}, "nullable": 0,
                    "list": [{"c": 2}, 3], "map": {"k": {"c": 2}},
                }),
            ),
        ] {
            let mut object = given;
            schema.fill_defaults(&mut object);
            assert_eq!(object, filled);
            schema.fill_defaults(&mut object);
            assert_eq!(object, filled, "defaulting again changes nothing");
        }
    }
}
