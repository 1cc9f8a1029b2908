//! OpenAPI v2 in protobuf: the messages of gnostic's `openapi.v2`, by which client-go reads the
//! document. The numbers are those of its published definition.
//!
//! Keywords that the messages do not have are left out. What begins with `x-` goes along as text.

use std::convert::Infallible;

use rekindle_kinds::openapi::v2::V2Part;
use serde_json::Value;

use crate::protobuf::WireWriter;

/// A message.
struct Message {
    /// Name in JSON, number, and how the value is written.
    fields: &'static [(&'static str, u64, Form)],
    /// The number of what begins with `x-`; none where the message has no such field.
    extensions: Option<u64>,
}

/// How a value is written.
enum Form {
    /// A text, or several.
    Text,
    Flag,
    Integer,
    Double,
    /// Any value, as text.
    Any,
    Anys,
    Object(&'static Message),
    /// A message that has another in its first field.
    Around(&'static Message),
    /// A type, or several.
    Types,
    /// A schema, or whether anything may stand there.
    SchemaOrFlag,
    /// Schemas by name.
    Properties,
    Parameters,
    /// Answers by code.
    Responses,
}

use Form::{
    Any, Anys, Around, Double, Flag, Integer, Object, Parameters, Properties, Responses,
    SchemaOrFlag, Text, Types,
};

static INFO: Message =
    Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: None };

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Text),
        ("enum", 20, Anys),
        ("additionalProperties", 21, SchemaOrFlag),
        ("type", 22, Types),
        ("items", 23, Around(&SCHEMA)),
        ("properties", 25, Properties),
        ("externalDocs", 29, Object(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    extensions: Some(31),
};

static EXTERNAL_DOCS: Message =
    Message { fields: &[("description", 1, Text), ("url", 2, Text)], extensions: None };

static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Object(&OPERATION)),
        ("put", 3, Object(&OPERATION)),
        ("post", 4, Object(&OPERATION)),
        ("delete", 5, Object(&OPERATION)),
        ("options", 6, Object(&OPERATION)),
        ("head", 7, Object(&OPERATION)),
        ("patch", 8, Object(&OPERATION)),
        ("parameters", 9, Parameters),
    ],
    extensions: Some(10),
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Text),
        ("consumes", 7, Text),
        ("parameters", 8, Parameters),
        ("responses", 9, Responses),
    ],
    extensions: Some(13),
};

static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Around(&SCHEMA))],
    extensions: Some(5),
};

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Object(&SCHEMA)),
    ],
    extensions: Some(6),
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: Some(23),
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: Some(22),
};

/// The whole document.
pub(super) fn document(info: &Value, parts: impl Iterator<Item = V2Part>) -> Vec<u8> {
    let (mut paths, mut definitions) = (WireWriter::default(), WireWriter::default());
    for part in parts {
        for (path, item) in &part.paths {
            named(2, path, &mut paths, |value| write(&PATH_ITEM, item, value));
        }
        for (name, schema) in &part.definitions {
            named(1, name, &mut definitions, |value| write(&SCHEMA, schema, value));
        }
    }
    let mut document = WireWriter::default();
    document.bytes(1, b"2.0");
    within(2, &mut document, |inner| write(&INFO, info, inner));
    document.bytes(8, &paths.0);
    document.bytes(9, &definitions.0);
    document.0
}

/// A message within another.
fn within(number: u64, writer: &mut WireWriter, write: impl FnOnce(&mut WireWriter)) {
    let Ok(()) = writer.nested(number, |inner| {
        write(inner);
        Ok::<_, Infallible>(())
    });
}

/// A name and a value that has it.
fn named(number: u64, name: &str, writer: &mut WireWriter, write: impl FnOnce(&mut WireWriter)) {
    within(number, writer, |entry| {
        entry.bytes(1, name.as_bytes());
        within(2, entry, write);
    });
}

/// A value of any type: as YAML, which JSON is.
fn any(value: &Value, writer: &mut WireWriter) {
    writer.bytes(2, value.to_string().as_bytes());
}

fn write(message: &Message, value: &Value, writer: &mut WireWriter) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let known = message.fields.iter().find(|(known, ..)| known == name);
        if let Some((_, number, form)) = known {
            write_field(*number, form, value, writer);
        } else if let Some(number) = message.extensions.filter(|_| name.starts_with("x-")) {
            named(number, name, writer, |inner| any(value, inner));
        }
    }
}

fn write_field(number: u64, form: &Form, value: &Value, writer: &mut WireWriter) {
    let items = || value.as_array().into_iter().flatten();
    let members = || value.as_object().into_iter().flatten();
    let texts = |number, value: &Value, writer: &mut WireWriter| {
        for text in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            writer.bytes(number, text.as_str().unwrap_or_default().as_bytes());
        }
    };
    match form {
        Text => texts(number, value, writer),
        Types => within(number, writer, |inner| texts(1, value, inner)),
        Flag => writer.varint(number, value.as_bool().unwrap_or_default().into()),
        Integer => writer.varint(number, value.as_u64().unwrap_or_default()),
        Double => writer.fixed64(number, value.as_f64().unwrap_or_default().to_bits()),
        Any => within(number, writer, |inner| any(value, inner)),
        Anys => items().for_each(|item| within(number, writer, |inner| any(item, inner))),
        Object(message) => within(number, writer, |inner| write(message, value, inner)),
        Around(message) => within(number, writer, |outer| {
            within(1, outer, |inner| write(message, value, inner));
        }),
        SchemaOrFlag => within(number, writer, |outer| match value {
            Value::Bool(flag) => outer.varint(2, (*flag).into()),
            schema => within(1, outer, |inner| write(&SCHEMA, schema, inner)),
        }),
        Properties => within(number, writer, |outer| {
            for (name, schema) in members() {
                named(1, name, outer, |inner| write(&SCHEMA, schema, inner));
            }
        }),
        Responses => within(number, writer, |outer| {
            for (code, answer) in members() {
                named(1, code, outer, |value| {
                    within(1, value, |inner| write(&RESPONSE, answer, inner));
                });
            }
        }),
        Parameters => items().for_each(|parameter| write_parameter(number, parameter, writer)),
    }
}

/// A parameter, in the messages that stand around its kind.
fn write_parameter(number: u64, parameter: &Value, writer: &mut WireWriter) {
    within(number, writer, |item| {
        within(1, item, |outer| match parameter["in"].as_str() {
            Some("body") => within(1, outer, |inner| write(&BODY_PARAMETER, parameter, inner)),
            Some("path") => within(2, outer, |other| {
                within(4, other, |inner| write(&PATH_PARAMETER, parameter, inner));
            }),
            _ => within(2, outer, |other| {
                within(3, other, |inner| write(&QUERY_PARAMETER, parameter, inner));
            }),
        });
    });
}
