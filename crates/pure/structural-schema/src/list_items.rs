//! Items of lists that are sets or maps are unique (apiextensions-apiserver `schema/listtype`).

use std::collections::BTreeMap;

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::{Map, Value};

use crate::{
    AdditionalFields, ListIdentity, StructuralSchema,
    error_list::ErrorList,
    shown::{json, shown},
    validation::{ValuePath, field_below},
};

impl StructuralSchema {
    /// Checks that lists of type `set` and `map` hold nothing twice. An object that broke this
    /// before an update may break it still.
    pub(crate) fn validate_lists(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors_of = |value: &Value| {
            let mut errors = ErrorList::default();
            self.find_duplicates(value, &ValuePath::Root, &mut errors);
            errors.into_vec()
        };
        let errors = errors_of(new);
        let was_broken = !errors.is_empty() && old.is_some_and(|old| !errors_of(old).is_empty());
        if was_broken { Vec::new() } else { errors }
    }

    fn find_duplicates(&self, value: &Value, path: &ValuePath<'_>, errors: &mut ErrorList) {
        if errors.is_full() {
            return;
        }
        match value {
            Value::Object(fields) => self.find_in_fields(fields, path, errors),
            Value::Array(items) => {
                match &self.list_identity {
                    ListIdentity::Atomic => {}
                    ListIdentity::Set => {
                        for at in repeated(items.iter().map(json)) {
                            errors.push(duplicate(&ValuePath::Index(path, at), &items[at]));
                        }
                    }
                    ListIdentity::Map(keys) => find_in_map_list(keys, items, path, errors),
                }
                let Some(of_item) = &self.items else { return };
                for (at, item) in items.iter().enumerate() {
                    of_item.find_duplicates(item, &ValuePath::Index(path, at), errors);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn find_in_fields(
        &self,
        fields: &Map<String, Value>,
        path: &ValuePath<'_>,
        errors: &mut ErrorList,
    ) {
        for (name, field) in fields {
            if let Some(AdditionalFields::Schema(schema)) = self.additional.as_deref() {
                schema.find_duplicates(field, &ValuePath::Key(path, name), errors);
            }
            if let Some(schema) = self.properties.get(name.as_str()) {
                schema.find_duplicates(field, &ValuePath::Field(path, name), errors);
            }
        }
    }
}

fn find_in_map_list(
    keys: &[Box<str>],
    items: &[Value],
    path: &ValuePath<'_>,
    errors: &mut ErrorList,
) {
    let of_wrong_type = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(at) = of_wrong_type {
        errors.push(FieldError {
            field: field_below("", &ValuePath::Index(path, at).text()),
            problem: FieldProblem::Invalid(shown(&items[at])),
            detail: "must be an object for an array of list-type map".to_owned(),
        });
        return;
    }
    let key_of = |item: &Value| {
        let parts = keys.iter().filter_map(|key| item.get(&**key).map(json));
        parts.collect::<Vec<_>>().join(",")
    };
    for at in repeated(items.iter().map(key_of)) {
        let parts = keys.iter();
        let parts =
            parts.filter_map(|key| Some((String::from(&**key), items[at].get(&**key)?.clone())));
        let key = Value::Object(parts.collect());
        errors.push(duplicate(&ValuePath::Index(path, at), &key));
    }
}

/// Where a text stands for the second time. Upstream reports each text once.
fn repeated(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, text) in texts.enumerate() {
        let times = seen.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            found.push(at);
        }
    }
    found
}

fn duplicate(path: &ValuePath<'_>, value: &Value) -> FieldError {
    FieldError {
        field: path.text(),
        problem: FieldProblem::Duplicate(shown(value)),
        detail: String::new(),
    }
}
