//! Paths into answers, as the recorded cases write them: `items.*.status`, `rows.0.cells.2`.

use serde_json::{Map, Value};

/// Takes out what lies at a path. An element of a list keeps its place.
pub(super) fn drop_path(value: &mut Value, path: &str) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Value::Object(map) if key == "*" && !rest.is_empty() => {
            map.values_mut().for_each(|value| drop_path(value, rest));
        }
        Value::Array(list) if key == "*" && !rest.is_empty() => {
            list.iter_mut().for_each(|value| drop_path(value, rest));
        }
        Value::Object(map) if rest.is_empty() => {
            map.remove(key);
        }
        Value::Object(map) => {
            if let Some(value) = map.get_mut(key) {
                drop_path(value, rest);
            }
        }
        Value::Array(list) => {
            let found = key.parse::<usize>().ok().and_then(|index| list.get_mut(index));
            match found {
                Some(value) if rest.is_empty() => *value = "<ignored>".into(),
                Some(value) => drop_path(value, rest),
                None => {}
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What lies at a path, as text.
pub(super) fn pick(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(value, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        Value::Object(map) => map.get(key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The same value with each text replaced; the keys of maps, too, when `keys` says so.
pub(super) fn map_texts(value: &Value, keys: bool, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => change(text).into(),
        Value::Array(list) => list.iter().map(|value| map_texts(value, keys, change)).collect(),
        Value::Object(map) => {
            let changed = map.iter().map(|(key, value)| {
                let key = if keys { change(key) } else { key.clone() };
                (key, map_texts(value, keys, change))
            });
            Value::Object(changed.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
