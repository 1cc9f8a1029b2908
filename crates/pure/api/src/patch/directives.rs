//! The directives of a strategic merge patch: fields of the patch that begin with `$` and say how
//! the others are to be merged.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::PatchError;
use super::budget::WorkBudget;
use super::order::{EntryPositions, PatchOrder};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// What a `$patch` directive says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchDirective {
    Replace,
    Delete,
}

/// Whether an object in a patch says how it is to be merged.
pub(super) fn is_directed(patch: &Map<String, Value>) -> bool {
    patch.contains_key(DIRECTIVE)
}

/// Whether a field of a patch says how others are merged. Any other one is a field of the object,
/// also with a `$` before it.
pub(super) fn is_directive(field: &str) -> bool {
    field == DIRECTIVE
        || field == RETAIN_KEYS
        || field.starts_with(SET_ELEMENT_ORDER)
        || field.starts_with(DELETE_FROM_LIST)
}

/// The directive of an object in a patch.
///
/// # Errors
/// It is none that an object may have.
pub(super) fn directive(patch: &Map<String, Value>) -> Result<Option<PatchDirective>, PatchError> {
    match patch.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if text == "replace" => Ok(Some(PatchDirective::Replace)),
        Some(Value::String(text)) if text == "delete" => Ok(Some(PatchDirective::Delete)),
        Some(other) => Err(PatchError::DoesNotFit(format!(
            "unknown patch type: {} in map: {}",
            super::go_map(other),
            super::go_map(&Value::Object(patch.clone()))
        ))),
    }
}

/// The directive of an entry of a list that merges by a key.
///
/// # Errors
/// It is none that an entry may have.
pub(super) fn entry_directive(
    patch: &Map<String, Value>,
) -> Result<Option<PatchDirective>, PatchError> {
    match patch.get(DIRECTIVE) {
        Some(Value::String(text)) if text == "merge" => Err(PatchError::DoesNotFit(
            "merging lists cannot yet be specified in the patch".to_owned(),
        )),
        _ => directive(patch),
    }
}

/// `$retainKeys` names all fields that stay; a patch may not set others.
pub(super) fn retain_keys(
    object: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    budget.measure(retained, "merging objects")?;
    budget.spend_entries(object.len(), "merging objects")?;
    let retained: BTreeSet<&str> =
        retained.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let foreign = patch.iter().any(|(name, value)| {
        !name.starts_with('$') && !value.is_null() && !retained.contains(name.as_str())
    });
    if foreign {
        return Err(bad());
    }
    object.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

pub(super) fn delete_from_list(
    object: &mut Map<String, Value>,
    field: &str,
    gone: &Value,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    if let Some(Value::Array(items)) = object.get_mut(field) {
        let gone = gone.as_array().ok_or_else(|| {
            PatchError::Malformed(format!("{DELETE_FROM_LIST}{field} must be a list"))
        })?;
        if gone.iter().any(|item| !item.is_object()) && items.iter().any(|item| item.is_object()) {
            let lists = [items.clone().into(), gone.clone().into()];
            let shown: Vec<String> = lists.iter().map(super::go_map).collect();
            return Err(PatchError::DoesNotFit(format!(
                "list element types are not identical: [{}]",
                shown.join(" ")
            )));
        }
        let gone = EntryPositions::new(None, gone, budget)?;
        for item in &*items {
            budget.measure(item, "merging lists")?;
        }
        items.retain(|item| gone.place(item).is_none());
    }
    Ok(())
}

/// The order that a patch wants for the entries of a list.
pub(super) fn order_of<'a>(
    patch: &'a Map<String, Value>,
    field: &str,
) -> Result<PatchOrder<'a>, PatchError> {
    match patch.get(&format!("{SET_ELEMENT_ORDER}{field}")) {
        None => Ok(PatchOrder::OfThePatch),
        Some(Value::Array(items)) => Ok(PatchOrder::Given(items)),
        Some(_) => {
            Err(PatchError::DoesNotFit(format!("{SET_ELEMENT_ORDER}{field} must be a list")))
        }
    }
}

/// An object of a patch that takes the place of another one. Only its own directive goes: upstream
/// reads the rest as it is, with nulls.
pub(super) fn replacement(
    patch: &Map<String, Value>,
    budget: &mut WorkBudget,
) -> Result<Map<String, Value>, PatchError> {
    let mut object = Map::new();
    for (name, value) in patch.iter().filter(|(name, _)| *name != DIRECTIVE) {
        let extent = budget.measure(value, "copying values")?;
        budget.spend_copy(extent, "copying values")?;
        object.insert(name.clone(), value.clone());
    }
    Ok(object)
}
