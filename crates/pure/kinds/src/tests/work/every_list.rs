//! Every list and map that a body may have, found in the schemas of the kinds, so that one of a new
//! kind is not forgotten: the counted steps grow with it, and an answer that refuses it stays
//! short.

use serde_json::{Map, Value, json};

use super::{REFUSAL_BYTES_MAX, WARNINGS_MAX, count, name};
use crate::openapi;
use crate::registry::{KindEntry, Registry};

/// The entries of the smaller body; the larger one has four times as many.
const ENTRIES: usize = 16;
/// Lists within lists are looked for so deep. Container, probe and action are within a template.
const DEPTH_MAX: usize = 9;

/// Fields that hold what another field, or another kind, holds as well.
const SAME_AS_OTHERS: [&str; 3] = ["initContainers", "ephemeralContainers", "managedFields"];
/// The one workload whose template is looked into.
const WITH_TEMPLATE: &str = "Deployment";

/// A step from an object to a list in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Entry,
}

fn resolved<'a>(schema: &'a Value, schemas: &'a Value) -> &'a Value {
    match referred(schema) {
        Some(name) => resolved(&schemas[name], schemas),
        None => schema,
    }
}

/// The schema that this one stands for, by its name.
fn referred(schema: &Value) -> Option<&str> {
    let target = schema.pointer("/allOf/0/$ref").or_else(|| schema.get("$ref"));
    target.and_then(Value::as_str).and_then(|target| target.rsplit('/').next())
}

/// The ways to all lists and maps below a schema.
fn lists(schema: &Value, schemas: &Value, kind: &str, way: &[Step], found: &mut Vec<Vec<Step>>) {
    let schema = resolved(schema, schemas);
    let longer = |step: Step| [way, &[step]].concat();
    if way.len() > DEPTH_MAX {
        return;
    }
    if schema.get("items").is_some() {
        found.push(way.to_vec());
        lists(&schema["items"], schemas, kind, &longer(Step::Entry), found);
    } else if schema.get("additionalProperties").is_some_and(Value::is_object) {
        found.push(way.to_vec());
    }
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_looked_at = !SAME_AS_OTHERS.contains(&field.as_str())
            && (kind == WITH_TEMPLATE || !field.to_lowercase().ends_with("template"));
        if is_looked_at {
            lists(property, schemas, kind, &longer(Step::Field(field.clone())), found);
        }
    }
}

/// The entry of this index, unlike the others in each text and number.
fn sample(schema: &Value, schemas: &Value, index: usize, depth: usize) -> Value {
    if referred(schema).is_some_and(|name| name.ends_with("resource.Quantity")) {
        return json!(format!("{}", index + 1));
    }
    let schema = resolved(schema, schemas);
    if let Some(first) = schema.pointer("/enum/0") {
        return first.clone();
    }
    match (schema.get("type").and_then(Value::as_str), schema.get("format").and_then(Value::as_str))
    {
        (_, Some("date-time")) => json!("2026-11-21T12:00:00.123456Z"),
        (_, Some("byte")) => json!("AAE="),
        (Some("integer" | "number"), _) => json!(index + 1),
        (Some("boolean"), _) => json!(false),
        (Some("array"), _) => json!([]),
        (Some("object"), _) => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let inner = |(field, property): (&String, &Value)| {
                (field.clone(), sample(property, schemas, index, depth - 1))
            };
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let plain = properties.filter(|(field, property)| {
                let is_plain = resolved(property, schemas).get("properties").is_none();
                depth > 0 && (is_plain || required.contains(&json!(field)))
            });
            plain.map(inner).collect()
        }
        _ => json!(name(index)),
    }
}

/// An object with nothing but the list at the end of a way, of so many entries.
fn body(schema: &Value, schemas: &Value, way: &[Step], entries: usize) -> Value {
    let schema = resolved(schema, schemas);
    match way.split_first() {
        Some((Step::Field(field), rest)) => {
            let inner = body(&schema["properties"][field], schemas, rest, entries);
            Value::Object(Map::from_iter([(field.clone(), inner)]))
        }
        Some((Step::Entry, rest)) => {
            let mut own = sample(&schema["items"], schemas, 0, 2);
            if let (Some(own), Value::Object(inner)) =
                (own.as_object_mut(), body(&schema["items"], schemas, rest, entries))
            {
                own.extend(inner);
            }
            json!([own])
        }
        None => match schema.get("items") {
            Some(items) => (0..entries).map(|index| sample(items, schemas, index, 2)).collect(),
            None => {
                let value = &schema["additionalProperties"];
                (0..entries).map(|index| (name(index), sample(value, schemas, index, 2))).collect()
            }
        },
    }
}

/// What is wrong with the work that a list takes; none when it cannot be read, which takes no work.
fn fault(entry: &KindEntry, schema: &Value, schemas: &Value, way: &[Step]) -> Option<String> {
    let counted = |entries| {
        let mut body = body(schema, schemas, way, entries);
        body["apiVersion"] = json!(entry.api_version);
        body["kind"] = json!(entry.kind);
        entry.codec.decode(&body).is_ok().then(|| count(entry, &body))
    };
    let (small, large) = (counted(ENTRIES)?, counted(4 * ENTRIES)?);
    // two more an entry: a number may be valid in the first entries alone
    let is_fine = large.steps <= 4 * small.steps + 8 * ENTRIES as u64
        && large.refusal_bytes <= REFUSAL_BYTES_MAX
        && large.warnings <= WARNINGS_MAX
        && large.row_bytes <= 8 * small.row_bytes + 64;
    let (few, many) = (small.steps, large.steps);
    (!is_fine)
        .then(|| format!("{} {way:?}: {few} steps, {many} for four times as many", entry.kind))
}

#[test]
fn the_steps_of_a_write_grow_with_every_list_of_every_kind() {
    let registry: Registry = crate::all();
    let (mut faults, mut looked_at) = (Vec::new(), 0);
    for entry in registry.kinds() {
        let document = openapi::document(&registry, &entry.group, &entry.version);
        let schemas = &document["components"]["schemas"];
        let schema = &schemas[entry.codec.schema_name().as_ref()];
        let mut found = Vec::new();
        lists(schema, schemas, &entry.kind, &[], &mut found);
        looked_at += found.len();
        faults.extend(found.iter().filter_map(|way| fault(entry, schema, schemas, way)));
    }
    assert!(looked_at > 300, "{looked_at} lists");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
