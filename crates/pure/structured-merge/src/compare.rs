//! What a change added, modified and removed.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::field_set::{FieldSet, Membership};
use crate::list_index::ListIndex;
use crate::path_element::PathElement;
use crate::schema::{
    AbsentField, ListMergeRule, ListType, MapGranularity, MapType, TypeForm, TypedSchema,
};

/// The fields in which two values differ. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldChanges {
    /// What only the new value has.
    pub added: FieldSet,
    /// What both have and is not equal.
    pub modified: FieldSet,
    /// What only the old value has.
    pub removed: FieldSet,
}

impl FieldChanges {
    /// Whether the values are equal.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The same without these fields and what is below them.
    pub fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }

    fn attach(&mut self, step: &dyn Fn() -> PathElement, changes: ValueChanges) {
        let ValueChanges { here, below } = changes;
        let is =
            |change| if here == Some(change) { Membership::Member } else { Membership::Outside };
        self.added.attach(step, is(Change::Added), below.added);
        self.modified.attach(step, is(Change::Modified), below.modified);
        self.removed.attach(step, is(Change::Removed), below.removed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Removed,
}

/// What changed in a value: as a whole, and below it.
#[derive(Default)]
struct ValueChanges {
    here: Option<Change>,
    below: FieldChanges,
}

static EMPTY_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static NULL: Value = Value::Null;

impl TypedSchema<'_> {
    /// What changed from the one value to the other.
    pub fn compare(self, old: &Value, new: &Value) -> FieldChanges {
        self.changes(Some(old), Some(new)).below
    }

    fn changes(self, old: Option<&Value>, new: Option<&Value>) -> ValueChanges {
        let mut changes = ValueChanges::default();
        let mut is_leaf = false;
        match (old, new) {
            (None, None) => return changes,
            (Some(_), None) => self.by_form(self.form(old), (old, new), &mut changes, &mut is_leaf),
            (None, Some(_)) => self.by_form(self.form(new), (old, new), &mut changes, &mut is_leaf),
            (Some(_), Some(_)) => {
                let (before, now) = (self.form(old), self.form(new));
                if std::mem::discriminant(&before) != std::mem::discriminant(&now) {
                    self.by_form(before, (old, new), &mut changes, &mut false);
                }
                self.by_form(now, (old, new), &mut changes, &mut is_leaf);
            }
        }
        if !is_leaf {
            match (old, new) {
                (None, _) => changes.here = Some(Change::Added),
                (_, None) => changes.here = Some(Change::Removed),
                (Some(_), Some(_)) => {}
            }
        }
        changes
    }

    fn by_form(
        self,
        form: TypeForm<'_>,
        (old, new): (Option<&Value>, Option<&Value>),
        changes: &mut ValueChanges,
        is_leaf: &mut bool,
    ) {
        match form {
            TypeForm::Scalar(_) => {}
            TypeForm::List(list) => {
                let (before, now) = (items(old), items(new));
                let is_empty = before.is_empty() && now.is_empty();
                if list.rule != ListMergeRule::Atomic && !is_empty {
                    return self.list_changes(list, before, now, &mut changes.below);
                }
            }
            TypeForm::Map(map) => {
                let (before, now) = (fields(old), fields(new));
                let is_empty = before.is_none_or(Map::is_empty) && now.is_none_or(Map::is_empty);
                if map.granularity != MapGranularity::Atomic && !is_empty {
                    return self.map_changes(map, before, now, &mut changes.below);
                }
            }
        }
        *is_leaf = true;
        match (old, new) {
            (None, _) => changes.here = Some(Change::Added),
            (_, None) => changes.here = Some(Change::Removed),
            (Some(old), Some(new)) if old != new => changes.here = Some(Change::Modified),
            (Some(_), Some(_)) => {}
        }
    }

    fn map_changes(
        self,
        map: &MapType,
        before: Option<&Map<String, Value>>,
        now: Option<&Map<String, Value>>,
        out: &mut FieldChanges,
    ) {
        let names = before.into_iter().flat_map(Map::keys);
        let new_names = now.into_iter().flat_map(Map::keys);
        let only_new =
            new_names.filter(|name| before.is_none_or(|fields| !fields.contains_key(*name)));
        for name in names.chain(only_new) {
            let absent = map.declared(name).map_or(AbsentField::Missing, |field| field.absent);
            let Some(schema) = map.field(name).map(|id| self.with(id)) else { continue };
            let old = value_of(before, name, absent);
            let new = value_of(now, name, absent);
            out.attach(&|| PathElement::field(name), schema.changes(old, new));
        }
    }

    fn list_changes(
        self,
        list: &ListType,
        before: &[Value],
        now: &[Value],
        out: &mut FieldChanges,
    ) {
        let (before, now) = (ListIndex::new(list, before), ListIndex::new(list, now));
        let only_new = now.distinct().filter(|step| !before.has(step));
        for step in before.distinct().chain(only_new) {
            let (old, new) = (before.items(step), now.items(step));
            let changes = |old, new| self.with(list.items).changes(old, new);
            let as_step = || step.clone();
            let itself = |change| ValueChanges { here: Some(change), ..ValueChanges::default() };
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    out.attach(&as_step, changes(old.first().copied(), new.first().copied()));
                }
                // Items that stand twice are one value together.
                ([_, _, ..], [_, _, ..]) => {
                    if old != new {
                        out.attach(&as_step, itself(Change::Modified));
                    }
                }
                ([_, _, ..], [] | [_]) => {
                    if let Some(new) = new.first() {
                        out.attach(&as_step, changes(None, Some(new)));
                    }
                    out.attach(&as_step, itself(Change::Removed));
                }
                ([] | [_], [_, _, ..]) => {
                    if let Some(old) = old.first() {
                        out.attach(&as_step, changes(Some(old), None));
                    }
                    out.attach(&as_step, itself(Change::Added));
                }
            }
        }
    }
}

/// A field of an object that is there; none when the object is not.
fn value_of<'v>(
    object: Option<&'v Map<String, Value>>,
    name: &str,
    absent: AbsentField,
) -> Option<&'v Value> {
    let object = object?;
    object.get(name).or(match absent {
        AbsentField::Missing => None,
        AbsentField::EmptyObject => Some(&EMPTY_OBJECT),
        AbsentField::Null => Some(&NULL),
    })
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}
