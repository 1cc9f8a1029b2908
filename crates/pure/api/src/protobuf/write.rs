//! Writes answers: what they are in JSON becomes the messages of the table.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::MAGIC;
use super::fields::{self, FieldOccurrence, Message, MessageField, SCHEMA, SchemaOr};
use super::wire::WireWriter;

/// Why an answer cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnwritableError {
    /// It is no object of a known kind.
    #[error("{kind} in {api_version:?} is not known in protobuf")]
    Kind {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// It has a field that is not known.
    #[error("{message} has a field that is not known in protobuf")]
    Field {
        /// The message.
        message: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("field {field} of {message} has an impossible value")]
    Value {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// An object or a list, given as JSON, as a body.
///
/// # Errors
/// When the table does not know its kind, or a field of it.
pub(crate) fn object(json: &[u8]) -> Result<Vec<u8>, UnwritableError> {
    let TypeText { api_version, kind } = serde_json::from_slice(json).map_err(|_| no_object())?;
    if let Some(name) = fields::message_of(&api_version, &kind) {
        return body((&api_version, &kind), |raw| {
            raw.nested(RAW, |raw| write_message(name, json, raw))
        });
    }
    let item = fields::item_message(&api_version, &kind).ok_or_else(|| {
        let (api_version, kind) = (api_version.to_string(), kind.to_string());
        UnwritableError::Kind { api_version, kind }
    })?;
    let ListText { metadata, items, .. } =
        serde_json::from_slice(json).map_err(|_| UnwritableError::Field { message: item })?;
    let metadata = metadata.map_or("{}", RawValue::get);
    let mut of_items = WireWriter::default();
    for one in items {
        of_items
            .nested(fields::LIST_ITEMS, |inner| write_message(item, one.get().as_bytes(), inner))?;
    }
    let kind = (&*api_version, &*kind);
    let (before, after) = around_items(kind, metadata.as_bytes(), of_items.0.len())?;
    Ok([&before, &*of_items.0, after].concat())
}

/// What stands before the items of a list, which have so many bytes together ([`list_item`]), and
/// what stands after them.
///
/// # Errors
/// When the metadata have a field that the table does not know.
pub(crate) fn around_items(
    kind: (&str, &str),
    metadata: &[u8],
    items_bytes: usize,
) -> Result<(Vec<u8>, &'static [u8]), UnwritableError> {
    let mut of_list = WireWriter::default();
    of_list
        .nested(fields::LIST_METADATA, |inner| write_message(fields::LIST_META, metadata, inner))?;
    let mut before = envelope(kind);
    before.head(RAW, of_list.0.len() + items_bytes);
    before.0.extend(of_list.0);
    Ok((before.0, AFTER_RAW))
}

/// An item of a list, given as JSON.
///
/// # Errors
/// When the table does not know its kind, or a field of it.
pub(crate) fn list_item(
    (api_version, kind): (&str, &str),
    json: &[u8],
) -> Result<Vec<u8>, UnwritableError> {
    let message = fields::message_of(api_version, kind).ok_or_else(no_object)?;
    let mut writer = WireWriter::default();
    writer.nested(fields::LIST_ITEMS, |item| write_message(message, json, item))?;
    Ok(writer.0)
}

/// What the envelope of a body has, as Go writes it.
const TYPE_META: u64 = 1;
const RAW: u64 = 2;
/// The encoding of the content and its type, both empty.
const AFTER_RAW: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

fn body(
    kind: (&str, &str),
    write_raw: impl FnOnce(&mut WireWriter) -> Result<(), UnwritableError>,
) -> Result<Vec<u8>, UnwritableError> {
    let mut envelope = envelope(kind);
    write_raw(&mut envelope)?;
    envelope.0.extend_from_slice(AFTER_RAW);
    Ok(envelope.0)
}

/// The envelope of a body, up to what is in it.
fn envelope((api_version, kind): (&str, &str)) -> WireWriter {
    let mut type_meta = WireWriter::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut envelope = WireWriter(MAGIC.to_vec());
    envelope.bytes(TYPE_META, &type_meta.0);
    envelope
}

fn no_object() -> UnwritableError {
    UnwritableError::Kind { api_version: String::new(), kind: String::new() }
}

/// What says which kind a text is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeText<'t> {
    #[serde(borrow, default)]
    api_version: Cow<'t, str>,
    #[serde(borrow, default)]
    kind: Cow<'t, str>,
}

/// Every list has these fields. Its items are read one by one: as a tree a large list is many times
/// its text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListText<'t> {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(borrow, default)]
    metadata: Option<&'t RawValue>,
    #[serde(borrow, default)]
    items: Vec<&'t RawValue>,
}

