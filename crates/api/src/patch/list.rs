//! Lists in a strategic merge patch: by key, as a set, or replaced; and in which order their entries stand afterwards.

use serde_json::{Map, Value};

use super::PatchError;
use super::merge_keys::ListMerge;
use super::strategic::{
    DIRECTIVE, Directive, directive, key_of, merge_objects, without_directives,
};

/// The order that a patch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order<'a> {
    /// The order in which the patch names the entries.
    OfThePatch,
    /// `$setElementOrder`: all entries that the client knows, in its order.
    Given(&'a [Value]),
}

/// Merges a list of a patch into a list of entries with this schema.
pub(super) fn merge(
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
            Ok(sorted(merged, by, patch, order, &old))
        }
        Some(ListMerge::ByKey(key)) => merge_by_key(schema, key, old, patch, order),
    }
}

/// An entry of a list that is replaced as a whole.
fn replaced(item: &Value) -> Value {
    match item {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => {
            Value::Object(without_directives(fields))
        }
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
    Ok(sorted(merged, by, &named, order, &old))
}

fn key_value<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<&'a Value, PatchError> {
    fields.get(key).ok_or_else(|| {
        let shown = Value::Object(fields.clone());
        PatchError::DoesNotFit(format!("map: {shown} does not contain declared merge key: {key}"))
    })
}

fn sorted(
    merged: Vec<Value>,
    by: Option<ListMerge>,
    patch: &[Value],
    order: Order<'_>,
    old: &[Value],
) -> Vec<Value> {
    let order = match order {
        Order::OfThePatch => Order::Given(patch),
        given @ Order::Given(_) => given,
    };
    in_order(merged, by, order, old)
}

/// Puts entries that the client knows into its order, and those that only the server knows between them where they stood
/// before: a server-only entry comes before the first known one that it used to precede.
pub(super) fn in_order(
    merged: Vec<Value>,
    by: Option<ListMerge>,
    order: Order<'_>,
    old: &[Value],
) -> Vec<Value> {
    let Order::Given(wanted) = order else { return merged };
    let place =
        |list: &[Value], item: &Value| list.iter().position(|other| is_same(by, other, item));
    let (mut known, mut unknown): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(wanted, item).is_some());
    known.sort_by_key(|item| place(wanted, item));
    unknown.sort_by_key(|item| place(old, item));
    let mut result = Vec::with_capacity(known.len() + unknown.len());
    let mut unknown = unknown.into_iter().peekable();
    for item in known {
        let here = place(old, &item);
        while let Some(next) = unknown.peek() {
            match (place(old, next), here) {
                (Some(next_place), Some(here)) if next_place < here => {
                    result.extend(unknown.next())
                }
                _ => break,
            }
        }
        result.push(item);
    }
    result.extend(unknown);
    result
}

fn is_same(by: Option<ListMerge>, one: &Value, other: &Value) -> bool {
    match key_of(by) {
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        None => one == other,
    }
}
