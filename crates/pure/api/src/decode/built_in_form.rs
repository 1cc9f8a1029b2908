//! The form in which upstream reads and keeps a body of a built-in kind.
//!
//! Go's decoder takes a null in a list or a map for the zero value of its type. Objects are kept
//! as protobuf, which does not know an empty list or map. Amounts and precise times are read with
//! the body, so a wrong one is a bad request. The table of [`crate::protobuf`] says which field has
//! which type. Kinds that it does not have stay as they are. So do definitions, which upstream
//! keeps as JSON.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rekindle_kinds::registry::KindEntry;
use rekindle_types::Quantity;
use serde_json::{Map, Value, json};

use crate::protobuf::{FieldOccurrence, MessageField, by_name, message_of};

/// How a precise time is written: `2006-01-02T15:04:05.000000Z`.
const MICROS_AT: usize = "2006-01-02T15:04:05".len();

/// The body in that form.
///
/// # Errors
/// An amount or a precise time that is none, in upstream's words.
pub(super) fn settled<'v>(entry: &KindEntry, body: &'v Value) -> Result<Cow<'v, Value>, String> {
    let message = message_of(&entry.api_version, &entry.kind);
    let Some(message) = message.filter(|message| !message.starts_with("apiextensions.")) else {
        return Ok(Cow::Borrowed(body));
    };
    Ok(match settled_message(message, body)? {
        Some(changed) => Cow::Owned(changed),
        None => Cow::Borrowed(body),
    })
}

/// None: nothing changes.
fn settled_message(message: &str, value: &Value) -> Result<Option<Value>, String> {
    let (Some(fields), Some(known)) = (value.as_object(), by_name(message)) else {
        return Ok(None);
    };
    let mut changed: Option<Map<String, Value>> = None;
    for (name, value) in fields {
        let Some(field) = known.get(name.as_str()) else { continue };
        if is_empty_selector_of_workload(message, field, value) {
            let mut given = value.clone();
            given["matchLabels"] = json!({});
            changed.get_or_insert_with(|| fields.clone()).insert(name.clone(), given);
            continue;
        }
        match settled_field(field, value)? {
            SettledField::Same => {}
            SettledField::Absent => {
                changed.get_or_insert_with(|| fields.clone()).remove(name);
            }
            SettledField::Changed(value) => {
                changed.get_or_insert_with(|| fields.clone()).insert(name.clone(), value);
            }
        }
    }
    Ok(changed.map(Value::Object))
}

/// A selector of everything, which workloads refuse. It gets an empty map: so validation can tell
/// it from one that is missing, and nothing else ever sees it.
fn is_empty_selector_of_workload(message: &str, field: &MessageField, value: &Value) -> bool {
    let is_empty = |part: Option<&Value>, empty: &Value| {
        part.is_none_or(|part| part.is_null() || part == empty)
    };
    message.starts_with("apps.v1.")
        && field.type_ == "meta.v1.LabelSelector"
        && value.as_object().is_some_and(|parts| {
            is_empty(parts.get("matchLabels"), &json!({}))
                && is_empty(parts.get("matchExpressions"), &json!([]))
        })
}

/// What becomes of a field.
enum SettledField {
    Same,
    Absent,
    Changed(Value),
}

fn settled_field(field: &MessageField, value: &Value) -> Result<SettledField, String> {
    let change = match (field.kind, value) {
        (FieldOccurrence::List, Value::Array(items)) if items.is_empty() => {
            // rules without policies are refused, rules that say nothing get those by default;
            // an empty list of owners asks to forget them
            let differs = matches!(
                field.type_,
                "autoscaling.v2.HPAScalingPolicy" | "meta.v1.ManagedFieldsEntry"
            );
            return Ok(if differs { SettledField::Same } else { SettledField::Absent });
        }
        (FieldOccurrence::Map, Value::Object(entries)) if entries.is_empty() => {
            return Ok(SettledField::Absent);
        }
        (FieldOccurrence::List, Value::Array(items)) => settled_items(field.type_, items)?,
        (FieldOccurrence::Map, Value::Object(entries)) => settled_entries(field.type_, entries)?,
        (FieldOccurrence::One, Value::Null) => None,
        (FieldOccurrence::One, value) => settled_value(field.type_, value)?,
        // of a wrong type: the reader says so
        (FieldOccurrence::List | FieldOccurrence::Map | FieldOccurrence::Embedded, _) => None,
    };
    Ok(change.map_or(SettledField::Same, SettledField::Changed))
}