/// An event of a watch, as a frame: its length in four bytes, the highest first, and the event.
///
/// # Errors
/// As [`object`].
pub(crate) fn watch_event(type_: &str, json: &[u8]) -> Result<Vec<u8>, UnwritableError> {
    let mut raw = WireWriter::default();
    raw.bytes(1, &object(json)?);
    let mut event = WireWriter::default();
    event.bytes(1, type_.as_bytes());
    event.bytes(2, &raw.0);
    let too_long = UnwritableError::Value { message: "meta.v1.WatchEvent", field: "object" };
    let length = u32::try_from(event.0.len()).map_err(|_| too_long)?;
    Ok([&length.to_be_bytes(), &*event.0].concat())
}

/// Writes an object that is given as JSON.
fn write_message(
    name: &'static str,
    json: &[u8],
    writer: &mut WireWriter,
) -> Result<(), UnwritableError> {
    let tree: Value = serde_json::from_slice(json).map_err(|_| no_object())?;
    let tree = tree.as_object().ok_or_else(no_object)?;
    let message = fields::message(name).ok_or_else(no_object)?;
    write_tree(message, tree, writer)
}

/// Writes a message with the fields of the tree.
fn write_tree(
    message: &'static Message,
    tree: &Map<String, Value>,
    writer: &mut WireWriter,
) -> Result<(), UnwritableError> {
    let written = write_fields(message, tree, writer)?;
    let is_left_out = |field: &str| is_in_envelope(field) || message.unnumbered.contains(&field);
    let given = tree.iter().filter(|(field, value)| !value.is_null() && !is_left_out(field));
    match written < given.count() {
        true => Err(UnwritableError::Field { message: message.name }),
        false => Ok(()),
    }
}

fn is_in_envelope(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind")
}

/// Writes the fields of the tree that a message has. Says how many these are.
fn write_fields(
    message: &'static Message,
    tree: &Map<String, Value>,
    writer: &mut WireWriter,
) -> Result<usize, UnwritableError> {
    let mut written = 0;
    for (number, field) in &message.by_number {
        if field.kind == FieldOccurrence::Embedded {
            let wrong = UnwritableError::Value { message: message.name, field: field.name };
            let embedded = field.message().ok_or(wrong)?;
            written += writer.nested(*number, |writer| write_fields(embedded, tree, writer))?;
            continue;
        }
        let Some(value) = tree.get(field.name).filter(|value| !value.is_null()) else { continue };
        written += usize::from(!is_in_envelope(field.name));
        let wrong = || UnwritableError::Value { message: message.name, field: field.name };
        match field.kind {
            FieldOccurrence::Map => {
                for (key, value) in value.as_object().ok_or_else(wrong)? {
                    writer.nested(*number, |entry| {
                        entry.bytes(1, key.as_bytes());
                        write_value((2, field), value, &wrong, entry)
                    })?;
                }
            }
            FieldOccurrence::List => {
                for item in value.as_array().ok_or_else(wrong)? {
                    write_value((*number, field), item, &wrong, writer)?;
                }
            }
            FieldOccurrence::One | FieldOccurrence::Embedded => {
                write_value((*number, field), value, &wrong, writer)?;
            }
        }
    }
    Ok(written)
}

