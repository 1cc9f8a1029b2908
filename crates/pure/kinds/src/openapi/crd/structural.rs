//! A schema with everything it refers to in one tree, and nothing but the keywords that a
//! structural schema may have.

use serde_json::{Map, Value, json};

/// What is kept of a schema as it stands. `$ref` and `allOf` are followed, `properties`, `items`
/// and `additionalProperties` descended into; the rest (patch strategies, kinds) is of no use there
/// or is refused. Rules of a field stand beside those of its type.
const KEPT: [&str; 18] = [
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

const RULES: &str = "x-kubernetes-validations";

/// The API server checks metadata itself, and refuses to be told about it.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// Any object: not to be pruned.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// What upstream's code asks of its own types where their published schemas say nothing: type,
/// field, keyword, value as JSON.
const UPSTREAM: [(&str, &str, &str, &str); 3] = [
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
        "status",
        "enum",
        r#"["True", "False", "Unknown"]"#,
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Condition", "reason", "minLength", "1"),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
        "operator",
        "enum",
        r#"["In", "NotIn", "Exists", "DoesNotExist"]"#,
    ),
];

/// The schema of this name.
pub(super) fn schema_named(name: &str, schemas: &Map<String, Value>) -> Value {
    named(name, schemas)
}

fn named(name: &str, schemas: &Map<String, Value>) -> Value {
    match name {
        OBJECT_META => json!({"type": "object"}),
        RAW_EXTENSION => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        }
        name => {
            let mut tree = tree(&schemas[name], schemas);
            for (_, field, keyword, value) in UPSTREAM.iter().filter(|(of, ..)| *of == name) {
                tree["properties"][*field][*keyword] =
                    serde_json::from_str(value).expect("the table is JSON");
            }
            tree
        }
    }
}

fn tree(schema: &Value, schemas: &Map<String, Value>) -> Value {
    let Some(schema) = schema.as_object() else { return schema.clone() };
    let mut tree = referred(schema)
        .and_then(|name| named(name, schemas).as_object().cloned())
        .unwrap_or_default();
    for keyword in KEPT {
        if let Some(value) = schema.get(keyword) {
            tree.insert(keyword.to_owned(), value.clone());
        }
    }
    if let Some(rules) = schema.get(RULES).and_then(Value::as_array) {
        let all = tree.entry(RULES).or_insert_with(|| json!([]));
        all.as_array_mut().expect("rules are a list").extend(rules.iter().cloned());
    }
    if let Some(default) = schema.get("default").filter(|default| says_something(default)) {
        tree.insert("default".to_owned(), default.clone());
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let of = |(name, property): (&String, &Value)| {
            let is_root_metadata = referred_by(property) == Some(OBJECT_META);
            let property = match is_root_metadata {
                true => json!({"type": "object"}),
                false => self::tree(property, schemas),
            };
            (name.clone(), property)
        };
        tree.insert("properties".to_owned(), properties.iter().map(of).collect());
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(keyword).filter(|child| child.is_object()) {
            tree.insert(keyword.to_owned(), self::tree(child, schemas));
        }
    }
    Value::Object(tree)
}

/// True of a default that was chosen. Rust's own (an empty text, zero, an object of such) is what a
/// field that is absent is read as.
fn says_something(default: &Value) -> bool {
    match default {
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(yes) => *yes,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn referred_by(schema: &Value) -> Option<&str> {
    schema.as_object().and_then(referred)
}

/// The schema that this one is, or refines.
fn referred(schema: &Map<String, Value>) -> Option<&str> {
    let whole = schema.get("$ref");
    let only = schema.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("$ref"));
    whole.or(only)?.as_str()?.strip_prefix("#/components/schemas/")
}