fn settled_items(type_: &str, items: &[Value]) -> Result<Option<Value>, String> {
    let mut changed: Option<Vec<Value>> = None;
    for (index, item) in items.iter().enumerate() {
        if let Some(item) = settled_member(type_, item)? {
            changed.get_or_insert_with(|| items.to_vec())[index] = item;
        }
    }
    Ok(changed.map(Value::Array))
}

fn settled_entries(type_: &str, entries: &Map<String, Value>) -> Result<Option<Value>, String> {
    let mut changed: Option<Map<String, Value>> = None;
    for (name, value) in entries {
        if let Some(value) = settled_member(type_, value)? {
            changed.get_or_insert_with(|| entries.clone()).insert(name.clone(), value);
        }
    }
    Ok(changed.map(Value::Object))
}

/// A value in a list or a map, where a null is a zero.
fn settled_member(type_: &str, value: &Value) -> Result<Option<Value>, String> {
    if value.is_null() { Ok(zero_of(type_)) } else { settled_value(type_, value) }
}

/// The zero value of a type, as JSON; None when a null is a value of the type.
fn zero_of(type_: &str) -> Option<Value> {
    match type_ {
        "string" | "bytes" => Some("".into()),
        "int" | "double" | "IntOrString" => Some(0.into()),
        "bool" => Some(false.into()),
        "Quantity" => Some("0".into()),
        message if message.contains('.') => Some(Value::Object(Map::new())),
        _ => None,
    }
}

fn settled_value(type_: &str, value: &Value) -> Result<Option<Value>, String> {
    match (type_, value) {
        ("Quantity", Value::String(text)) => match text.trim().parse::<Quantity>() {
            Ok(_) if text.trim().len() < text.len() => Ok(Some(text.trim().into())),
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        },
        ("Quantity", Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            // upstream reads the text of the value
            "{}".parse::<Quantity>().map(|_| None).map_err(|error| error.to_string())
        }
        // lines in base64 are no mistake in Go
        ("bytes", Value::String(text)) if text.contains(['\n', '\r']) => {
            Ok(Some(text.replace(['\n', '\r'], "").into()))
        }
        ("bytes", Value::Array(numbers)) => Ok(bytes_of(numbers).map(Value::String)),
        ("MicroTime", Value::String(text)) => check_micro_time(text).map(|()| None),
        (message, value) if message.contains('.') => settled_message(message, value),
        _ => Ok(None),
    }
}

/// Bytes that are written as a list of numbers, in base64, as Go reads them.
fn bytes_of(numbers: &[Value]) -> Option<String> {
    let byte = |number: &Value| match number {
        Value::Null => Some(0),
        number => number.as_u64().and_then(|number| u8::try_from(number).ok()),
    };
    let bytes: Option<Vec<u8>> = numbers.iter().map(byte).collect();
    bytes.map(|bytes| STANDARD.encode(bytes))
}

