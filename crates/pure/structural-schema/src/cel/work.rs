//! Counts work that has no cost in cel-go: what is copied, compared, converted or shown.

use serde_json::Value;

use super::{
    eval::{EvalError, Evaluation},
    value::{CelList, CelMap, CelValue},
};
use crate::ListIdentity;

/// How much work the rules of one object may make. A unit is about a value that is looked at.
pub(super) const WORK_MAX: usize = 20_000_000;
/// What compiling a regular expression counts for.
pub(super) const REGEX_WORK: usize = 100_000;
/// What a value in a new list counts for, as it takes memory.
const NEW_VALUE_WORK: usize = 8;
/// How much of a text is looked at in a unit of work.
const BYTES_LOOKED_AT: usize = 64;
/// How much of a text is made in a unit of work.
const BYTES_MADE: usize = 4;
/// How much of a text of an object is held against its format in a unit of work.
const BYTES_CONVERTED: usize = 256;

impl<'a> Evaluation<'a> {
    /// Counts the values in a value, each time that one is in it, and returns how many there are.
    /// A list may hold another many times, so counting ends where the work may not go on.
    pub(super) fn charge_elements(&mut self, value: &CelValue<'a>) -> Result<usize, EvalError> {
        let left = self.work_left();
        let mut count = ElementCount { left };
        if count.value(value).is_none() {
            self.charge_work(WORK_MAX + 1)?;
        }
        let elements = left - count.left;
        self.charge_work(elements)?;
        Ok(elements)
    }

    /// Counts values that are put into new lists.
    pub(super) fn charge_new_values(&mut self, values: usize) -> Result<(), EvalError> {
        self.charge_work(values.saturating_mul(NEW_VALUE_WORK))
    }

    /// Counts a text that is looked at.
    pub(super) fn charge_text_read(&mut self, text: &str) -> Result<(), EvalError> {
        self.charge_work(text.len() / BYTES_LOOKED_AT)
    }

    /// Counts a text that is made.
    pub(super) fn charge_text_made(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.charge_work(bytes / BYTES_MADE)
    }

    /// Counts how a value of an object was converted when it was read.
    pub(super) fn charge_conversion(&mut self, value: &CelValue<'a>) -> Result<(), EvalError> {
        match value {
            CelValue::Text(text) => self.charge_work(text.len() / BYTES_CONVERTED),
            CelValue::Bytes(bytes) => self.charge_work(bytes.len() / BYTES_LOOKED_AT),
            _ => Ok(()),
        }
    }

    /// Counts a key that is compared with those of a map. An object finds its fields by name.
    pub(super) fn charge_lookup(
        &mut self,
        within: &CelValue<'a>,
        key: &CelValue<'a>,
    ) -> Result<(), EvalError> {
        match within {
            CelValue::Map(CelMap::Made(made)) => {
                let each = self.charge_elements(key)?;
                self.charge_work(made.parts.len().saturating_mul(each))
            }
            CelValue::Optional(Some(inner)) => self.charge_lookup(inner, key),
            _ => Ok(()),
        }
    }
}

struct ElementCount {
    left: usize,
}

/// Nothing once there is more than may be counted.
type Counted = Option<()>;

impl ElementCount {
    fn take(&mut self, elements: usize) -> Counted {
        self.left = self.left.checked_sub(elements)?;
        Some(())
    }

    fn value(&mut self, value: &CelValue<'_>) -> Counted {
        self.take(1)?;
        match value {
            CelValue::List(list) => self.list(list),
            CelValue::Map(CelMap::Json { fields, .. }) => {
                fields.values().try_for_each(|field| self.json(field))
            }
            CelValue::Map(CelMap::Made(made)) => {
                // each key is looked for among all
                self.take(made.parts.len().saturating_mul(made.parts.len()))?;
                made.parts.iter().try_for_each(|(key, value)| {
                    self.value(key)?;
                    self.value(value)
                })
            }
            CelValue::Optional(Some(inner)) => self.value(inner),
            CelValue::Message(message) => self.value(&CelValue::Map(message.fields.clone())),
            CelValue::Text(text) => self.take(text.len() / BYTES_LOOKED_AT),
            CelValue::Url(url) => self.take(url.len() / BYTES_LOOKED_AT),
            CelValue::Bytes(bytes) => self.take(bytes.len() / BYTES_LOOKED_AT),
            CelValue::Semver(version) => self.take(version.work()),
            _ => Some(()),
        }
    }

    fn list(&mut self, list: &CelList<'_>) -> Counted {
        let before = self.left;
        match list {
            CelList::Json(items, schema) => {
                let of_item = schema.and_then(|schema| schema.items.as_deref());
                for item in *items {
                    match (item, of_item) {
                        (Value::Array(inner), Some(of_item)) => {
                            self.take(1)?;
                            self.list(&CelList::Json(inner, Some(of_item)))?;
                        }
                        _ => self.json(item)?,
                    }
                }
            }
            CelList::Made(made) => made.parts.iter().try_for_each(|item| self.value(item))?,
        }
        if *list.identity() == ListIdentity::Atomic {
            return Some(());
        }
        // sets and maps are sorted to be compared
        let steps = (usize::BITS - list.len().leading_zeros()) as usize;
        self.take((before - self.left).saturating_mul(steps))
    }

    fn json(&mut self, value: &Value) -> Counted {
        self.take(1)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.json(item)),
            Value::Object(fields) => fields.values().try_for_each(|field| self.json(field)),
            Value::String(text) => self.take(text.len() / BYTES_LOOKED_AT),
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
        }
    }
}
