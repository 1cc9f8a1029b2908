//! OpenAPI v2: one document of all group versions, for tools that know no version 3 (Argo CD,
//! Terraform, Pulumi). It is made of the documents of version 3.
//!
//! Version 2 knows neither null nor alternatives. Where a field may have either, nothing is said of
//! its type, as upstream does it for definitions (`ToStructuralOpenAPIV2`).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::document;
use crate::registry::Registry;

/// Where version 3 has schemas, and where version 2 has them.
const SCHEMAS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/definitions/";

/// What may stand there instead of one schema; version 2 has no such keywords, or tools that read
/// it do not follow them.
const ALTERNATIVES: [&str; 4] = ["allOf", "anyOf", "not", "oneOf"];

/// What a group version adds to the document.
#[derive(Debug)]
pub struct V2Part {
    /// Schemas that no part before has, by name.
    pub definitions: Map<String, Value>,
    /// Operations, by path.
    pub paths: Map<String, Value>,
}

/// The parts of the document, one by one: all of it at once is large.
pub fn parts(registry: &Registry) -> impl Iterator<Item = V2Part> {
    let mut known = BTreeSet::new();
    registry.group_versions().into_iter().map(move |(group, version)| {
        let mut whole = document(registry, group, version);
        let mut definitions = fields(&mut whole["components"]["schemas"]);
        definitions.retain(|name, _| known.insert(name.clone()));
        definitions.values_mut().for_each(convert_schema);
        let mut paths = fields(&mut whole["paths"]);
        paths.values_mut().for_each(convert_path);
        V2Part { definitions, paths }
    })
}

fn fields(object: &mut Value) -> Map<String, Value> {
    match object.take() {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

pub(super) fn convert_schema(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        // `true`: anything
        *schema = json!({});
        return;
    };
    if let Some(reference) = refined(fields) {
        fields.insert("$ref".to_owned(), reference.into());
    }
    if is_text_or_number(fields) {
        fields.insert("type".to_owned(), "string".into());
    }
    forget_optional_nulls(fields);
    fields.retain(|keyword, _| !ALTERNATIVES.contains(&keyword.as_str()));
    if fields.remove("nullable") == Some(Value::Bool(true)) {
        forget(fields, &["items", "properties", "type"]);
    }
    if fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        forget(fields, &["items", "properties"]);
        if fields.get("type").is_some_and(|type_| type_ == "object") {
            fields.remove("type");
        }
    }
    if fields.get("type").is_some_and(|type_| type_ == "array") && !fields.contains_key("items") {
        fields.remove("type");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(convert_schema);
    }
    for keyword in ["additionalProperties", "items"] {
        if let Some(inner) = fields.get_mut(keyword).filter(|inner| inner.is_object()) {
            convert_schema(inner);
        }
    }
}

fn forget(fields: &mut Map<String, Value>, keywords: &[&str]) {
    for keyword in keywords {
        fields.remove(*keyword);
    }
}

/// The schema that this one is, or refines, where version 2 has it.
fn refined(fields: &Map<String, Value>) -> Option<String> {
    let only = fields.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("$ref"));
    let reference = fields.get("$ref").or(only)?.as_str()?;
    Some(format!("{DEFINITIONS}{}", reference.strip_prefix(SCHEMAS)?))
}

/// Whether it is an amount, or a number or a name: both are texts in version 2.
fn is_text_or_number(fields: &Map<String, Value>) -> bool {
    let alternatives = fields.get("oneOf").and_then(Value::as_array);
    alternatives.is_some_and(|all| all.contains(&json!({"type": "string"})))
}

/// A field that may be null need not be there.
fn forget_optional_nulls(fields: &mut Map<String, Value>) {
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else { return };
    let may_be_null = |name: &str| {
        properties.get(name).is_some_and(|field| field.get("nullable") == Some(&Value::Bool(true)))
    };
    let Some(required) = fields.get("required").and_then(Value::as_array) else { return };
    let is_kept = |name: &&Value| !name.as_str().is_some_and(may_be_null);
    let kept: Vec<Value> = required.iter().filter(is_kept).cloned().collect();
    match kept.is_empty() {
        true => fields.remove("required"),
        false => fields.insert("required".to_owned(), kept.into()),
    };
}

/// Of a path: operations by method, and parameters of all of them.
fn convert_path(path: &mut Value) {
    let Value::Object(entries) = path else { return };
    for entry in entries.values_mut() {
        match entry {
            Value::Array(parameters) => parameters.iter_mut().for_each(convert_parameter),
            Value::Object(operation) => convert_operation(operation),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// What version 3 says in a schema of its own, version 2 says of the parameter.
fn convert_parameter(parameter: &mut Value) {
    let schema = parameter.get_mut("schema").map(fields);
    if let (Value::Object(parameter), Some(schema)) = (parameter, schema) {
        parameter.remove("schema");
        parameter.extend(schema);
    }
}

fn convert_operation(operation: &mut Map<String, Value>) {
    let mut parameters = match operation.remove("parameters") {
        Some(Value::Array(parameters)) => parameters,
        _ => Vec::new(),
    };
    parameters.iter_mut().for_each(convert_parameter);
    let mut consumed = Vec::new();
    if let Some(mut body) = operation.remove("requestBody") {
        let (types, schema) = content(&mut body);
        consumed = types;
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if body.get("required") == Some(&Value::Bool(true)) {
            parameter["required"] = json!(true);
        }
        parameters.push(parameter);
    }
    let mut produced = Vec::new();
    if let Some(Value::Object(answers)) = operation.get_mut("responses") {
        for answer in answers.values_mut() {
            let (types, schema) = content(answer);
            produced = if produced.is_empty() { types } else { produced };
            if let (Value::Object(answer), false) = (answer, schema.is_null()) {
                answer.remove("content");
                answer.insert("schema".to_owned(), schema);
            }
        }
    }
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    operation.insert("consumes".to_owned(), or_any(consumed));
    operation.insert("produces".to_owned(), or_any(produced));
}

/// The media types of a body or an answer, and its schema: it is the same for all of them.
fn content(body: &mut Value) -> (Vec<Value>, Value) {
    let mut content = body.get_mut("content").map(fields).unwrap_or_default();
    let types = content.keys().map(|type_| type_.as_str().into()).collect();
    let mut schema = Value::Null;
    if let Some(one) = content.values_mut().next() {
        schema = one["schema"].take();
        convert_schema(&mut schema);
    }
    (types, schema)
}

fn or_any(types: Vec<Value>) -> Value {
    if types.is_empty() { json!(["*/*"]) } else { types.into() }
}