/// A precise time has six digits behind its seconds.
fn check_micro_time(text: &str) -> Result<(), String> {
    let fraction = text.get(MICROS_AT..).unwrap_or_default();
    let digits = fraction.strip_prefix('.').map(|rest| rest.bytes().take_while(u8::is_ascii_digit));
    if digits.is_some_and(|digits| digits.count() == 6) {
        return Ok(());
    }
    Err(format!(
        "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {fraction:?} \
         as \".000000\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: &Value) -> Result<Value, String> {
        settled_message("core.v1.Pod", value).map(|changed| changed.unwrap_or(value.clone()))
    }

    #[test]
    fn a_null_in_a_list_or_a_map_is_a_zero() {
        let body = json!({
            "metadata": {"labels": {"a": null}, "annotations": null},
            "spec": {"containers": [null, {"args": ["x", null], "resources": {"limits": {"cpu": null}}}]},
        });
        let wanted = json!({
            "metadata": {"labels": {"a": ""}, "annotations": null},
            "spec": {"containers": [{}, {"args": ["x", ""], "resources": {"limits": {"cpu": "0"}}}]},
        });
        assert_eq!(pod(&body), Ok(wanted));
    }

    #[test]
    fn empty_lists_and_maps_are_absent_and_empty_messages_stay() {
        let body = json!({
            "metadata": {"labels": {}, "finalizers": [], "managedFields": []},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}}], "tolerations": []},
        });
        let wanted = json!({
            "metadata": {"managedFields": []}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]},
        });
        assert_eq!(pod(&body), Ok(wanted));
    }

    #[test]
    fn wrong_amounts_and_imprecise_times_are_no_values() {
        let limits = |amount: Value| {
            pod(&json!({"spec": {"containers": [{"resources": {"limits": {"cpu": amount}}}]}}))
        };
        assert!(limits(json!("1.5Gi")).is_ok());
        assert_eq!(limits(json!(" 1Gi\n")), limits(json!("1Gi")));
        assert!(limits(json!("one")).unwrap_err().starts_with("quantities must match"));
        assert!(limits(json!([])).is_err());
        let lease = |time: &str| {
            settled_message("coordination.v1.Lease", &json!({"spec": {"renewTime": time}}))
        };
        assert!(lease("2026-11-28T00:00:00.000001Z").is_ok());
        assert!(lease("2026-11-28T00:00:00Z").unwrap_err().contains("cannot parse \"Z\""));
    }

    #[test]
    fn bytes_may_be_written_in_lines() {
        let secret = |text: &str| settled_message("core.v1.Secret", &json!({"data": {"k": text}}));
        assert_eq!(secret("YWJj\r\nZGVm\n"), Ok(Some(json!({"data": {"k": "YWJjZGVm"}}))));
        assert_eq!(secret("YWJjZGVm"), Ok(None));
    }

    #[test]
    fn bytes_may_be_written_as_numbers() {
        let secret =
            |given: Value| settled_message("core.v1.Secret", &json!({"data": {"k": given}}));
        let wanted = |text: &str| Ok(Some(json!({"data": {"k": text}})));
        assert_eq!(secret(json!([1, null, 255])), wanted("AQD/"));
        assert_eq!(secret(json!([])), wanted(""));
        for wrong in [json!([256]), json!([-1]), json!([1.5]), json!(["a"])] {
            assert_eq!(secret(wrong), Ok(None));
        }
    }

    #[test]
    fn an_empty_selector_of_a_workload_is_kept_apart_from_none() {
        let selector = |given: Value| {
            let body = json!({"spec": {"selector": given}});
            let settled = settled_message("apps.v1.Deployment", &body).unwrap().unwrap_or(body);
            settled["spec"]["selector"].clone()
        };
        for empty in [json!({}), json!({"matchLabels": {}}), json!({"matchLabels": null})] {
            assert_eq!(selector(empty), json!({"matchLabels": {}}));
        }
        let unknown = json!({"a": 1, "matchExpressions": []});
        assert_eq!(selector(unknown), json!({"a": 1, "matchLabels": {}, "matchExpressions": []}));
        let wrong = json!({"matchLabels": []});
        assert_eq!(selector(wrong.clone()), wrong);
    }

    #[test]
    fn a_body_in_that_form_is_not_copied() {
        let body = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{}]}});
        assert_eq!(settled_message("core.v1.Pod", &body), Ok(None));
    }
}
