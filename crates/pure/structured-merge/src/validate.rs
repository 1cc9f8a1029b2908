//! Whether a value fits its type.

use serde_json::Value;

use crate::list_index::step_to;
use crate::path_element::PathElement;
use crate::schema::{ListMergeRule, ListType, MapType, ScalarType, TypeForm, TypedSchema};

/// A part of a value that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .path.is_empty().then(String::new).unwrap_or_else(|| format!("{path}: ")))]
pub struct SchemaMismatch {
    /// Where, as `.spec.replicas`.
    pub path: String,
    /// What is wrong, in upstream's words.
    pub problem: String,
}

/// Whether a list that merges may say an item twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Refused,
    Allowed,
}

impl TypedSchema<'_> {
    /// Everything in a value that does not fit the type; items that stand twice, too.
    pub fn validate(self, value: &Value) -> Vec<SchemaMismatch> {
        self.mismatches(value, Duplicates::Refused)
    }

    /// The same of a stored object, where items may stand twice.
    pub fn validate_stored(self, value: &Value) -> Vec<SchemaMismatch> {
        self.mismatches(value, Duplicates::Allowed)
    }

    fn mismatches(self, value: &Value, duplicates: Duplicates) -> Vec<SchemaMismatch> {
        let mut check = SchemaCheck { duplicates, path: Vec::new(), found: Vec::new() };
        check.value(self, value);
        check.found
    }
}

struct SchemaCheck {
    duplicates: Duplicates,
    path: Vec<PathElement>,
    found: Vec<SchemaMismatch>,
}

impl SchemaCheck {
    fn note(&mut self, problem: String) {
        let path = self.path.iter().map(ToString::to_string).collect();
        self.found.push(SchemaMismatch { path, problem });
    }

    fn value(&mut self, schema: TypedSchema<'_>, value: &Value) {
        match schema.form(Some(value)) {
            TypeForm::Scalar(scalar) => {
                if let Some(problem) = scalar_mismatch(scalar, value) {
                    self.note(problem);
                }
            }
            TypeForm::List(list) => match value {
                Value::Null => {}
                Value::Array(items) => self.items(schema, list, items),
                other => self.note(format!("expected list, got {}", shown(other))),
            },
            TypeForm::Map(map) => match value {
                Value::Null => {}
                Value::Object(fields) => self.fields(schema, map, fields),
                other => self.note(format!("expected map, got {}", shown(other))),
            },
        }
    }

    fn items(&mut self, schema: TypedSchema<'_>, list: &ListType, items: &[Value]) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = match list.rule {
                ListMergeRule::Atomic => PathElement::index(index),
                ListMergeRule::Set | ListMergeRule::Map(_) => match step_to(list, item) {
                    Ok(step) => step,
                    Err(why) => {
                        self.note(format!("element {index}: {why}"));
                        return;
                    }
                },
            };
            let is_new = seen.insert(step.clone());
            if !is_new && self.duplicates == Duplicates::Refused {
                self.note(format!("duplicate entries for key {step}"));
            }
            self.path.push(step);
            self.value(schema.with(list.items), item);
            self.path.pop();
        }
    }

    fn fields(
        &mut self,
        schema: TypedSchema<'_>,
        map: &MapType,
        fields: &serde_json::Map<String, Value>,
    ) {
        for (name, value) in fields {
            self.path.push(PathElement::field(name));
            match map.field(name) {
                Some(id) => self.value(schema.with(id), value),
                None => self.note("field not declared in schema".to_owned()),
            }
            self.path.pop();
        }
    }
}

/// Why a value is none of these scalars.
pub(crate) fn scalar_mismatch(scalar: ScalarType, value: &Value) -> Option<String> {
    let fits = match (scalar, value) {
        (_, Value::Null)
        | (ScalarType::Number | ScalarType::Any, Value::Number(_))
        | (ScalarType::Text | ScalarType::Any, Value::String(_))
        | (ScalarType::Boolean | ScalarType::Any, Value::Bool(_)) => true,
        (
            ScalarType::Text | ScalarType::Number | ScalarType::Boolean | ScalarType::Any,
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
        ) => false,
    };
    if fits {
        return None;
    }
    Some(match scalar {
        ScalarType::Number => format!("expected numeric (int or float), got {}", type_name(value)),
        ScalarType::Text => format!("expected string, got {}", shown(value)),
        ScalarType::Boolean => format!("expected boolean, got {}", shown(value)),
        ScalarType::Any => format!("expected any scalar, got {}", shown(value)),
    })
}

/// The type of a value as upstream names it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as upstream's messages show it.
fn shown(value: &Value) -> String {
    fn inner(value: &Value) -> String {
        match value {
            Value::Null => "<nil>".to_owned(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(items) => {
                format!("[{}]", items.iter().map(inner).collect::<Vec<_>>().join(" "))
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}:{}", inner(value)));
                format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
            }
        }
    }
    format!("&{{{}}}", inner(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_as_upstream_shows_them() {
        assert_eq!(shown(&json!(["a", "b"])), "&{[a b]}");
        assert_eq!(shown(&json!({"a": 1, "b": null})), "&{map[a:1 b:<nil>]}");
    }
}
