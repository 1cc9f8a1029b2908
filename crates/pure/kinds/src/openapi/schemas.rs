//! `components.schemas`: the kinds with everything they refer to, as Kubernetes publishes them.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Binding;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIResourceList, DeleteOptions, ListMeta, ObjectMeta, Status,
};
use rekindle_structured_merge::{ListMergeRule, MapGranularity, MergeType, TypeId};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{LIST_META, PATCH, list_schema, reference};
use crate::registry::merge_keys::{ListMerge, MergeField, SCHEMAS};
use crate::registry::{KindEntry, Subresource, builtin_types};

/// Any value, as a default or an example: an object, says its Rust type, but a text is one as well.
const ANY_VALUE: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";

/// What the names of our own schemas begin with.
const OURS: &str = "dev.rekindle.";

/// The schemas that these kinds need.
pub(super) fn schemas_for(kinds: &[&KindEntry]) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for entry in kinds {
        entry.codec.add_schema(&mut generator);
    }
    let serves = |subresource| kinds.iter().any(|kind| kind.subresources.contains(&subresource));
    if serves(Subresource::Binding) {
        generator.subschema_for::<Binding>();
    }
    if serves(Subresource::Eviction) {
        generator.subschema_for::<Eviction>();
    }
    if serves(Subresource::Scale) {
        generator.subschema_for::<Scale>();
    }
    if serves(Subresource::Token) {
        generator.subschema_for::<TokenRequest>();
    }
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<APIResourceList>();
    generator.subschema_for::<DeleteOptions>();
    generator.subschema_for::<ListMeta>();
    generator.subschema_for::<Status>();
    let mut schemas = generator.take_definitions(true);
    for (name, schema) in &mut schemas {
        clean(schema);
        let_metadata_be_absent(schema);
        if name.starts_with(OURS) {
            join_lines(schema);
        }
    }
    inline_enums(&mut schemas);
    if let Some(Value::Object(any)) = schemas.get_mut(ANY_VALUE) {
        any.remove("type");
    }
    for entry in kinds {
        let name = entry.codec.schema_name();
        if let Some(published) = entry.codec.published_schema() {
            schemas.insert(name.clone().into_owned(), published);
        }
        schemas.insert(list_schema(&name), list_of(entry, &name));
        mark(&mut schemas, &name, &[&entry.group, &entry.version, &entry.kind]);
    }
    mark(&mut schemas, super::SCALE, &["autoscaling", "v1", "Scale"]);
    mark(&mut schemas, super::TOKEN_REQUEST, &["authentication.k8s.io", "v1", "TokenRequest"]);
    mark(&mut schemas, super::BINDING, &["", "v1", "Binding"]);
    mark(&mut schemas, super::EVICTION, &["policy", "v1", "Eviction"]);
    mark(&mut schemas, super::STATUS, &["", "v1", "Status"]);
    mark(&mut schemas, super::DELETE_OPTIONS, &["", "v1", "DeleteOptions"]);
    schemas.insert(
        PATCH.to_owned(),
        json!({"type": "object", "description": "A change of an object, in the format of its content type."}),
    );
    for (name, fields) in SCHEMAS {
        merge_marks(&mut schemas, name, fields);
    }
    for (name, schema) in &mut schemas {
        apply_marks(name, schema);
    }
    schemas
}

