//! Reads a body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::fields::{self, FieldOccurrence, MessageField, SCHEMA, SchemaOr, ZeroMeaning};
use super::wire::{WireReader, WireValue};
use super::{MAGIC, ProtobufError};
use crate::decode::DEPTH_MAX;

/// Reads a body into the tree that JSON would give.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let (mut type_meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    let mut reader = WireReader::new(envelope);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => type_meta = bytes,
            (2, WireValue::Bytes(bytes)) => raw = bytes,
            // contentEncoding and contentType: empty for objects.
            _ => {}
        }
    }
    let (mut api_version, mut kind) = (String::new(), String::new());
    let mut reader = WireReader::new(type_meta);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => {
                api_version = String::from_utf8_lossy(bytes).into_owned()
            }
            (2, WireValue::Bytes(bytes)) => kind = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        }
    }
    let mut tree = Map::new();
    match (fields::message_of(&api_version, &kind), fields::item_message(&api_version, &kind)) {
        (Some(message), _) => read_message(message, raw, &mut tree, 0)?,
        (None, Some(item)) => read_list(item, raw, &mut tree)?,
        (None, None) => return Err(ProtobufError::Kind { api_version, kind }),
    }
    tree.insert("apiVersion".to_owned(), api_version.into());
    tree.insert("kind".to_owned(), kind.into());
    let tree = Value::Object(tree);
    // what is JSON within the body has a limit of its own, which begins there
    if depth_of(&tree) > DEPTH_MAX {
        return Err(ProtobufError::TooDeep);
    }
    Ok(tree)
}

/// How deep objects and lists nest.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
    }
}

/// Reads a list, which has the same two fields for every kind.
fn read_list(
    item: &'static str,
    bytes: &[u8],
    tree: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let (mut metadata, mut items) = (Map::new(), Vec::new());
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (fields::LIST_METADATA, WireValue::Bytes(bytes)) => {
                read_message(fields::LIST_META, bytes, &mut metadata, 0)?;
            }
            (fields::LIST_ITEMS, WireValue::Bytes(bytes)) => {
                let mut one = Map::new();
                read_message(item, bytes, &mut one, 0)?;
                items.push(Value::Object(one));
            }
            _ => return Err(ProtobufError::Field { message: item, number }),
        }
    }
    tree.insert("metadata".to_owned(), Value::Object(metadata));
    tree.insert("items".to_owned(), Value::Array(items));
    Ok(())
}

