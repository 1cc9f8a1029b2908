//! A schema with everything it refers to in one tree, and nothing but the keywords that a structural schema may have.

use serde_json::{Map, Value, json};

/// What is kept of a schema as it stands. `$ref` and `allOf` are followed, `properties`, `items` and `additionalProperties` descended
/// into; the rest (defaults, patch strategies, kinds) is of no use there or is refused.
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
    "x-kubernetes-validations",
];

/// The API server checks metadata itself, and refuses to be told about it.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// Any object: not to be pruned.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The schema of this name.
pub(super) fn of(name: &str, schemas: &Map<String, Value>) -> Value {
    named(name, schemas)
}

fn named(name: &str, schemas: &Map<String, Value>) -> Value {
    match name {
        OBJECT_META => json!({"type": "object"}),
        RAW_EXTENSION => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        }
        name => tree(&schemas[name], schemas),
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

fn referred_by(schema: &Value) -> Option<&str> {
    schema.as_object().and_then(referred)
}

/// The schema that this one is, or refines.
fn referred(schema: &Map<String, Value>) -> Option<&str> {
    let whole = schema.get("$ref");
    let only = schema.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("$ref"));
    whole.or(only)?.as_str()?.strip_prefix("#/components/schemas/")
}
