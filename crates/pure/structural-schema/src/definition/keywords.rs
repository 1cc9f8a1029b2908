//! Each keyword has the JSON type that it is defined with.

use rekindle_types::validation::{FieldError, MISTAKES_MAX, field_error::FieldProblem};
use serde_json::Value;

use crate::{schema_node::SchemaNode, shown::shown};

#[derive(Clone, Copy)]
enum KeywordType {
    Bool,
    Count,
    Number,
    Schema,
    SchemaOrBool,
    SchemaOrList,
    Schemas,
    SchemaMap,
    Text,
    Texts,
    List,
    Records,
}

const KEYWORDS: &[(&str, KeywordType)] = &[
    ("additionalProperties", KeywordType::SchemaOrBool),
    ("allOf", KeywordType::Schemas),
    ("anyOf", KeywordType::Schemas),
    ("definitions", KeywordType::SchemaMap),
    ("description", KeywordType::Text),
    ("enum", KeywordType::List),
    ("exclusiveMaximum", KeywordType::Bool),
    ("exclusiveMinimum", KeywordType::Bool),
    ("format", KeywordType::Text),
    ("items", KeywordType::SchemaOrList),
    ("maxItems", KeywordType::Count),
    ("maxLength", KeywordType::Count),
    ("maxProperties", KeywordType::Count),
    ("maximum", KeywordType::Number),
    ("minItems", KeywordType::Count),
    ("minLength", KeywordType::Count),
    ("minProperties", KeywordType::Count),
    ("minimum", KeywordType::Number),
    ("multipleOf", KeywordType::Number),
    ("not", KeywordType::Schema),
    ("nullable", KeywordType::Bool),
    ("oneOf", KeywordType::Schemas),
    ("pattern", KeywordType::Text),
    ("properties", KeywordType::SchemaMap),
    ("required", KeywordType::Texts),
    ("title", KeywordType::Text),
    ("type", KeywordType::Text),
    ("uniqueItems", KeywordType::Bool),
    ("x-kubernetes-embedded-resource", KeywordType::Bool),
    ("x-kubernetes-int-or-string", KeywordType::Bool),
    ("x-kubernetes-list-map-keys", KeywordType::Texts),
    ("x-kubernetes-list-type", KeywordType::Text),
    ("x-kubernetes-map-type", KeywordType::Text),
    ("x-kubernetes-preserve-unknown-fields", KeywordType::Bool),
    ("x-kubernetes-validations", KeywordType::Records),
];

/// Reports each keyword of a wrong type, in this node and below.
pub(super) fn check(node: SchemaNode<'_>, path: &str, errors: &mut Vec<FieldError>) {
    for (keyword, value) in node.keywords() {
        if value.is_null() || errors.len() >= MISTAKES_MAX {
            continue;
        }
        let Some((_, kind)) = KEYWORDS.iter().find(|(known, _)| *known == keyword) else {
            continue;
        };
        let place = format!("{path}.{keyword}");
        if let Some(problem) = check_keyword(*kind, value, &place, errors) {
            errors.push(FieldError {
                field: place,
                problem: FieldProblem::Invalid(shown(value)),
                detail: problem.to_owned(),
            });
        }
    }
}

/// What is wrong with the value of a keyword. What is wrong below it goes to `errors`.
fn check_keyword(
    kind: KeywordType,
    value: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> Option<&'static str> {
    let (is_right, expected) = match kind {
        KeywordType::Bool => (value.is_boolean(), "must be a boolean"),
        KeywordType::Count => (value.as_i64().is_some(), "must be an integer"),
        KeywordType::Number => (value.is_number(), "must be a number"),
        KeywordType::Text => (value.is_string(), "must be a string"),
        KeywordType::List => (value.is_array(), "must be an array"),
        KeywordType::Texts => (
            value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            "must be an array of strings",
        ),
        KeywordType::Records => (
            value.as_array().is_some_and(|items| items.iter().all(is_rule)),
            "must be an array of validation rules",
        ),
        KeywordType::SchemaOrBool if value.is_boolean() => (true, ""),
        KeywordType::SchemaOrList if value.is_array() => (true, ""),
        KeywordType::Schema | KeywordType::SchemaOrBool | KeywordType::SchemaOrList => {
            match SchemaNode::new(value) {
                Some(node) => check(node, path, errors),
                None => return Some("must be a schema"),
            }
            (true, "")
        }
        KeywordType::Schemas => {
            let Some(schemas) = value.as_array() else {
                return Some("must be an array of schemas");
            };
            for (at, schema) in schemas.iter().enumerate() {
                let Some(node) = SchemaNode::new(schema) else {
                    return Some("must be an array of schemas");
                };
                check(node, &format!("{path}[{at}]"), errors);
            }
            (true, "")
        }
        KeywordType::SchemaMap => {
            let Some(schemas) = value.as_object() else { return Some("must be a map of schemas") };
            for (name, schema) in schemas {
                let Some(node) = SchemaNode::new(schema) else {
                    return Some("must be a map of schemas");
                };
                check(node, &format!("{path}[{name}]"), errors);
            }
            (true, "")
        }
    };
    (!is_right).then_some(expected)
}

fn is_rule(rule: &Value) -> bool {
    let is_text = |name: &str| rule.get(name).is_none_or(|v| v.is_string() || v.is_null());
    let texts = ["rule", "message", "messageExpression", "reason", "fieldPath"];
    let flag = rule.get("optionalOldSelf");
    rule.is_object()
        && texts.into_iter().all(is_text)
        && flag.is_none_or(|flag| flag.is_boolean() || flag.is_null())
}