/// Reads the fields of a message into `tree`; `depth` messages are around it.
fn read_message(
    message: &'static str,
    bytes: &[u8],
    tree: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::TooDeep);
    }
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        let field =
            fields::field(message, number).ok_or(ProtobufError::Field { message, number })?;
        let wrong = ProtobufError::Value { message, field: field.name };
        match (field.kind, value) {
            (FieldOccurrence::Map, WireValue::Bytes(entry)) => {
                let (key, value) = read_entry(field, entry, &wrong, depth)?;
                let entries = tree.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                entries.as_object_mut().ok_or(wrong)?.insert(key, value);
            }
            (FieldOccurrence::Embedded, WireValue::Bytes(bytes)) => {
                read_message(field.type_, bytes, tree, depth)?;
            }
            (FieldOccurrence::Map | FieldOccurrence::Embedded, _) => return Err(wrong),
            (FieldOccurrence::List, value) => {
                let items = read_items(field.type_, value, &wrong, depth)?;
                let list = tree.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut().ok_or(wrong)?.extend(items);
            }
            (FieldOccurrence::One, value) => {
                let value = read_value(field.type_, value, &wrong, depth)?;
                if let Some(value) = value.filter(|value| is_given(field, value)) {
                    tree.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// The entries that one occurrence of a list field brings: one, or several packed numbers.
fn read_items(
    type_: &'static str,
    value: WireValue<'_>,
    wrong: &ProtobufError,
    depth: usize,
) -> Result<Vec<Value>, ProtobufError> {
    let mut items = Vec::new();
    match value {
        WireValue::Bytes(packed) if type_ == "int" => {
            let mut packed = WireReader::new(packed);
            while let Some(number) = packed.next_varint()? {
                items.push(signed(number));
            }
        }
        value => items.push(read_value(type_, value, wrong, depth)?.unwrap_or_default()),
    }
    Ok(items)
}

/// Go writes what was not given as an empty text, a zero or false, unless its type tells it apart.
fn is_given(field: &MessageField, value: &Value) -> bool {
    match (field.zero, value) {
        (ZeroMeaning::IsValue, _) => true,
        (ZeroMeaning::IsAbsent, Value::String(text)) => !text.is_empty(),
        (ZeroMeaning::IsAbsent, Value::Number(number)) => number.as_i64() != Some(0),
        (ZeroMeaning::IsAbsent, Value::Bool(flag)) => *flag,
        (ZeroMeaning::IsAbsent, Value::Null | Value::Array(_) | Value::Object(_)) => true,
    }
}

/// One entry of a map: a message of key and value.
fn read_entry(
    field: &MessageField,
    bytes: &[u8],
    wrong: &ProtobufError,
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = WireReader::new(bytes);
    while let Some((number, part)) = reader.next()? {
        match (number, part) {
            (1, WireValue::Bytes(bytes)) => key = text(bytes, wrong)?,
            (2, part) => value = read_value(field.type_, part, wrong, depth)?,
            _ => return Err(wrong.clone()),
        }
    }
    let empty = || match field.type_ {
        "string" | "bytes" => Value::String(String::new()),
        "StringList" => Value::Array(Vec::new()),
        _ => Value::Null,
    };
    Ok((key, value.unwrap_or_else(empty)))
}

/// One value; none when it stands for "not given".
fn read_value(
    type_: &'static str,
    value: WireValue<'_>,
    wrong: &ProtobufError,
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    Ok(match (type_, value) {
        ("int", WireValue::Varint(number)) => Some(signed(number)),
        ("bool", WireValue::Varint(number)) => Some(Value::Bool(number != 0)),
        ("double", WireValue::Fixed64(bits)) => {
            let text = rekindle_types::json_float(f64::from_bits(bits));
            Some(Value::Number(text.parse().map_err(|_| wrong.clone())?))
        }
        ("string", WireValue::Bytes(bytes)) => Some(Value::String(text(bytes, wrong)?)),
        ("bytes", WireValue::Bytes(bytes)) => Some(Value::String(STANDARD.encode(bytes))),
        ("Time", WireValue::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%SZ", wrong)?,
        ("MicroTime", WireValue::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%S%.6fZ", wrong)?,
        ("Quantity", WireValue::Bytes(bytes)) => Some(quantity(bytes, wrong)?),
        ("IntOrString", WireValue::Bytes(bytes)) => Some(int_or_string(bytes, wrong)?),
        ("StringList", WireValue::Bytes(bytes)) => Some(strings(bytes, wrong)?),
        ("RawExtension" | "FieldsV1" | "Json", WireValue::Bytes(bytes)) => Some(raw(bytes, wrong)?),
        (message, WireValue::Bytes(bytes)) if message.contains('.') => {
            Some(read_object(message, bytes, depth)?)
        }
        (other, WireValue::Bytes(bytes)) => {
            let other = SchemaOr::find(other).ok_or_else(|| wrong.clone())?;
            Some(schema_or_other(other, bytes, wrong, depth)?)
        }
        _ => return Err(wrong.clone()),
    })
}

/// A message within another, which has `depth` messages around it.
fn read_object(message: &'static str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut tree = Map::new();
    read_message(message, bytes, &mut tree, depth + 1)?;
    Ok(Value::Object(tree))
}

/// A schema, or what stands in its place. A list that is not empty counts before a schema, and a
/// schema before a flag, as in Go.
fn schema_or_other(
    other: SchemaOr,
    bytes: &[u8],
    wrong: &ProtobufError,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let (mut schema, mut flag, mut items) = (None, Value::Null, Vec::new());
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (other, value) {
            (_, WireValue::Bytes(bytes)) if number == other.schema() => {
                schema = Some(read_object(SCHEMA, bytes, depth)?);
            }
            _ if number != other.other() => return Err(wrong.clone()),
            (SchemaOr::Bool, WireValue::Varint(number)) => flag = Value::Bool(number != 0),
            (SchemaOr::List, WireValue::Bytes(bytes)) => {
                items.push(read_object(SCHEMA, bytes, depth)?);
            }
            (SchemaOr::Strings, WireValue::Bytes(bytes)) => {
                items.push(Value::String(text(bytes, wrong)?));
            }
            _ => return Err(wrong.clone()),
        }
    }
    if !items.is_empty() {
        return Ok(Value::Array(items));
    }
    Ok(schema.unwrap_or(flag))
}

fn text(bytes: &[u8], wrong: &ProtobufError) -> Result<String, ProtobufError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| wrong.clone())
}

/// Negative numbers are written as their 64-bit two's complement.
fn signed(number: u64) -> Value {
    Value::Number(i64::from_le_bytes(number.to_le_bytes()).into())
}

/// Seconds and nanoseconds since 1970, in the form that JSON has; an empty one is no time.
fn time(bytes: &[u8], form: &str, wrong: &ProtobufError) -> Result<Option<Value>, ProtobufError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, WireValue::Varint(number)) => seconds = i64::from_le_bytes(number.to_le_bytes()),
            (2, WireValue::Varint(number)) => {
                nanos = i32::try_from(number).map_err(|_| wrong.clone())?;
            }
            _ => return Err(wrong.clone()),
        }
    }
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| wrong.clone())?;
    Ok(Some(Value::String(time.strftime(form).to_string())))
}

/// An object of any kind, which clients write as JSON inside.
fn raw(bytes: &[u8], wrong: &ProtobufError) -> Result<Value, ProtobufError> {
    let mut object = Value::Null;
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, WireValue::Bytes(json)) => {
                object = serde_json::from_slice(json).map_err(|_| wrong.clone())?;
            }
            _ => return Err(wrong.clone()),
        }
    }
    Ok(object)
}

/// A list that is the value of a map, and so a message of its own.
fn strings(bytes: &[u8], wrong: &ProtobufError) -> Result<Value, ProtobufError> {
    let mut strings = Vec::new();
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => strings.push(Value::String(text(bytes, wrong)?)),
            _ => return Err(wrong.clone()),
        }
    }
    Ok(Value::Array(strings))
}

fn quantity(bytes: &[u8], wrong: &ProtobufError) -> Result<Value, ProtobufError> {
    let mut quantity = String::new();
    let mut reader = WireReader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => quantity = text(bytes, wrong)?,
            _ => return Err(wrong.clone()),
        }
    }
    Ok(Value::String(quantity))
}

fn int_or_string(bytes: &[u8], wrong: &ProtobufError) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    let mut reader = WireReader::new(bytes);
    while let Some((field, value)) = reader.next()? {
        match (field, value) {
            (1, WireValue::Varint(kind)) => is_text = kind == 1,
            (2, WireValue::Varint(value)) => number = value,
            (3, WireValue::Bytes(bytes)) => string = text(bytes, wrong)?,
            _ => return Err(wrong.clone()),
        }
    }
    Ok(if is_text { Value::String(string) } else { signed(number) })
}
