//! Finds the old value of a value, and whether it changed (apiserver `cel/common`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{ListIdentity, StructuralSchema, shown::json};

/// The value before an update.
#[derive(Clone, Copy)]
pub(super) enum OldValue<'a> {
    /// There was none, or it cannot be correlated.
    Uncorrelated,
    /// The old object.
    Root(&'a Value),
    /// An old value below it.
    Inner(&'a Value),
}

impl<'a> OldValue<'a> {
    pub(super) fn get(self) -> Option<&'a Value> {
        match self {
            Self::Uncorrelated => None,
            Self::Root(value) | Self::Inner(value) => Some(value),
        }
    }

    /// The old value of a field. A change of `apiVersion` and `kind` of an object cannot be seen:
    /// both were converted to the same version.
    pub(super) fn field(self, name: &str) -> Self {
        if matches!(self, Self::Root(_)) && matches!(name, "apiVersion" | "kind") {
            return Self::Uncorrelated;
        }
        let field = self.get().and_then(|old| old.get(name));
        field.map_or(Self::Uncorrelated, Self::Inner)
    }
}

/// The old items of a list of type `map`, by their keys.
#[derive(Default)]
pub(crate) struct OldItems<'a> {
    keys: &'a [Box<str>],
    by_key: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// Reads the old list. Any other list has no items that can be correlated.
    pub(crate) fn new(schema: &'a StructuralSchema, old: Option<&'a Value>) -> Self {
        let (ListIdentity::Map(keys), Some(Value::Array(items))) = (&schema.list_identity, old)
        else {
            return Self::default();
        };
        let mut by_key = BTreeMap::new();
        for item in items {
            if let Some(key) = item_key(keys, item) {
                by_key.entry(key).or_insert(item);
            }
        }
        Self { keys, by_key }
    }

    /// The old item with the keys of a new one.
    pub(crate) fn get(&self, new: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&item_key(self.keys, new)?).copied()
    }
}

/// The keys of an item, as text.
fn item_key(keys: &[Box<str>], item: &Value) -> Option<String> {
    let fields = item.as_object()?;
    let parts = keys.iter().map(|key| fields.get(&**key).map(json).unwrap_or_default());
    Some(parts.collect::<Vec<_>>().join(","))
}

/// Whether a value is the same as before. Items of a list of type `map` may have moved.
pub(crate) fn is_unchanged(schema: &StructuralSchema, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(items), Value::Array(old_items)) => {
            if items.len() != old_items.len() {
                return false;
            }
            let ListIdentity::Map(_) = schema.list_identity else { return items == old_items };
            let (correlated, Some(of_item)) = (OldItems::new(schema, Some(old)), &schema.items)
            else {
                return items == old_items;
            };
            items.iter().all(|item| {
                correlated.get(item).is_some_and(|old| is_unchanged(of_item, item, old))
            })
        }
        (Value::Object(fields), Value::Object(old_fields)) => {
            fields.len() == old_fields.len()
                && fields.iter().all(|(name, field)| {
                    match (schema.of_field(name), old_fields.get(name)) {
                        (Some(schema), Some(old)) => is_unchanged(schema, field, old),
                        (None, _) | (_, None) => false,
                    }
                })
        }
        _ => new == old,
    }
}
