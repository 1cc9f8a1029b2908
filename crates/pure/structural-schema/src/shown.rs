//! Values as the API server shows them in errors: texts quoted, the rest as JSON.

use std::fmt::Write;

use rekindle_types::validation::quoted;
use rekindle_types::{go_float, json_float};
use serde_json::{Number, Value};

/// A value in an error.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => match GoNumber::from_json(number) {
            GoNumber::Int(int) => int.to_string(),
            GoNumber::Float(float) => go_float(float),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => json(value),
    }
}

/// A value as Go encodes it: keys sorted, whole numbers without a fraction, HTML escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&go_number(number)),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write_json(field, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for sign in text.chars() {
        match sign {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(sign)).expect("a String takes any text");
            }
            _ => out.push(sign),
        }
    }
    out.push('"');
}

/// A number as JSON of the API server has it: a signed integer of 64 bits where it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GoNumber {
    /// A whole number without fraction or exponent.
    Int(i64),
    /// Any other.
    Float(f64),
}

impl GoNumber {
    /// Reads a JSON number.
    pub(crate) fn from_json(number: &Number) -> Self {
        number
            .as_i64()
            .map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::INFINITY)), Self::Int)
    }

    /// The whole part.
    pub(crate) fn as_i64(self) -> i64 {
        match self {
            Self::Int(int) => int,
            Self::Float(float) => float as i64,
        }
    }

    /// The nearest float.
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

fn go_number(number: &Number) -> String {
    match GoNumber::from_json(number) {
        GoNumber::Int(int) => int.to_string(),
        GoNumber::Float(float) => json_float(float),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_as_upstream_shows_them() {
        for (value, expected) in [
            (json!("a\"b"), r#""a\"b""#),
            (json!({"b": 1, "a": [1.0, 1.5, null]}), r#"{"a":[1,1.5,null],"b":1}"#),
            (json!(["x > 1"]), r#"["x \u003e 1"]"#),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-07"),
            (json!([1e-7, 1e-5, 1e10, 1e21]), "[1e-7,0.00001,10000000000,1e+21]"),
            (json!(1e10), "1e+10"),
            (json!(1_234_567.0), "1.234567e+06"),
            (json!(100_000.5), "100000.5"),
        ] {
            assert_eq!(shown(&value), expected);
        }
    }
}