/// Brings what schemars writes into the form that Kubernetes publishes and its tools read.
fn clean(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(clean),
        Value::Object(map) => {
            clean_object(map);
            map.values_mut().for_each(clean);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The Rust types of objects always have metadata. No client has to send any.
fn let_metadata_be_absent(schema: &mut Value) {
    let is_object = schema.pointer("/properties/apiVersion").is_some();
    let Some(schema) = schema.as_object_mut().filter(|_| is_object) else { return };
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    required.retain(|name| name != "metadata");
    if required.is_empty() {
        schema.remove("required");
    }
}

/// Joins the lines of descriptions: ours are broken where the source is, and kubectl explain breaks
/// them again where the terminal ends. An empty line stays.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(join_lines),
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
                *text = paragraphs.collect::<Vec<_>>().join("\n\n");
            }
            map.values_mut().for_each(join_lines);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn clean_object(map: &mut Map<String, Value>) {
    // A property may itself be called `nullable` or `format`; then its value is a schema, never a
    // bool or a text.
    for keyword in ["nullable", "$schema", "title"] {
        if map.get(keyword).is_some_and(|value| !value.is_object()) {
            map.remove(keyword);
        }
    }
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.remove("x-kubernetes-int-or-string");
        let quantity = map
            .get("description")
            .and_then(Value::as_str)
            .is_some_and(|text| text.starts_with("Quantity"));
        let other = if quantity { "number" } else { "integer" };
        map.insert("oneOf".to_owned(), json!([{"type": other}, {"type": "string"}]));
        if !quantity {
            map.insert("format".to_owned(), json!("int-or-string"));
        }
    }
    signed(map);
    one_of_constants(map);
    only_alternative(map);
    // Lists are replaced as a whole unless the merge keys say otherwise.
    if map.get("type") == Some(&json!("array")) {
        map.entry("x-kubernetes-list-type").or_insert_with(|| json!("atomic"));
    }
}

/// Kubernetes knows no unsigned numbers; their bounds stand beside the format.
fn signed(map: &mut Map<String, Value>) {
    let Some(format) = map.get("format").and_then(Value::as_str) else { return };
    if format == "uint32" {
        map.entry("maximum").or_insert_with(|| json!(u32::MAX));
    } else if format != "uint64" {
        return;
    }
    map.insert("format".to_owned(), json!("int64"));
}

/// The documented variants of a Rust enum become a plain `enum`.
fn one_of_constants(map: &mut Map<String, Value>) {
    let Some(variants) = map.get("oneOf").and_then(Value::as_array) else { return };
    let values: Option<Vec<Value>> = variants
        .iter()
        .map(|variant| match variant.get("enum").and_then(Value::as_array) {
            Some(values) if values.len() == 1 => Some(values[0].clone()),
            Some(_) | None => variant.get("const").cloned(),
        })
        .collect();
    if let Some(values) = values.filter(|values| !values.is_empty()) {
        map.remove("oneOf");
        map.insert("type".to_owned(), json!("string"));
        map.insert("enum".to_owned(), Value::Array(values));
    }
}

/// What was optional in Rust is an `anyOf` of the thing and null: only the thing stays.
fn only_alternative(map: &mut Map<String, Value>) {
    let Some(alternatives) = map.get("anyOf").and_then(Value::as_array) else { return };
    let things: Vec<Value> = alternatives
        .iter()
        .filter(|alternative| {
            let null = alternative.get("type") == Some(&json!("null"))
                || alternative.get("enum") == Some(&json!([null]))
                || alternative.get("const") == Some(&Value::Null);
            !null
        })
        .cloned()
        .collect();
    if let [thing] = things.as_slice() {
        let thing = thing.clone();
        map.remove("anyOf");
        map.insert("allOf".to_owned(), json!([thing]));
    }
}

/// Puts the values of an enum where the field is, as Kubernetes publishes them: kubectl explain
/// follows no reference to find them.
fn inline_enums(schemas: &mut Map<String, Value>) {
    let is_enum = |(_, schema): &(&String, &Value)| schema.get("enum").is_some();
    let enums: Map<String, Value> = schemas
        .iter()
        .filter(is_enum)
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    schemas.retain(|name, _| !enums.contains_key(name));
    schemas.values_mut().for_each(|schema| inline(schema, &enums));
}

