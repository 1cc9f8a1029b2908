//! The definitions, checked by the rules that an API server goes by: structural schemas and printer
//! columns.

mod expressions;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rekindle_types::ObjectJson;
use serde_json::Value;

use super::*;

fn ours() -> Vec<Value> {
    definitions(&crate::all(), rekindle_types::v1alpha1::GROUP)
}

fn schema_of(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// What an API server has against a schema (apiextensions, `ValidateStructural` and the keywords
/// that v1 forbids).
fn objections(schema: &Value, path: &str, found: &mut Vec<String>) {
    const KNOWN: [&str; 25] = [
        "additionalProperties",
        "default",
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
    if let Some(default) = map.get("default") {
        let fits = match type_ {
            "boolean" => default.is_boolean(),
            "integer" => default.is_i64(),
            "string" => default.is_string(),
            _ => false, // of ours none is an object, a list or a fraction
        };
        let listed = map.get("enum").and_then(Value::as_array);
        if !fits || listed.is_some_and(|values| !values.contains(default)) {
            object(format!("default {default} of a {type_}"));
        }
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
        (json!({"type": "integer", "default": "1"}), "default \"1\" of a integer"),
        (json!({"type": "string", "enum": ["a"], "default": "b"}), "default \"b\""),
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
        let (read, unknown) = CustomResourceDefinition::from_value_strictly(&definition).unwrap();
        assert_eq!(unknown, Vec::<String>::new());
        assert_eq!(read.metadata.name.as_deref(), definition["metadata"]["name"].as_str());
        assert!(read.spec.versions[0].subresources.as_ref().is_some_and(|s| s.status.is_some()));
    }
}

/// The schema of one of our kinds.
fn schema<'a>(definitions: &'a [Value], plural: &str) -> &'a Value {
    let name = format!("{plural}.rekindle.dev");
    schema_of(definitions.iter().find(|d| d["metadata"]["name"] == name).unwrap())
}

/// The rules at a schema: expression, and the field and the reason of its error.
fn rules(schema: &Value) -> Vec<(&str, &str, &str)> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    rules
        .map(|rule| {
            let text = |key: &str| rule[key].as_str().unwrap_or_default();
            (text("rule"), text("fieldPath"), text("reason"))
        })
        .collect()
}

#[test]
fn what_a_person_may_write_wrong_is_in_the_schema() {
    let definitions = ours();
    let ladder = schema(&definitions, "restartladders");
    let rungs = at(ladder, ".spec.rungs");
    assert_eq!((&rungs["minItems"], &rungs["maxItems"]), (&json!(1), &json!(6)));
    let rung = at(ladder, ".spec.rungs[0]");
    assert_eq!(rung["properties"]["rung"]["enum"][2], "Pod");
    assert_eq!(rung["properties"]["attempts"]["maximum"], 1000);
    assert_eq!(at(ladder, ".spec")["required"], json!(["selector", "rungs"]));
    assert_eq!(at(ladder, ".spec.budget.perMinute")["minimum"], 1);
    let restart = schema(&definitions, "podrestarts");
    assert_eq!(at(restart, ".spec")["required"], json!(null), "a pod's name, or a selector");
    // Where a spec could be taken away, another could be put in its place.
    assert_eq!(restart["required"], json!(["spec"]));
    assert_eq!(ladder["required"], json!(["spec"]));
    assert_eq!(
        at(restart, ".status.replacement.pod")["x-kubernetes-preserve-unknown-fields"],
        true
    );
}

