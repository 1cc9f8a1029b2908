//! Lists and maps with a bound on their entries. One that is too long is not looked into.

use std::collections::BTreeMap;
use std::fmt;

use rekindle_types::validation::field_error::FieldError;

use crate::validation::{ListKeys, MISTAKES_MAX, Path};

/// No bound but that of the request.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// What is wrong with the entries of a list.
pub(super) fn entry_errors<T>(
    list: &[T],
    max: usize,
    field: &Path,
    check: impl Fn(&T, &Path) -> Vec<FieldError>,
) -> Vec<FieldError> {
    if list.len() > max {
        return vec![FieldError::too_many_of(field, list.len(), max)];
    }
    let mut errors = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        errors.extend(check(entry, &field.index(index)));
    }
    errors
}

/// The same of a list whose entries have a key of their own each.
pub(super) fn set_errors<'a, T, K: Clone + fmt::Debug + Ord>(
    list: &'a [T],
    max: usize,
    field: &Path,
    key: impl Fn(&'a T) -> K,
    check: impl Fn(&T, &Path) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let mut errors = entry_errors(list, max, field, check);
    if list.len() > max {
        return errors;
    }
    let mut known = ListKeys::new();
    for (index, entry) in list.iter().enumerate() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        let key = key(entry);
        if known.add(key.clone()).is_some() {
            errors.push(FieldError::duplicate(field.index(index), key));
        }
    }
    errors
}

/// What is wrong with the keys and entries of a map. An entry's path shows at most `key_bytes` of
/// its key.
pub(super) fn map_errors<T>(
    map: Option<&BTreeMap<String, T>>,
    (max, key_bytes): (usize, usize),
    field: &Path,
    check_key: impl Fn(&str, &Path) -> Vec<FieldError>,
    check: impl Fn(&T, &Path) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let length = map.map_or(0, BTreeMap::len);
    if length > max {
        return vec![FieldError::too_many_of(field, length, max)];
    }
    let mut errors = Vec::new();
    for (key, entry) in map.into_iter().flatten() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        errors.extend(check_key(key, field));
        errors.extend(check(entry, &field.key(&shown_key(key, key_bytes))));
    }
    errors
}

/// A key without its middle when it is too long.
fn shown_key(key: &str, bytes_max: usize) -> String {
    const GAP: &str = "...";
    if key.len() <= bytes_max {
        return key.to_owned();
    }
    let kept = bytes_max - GAP.len();
    let start = &key[..key.floor_char_boundary(kept.div_ceil(2))];
    let end = &key[key.ceil_char_boundary(key.len() - kept / 2)..];
    [start, GAP, end].concat()
}
