//! Defaults: what the user left out. In the Kubernetes API an absent field, an empty text, a zero,
//! an empty list and an empty map are the same wherever the Go type is no pointer; these functions
//! treat them so.

use std::collections::BTreeMap;

/// Sets a text that is absent or empty.
pub(crate) fn text(slot: &mut Option<String>, default: &str) {
    if slot.as_deref().is_none_or(str::is_empty) {
        *slot = Some(default.to_owned());
    }
}

/// Sets a text that is absent. An empty one stays: the Go type is a pointer.
pub(crate) fn absent_text(slot: &mut Option<String>, default: &str) {
    slot.get_or_insert_with(|| default.to_owned());
}

/// Sets a number that is absent or zero.
pub(crate) fn number(slot: &mut Option<i32>, default: i32) {
    if slot.is_none_or(|value| value == 0) {
        *slot = Some(default);
    }
}

/// Makes a zero absent.
pub(crate) fn drop_zero(slot: &mut Option<i32>) {
    if *slot == Some(0) {
        *slot = None;
    }
}

/// Makes an empty text absent.
pub(crate) fn drop_empty_text(slot: &mut Option<String>) {
    if slot.as_deref().is_some_and(str::is_empty) {
        *slot = None;
    }
}

/// Makes numbers of a status absent that are zero.
macro_rules! drop_zeros {
    ($status:expr, [$($number:ident),+ $(,)?]) => {
        if let Some(status) = &mut $status {
            $(status.$number = status.$number.filter(|number| *number != 0);)+
        }
    };
}
pub(crate) use drop_zeros;

/// Makes an empty list absent.
pub(crate) fn drop_empty_list<T>(slot: &mut Option<Vec<T>>) {
    if slot.as_ref().is_some_and(Vec::is_empty) {
        *slot = None;
    }
}

/// Makes an empty map absent.
pub(crate) fn drop_empty_map<K, V>(slot: &mut Option<BTreeMap<K, V>>) {
    if slot.as_ref().is_some_and(BTreeMap::is_empty) {
        *slot = None;
    }
}

/// Makes a `false` absent, for the fields in which both mean the same.
pub(crate) fn drop_false(slot: &mut Option<bool>) {
    if *slot == Some(false) {
        *slot = None;
    }
}