fn inline(schema: &mut Value, enums: &Map<String, Value>) {
    let whole = schema.get("$ref");
    let only = schema.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("$ref"));
    let name = whole.or(only).and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
    let values = name.and_then(|name| enums.get(name)).and_then(Value::as_object).cloned();
    match (schema, values) {
        (Value::Object(map), Some(values)) => {
            map.remove("$ref");
            map.remove("allOf");
            // what the field says of itself counts
            values.into_iter().for_each(|(keyword, value)| {
                map.entry(keyword).or_insert(value);
            });
        }
        (Value::Object(map), None) => map.values_mut().for_each(|child| inline(child, enums)),
        (Value::Array(list), _) => list.iter_mut().for_each(|child| inline(child, enums)),
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => {}
    }
}

fn list_of(entry: &KindEntry, schema: &str) -> Value {
    json!({
        "description": format!("{} is a list of {}.", entry.list_kind, entry.plural),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of the list's schema."},
            "items": {
                "type": "array",
                "description": "The objects.",
                "items": reference(schema),
            },
            "kind": {"type": "string", "description": "The kind of the list."},
            "metadata": reference(LIST_META),
        },
        "x-kubernetes-group-version-kind":
            [{"group": entry.group, "version": entry.version, "kind": entry.list_kind}],
    })
}

/// Says of which kind a schema is.
fn mark(schemas: &mut Map<String, Value>, name: &str, [group, version, kind]: &[&str; 3]) {
    if let Some(Value::Object(schema)) = schemas.get_mut(name) {
        let kinds = json!([{"group": group, "version": version, "kind": kind}]);
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds);
    }
}

/// Says how a strategic merge patch merges the fields of a schema.
fn merge_marks(schemas: &mut Map<String, Value>, name: &str, fields: &[MergeField]) {
    for field in fields {
        let property = schemas
            .get_mut(name)
            .and_then(|schema| schema.pointer_mut(&format!("/properties/{}", field.name)));
        let Some(Value::Object(property)) = property else { continue };
        let strategy = match (field.list, field.has_retain_keys) {
            (Some(ListMerge::Whole), _) => "replace",
            (Some(_), true) => "merge,retainKeys",
            (Some(_), false) => "merge",
            (None, true) => "retainKeys",
            (None, false) => continue,
        };
        property.insert("x-kubernetes-patch-strategy".to_owned(), json!(strategy));
        if let Some(ListMerge::ByKey(key)) = field.list {
            property.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
        }
    }
}

/// Says how an apply merges a schema and its fields.
fn apply_marks(name: &str, schema: &mut Value) {
    let Some(map) = builtin_types::map_of_schema(name) else { return };
    if let (MapGranularity::Atomic, Value::Object(schema)) = (map.granularity, &mut *schema) {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    for field in &map.fields {
        let property = schema.pointer_mut(&format!("/properties/{}", field.name));
        if let Some(Value::Object(property)) = property {
            mark_field(property, field.field_type);
        }
    }
}

fn mark_field(property: &mut Map<String, Value>, id: TypeId) {
    match builtin_types::merge_type(id) {
        MergeType::List(list) => {
            property.remove("x-kubernetes-list-map-keys");
            let list_type = match &list.rule {
                ListMergeRule::Atomic => "atomic",
                ListMergeRule::Set => "set",
                ListMergeRule::Map(keys) => {
                    let keys = keys.iter().map(|key| json!(key.name)).collect();
                    property.insert("x-kubernetes-list-map-keys".to_owned(), keys);
                    "map"
                }
            };
            property.insert("x-kubernetes-list-type".to_owned(), json!(list_type));
        }
        MergeType::Map(map) if !builtin_types::is_of_schema(id) => {
            // a struct that merges otherwise here than elsewhere, or a map
            let granularity = match (map.granularity, map.fields.is_empty()) {
                (MapGranularity::Atomic, _) => "atomic",
                (MapGranularity::Granular, false) => "granular",
                (MapGranularity::Granular, true) => return,
            };
            if let Some(reference) = property.remove("$ref") {
                property.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            property.insert("x-kubernetes-map-type".to_owned(), json!(granularity));
        }
        MergeType::Map(_) | MergeType::Scalar(_) | MergeType::Anything(_) => {}
    }
}
