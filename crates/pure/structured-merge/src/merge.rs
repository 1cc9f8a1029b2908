//! Makes one value of a live one and an applied one.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::list_index::ListIndex;
use crate::path_element::PathElement;
use crate::schema::{
    ListMergeRule, ListType, MapGranularity, MapType, ScalarType, TypeForm, TypedSchema,
};

impl TypedSchema<'_> {
    /// The live value with all that the applied one says. Nothing is removed. Lists that merge have
    /// the applied order where the applied value says one.
    pub fn merge(self, live: &Value, applied: &Value) -> Value {
        self.merged(Some(live), Some(applied)).unwrap_or(Value::Null)
    }

    /// The value with an empty text for each null in a map of texts, as Go reads it.
    pub fn with_texts_for_nulls(self, mut value: Value) -> Value {
        self.fill_texts(&mut value);
        value
    }

    fn fill_texts(self, value: &mut Value) {
        match (self.form(Some(value)), value) {
            (TypeForm::Map(map), Value::Object(fields)) => {
                for (name, value) in fields {
                    let Some(schema) = map.field(name).map(|id| self.with(id)) else { continue };
                    let is_text = schema.form(None) == TypeForm::Scalar(ScalarType::Text);
                    match value {
                        Value::Null if is_text && map.declared(name).is_none() => {
                            *value = Value::String(String::new());
                        }
                        value => schema.fill_texts(value),
                    }
                }
            }
            (TypeForm::List(list), Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.with(list.items).fill_texts(item));
            }
            (TypeForm::Scalar(_) | TypeForm::List(_) | TypeForm::Map(_), _) => {}
        }
    }

    fn merged(self, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
        let whole = applied.or(live)?;
        match self.form(Some(whole)) {
            TypeForm::Scalar(_) => Some(whole.clone()),
            TypeForm::List(list) => {
                let (before, now) = (items(live), items(applied));
                let is_leaf =
                    list.rule == ListMergeRule::Atomic || (before.is_empty() && now.is_empty());
                match is_leaf {
                    true => Some(whole.clone()),
                    false => self.merged_list(list, before, now),
                }
            }
            TypeForm::Map(map) => {
                let (before, now) = (fields(live), fields(applied));
                let is_leaf = map.granularity == MapGranularity::Atomic
                    || (before.is_none_or(Map::is_empty) && now.is_none_or(Map::is_empty));
                match is_leaf {
                    true => Some(whole.clone()),
                    false => self.merged_map(map, before, now),
                }
            }
        }
    }

    fn merged_map(
        self,
        map: &MapType,
        live: Option<&Map<String, Value>>,
        applied: Option<&Map<String, Value>>,
    ) -> Option<Value> {
        let mut out = Map::new();
        let names = live.into_iter().flat_map(Map::keys);
        for name in names.chain(applied.into_iter().flat_map(Map::keys)) {
            let Some(id) = map.field(name).filter(|_| !out.contains_key(name)) else { continue };
            let merged = self.with(id).merged(
                live.and_then(|fields| fields.get(name)),
                applied.and_then(|fields| fields.get(name)),
            );
            if let Some(value) = merged {
                out.insert(name.clone(), value);
            }
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    /// Items that both have stand in the applied order; those between them stay where they were.
    fn merged_list(self, list: &ListType, live: &[Value], applied: &[Value]) -> Option<Value> {
        let (live, applied) = (ListIndex::new(list, live), ListIndex::new(list, applied));
        let mut order = ItemOrder::new(&live, &applied);
        let mut out = Vec::with_capacity(live.steps.len().max(applied.steps.len()));
        while let Some(next) = order.next() {
            let merged = match next {
                NextItem::Live(at) => self.with(list.items).merged(Some(live.steps[at].1), None),
                NextItem::Applied(at) => {
                    let (step, value) = &applied.steps[at];
                    // an item that stands twice in the live list does not merge
                    let before = match live.items(step).as_slice() {
                        [item] => Some(*item),
                        _ => None,
                    };
                    self.with(list.items).merged(before, Some(value))
                }
            };
            out.extend(merged);
        }
        (!out.is_empty()).then_some(Value::Array(out))
    }
}

/// Which item comes next in a merged list.
enum NextItem {
    /// The live one at this place, which is not applied.
    Live(usize),
    /// The applied one at this place, merged with the live one of its step.
    Applied(usize),
}

struct ItemOrder<'i, 'v> {
    live: &'i ListIndex<'v>,
    applied: &'i ListIndex<'v>,
    at_live: usize,
    at_applied: usize,
    /// What both have, in the applied order, as far as it was not taken yet.
    shared: VecDeque<&'i PathElement>,
}

impl<'i, 'v> ItemOrder<'i, 'v> {
    fn new(live: &'i ListIndex<'v>, applied: &'i ListIndex<'v>) -> Self {
        let shared = applied.steps.iter().map(|(step, _)| step).filter(|step| live.has(step));
        Self { live, applied, at_live: 0, at_applied: 0, shared: shared.collect() }
    }

    fn next(&mut self) -> Option<NextItem> {
        loop {
            let live = self.live.steps.get(self.at_live).map(|(step, _)| step);
            let applied = self.applied.steps.get(self.at_applied).map(|(step, _)| step);
            match (live, applied) {
                (None, None) => return None,
                (Some(live), Some(applied)) if live == applied => {
                    self.at_live += 1;
                    return Some(self.take_applied(applied));
                }
                // both have it, and its place may be further on
                (Some(live), _) if self.applied.has(live) => {
                    let is_next = self.shared.front().map(|next| *next == live);
                    match (is_next, applied) {
                        (Some(true), Some(applied)) => return Some(self.take_applied(applied)),
                        (Some(_), _) | (None, None) => self.at_live += 1,
                        (None, Some(applied)) => {
                            self.at_live += 1;
                            return Some(self.take_applied(applied));
                        }
                    }
                }
                (Some(_), _) => {
                    self.at_live += 1;
                    return Some(NextItem::Live(self.at_live - 1));
                }
                (None, Some(applied)) => return Some(self.take_applied(applied)),
            }
        }
    }

    fn take_applied(&mut self, step: &PathElement) -> NextItem {
        if self.shared.front().is_some_and(|next| *next == step) {
            self.shared.pop_front();
        }
        self.at_applied += 1;
        NextItem::Applied(self.at_applied - 1)
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}
