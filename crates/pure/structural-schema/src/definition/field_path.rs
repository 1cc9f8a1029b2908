//! Paths such as `.spec.ports['http']` that lead to a field of a schema
//! (apiextensions-apiserver `schema/cel`, `ValidFieldPath`).

use serde_json::Value;

use crate::schema_node::{Additional, SchemaNode};

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    /// The schema has no such field.
    #[error("does not refer to a valid field")]
    UnknownField,
    /// Brackets are not allowed here.
    #[error("array notation is not allowed")]
    Brackets,
    /// The path ends in the middle of a part.
    #[error("unexpected end of JSON path")]
    Incomplete,
    /// Brackets hold something that is not quoted.
    #[error("expected single quoted string but got {0}")]
    Unquoted(String),
    /// A part does not begin as one does.
    #[error("expected [ or . but got: {0}")]
    NoSeparator(String),
    /// Brackets are not closed.
    #[error("expected ] but got {0}")]
    Unclosed(String),
    /// An escape in quotes is not known.
    #[error("invalid string literal: invalid escape char {0}")]
    BadEscape(String),
}

/// Finds the field that a path of names and dots leads to, such as `.spec.size`. Returns the type
/// that its schema names.
///
/// # Errors
/// Why it leads to no field.
pub fn type_of_field<'a>(schema: &'a Value, path: &str) -> Result<&'a str, FieldPathError> {
    let root = SchemaNode::new(schema).ok_or(FieldPathError::UnknownField)?;
    resolve(root, path, false).map(|(_, field)| field.type_name())
}

/// Finds the field that a path leads to. Returns its path as errors show it, and its schema.
/// `allows_brackets` lets parts stand in brackets and quotes, as rules may have them.
pub(crate) fn resolve<'a>(
    root: SchemaNode<'a>,
    path: &str,
    allows_brackets: bool,
) -> Result<(String, SchemaNode<'a>), FieldPathError> {
    let mut node = root;
    let mut shown = String::new();
    let mut tokens = PathTokens { rest: path };
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or(FieldPathError::Incomplete)?.to_owned(),
            "[" if !allows_brackets => return Err(FieldPathError::Brackets),
            "[" => {
                let quoted = tokens.next().ok_or(FieldPathError::Incomplete)?;
                let inner = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
                let inner = inner.ok_or_else(|| FieldPathError::Unquoted(quoted.to_owned()))?;
                let name = unescape(inner)?;
                match tokens.next().ok_or(FieldPathError::Incomplete)? {
                    "]" => name,
                    other => return Err(FieldPathError::Unclosed(other.to_owned())),
                }
            }
            other => return Err(FieldPathError::NoSeparator(other.to_owned())),
        };
        if node.has_properties() {
            node = node.property(&name).ok_or(FieldPathError::UnknownField)?;
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
        } else if let Additional::Schema(of_value) = node.additional() {
            node = of_value;
            shown.push_str(&format!("[{name}]"));
        } else {
            return Err(FieldPathError::UnknownField);
        }
    }
    Ok((shown, node))
}

/// Splits a path at `.`, `[` and `]`, but for what is quoted.
struct PathTokens<'a> {
    rest: &'a str,
}

impl<'a> PathTokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest;
        let first = rest.chars().next()?;
        let len = if first == '\'' {
            let bytes = rest.as_bytes();
            let is_end = |at: &usize| bytes[*at] == b'\'' && bytes[*at - 1] != b'\\';
            (1..bytes.len()).find(is_end).map_or(rest.len(), |end| end + 1)
        } else if matches!(first, '.' | '[' | ']') {
            1
        } else {
            rest.find(['.', '[', ']']).unwrap_or(rest.len())
        };
        let (token, rest) = rest.split_at(len);
        self.rest = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, FieldPathError> {
    let mut out = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            out.push(sign);
            continue;
        }
        out.push(match signs.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(sign @ ('\'' | '\\')) => sign,
            other => {
                let shown = other.map(|sign| format!("\\{sign}")).unwrap_or_default();
                return Err(FieldPathError::BadEscape(shown));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_fields_of_the_schema() {
        let text = json!({"type": "string"});
        let schema = json!({"properties": {"spec": {"properties": {
            "a.b": text, "map": {"additionalProperties": text}, "list": {"items": text},
        }}}});
        for (path, brackets, expected) in [
            (".spec['a.b']", true, Ok("spec.a.b")),
            (".spec.map['k']", true, Ok("spec.map[k]")),
            (".spec.map.k", false, Ok("spec.map[k]")),
            (".spec.size", true, Err(FieldPathError::UnknownField)),
            (".spec.list[0]", false, Err(FieldPathError::Brackets)),
            (".spec.list[0]", true, Err(FieldPathError::Unquoted("0".to_owned()))),
            ("spec", true, Err(FieldPathError::NoSeparator("spec".to_owned()))),
            (".spec['a.b'", true, Err(FieldPathError::Incomplete)),
        ] {
            let root = SchemaNode::new(&schema).unwrap();
            let found = resolve(root, path, brackets).map(|(shown, _)| shown);
            assert_eq!(found, expected.map(str::to_owned), "{path}");
        }
    }
}
