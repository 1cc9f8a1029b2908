//! Strategic merge patch: a merge patch that knows which lists merge by a key, with directives (`$patch`, `$retainKeys`,
//! `$setElementOrder/…`, `$deleteFromPrimitiveList/…`). Semantics: the API reference and "strategic-merge-patch.md" of
//! Kubernetes' community documents.

use serde_json::{Map, Value};

use super::PatchError;
use super::directives::{
    DELETE_FROM_LIST, Directive, SET_ELEMENT_ORDER, delete_from_list, directive, is_directed,
    order_of, retain_keys, without_directives,
};
use super::merge_keys::{ListMerge, merge_field};
use super::order::{self, Order};

/// The object after the patch.
pub(super) fn apply(schema: &str, object: Value, patch: &Value) -> Result<Value, PatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            merge_objects(schema, object, patch).map(Value::Object)
        }
        _ => Err(PatchError::DoesNotFit("a strategic merge patch must be an object".to_owned())),
    }
}

/// Merges a patch into an object of this schema.
fn merge_objects(
    schema: &str,
    mut object: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match directive(patch)? {
        Some(Directive::Replace) => return Ok(without_directives(patch)),
        Some(Directive::Delete) => return Ok(Map::new()),
        Some(Directive::Merge) | None => {}
    }
    retain_keys(&mut object, patch)?;
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(&mut object, field, value)?;
        }
    }
    for (name, value) in patch {
        if name.starts_with('$') {
            continue;
        }
        let order = order_of(patch, name)?;
        match (object.remove(name), value) {
            (_, Value::Null) => {}
            (None, value) => {
                object.insert(name.clone(), new_value(schema, name, value, order)?);
            }
            (Some(old), value) => {
                object.insert(name.clone(), merge_values(schema, name, old, value, order)?);
            }
        }
    }
    for name in patch.keys() {
        let Some(field) = name.strip_prefix(SET_ELEMENT_ORDER) else { continue };
        if patch.contains_key(field) {
            continue; // sorted when it was merged
        }
        if let Some(Value::Array(old)) = object.remove(field) {
            let by = merge_field(schema, field).and_then(|field| field.list);
            let sorted = order::in_order(old.clone(), by, order_of(patch, field)?, &old);
            object.insert(field.to_owned(), Value::Array(sorted));
        }
    }
    Ok(object)
}

/// A field that the object does not have yet.
fn new_value(
    schema: &str,
    name: &str,
    value: &Value,
    order: Order<'_>,
) -> Result<Value, PatchError> {
    match value {
        // An empty start makes the directives and nulls inside the patch disappear as they should.
        Value::Object(patch) => {
            merge_objects(child(schema, name), Map::new(), patch).map(Value::Object)
        }
        Value::Array(_) => merge_values(schema, name, Value::Array(Vec::new()), value, order),
        other => Ok(other.clone()),
    }
}

fn merge_values(
    schema: &str,
    name: &str,
    old: Value,
    patch: &Value,
    order: Order<'_>,
) -> Result<Value, PatchError> {
    match (old, patch) {
        (Value::Object(old), Value::Object(patch)) => {
            let by = merge_field(schema, name).and_then(|field| field.list);
            let old = if by == Some(ListMerge::Whole) { Map::new() } else { old };
            merge_objects(child(schema, name), old, patch).map(Value::Object)
        }
        (Value::Array(old), Value::Array(patch)) => {
            let by = merge_field(schema, name).and_then(|field| field.list);
            merge_list(child(schema, name), by, old, patch, order).map(Value::Array)
        }
        // Another type than before: the patch decides.
        (_, patch) => new_value(schema, name, patch, order),
    }
}

fn child(schema: &str, field: &str) -> &'static str {
    merge_field(schema, field).map_or("", |field| field.child)
}

/// Merges a list of a patch into a list of entries with this schema.
fn merge_list(
    schema: &str,
    by: Option<ListMerge>,
    old: Vec<Value>,
    patch: &[Value],
    order: Order<'_>,
) -> Result<Vec<Value>, PatchError> {
    match by {
        None | Some(ListMerge::Whole) => Ok(patch.iter().map(replaced).collect()),
        Some(ListMerge::Set) => {
            let mut merged = old.clone();
            for item in patch {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            Ok(order::sorted(merged, by, patch, order, &old))
        }
        Some(ListMerge::ByKey(key)) => merge_by_key(schema, key, old, patch, order),
    }
}

/// An entry of a list that is replaced as a whole.
fn replaced(item: &Value) -> Value {
    match item {
        Value::Object(fields) if is_directed(fields) => Value::Object(without_directives(fields)),
        other => other.clone(),
    }
}

fn merge_by_key(
    schema: &str,
    key: &'static str,
    old: Vec<Value>,
    patch: &[Value],
    order: Order<'_>,
) -> Result<Vec<Value>, PatchError> {
    let by = Some(ListMerge::ByKey(key));
    let mut entries: Vec<&Map<String, Value>> = Vec::new();
    let mut merged = old.clone();
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(PatchError::DoesNotFit(format!(
                "the entries of a list that merges by {key:?} must be objects"
            )));
        };
        match directive(fields)? {
            Some(Directive::Replace) => {
                replace = true;
                // A bare directive is no entry; one with fields is.
                if fields.len() > 1 {
                    entries.push(fields);
                }
            }
            Some(Directive::Delete) => {
                let gone = key_value(fields, key)?;
                merged.retain(|item| item.get(key) != Some(gone));
            }
            Some(Directive::Merge) | None => entries.push(fields),
        }
    }
    if replace {
        return Ok(entries
            .into_iter()
            .map(|fields| Value::Object(without_directives(fields)))
            .collect());
    }
    for fields in &entries {
        let wanted = key_value(fields, key)?;
        let place = merged.iter_mut().find(|item| item.get(key) == Some(wanted));
        match place {
            Some(place) => {
                let before = match place.take() {
                    Value::Object(before) => before,
                    _ => Map::new(),
                };
                *place = Value::Object(merge_objects(schema, before, fields)?);
            }
            None => merged.push(Value::Object(merge_objects(schema, Map::new(), fields)?)),
        }
    }
    let named: Vec<Value> = entries.into_iter().cloned().map(Value::Object).collect();
    Ok(order::sorted(merged, by, &named, order, &old))
}

fn key_value<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<&'a Value, PatchError> {
    fields.get(key).ok_or_else(|| {
        let shown = Value::Object(fields.clone());
        PatchError::DoesNotFit(format!("map: {shown} does not contain declared merge key: {key}"))
    })
}
