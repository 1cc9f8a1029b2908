//! Strategic merge patch: a merge patch that knows which lists merge by a key, with directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`). Semantics: the
//! API reference and "strategic-merge-patch.md" of Kubernetes' community documents.

use std::collections::BTreeSet;

use rekindle_kinds::registry::merge_keys::{ListMerge, merge_field};
use serde_json::{Map, Value};

use super::PatchError;
use super::budget::WorkBudget;
use super::directives::{
    DELETE_FROM_LIST, PatchDirective, SET_ELEMENT_ORDER, delete_from_list, directive,
    entry_directive, is_directed, is_directive, order_of, replacement, retain_keys,
};
use super::order::{EntryPositions, PatchOrder, in_order};
use super::value_key::ValueKey;

/// The object after the patch.
pub(super) fn apply(
    schema: &str,
    object: Value,
    patch: &Value,
    budget: &mut WorkBudget,
) -> Result<Value, PatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            merge_objects(schema, object, patch, budget).map(Value::Object)
        }
        _ => Err(PatchError::Malformed("a strategic merge patch must be an object".to_owned())),
    }
}

/// Merges a patch into an object of this schema.
fn merge_objects(
    schema: &str,
    mut object: Map<String, Value>,
    patch: &Map<String, Value>,
    budget: &mut WorkBudget,
) -> Result<Map<String, Value>, PatchError> {
    budget.spend_entries(patch.len(), "merging objects")?;
    match directive(patch)? {
        Some(PatchDirective::Replace) => return replacement(patch, budget),
        Some(PatchDirective::Delete) => return Ok(Map::new()),
        None => {}
    }
    retain_keys(&mut object, patch, budget)?;
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(&mut object, field, value, budget)?;
        }
    }
    for (name, value) in patch {
        if is_directive(name) {
            continue;
        }
        let order = order_of(patch, name)?;
        match (object.remove(name), value) {
            (_, Value::Null) => {}
            (None, value) => {
                if let Some(new) = new_value(schema, name, value, order, budget)? {
                    object.insert(name.clone(), new);
                }
            }
            (Some(old), value) => {
                if let Some(merged) = merge_values(schema, name, old, value, order, budget)? {
                    object.insert(name.clone(), merged);
                }
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
            let wanted = EntryPositions::new(by, order_of(patch, field)?.or_of(&[]), budget)?;
            let places = EntryPositions::new(by, &old, budget)?.into_owned(budget)?;
            object.insert(field.to_owned(), Value::Array(in_order(old, &wanted, &places)));
        }
    }
    Ok(object)
}

/// A field that the object does not have yet. Upstream takes it as it is given, but for its nulls
/// and for objects with a `$patch`: those go. Other directives are fields then. So a list keeps
/// entries that are given twice, and none needs a key, unless the patch orders the list.
fn new_value(
    schema: &str,
    name: &str,
    value: &Value,
    order: PatchOrder<'_>,
    budget: &mut WorkBudget,
) -> Result<Option<Value>, PatchError> {
    match (value, order) {
        (Value::Array(_), PatchOrder::Given(_)) => {
            merge_values(schema, name, Value::Array(Vec::new()), value, order, budget)
        }
        _ => taken(value, budget),
    }
}

