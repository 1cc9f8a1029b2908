//! One step from a value to a part of it, in the form that `fieldsV1` has.

use std::fmt;

use serde_json::Value;

/// A step: a field (`f:name`), an item of a list by its keys (`k:{"name":"web"}`), a value of a set
/// (`v:"a"`) or a place in a list (`i:0`). It is held as that text, in one canonical form, so that
/// equal steps have equal texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathElement(Box<str>);

/// A text that is no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no path element: it must begin with f:, k:, v: or i: and hold {expected}")]
pub struct PathElementError {
    text: String,
    expected: &'static str,
}

impl PathElement {
    /// A field of an object.
    pub fn field(name: &str) -> Self {
        let mut text = String::with_capacity(name.len() + 2);
        text.push_str("f:");
        text.push_str(name);
        Self(text.into())
    }

    /// An item of a list whose keys have these values.
    pub fn key<'v>(keys: impl IntoIterator<Item = (&'v str, &'v Value)>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable_by_key(|(name, _)| *name);
        let mut text = String::from("k:{");
        for (index, (name, value)) in keys.into_iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            push_json_string(&mut text, name);
            text.push(':');
            push_scalar(&mut text, value);
        }
        text.push('}');
        Self(text.into())
    }

    /// A value of a set.
    pub fn value(value: &Value) -> Self {
        let mut text = String::from("v:");
        push_scalar(&mut text, value);
        Self(text.into())
    }

    /// A place in a list.
    pub(crate) fn index(index: usize) -> Self {
        Self(format!("i:{index}").into())
    }

    /// Reads a step as `fieldsV1` writes it.
    ///
    /// # Errors
    /// When it has none of the four forms.
    pub fn parse(text: &str) -> Result<Self, PathElementError> {
        let wrong = |expected| PathElementError { text: text.to_owned(), expected };
        let (form, rest) = text.split_at_checked(2).ok_or_else(|| wrong("what they stand for"))?;
        match form {
            "f:" => Ok(Self(text.into())),
            "k:" => match serde_json::from_str(rest) {
                Ok(Value::Object(keys)) if !keys.is_empty() => {
                    Ok(Self::key(keys.iter().map(|(name, value)| (name.as_str(), value))))
                }
                _ => Err(wrong("an object with the values of keys")),
            },
            "v:" => {
                let value: Value = serde_json::from_str(rest).map_err(|_| wrong("a JSON value"))?;
                Ok(Self::value(&value))
            }
            "i:" => {
                let index: u32 = rest.parse().map_err(|_| wrong("a whole number"))?;
                Ok(Self(format!("i:{index}").into()))
            }
            _ => Err(wrong("what they stand for")),
        }
    }

    /// As `fieldsV1` writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the field, if it is one.
    pub fn field_name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }
}

impl fmt::Display for PathElement {
    /// As error texts write it: `.spec`, `[name="web"]`, `[="a"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (form, rest) = self.0.split_at(2);
        match form {
            "f:" => write!(f, ".{rest}"),
            "k:" => {
                let keys: serde_json::Map<String, Value> =
                    serde_json::from_str(rest).map_err(|_| fmt::Error)?;
                f.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            "v:" => write!(f, "[={rest}]"),
            _ => write!(f, "[{rest}]"),
        }
    }
}

/// The way from an object to a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<PathElement>);

impl FieldPath {
    /// The way through these steps.
    pub fn new(steps: Vec<PathElement>) -> Self {
        Self(steps)
    }

    /// The way through these fields.
    pub fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(name)).collect())
    }

    /// Its steps.
    pub fn steps(&self) -> &[PathElement] {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| step.fmt(f))
    }
}

fn push_scalar(text: &mut String, value: &Value) {
    match value {
        Value::String(value) => push_json_string(text, value),
        other => text.push_str(&other.to_string()),
    }
}

/// Writes a text as JSON.
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_have_one_text_and_one_form_in_errors() {
        let (port, protocol) = (json!(80), json!("TCP"));
        let key = PathElement::key([("protocol", &protocol), ("containerPort", &port)]);
        for (step, text, shown) in [
            (PathElement::field("spec"), "f:spec", ".spec"),
            (
                key,
                r#"k:{"containerPort":80,"protocol":"TCP"}"#,
                r#"[containerPort=80,protocol="TCP"]"#,
            ),
            (PathElement::value(&json!("a\"b")), r#"v:"a\"b""#, r#"[="a\"b"]"#),
            (PathElement::value(&json!(3)), "v:3", "[=3]"),
        ] {
            assert_eq!(step.as_str(), text);
            assert_eq!(step.to_string(), shown);
            assert_eq!(PathElement::parse(text), Ok(step));
        }
        let other_order = PathElement::parse(r#"k:{"protocol": "TCP", "containerPort": 80}"#);
        assert_eq!(other_order.unwrap().as_str(), r#"k:{"containerPort":80,"protocol":"TCP"}"#);
    }

    #[test]
    fn what_is_no_step_is_refused() {
        for text in ["", "f", "x:y", "k:3", "k:{}", "k:", "v:", "i:x", "i:-1", "é"] {
            assert!(PathElement::parse(text).is_err(), "{text}");
        }
    }
}
