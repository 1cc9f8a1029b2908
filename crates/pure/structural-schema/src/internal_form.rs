//! Schemas as errors of upstream show them: every field of its internal type, in the order of the
//! type, also where it holds nothing (apiextensions-apiserver `apis/apiextensions/types`).

use serde_json::Value;

use crate::shown::json;

/// How a field is shown.
#[derive(Clone, Copy, Debug)]
pub enum InternalField {
    /// A text that is never null.
    Text,
    /// A truth value that is never null.
    Flag,
    /// A number that is never null.
    Number,
    /// Anything, as it is.
    Json,
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by the names of fields.
    SchemaMap,
    /// `additionalProperties`.
    SchemaOrBool,
    /// `items`.
    SchemaOrList,
    /// `dependencies`.
    Dependencies,
    /// An object with these fields.
    Object(&'static [NamedField]),
    /// A list of objects with these fields.
    Objects(&'static [NamedField]),
}

/// A field: the name that upstream has inside, the one in JSON, and how it is shown.
pub type NamedField = (&'static str, &'static str, InternalField);

use InternalField::{
    Dependencies, Flag, Json, Number, Object, Objects, Schema, SchemaMap, SchemaOrBool,
    SchemaOrList, Schemas, Text,
};

/// The fields of a schema.
const FIELDS: &[NamedField] = &[
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Json),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", Flag),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Json),
    ("Maximum", "maximum", Json),
    ("ExclusiveMaximum", "exclusiveMaximum", Flag),
    ("Minimum", "minimum", Json),
    ("ExclusiveMinimum", "exclusiveMinimum", Flag),
    ("MaxLength", "maxLength", Json),
    ("MinLength", "minLength", Json),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Json),
    ("MinItems", "minItems", Json),
    ("UniqueItems", "uniqueItems", Flag),
    ("MultipleOf", "multipleOf", Json),
    ("Enum", "enum", Json),
    ("MaxProperties", "maxProperties", Json),
    ("MinProperties", "minProperties", Json),
    ("Required", "required", Json),
    ("Items", "items", SchemaOrList),
    ("AllOf", "allOf", Schemas),
    ("OneOf", "oneOf", Schemas),
    ("AnyOf", "anyOf", Schemas),
    ("Not", "not", Schema),
    ("Properties", "properties", SchemaMap),
    ("AdditionalProperties", "additionalProperties", SchemaOrBool),
    ("PatternProperties", "patternProperties", SchemaMap),
    ("Dependencies", "dependencies", Dependencies),
    ("AdditionalItems", "additionalItems", SchemaOrBool),
    ("Definitions", "definitions", SchemaMap),
    ("ExternalDocs", "externalDocs", Object(DOCS_FIELDS)),
    ("Example", "example", Json),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Json),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Json),
    ("XListType", "x-kubernetes-list-type", Json),
    ("XMapType", "x-kubernetes-map-type", Json),
    ("XValidations", "x-kubernetes-validations", Objects(RULE_FIELDS)),
];

/// The fields of a rule.
const RULE_FIELDS: &[NamedField] = &[
    ("Rule", "rule", Text),
    ("Message", "message", Text),
    ("MessageExpression", "messageExpression", Text),
    ("Reason", "reason", Json),
    ("FieldPath", "fieldPath", Text),
    ("OptionalOldSelf", "optionalOldSelf", Json),
];
const DOCS_FIELDS: &[NamedField] = &[("Description", "description", Text), ("URL", "url", Text)];

/// The longest text that is built. Upstream has no limit; an answer need not show more.
const BYTES_MAX: usize = 1 << 20;

/// A value as errors show it.
pub fn internal_form(kind: InternalField, value: &Value) -> String {
    let mut out = String::new();
    write_field(kind, value, &mut out);
    out
}

/// A rule as errors show it.
pub(crate) fn internal_rule(rule: &Value) -> String {
    internal_form(Object(RULE_FIELDS), rule)
}

fn write_field(kind: InternalField, value: &Value, out: &mut String) {
    if out.len() > BYTES_MAX {
        return out.push_str("null");
    }
    match (kind, value) {
        (Text, Value::Null) => out.push_str("\"\""),
        (Flag, Value::Null) => out.push_str("false"),
        (Number, Value::Null) => out.push('0'),
        (_, Value::Null) => out.push_str("null"),
        (Schema, _) => write_object(FIELDS, value, out),
        (Object(fields), _) => write_object(fields, value, out),
        (Objects(fields), Value::Array(objects)) => write_list(objects, Object(fields), out),
        (Schemas, Value::Array(schemas)) => write_list(schemas, Schema, out),
        (SchemaMap | Dependencies, Value::Object(schemas)) => {
            out.push('{');
            for (at, (name, schema)) in schemas.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(&json(&name.as_str().into()));
                out.push(':');
                match kind {
                    Dependencies => write_schema_or(("Property", Json), schema, out),
                    _ => write_field(Schema, schema, out),
                }
            }
            out.push('}');
        }
        (SchemaOrBool, _) => {
            let allows = value.as_bool().unwrap_or(true);
            out.push_str(&format!("{{\"Allows\":{allows},\"Schema\":"));
            let schema = Some(value).filter(|value| value.is_object());
            write_field(Schema, schema.unwrap_or(&Value::Null), out);
            out.push('}');
        }
        (SchemaOrList, _) => write_schema_or(("JSONSchemas", Schemas), value, out),
        (Text | Flag | Number | Json | Schemas | SchemaMap | Dependencies | Objects(_), _) => {
            out.push_str(&json(value));
        }
    }
}

fn write_object(fields: &[NamedField], of: &Value, out: &mut String) {
    out.push('{');
    for (at, (name, keyword, kind)) in fields.iter().enumerate() {
        out.push_str(if at > 0 { ",\"" } else { "\"" });
        out.push_str(name);
        out.push_str("\":");
        write_field(*kind, of.get(*keyword).unwrap_or(&Value::Null), out);
    }
    out.push('}');
}

fn write_list(values: &[Value], kind: InternalField, out: &mut String) {
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        write_field(kind, value, out);
    }
    out.push(']');
}

/// Writes a schema, or a list that can stand in its place, and null for the other.
fn write_schema_or((name, kind): (&str, InternalField), value: &Value, out: &mut String) {
    let (schema, list) = match value {
        Value::Array(_) => (&Value::Null, value),
        _ => (value, &Value::Null),
    };
    out.push_str("{\"Schema\":");
    write_field(Schema, schema, out);
    out.push_str(&format!(",\"{name}\":"));
    write_field(kind, list, out);
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_shown_with_every_field_of_the_internal_type() {
        let shown = internal_form(
            Schema,
            &json!({
                "type": "object",
                "maximum": 1e21,
                "items": {"type": "string"},
                "additionalProperties": false,
                "dependencies": {"a": ["x"]},
                "x-kubernetes-validations": [{"rule": "self < 1"}],
            }),
        );
        for part in [
            r#"{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false"#,
            r#""Maximum":1e+21,"#,
            r#""Items":{"Schema":{"ID":"","#,
            r#","JSONSchemas":null},"AllOf":null,"#,
            r#""AdditionalProperties":{"Allows":false,"Schema":null},"PatternProperties":null,"#,
            r#""Dependencies":{"a":{"Schema":null,"Property":["x"]}},"#,
            r#""XValidations":[{"Rule":"self \u003c 1","Message":"","MessageExpression":"","#,
            r#""Reason":null,"FieldPath":"","OptionalOldSelf":null}]}"#,
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
    }
}
