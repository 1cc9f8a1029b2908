//! Writes answers: what they are in JSON becomes the messages of the table.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::MAGIC;
use super::fields::{self, FieldOccurrence, MessageField};
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
    let unknown = || UnwritableError::Kind { api_version: String::new(), kind: String::new() };
    let tree: Value = serde_json::from_slice(json).map_err(|_| unknown())?;
    let tree = tree.as_object().ok_or_else(unknown)?;
    let text = |name: &str| tree.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = match (fields::message_of(api_version, kind), fields::item_message(api_version, kind))
    {
        (Some(name), _) => message(name, tree)?,
        (None, Some(item)) => list(item, tree)?,
        (None, None) => {
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            return Err(UnwritableError::Kind { api_version, kind });
        }
    };
    let mut type_meta = WireWriter::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut envelope = WireWriter(MAGIC.to_vec());
    envelope.bytes(1, &type_meta.0);
    envelope.bytes(2, &raw.0);
    // contentEncoding and contentType, as Go writes them
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    Ok(envelope.0)
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

/// Every list has the same two fields.
fn list(item: &'static str, tree: &Map<String, Value>) -> Result<WireWriter, UnwritableError> {
    const FIELDS: [&str; 4] = ["apiVersion", "kind", "metadata", "items"];
    if !tree.keys().all(|name| FIELDS.contains(&name.as_str())) {
        return Err(UnwritableError::Field { message: item });
    }
    let wrong = || UnwritableError::Value { message: item, field: "items" };
    let mut list = WireWriter::default();
    if let Some(metadata) = tree.get("metadata") {
        let metadata = metadata.as_object().ok_or_else(wrong)?;
        list.bytes(fields::LIST_METADATA, &message(fields::LIST_META, metadata)?.0);
    }
    if let Some(items) = tree.get("items") {
        for one in items.as_array().ok_or_else(wrong)? {
            let one = one.as_object().ok_or_else(wrong)?;
            list.bytes(fields::LIST_ITEMS, &message(item, one)?.0);
        }
    }
    Ok(list)
}

/// A message with the fields of the tree.
fn message(name: &'static str, tree: &Map<String, Value>) -> Result<WireWriter, UnwritableError> {
    let mut writer = WireWriter::default();
    let written = fields_of(name, tree, &mut writer)?;
    // these stand in the envelope
    let is_type = |field: &str| matches!(field, "apiVersion" | "kind");
    let is_left_out = |field: &str| is_type(field) || fields::unnumbered(name).contains(&field);
    let given = tree.iter().filter(|(field, value)| !value.is_null() && !is_left_out(field));
    let given = given.count();
    match written < given {
        true => Err(UnwritableError::Field { message: name }),
        false => Ok(writer),
    }
}

/// Writes the fields of the tree that a message has. Says how many these are.
fn fields_of(
    name: &'static str,
    tree: &Map<String, Value>,
    writer: &mut WireWriter,
) -> Result<usize, UnwritableError> {
    let mut written = 0;
    for (number, field) in fields::all(name).into_iter().flatten() {
        if field.kind == FieldOccurrence::Embedded {
            let mut inner = WireWriter::default();
            written += fields_of(field.type_, tree, &mut inner)?;
            writer.bytes(*number, &inner.0);
            continue;
        }
        let Some(value) = tree.get(field.name).filter(|value| !value.is_null()) else { continue };
        written += usize::from(!matches!(field.name, "apiVersion" | "kind"));
        let wrong = UnwritableError::Value { message: name, field: field.name };
        match field.kind {
            FieldOccurrence::Map => {
                for (key, value) in value.as_object().ok_or_else(|| wrong.clone())? {
                    let mut entry = WireWriter::default();
                    entry.bytes(1, key.as_bytes());
                    write_value((2, field), value, (&wrong, &mut entry))?;
                    writer.bytes(*number, &entry.0);
                }
            }
            FieldOccurrence::List => {
                for item in value.as_array().ok_or_else(|| wrong.clone())? {
                    write_value((*number, field), item, (&wrong, writer))?;
                }
            }
            FieldOccurrence::One | FieldOccurrence::Embedded => {
                write_value((*number, field), value, (&wrong, writer))?;
            }
        }
    }
    Ok(written)
}

/// Writes one value.
fn write_value(
    (number, field): (u64, &MessageField),
    value: &Value,
    (wrong, writer): (&UnwritableError, &mut WireWriter),
) -> Result<(), UnwritableError> {
    let text = || value.as_str().ok_or_else(|| wrong.clone());
    let mut inner = WireWriter::default();
    match field.type_ {
        "int" => {
            let value = value.as_i64().ok_or_else(|| wrong.clone())?;
            writer.varint(number, two_complement(value));
            return Ok(());
        }
        "bool" => {
            writer.varint(number, value.as_bool().ok_or_else(|| wrong.clone())?.into());
            return Ok(());
        }
        "double" => {
            let value = value.as_f64().ok_or_else(|| wrong.clone())?;
            writer.fixed64(number, value.to_bits());
            return Ok(());
        }
        "string" => inner.0.extend_from_slice(text()?.as_bytes()),
        "bytes" => {
            inner.0 = STANDARD.decode(text()?).map_err(|_| wrong.clone())?;
        }
        "Time" | "MicroTime" => {
            let time: jiff::Timestamp = text()?.parse().map_err(|_| wrong.clone())?;
            inner.varint(1, two_complement(time.as_second()));
            inner.varint(2, two_complement(time.subsec_nanosecond().into()));
        }
        "Quantity" => match value {
            Value::Number(amount) => inner.bytes(1, amount.to_string().as_bytes()),
            _ => inner.bytes(1, text()?.as_bytes()),
        },
        "IntOrString" => match value {
            Value::String(text) => {
                inner.varint(1, 1);
                inner.varint(2, 0);
                inner.bytes(3, text.as_bytes());
            }
            _ => {
                inner.varint(1, 0);
                inner.varint(2, two_complement(value.as_i64().ok_or_else(|| wrong.clone())?));
                inner.bytes(3, b"");
            }
        },
        "StringList" => {
            for item in value.as_array().ok_or_else(|| wrong.clone())? {
                inner.bytes(1, item.as_str().ok_or_else(|| wrong.clone())?.as_bytes());
            }
        }
        "RawExtension" | "FieldsV1" => inner.bytes(1, value.to_string().as_bytes()),
        name => {
            let tree = value.as_object().ok_or_else(|| wrong.clone())?;
            inner = message(name, tree)?;
        }
    }
    writer.bytes(number, &inner.0);
    Ok(())
}

/// Negative numbers are written as their 64-bit two's complement.
fn two_complement(number: i64) -> u64 {
    u64::from_le_bytes(number.to_le_bytes())
}