/// A value of the patch without nulls and objects with a `$patch`; none if it is such an object.
fn taken(value: &Value, budget: &mut WorkBudget) -> Result<Option<Value>, PatchError> {
    match value {
        Value::Object(fields) => {
            budget.spend_entries(fields.len(), "copying values")?;
            if is_directed(fields) {
                return Ok(None);
            }
            let mut object = Map::new();
            for (name, value) in fields {
                if value.is_null() {
                    continue;
                }
                if let Some(value) = taken(value, budget)? {
                    object.insert(name.clone(), value);
                }
            }
            Ok(Some(Value::Object(object)))
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| taken(item, budget));
            let items: Result<Vec<Option<Value>>, _> = items.collect();
            Ok(Some(items?.into_iter().flatten().collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            copied(value, budget).map(Some)
        }
    }
}

fn merge_values(
    schema: &str,
    name: &str,
    old: Value,
    patch: &Value,
    order: PatchOrder<'_>,
    budget: &mut WorkBudget,
) -> Result<Option<Value>, PatchError> {
    match (old, patch) {
        (Value::Object(old), Value::Object(patch)) => {
            let by = merge_field(schema, name).and_then(|field| field.list);
            let old = if by == Some(ListMerge::Whole) { Map::new() } else { old };
            let merged = merge_objects(child(schema, name), old, patch, budget)?;
            Ok(Some(Value::Object(merged)))
        }
        (Value::Array(old), Value::Array(patch)) => {
            let by = merge_field(schema, name).and_then(|field| field.list);
            let merged = merge_list(child(schema, name), by, old, patch, order, budget)?;
            Ok(Some(Value::Array(merged)))
        }
        // Another type than before: the patch decides.
        (_, patch) => new_value(schema, name, patch, order, budget),
    }
}

/// A value of the patch, for the object.
fn copied(value: &Value, budget: &mut WorkBudget) -> Result<Value, PatchError> {
    let extent = budget.measure(value, "copying values")?;
    budget.spend_copy(extent, "copying values")?;
    Ok(value.clone())
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
    order: PatchOrder<'_>,
    budget: &mut WorkBudget,
) -> Result<Vec<Value>, PatchError> {
    match by {
        None | Some(ListMerge::Whole) => patch.iter().map(|item| copied(item, budget)).collect(),
        Some(ListMerge::Set) => {
            let places = EntryPositions::new(by, &old, budget)?.into_owned(budget)?;
            let named = EntryPositions::new(by, patch, budget)?;
            let mut merged = old;
            for (index, item) in patch.iter().enumerate() {
                if places.place(item).is_none() && named.place(item) == Some(index) {
                    merged.push(copied(item, budget)?);
                }
            }
            check_order(by, &patch.iter().collect::<Vec<_>>(), order, budget)?;
            let wanted = EntryPositions::new(by, order.or_of(patch), budget)?;
            Ok(in_order(merged, &wanted, &places))
        }
        Some(ListMerge::ByKey(key)) => merge_by_key(schema, key, old, patch, order, budget),
    }
}

/// What a patch says about a list that merges by a key.
struct KeyedPatch<'a> {
    /// The entries to merge, in the patch's order.
    entries: Vec<&'a Value>,
    /// The keys of the entries to delete.
    gone: BTreeSet<ValueKey<&'a Value>>,
    /// Whether the entries take the place of the whole list.
    replaces_all: bool,
}

impl<'a> KeyedPatch<'a> {
    fn read(
        key: &'static str,
        patch: &'a [Value],
        budget: &mut WorkBudget,
    ) -> Result<Self, PatchError> {
        let mut read = Self { entries: Vec::new(), gone: BTreeSet::new(), replaces_all: false };
        for item in patch {
            budget.spend(1, "merging lists")?;
            let fields = fields_of(item, key)?;
            match entry_directive(fields)? {
                Some(PatchDirective::Replace) => read.replaces_all = true,
                Some(PatchDirective::Delete) => {
                    let gone = key_value(fields, key)?;
                    budget.measure(gone, "merging lists")?;
                    read.gone.insert(ValueKey(gone));
                }
                None => read.entries.push(item),
            }
        }
        Ok(read)
    }
}

fn fields_of<'a>(item: &'a Value, key: &str) -> Result<&'a Map<String, Value>, PatchError> {
    item.as_object().ok_or_else(|| {
        PatchError::DoesNotFit(format!(
            "the entries of a list that merges by {key:?} must be objects"
        ))
    })
}

