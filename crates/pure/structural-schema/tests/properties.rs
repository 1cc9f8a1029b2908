//! What holds for any schema, object and expression.

use proptest::prelude::*;
use rekindle_structural_schema::{DefinitionSchema, StructuralSchema, check_definition_schema};
use serde_json::{Value, json};

/// Any JSON of names that schemas and objects have.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no NaN", |f| f.is_finite()).prop_map(Value::from),
        "[a-c]{0,3}|2026-01-02|10.0.0.1|object|array|string|integer|set|map".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_name(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]",
        prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "additionalProperties",
            "default",
            "nullable",
            "enum",
            "required",
            "pattern",
            "format",
            "maximum",
            "anyOf",
            "allOf",
            "not",
            "metadata",
            "x-kubernetes-list-type",
            "x-kubernetes-validations",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-int-or-string",
            "rule",
        ])
        .prop_map(str::to_owned),
    ]
}

/// A schema that is structural, of a few fields.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "default": 3})),
        Just(json!({"type": "string", "nullable": true, "format": "date"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 20, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-c]", inner.clone(), 0..3)
                .prop_map(|fields| json!({"type": "object", "properties": fields, "default": {}})),
            inner.clone().prop_map(|item| json!({"type": "array", "items": item})),
            inner.prop_map(|value| json!({"type": "object", "additionalProperties": value})),
        ]
    })
}

proptest! {
    /// No schema, however broken, and no object stops the checks.
    #[test]
    fn any_json_is_answered(schema in any_json(), object in any_json(), old in any_json()) {
        let definition = DefinitionSchema { schema: &schema, path: "s", has_status: true };
        let errors = check_definition_schema(&definition);
        if let Ok(compiled) = StructuralSchema::compile(&schema) {
            let mut object = object;
            let _ = compiled.coerce_embedded(&mut object);
            compiled.prune_resource(&mut object);
            compiled.fill_defaults(&mut object);
            compiled.validate(&object, Some(&old));
        } else {
            prop_assert!(!errors.is_empty(), "what does not compile is refused");
        }
    }

    /// Pruning and defaulting a second time change nothing, and an update that changes nothing
    /// is never refused for its values.
    #[test]
    fn preparing_an_object_twice_changes_nothing(schema in any_schema(), object in any_json()) {
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        let compiled = StructuralSchema::compile(&schema).expect("the schema is structural");
        let definition = DefinitionSchema { schema: &schema, path: "s", has_status: false };
        prop_assert_eq!(check_definition_schema(&definition), vec![]);
        let mut object = json!({"spec": object});
        compiled.prune_resource(&mut object);
        compiled.fill_defaults(&mut object);
        let mut again = object.clone();
        prop_assert_eq!(compiled.prune_resource(&mut again), Vec::<String>::new());
        compiled.fill_defaults(&mut again);
        prop_assert_eq!(&again, &object);
        let whole = StructuralSchema::compile(&json!({
            "type": "object", "properties": {"spec": {"x-kubernetes-preserve-unknown-fields": true}},
        }));
        prop_assert!(whole.is_ok());
    }

    /// No text that is written as a rule stops the checks or an evaluation.
    #[test]
    fn any_expression_is_answered(
        rule in r#"(self|\.l|\.n|\.all\(x, |\)|\(|\[|\]|\{|\}|'a'|1|\+|-|\?|:|==|<|&&|\|\||!|x| in |size\(|\.map\(x, |,|has\(){1,24}"#,
        n in any::<i64>(),
        l in prop::collection::vec(any::<i64>(), 0..5),
    ) {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
            },
            "x-kubernetes-validations": [{"rule": rule}],
        }}});
        let definition = DefinitionSchema { schema: &schema, path: "s", has_status: false };
        let is_right = check_definition_schema(&definition).is_empty();
        let compiled = StructuralSchema::compile(&schema).expect("the schema is structural");
        let errors = compiled.validate(&json!({"spec": {"n": n, "l": l}}), None);
        let has_no_overload = errors.iter().any(|error| error.detail.contains("no such overload"));
        prop_assert!(!(is_right && has_no_overload), "types were checked: {rule}: {errors:?}");
    }
}
