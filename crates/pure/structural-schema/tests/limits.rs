//! What bounds the errors of a schema and an object.
#![allow(clippy::unwrap_used, reason = "a broken schema fails the test")]

use rekindle_structural_schema::{
    DefinitionSchema, SCHEMA_NAME_BYTES_MAX, StructuralSchema, check_definition_schema,
};
use rekindle_types::validation::MISTAKES_MAX;
use serde_json::{Value, json};

const BYTES_MAX: usize = 3 << 20;

fn definition_errors(schema: &Value) -> Vec<String> {
    let definition = DefinitionSchema { schema, path: "s", has_status: false };
    check_definition_schema(&definition).iter().map(ToString::to_string).collect()
}

fn object_errors(spec: &Value, value: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    assert_eq!(definition_errors(&schema), [""; 0]);
    let compiled = StructuralSchema::compile(&schema).unwrap();
    compiled.validate(&json!({"spec": value}), None).iter().map(ToString::to_string).collect()
}

fn are_bounded(errors: &[String]) -> bool {
    let bytes: usize = errors.iter().map(String::len).sum();
    (1..=MISTAKES_MAX).contains(&errors.len()) && bytes <= BYTES_MAX
}

#[test]
fn validation_of_an_object_ends_with_so_many_errors() {
    let long = "x".repeat(500_000);
    let list = |items: Value| json!({"type": "array", "items": items});
    let rule = json!({"rule": "self > 100000", "message": long});
    let set = json!({
        "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
    });
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let metadata =
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "/".repeat(1_000)}});
    let numbers = json!((0..3_000).collect::<Vec<_>>());
    for (spec, value) in [
        (list(json!({"type": "string"})), numbers.clone()),
        (list(json!({"type": "integer", "enum": [-1]})), numbers.clone()),
        (list(json!({"type": "string", "enum": [long]})), json!(vec!["y"; 3_000])),
        (list(json!({"type": "string", "pattern": "^x{1,9}$"})), json!(vec![long; 5])),
        (list(json!({"type": "integer", "x-kubernetes-validations": [rule]})), numbers.clone()),
        (list(set), json!(vec![vec!["d".repeat(5_000); 2]; 3_000])),
        (list(embedded), json!(vec![metadata; 3_000])),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            (0..3_000).map(|at| (at.to_string(), json!(at))).collect(),
        ),
    ] {
        let errors = object_errors(&spec, &value);
        assert!(are_bounded(&errors), "{}: {}", errors.len(), errors.concat().len());
    }
}

#[test]
fn checks_of_a_definition_end_with_so_many_errors() {
    let fields = |field: Value| {
        let fields = (0..3_000).map(|at| (format!("f{at}"), field.clone()));
        json!({"type": "object", "properties": serde_json::Map::from_iter(fields)})
    };
    let keys: Vec<String> = (0..3_000).map(|at| format!("{at}{}", "k".repeat(900))).collect();
    for schema in [
        fields(json!({})),
        fields(json!({"type": "nothing"})),
        fields(json!({"type": "integer", "default": "x".repeat(900)})),
        fields(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "nope"}]})),
        json!({"type": "object", "properties": {"l": {
            "type": "array", "items": {"type": "object"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        }}}),
    ] {
        let errors = definition_errors(&schema);
        assert!(are_bounded(&errors), "{}: {}", errors.len(), errors.concat().len());
    }
}

/// What has no errors can be compiled.
#[test]
fn what_cannot_be_compiled_is_refused() {
    let name = "n".repeat(SCHEMA_NAME_BYTES_MAX + 1);
    for schema in [
        json!({"type": "object", "properties": {"l": {"type": "array", "items": []}}}),
        json!({"type": "object", "properties": {name: {"type": "string"}}}),
    ] {
        assert!(StructuralSchema::compile(&schema).is_err());
        assert_eq!(definition_errors(&schema).len(), 1);
    }
}