/// Writes one value; `wrong` is the error of one that its field cannot have.
fn write_value(
    (number, field): (u64, &MessageField),
    value: &Value,
    wrong: &impl Fn() -> UnwritableError,
    writer: &mut WireWriter,
) -> Result<(), UnwritableError> {
    let text = || value.as_str().ok_or_else(wrong);
    match field.type_ {
        "int" => writer.varint(number, two_complement(value.as_i64().ok_or_else(wrong)?)),
        "bool" => writer.varint(number, value.as_bool().ok_or_else(wrong)?.into()),
        "double" => writer.fixed64(number, value.as_f64().ok_or_else(wrong)?.to_bits()),
        "string" => writer.bytes(number, text()?.as_bytes()),
        "bytes" => writer.bytes(number, &STANDARD.decode(text()?).map_err(|_| wrong())?),
        "Time" | "MicroTime" => {
            let time: jiff::Timestamp = text()?.parse().map_err(|_| wrong())?;
            return writer.nested(number, |inner| {
                inner.varint(1, two_complement(time.as_second()));
                inner.varint(2, two_complement(time.subsec_nanosecond().into()));
                Ok(())
            });
        }
        "Quantity" => {
            let amount: Cow<'_, str> = match value {
                Value::Number(amount) => amount.to_string().into(),
                _ => text()?.into(),
            };
            return writer.nested(number, |inner| {
                inner.bytes(1, amount.as_bytes());
                Ok(())
            });
        }
        "IntOrString" => {
            let (is_text, number_given, text_given) = match value {
                Value::String(text) => (1, 0, text.as_str()),
                _ => (0, value.as_i64().ok_or_else(wrong)?, ""),
            };
            return writer.nested(number, |inner| {
                inner.varint(1, is_text);
                inner.varint(2, two_complement(number_given));
                inner.bytes(3, text_given.as_bytes());
                Ok(())
            });
        }
        "StringList" => {
            let items = value.as_array().ok_or_else(wrong)?;
            return writer.nested(number, |inner| {
                for item in items {
                    inner.bytes(1, item.as_str().ok_or_else(wrong)?.as_bytes());
                }
                Ok(())
            });
        }
        "RawExtension" | "FieldsV1" | "Json" => {
            let json = value.to_string();
            return writer.nested(number, |inner| {
                inner.bytes(1, json.as_bytes());
                Ok(())
            });
        }
        type_ => {
            if let Some(other) = SchemaOr::find(type_) {
                return writer
                    .nested(number, |inner| write_schema_or_other(other, value, wrong, inner));
            }
            let tree = value.as_object().ok_or_else(wrong)?;
            let message = field.message().ok_or_else(wrong)?;
            return writer.nested(number, |inner| write_tree(message, tree, inner));
        }
    }
    Ok(())
}

/// Writes a schema, or what stands in its place.
fn write_schema_or_other(
    other: SchemaOr,
    value: &Value,
    wrong: &impl Fn() -> UnwritableError,
    writer: &mut WireWriter,
) -> Result<(), UnwritableError> {
    let schema = |number, value: &Value, writer: &mut WireWriter| {
        let tree = value.as_object().ok_or_else(wrong)?;
        let message = fields::message(SCHEMA).ok_or_else(wrong)?;
        writer.nested(number, |inner| write_tree(message, tree, inner))
    };
    match (other, value) {
        (SchemaOr::Bool, Value::Bool(flag)) => writer.varint(other.other(), (*flag).into()),
        (SchemaOr::List, Value::Array(items)) => {
            for item in items {
                schema(other.other(), item, writer)?;
            }
        }
        (SchemaOr::Strings, Value::Array(items)) => {
            for item in items {
                writer.bytes(other.other(), item.as_str().ok_or_else(wrong)?.as_bytes());
            }
        }
        (SchemaOr::Bool, Value::Object(_)) => {
            // Go reads a schema as one that allows something
            writer.varint(other.other(), 1);
            schema(other.schema(), value, writer)?;
        }
        _ => schema(other.schema(), value, writer)?,
    }
    Ok(())
}

/// Negative numbers are written as their 64-bit two's complement.
fn two_complement(number: i64) -> u64 {
    u64::from_le_bytes(number.to_le_bytes())
}