#[test]
fn what_two_fields_say_together_is_in_the_rules_of_the_schema() {
    let definitions = ours();
    let (ladder, restart) =
        (schema(&definitions, "restartladders"), schema(&definitions, "podrestarts"));
    let of_rung = [
        (
            "!has(self.emptyDirs) || !has(self.rung) || self.rung == 'Pod'",
            ".emptyDirs",
            "FieldValueForbidden",
        ),
        (
            "!has(self.avoidNodeFor) || (has(self.rung) && self.rung == 'Reschedule')",
            ".avoidNodeFor",
            "FieldValueForbidden",
        ),
    ];
    assert_eq!(rules(at(ladder, ".spec.rungs[0]")), of_rung);
    // those of a field do not take the place of those of its type
    let of_spec = rules(at(restart, ".spec"));
    assert!(of_rung.iter().all(|rule| of_spec.contains(rule)), "{of_spec:?}");
    let of_container = (
        "!has(self.containerName) || (has(self.rung) && self.rung == 'Container')",
        ".containerName",
        "FieldValueForbidden",
    );
    assert!(of_spec.contains(&of_container), "{of_spec:?}");
    assert_eq!(at(restart, ".spec.containerName")["maxLength"], 63);
    assert!(of_spec.contains(&("self == oldSelf", "", "")), "{of_spec:?}");
    let of_status = rules(at(restart, ".status"));
    assert!(of_status.iter().any(|rule| rule.0.contains("oldSelf.podUID")), "{of_status:?}");
    let selector = at(ladder, ".spec.selector");
    assert_eq!(rules(selector).len(), 1);
    assert_eq!(rules(selector)[0].2, "FieldValueRequired");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let rungs = at(ladder, ".spec.rungs");
    assert!(rules(rungs)[0].0.contains("self[i].rung"), "{:?}", rules(rungs));
    assert_eq!(rungs["x-kubernetes-list-map-keys"], json!(["rung"]));
    for (schema, path) in [
        (ladder, ".spec.window"),
        (ladder, ".spec.rungs[0].avoidNodeFor"),
        (restart, ".spec.avoidNodeFor"),
    ] {
        let span = at(schema, path);
        assert!(rules(span)[0].0.contains("duration('720h')"), "{path}: {span}");
        assert_eq!(span["maxLength"], 32, "{path}");
    }
}

/// A field of upstream's types, and what is said of it beyond their published schemas.
#[test]
fn upstreams_types_are_held_to_what_upstreams_code_asks_of_them() {
    let definitions = ours();
    let ladder = schema(&definitions, "restartladders");
    let operator = at(ladder, ".spec.selector.matchExpressions[0].operator");
    assert_eq!(operator["enum"], json!(["In", "NotIn", "Exists", "DoesNotExist"]));
    for plural in ["restartladders", "podrestarts", "restartledgers"] {
        let schema = schema(&definitions, plural);
        let status = at(schema, ".status.conditions[0].status");
        assert_eq!(status["enum"], json!(["True", "False", "Unknown"]), "{plural}");
        assert_eq!(at(schema, ".status.conditions[0].reason")["minLength"], 1, "{plural}");
    }
    let steps = at(schema(&definitions, "podrestarts"), ".status.steps[0].count");
    assert_eq!(steps["minimum"], 1);
}

/// The defaults below a schema, by path.
fn defaults_of(schema: &Value, path: &str) -> BTreeMap<String, Value> {
    let own = schema.get("default").map(|default| (path.to_owned(), default.clone()));
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.flat_map(|(name, field)| defaults_of(field, &format!("{path}.{name}")));
    let entries = schema.get("items").map(|items| defaults_of(items, &format!("{path}[0]")));
    own.into_iter().chain(fields).chain(entries.into_iter().flatten()).collect()
}

/// A server that fills in what was left out fills in what ours does. Inside lists it fills in
/// nothing: a file that leaves it out could not be applied twice without a change.
#[test]
fn the_defaults_of_the_schema_are_those_of_our_server() {
    let definitions = ours();
    let registry = crate::all();
    for (plural, kind, spec, said) in [
        (
            "restartladders",
            "RestartLadder",
            json!({"selector": {"matchLabels": {"a": "b"}}, "rungs": [{"rung": "Pod"}]}),
            vec![".spec.window", ".spec.onExhausted", ".spec.scope"],
        ),
        ("podrestarts", "PodRestart", json!({"podName": "web-0"}), vec![".spec.rung"]),
    ] {
        let entry = registry.find_kind("rekindle.dev", kind).unwrap();
        let object = json!({
            "apiVersion": "rekindle.dev/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec,
        });
        let mut read = entry.codec.decode(&object).unwrap().object;
        read.set_defaults();
        let filled: Value = serde_json::from_slice(&read.to_json()).unwrap();
        let defaults = defaults_of(schema(&definitions, plural), "");
        assert_eq!(
            defaults.keys().map(String::as_str).collect::<BTreeSet<_>>(),
            said.into_iter().collect()
        );
        for (path, default) in defaults {
            let pointer = path.replace("[0]", ".0").replace('.', "/");
            assert_eq!(filled.pointer(&pointer), Some(&default), "{path}");
        }
    }
}
