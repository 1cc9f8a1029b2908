//! Takes fields and list items out of a value.

use serde_json::{Map, Value};

use crate::field_set::FieldSet;
use crate::list_index::step_to;
use crate::path_element::PathElement;
use crate::schema::{ListMergeRule, MapGranularity, TypeForm, TypedSchema};

impl TypedSchema<'_> {
    /// The value without these fields. A list or map of which nothing is left is null.
    pub fn remove(self, value: Value, fields: &FieldSet) -> Value {
        match (self.form(Some(&value)), value) {
            (TypeForm::Scalar(_), value) => value,
            (TypeForm::List(list), Value::Array(items)) => {
                if list.rule == ListMergeRule::Atomic {
                    return Value::Null;
                }
                let kept = items.into_iter().filter_map(|item| {
                    let Ok(step) = step_to(list, &item) else { return Some(item) };
                    match (fields.has_step(&step), fields.below(&step)) {
                        (true, _) => None,
                        (false, Some(below)) => Some(self.with(list.items).remove(item, below)),
                        (false, None) => Some(item),
                    }
                });
                let kept: Vec<_> = kept.collect();
                if kept.is_empty() { Value::Null } else { Value::Array(kept) }
            }
            (TypeForm::Map(map), Value::Object(object)) => {
                if map.granularity == MapGranularity::Atomic {
                    return Value::Null;
                }
                let kept = object.into_iter().filter_map(|(name, value)| {
                    let step = PathElement::field(&name);
                    let value = match (fields.has_step(&step), fields.below(&step)) {
                        (true, _) => return None,
                        (false, Some(below)) => self.at(&step).remove(value, below),
                        (false, None) => value,
                    };
                    Some((name, value))
                });
                let kept: Map<_, _> = kept.collect();
                // a struct that is still owned stays, though nothing in it is left
                let is_struct = map.others.is_none();
                if kept.is_empty() && !is_struct { Value::Null } else { Value::Object(kept) }
            }
            (TypeForm::List(_) | TypeForm::Map(_), _) => Value::Null,
        }
    }
}
