//! The definitions, checked by the rules that an API server goes by: structural schemas and printer columns.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::*;
use crate::kinds;
use crate::registry::strict;

fn ours() -> Vec<Value> {
    definitions(&kinds::all(), rekindle_types::v1alpha1::GROUP)
}

fn schema_of(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// What an API server has against a schema (apiextensions, `ValidateStructural` and the keywords that v1 forbids).
fn objections(schema: &Value, path: &str, found: &mut Vec<String>) {
    const KNOWN: [&str; 24] = [
        "additionalProperties",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "multipleOf",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let Some(map) = schema.as_object() else {
        return found.push(format!("{path}: a schema must be an object"));
    };
    let mut object = |why: String| found.push(format!("{path}: {why}"));
    for keyword in map.keys().filter(|keyword| !KNOWN.contains(&keyword.as_str())) {
        object(format!("{keyword} must not be used"));
    }
    let type_ = map.get("type").and_then(Value::as_str).unwrap_or_default();
    if !["array", "boolean", "integer", "number", "object", "string"].contains(&type_) {
        object(format!("type {type_:?}"));
    }
    let format = map.get("format").and_then(Value::as_str);
    if format.is_some_and(|f| !["date-time", "double", "int32", "int64"].contains(&f)) {
        object(format!("format {format:?} is not known"));
    }
    if map.contains_key("properties") && map.contains_key("additionalProperties") {
        object("properties and additionalProperties exclude each other".to_owned());
    }
    for (keyword, of) in [("properties", "object"), ("items", "array")] {
        if map.contains_key(keyword) && type_ != of {
            object(format!("{keyword} of a {type_}"));
        }
    }
    if type_ == "array" && !map.contains_key("items") {
        object("an array must say of what".to_owned());
    }
    let properties = map.get("properties").and_then(Value::as_object);
    for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !properties.is_some_and(|all| all.contains_key(name.as_str().unwrap_or_default())) {
            object(format!("required {name} is no property"));
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        objections(property, &format!("{path}.{name}"), found);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = map.get(keyword) {
            objections(child, &format!("{path}[{keyword}]"), found);
        }
    }
}

/// The schema at a path such as `.spec.podName` or `.status.conditions[?(…)].status`.
fn at<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|field| !field.is_empty()).fold(schema, |schema, field| {
        match field.split_once('[') {
            None => &schema["properties"][field],
            Some((list, _)) => &schema["properties"][list]["items"],
        }
    })
}

#[test]
fn a_schema_that_is_not_structural_is_told() {
    for (schema, why) in [
        (json!({"properties": {}}), "type"),
        (json!({"type": "object", "default": {}}), "default must not be used"),
        (json!({"type": "object", "properties": {"a": {"$ref": "b"}}}), ".a: $ref"),
        (
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            "exclude",
        ),
        (json!({"type": "array"}), "of what"),
        (json!({"type": "integer", "format": "uint32"}), "format"),
        (json!({"type": "object", "required": ["a"], "properties": {}}), "is no property"),
    ] {
        let mut found = Vec::new();
        objections(&schema, "", &mut found);
        assert!(found.iter().any(|objection| objection.contains(why)), "{why}: {found:?}");
    }
}

#[test]
fn the_schemas_of_our_kinds_are_structural() {
    let definitions = ours();
    assert_eq!(definitions.len(), 3);
    for definition in &definitions {
        let mut found = Vec::new();
        let schema = schema_of(definition);
        objections(schema, "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{}", definition["metadata"]["name"]);
        assert_eq!(schema["properties"]["metadata"], json!({"type": "object"}));
        assert!(schema["properties"]["spec"]["properties"].is_object());
        assert!(schema["properties"]["status"]["properties"].is_object());
    }
}

/// The fields below a schema that say nothing about themselves.
fn silent(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().unwrap_or_default().is_empty() {
            found.push(path.clone());
        }
        silent(property, &path, found);
        silent(&property["items"], &path, found);
    }
}

#[test]
fn every_field_of_our_kinds_says_what_it_is() {
    for definition in ours() {
        let mut found = Vec::new();
        for part in ["spec", "status"] {
            silent(&schema_of(&definition)["properties"][part], part, &mut found);
        }
        let is_foreign = |path: &String| path.ends_with("replacement.pod");
        found.retain(|path| !is_foreign(path));
        assert_eq!(found, Vec::<String>::new(), "{}", definition["metadata"]["name"]);
    }
}

#[test]
fn every_column_and_every_selectable_field_is_a_path_of_the_schema() {
    for definition in ours() {
        let version = &definition["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert!(columns.len() >= 4, "{definition:#}");
        for column in
            columns.iter().chain(version["selectableFields"].as_array().into_iter().flatten())
        {
            let path = column["jsonPath"].as_str().unwrap();
            if path.starts_with(".metadata.") {
                continue;
            }
            // the only dot inside brackets
            let path = path.replace("@.", "@");
            let found = at(schema_of(&definition), &path);
            let expected = column["type"].as_str().unwrap_or("string");
            assert_eq!(found["type"], expected, "{path}");
        }
    }
}

#[test]
fn a_definition_has_no_field_that_kubernetes_does_not_know() {
    for definition in ours() {
        let (read, unknown) = strict::read::<CustomResourceDefinition>(&definition).unwrap();
        assert_eq!(unknown, Vec::<String>::new());
        assert_eq!(read.metadata.name.as_deref(), definition["metadata"]["name"].as_str());
        assert!(read.spec.versions[0].subresources.as_ref().is_some_and(|s| s.status.is_some()));
    }
}

#[test]
fn what_a_person_may_write_wrong_is_in_the_schema() {
    let definitions = ours();
    let schema = |plural: &str| {
        let name = format!("{plural}.rekindle.dev");
        let found = definitions.iter().find(|d| d["metadata"]["name"] == name).unwrap();
        schema_of(found)
    };
    let ladder = schema("restartladders");
    let rungs = at(ladder, ".spec.rungs");
    assert_eq!((&rungs["minItems"], &rungs["maxItems"]), (&json!(1), &json!(6)));
    let rung = at(ladder, ".spec.rungs[0]");
    assert_eq!(rung["properties"]["rung"]["enum"][2], "Pod");
    assert_eq!(rung["properties"]["attempts"]["maximum"], 1000);
    assert_eq!(at(ladder, ".spec")["required"], json!(["selector", "rungs"]));
    assert_eq!(at(ladder, ".spec.budget.perMinute")["minimum"], 1);
    let restart = schema("podrestarts");
    assert_eq!(at(restart, ".spec")["required"], json!(["podName"]));
    assert_eq!(at(restart, ".spec")["x-kubernetes-validations"][0]["rule"], "self == oldSelf");
    assert_eq!(
        at(restart, ".status.replacement.pod")["x-kubernetes-preserve-unknown-fields"],
        true
    );
}