fn merge_by_key(
    schema: &str,
    key: &'static str,
    old: Vec<Value>,
    patch: &[Value],
    order: PatchOrder<'_>,
    budget: &mut WorkBudget,
) -> Result<Vec<Value>, PatchError> {
    let by = Some(ListMerge::ByKey(key));
    let KeyedPatch { entries, gone, replaces_all } = KeyedPatch::read(key, patch, budget)?;
    if replaces_all {
        return entries.into_iter().map(|item| copied(item, budget)).collect();
    }
    check_order(by, &entries, order, budget)?;
    let places = EntryPositions::new(by, &old, budget)?.into_owned(budget)?;
    let mut merged = old;
    if !gone.is_empty() {
        budget.spend_entries(merged.len(), "merging lists")?;
        merged.retain(|item| item.get(key).is_none_or(|key| !gone.contains(&ValueKey(key))));
    }
    let mut index = KeyIndex::new(key, &merged, budget)?;
    for item in &entries {
        let fields = fields_of(item, key)?;
        let wanted = key_value(fields, key)?;
        match index.first(wanted) {
            Some(place) => {
                let before = match merged[place].take() {
                    Value::Object(before) => before,
                    _ => Map::new(),
                };
                merged[place] = Value::Object(merge_objects(schema, before, fields, budget)?);
                index.merged(wanted, place, &merged[place]);
            }
            None => {
                // upstream looks for no directives in it
                let new = copied(item, budget)?;
                index.add(merged.len(), &new);
                merged.push(new);
            }
        }
    }
    let wanted = match order {
        PatchOrder::Given(wanted) => EntryPositions::new(by, wanted, budget)?,
        PatchOrder::OfThePatch => EntryPositions::new(by, entries, budget)?,
    };
    Ok(in_order(merged, &wanted, &places))
}

/// An order that is given has all entries of the patch, in the patch's order.
fn check_order(
    by: Option<ListMerge>,
    entries: &[&Value],
    order: PatchOrder<'_>,
    budget: &mut WorkBudget,
) -> Result<(), PatchError> {
    let PatchOrder::Given(wanted) = order else { return Ok(()) };
    let positions = EntryPositions::new(by, wanted, budget)?;
    let places = entries.iter().map(|entry| positions.place(entry));
    let is_in_order = places.clone().all(|place| place.is_some()) && places.is_sorted();
    if is_in_order {
        return Ok(());
    }
    let shown = |items: &mut dyn Iterator<Item = &Value>| super::go_map(&items.cloned().collect());
    Err(PatchError::DoesNotFit(format!(
        "The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
        shown(&mut entries.iter().copied()),
        SET_ELEMENT_ORDER.trim_end_matches('/'),
        shown(&mut wanted.iter())
    )))
}

/// Where the entries of a list that is being merged stand, by their merge keys.
struct KeyIndex {
    key: &'static str,
    places: BTreeSet<(ValueKey<Value>, usize)>,
}

impl KeyIndex {
    fn new(key: &'static str, list: &[Value], budget: &mut WorkBudget) -> Result<Self, PatchError> {
        let mut index = Self { key, places: BTreeSet::new() };
        for (place, item) in list.iter().enumerate() {
            budget.spend(1, "merging lists")?;
            if let Some(own) = item.get(key) {
                let extent = budget.measure(own, "merging lists")?;
                budget.spend_copy(extent, "merging lists")?;
            }
            index.add(place, item);
        }
        Ok(index)
    }

    /// The first entry with this key.
    fn first(&self, wanted: &Value) -> Option<usize> {
        let (ValueKey(own), place) = self.places.range((ValueKey(wanted.clone()), 0)..).next()?;
        (own == wanted).then_some(*place)
    }

    fn add(&mut self, place: usize, item: &Value) {
        if let Some(own) = item.get(self.key) {
            self.places.insert((ValueKey(own.clone()), place));
        }
    }

    /// An entry that had this key was merged with another. Its key is the same, unless a null in
    /// the patch took it away.
    fn merged(&mut self, before: &Value, place: usize, item: &Value) {
        if item.get(self.key) != Some(before) {
            self.places.remove(&(ValueKey(before.clone()), place));
            self.add(place, item);
        }
    }
}

fn key_value<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<&'a Value, PatchError> {
    fields.get(key).ok_or_else(|| {
        let shown = super::go_map(&Value::Object(fields.clone()));
        PatchError::DoesNotFit(format!("map: {shown} does not contain declared merge key: {key}"))
    })
}
