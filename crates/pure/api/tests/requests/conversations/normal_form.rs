//! An answer without what varies from run to run, as the recorded answers are.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// What is replaced when it has a value, and by what; without a replacement it is left out.
const VOLATILE: [(&str, Option<&str>); 12] = [
    ("uid", Some("<uid>")),
    ("resourceVersion", Some("<rv>")),
    ("creationTimestamp", Some("<time>")),
    ("deletionTimestamp", Some("<time>")),
    ("time", Some("<time>")),
    ("continue", Some("<continue>")),
    ("lastTransitionTime", Some("<time>")),
    ("lastUpdateTime", Some("<time>")),
    ("remainingItemCount", None),
    ("startTime", Some("<time>")),
    ("token", Some("<token>")),
    ("expirationTimestamp", Some("<time>")),
];

/// The texts within messages that vary, in the order of their replacement.
static VARYING_TEXTS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    let compiled = |pattern| Regex::new(pattern).expect("the pattern is a constant");
    [
        (
            compiled(r#"Invalid value: "\{\\"apiVersion(?:[^"\\]|\\.)*""#),
            "Invalid value: \"<object>\"",
        ),
        (compiled("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
        (
            compiled(
                r"(Too large resource version: \d+, current: |ResourceVersion in (?:(?:precondition|object meta): |(?:the precondition|record) \())\d+",
            ),
            "${1}<rv>",
        ),
        (compiled("kube-api-access-[a-z0-9]{5}"), "<token-volume>"),
        (compiled(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    ]
});

/// The names that a case was given, and what stands for them in the recording.
pub(super) type GivenNames<'a> = [(&'a str, &'a str)];

pub(super) fn normal(value: &Value, names: &GivenNames<'_>) -> Value {
    match value {
        Value::Object(map) => Value::Object(normal_map(map, names)),
        Value::Array(list) => list.iter().map(|value| normal(value, names)).collect(),
        Value::String(text) => normal_text(text, names).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn normal_map(map: &Map<String, Value>, names: &GivenNames<'_>) -> Map<String, Value> {
    let mut normalised = Map::new();
    for (key, value) in map {
        let key = normal_text(key, names);
        let stand_in = VOLATILE.iter().find(|(name, _)| *name == key).map(|(_, text)| *text);
        let is_given = !value.is_null() && *value != "" && !value.is_object() && !value.is_array();
        let value = match (stand_in, value) {
            (Some(None), _) => continue,
            (Some(Some(text)), _) if is_given => text.into(),
            (_, Value::Array(list)) if key == "managedFields" => managed_fields(list, names),
            _ => normal(value, names),
        };
        normalised.insert(key, value);
    }
    normalised
}

/// The server orders its entries by the second of the change, too.
fn managed_fields(list: &[Value], names: &GivenNames<'_>) -> Value {
    let mut list: Vec<Value> = list.iter().map(|value| normal(value, names)).collect();
    list.sort_by_key(|entry| {
        ["operation", "manager", "apiVersion", "subresource"]
            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
    });
    list.into()
}

pub(super) fn normal_text(text: &str, names: &GivenNames<'_>) -> String {
    let mut text = text.to_owned();
    for (real, name) in names {
        text = text.replace(real, name);
    }
    for (pattern, stand_in) in VARYING_TEXTS.iter() {
        let replaced = pattern.replace_all(&text, |found: &Captures<'_>| {
            let mut to = String::new();
            found.expand(stand_in, &mut to);
            to
        });
        text = replaced.into_owned();
    }
    text
}

/// Leaves out managedFields, but for the entries of these managers.
pub(super) fn strip_managed_fields(value: &mut Value, kept_managers: &[String]) {
    match value {
        Value::Array(list) => {
            list.iter_mut().for_each(|value| strip_managed_fields(value, kept_managers));
        }
        Value::Object(map) => {
            map.values_mut().for_each(|value| strip_managed_fields(value, kept_managers));
            let Some(Value::Object(meta)) = map.get_mut("metadata") else { return };
            let Some(Value::Array(mut entries)) = meta.remove("managedFields") else { return };
            entries.retain(|entry| {
                kept_managers.iter().any(|manager| entry["manager"] == manager.as_str())
            });
            if !entries.is_empty() {
                meta.insert("managedFields".to_owned(), entries.into());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
