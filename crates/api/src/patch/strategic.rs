//! Strategic merge patch: a merge patch that knows which lists merge by a key, with directives (`$patch`, `$retainKeys`,
//! `$setElementOrder/…`, `$deleteFromPrimitiveList/…`). Semantics: the API reference and "strategic-merge-patch.md" of
//! Kubernetes' community documents.

use serde_json::{Map, Value};

use super::PatchError;
use super::list::{self, Order};
use super::merge_keys::{ListMerge, merge_field};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// What a `$patch` directive says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Replace,
    Delete,
    Merge,
}

/// The object after the patch.
pub(super) fn apply(schema: &str, object: Value, patch: &Value) -> Result<Value, PatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            merge_objects(schema, object, patch).map(Value::Object)
        }
        _ => Err(PatchError::DoesNotFit("a strategic merge patch must be an object".to_owned())),
    }
}

/// The directive of an object in a patch.
pub(super) fn directive(patch: &Map<String, Value>) -> Result<Option<Directive>, PatchError> {
    match patch.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if text == "replace" => Ok(Some(Directive::Replace)),
        Some(Value::String(text)) if text == "delete" => Ok(Some(Directive::Delete)),
        Some(Value::String(text)) if text == "merge" => Ok(Some(Directive::Merge)),
        Some(other) => {
            Err(PatchError::DoesNotFit(format!("unknown patch type {other} found in map")))
        }
    }
}

/// Merges a patch into an object of this schema.
pub(super) fn merge_objects(
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
            let sorted = list::in_order(old.clone(), by, order_of(patch, field)?, &old);
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
            list::merge(child(schema, name), by, old, patch, order).map(Value::Array)
        }
        // Another type than before: the patch decides.
        (_, patch) => new_value(schema, name, patch, order),
    }
}

fn child(schema: &str, field: &str) -> &'static str {
    merge_field(schema, field).map_or("", |field| field.child)
}

/// `$retainKeys` names all fields that stay; a patch may not set others.
fn retain_keys(
    object: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::DoesNotFit("invalid patch format of retainKeys".to_owned());
    let retained: Vec<&str> =
        retained.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let foreign = patch.iter().any(|(name, value)| {
        !name.starts_with('$') && !value.is_null() && !retained.contains(&name.as_str())
    });
    if foreign {
        return Err(bad());
    }
    object.retain(|name, _| retained.contains(&name.as_str()));
    Ok(())
}

fn delete_from_list(
    object: &mut Map<String, Value>,
    field: &str,
    gone: &Value,
) -> Result<(), PatchError> {
    let gone = gone.as_array().ok_or_else(|| {
        PatchError::DoesNotFit(format!("{DELETE_FROM_LIST}{field} must be a list"))
    })?;
    if let Some(Value::Array(items)) = object.get_mut(field) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

/// The order that a patch wants for the entries of a list.
fn order_of<'a>(patch: &'a Map<String, Value>, field: &str) -> Result<Order<'a>, PatchError> {
    match patch.get(&format!("{SET_ELEMENT_ORDER}{field}")) {
        None => Ok(Order::OfThePatch),
        Some(Value::Array(items)) => Ok(Order::Given(items)),
        Some(_) => {
            Err(PatchError::DoesNotFit(format!("{SET_ELEMENT_ORDER}{field} must be a list")))
        }
    }
}

/// A value from a patch without the directives in it, and without nulls in objects.
pub(super) fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether entries of a list merge by a key.
pub(super) fn key_of(by: Option<ListMerge>) -> Option<&'static str> {
    match by {
        Some(ListMerge::ByKey(key)) => Some(key),
        Some(ListMerge::Set | ListMerge::Whole) | None => None,
    }
}
