//! The value of a `Content-Type` header: a media type, and parameters behind it.

use std::collections::BTreeSet;

/// The media type alone.
pub(crate) fn media_type(content_type: &str) -> &str {
    split(content_type).0
}

/// The media type, and what follows it.
pub(super) fn split(content_type: &str) -> (&str, &str) {
    let end = content_type.find(';').unwrap_or(content_type.len());
    let (media_type, parameters) = content_type.split_at(end);
    (media_type.trim(), parameters)
}

/// Whether the parameters can be read: each has a name, which stands once, and a value. A last
/// semicolon means nothing.
pub(super) fn are_readable(parameters: &str) -> bool {
    let mut names = BTreeSet::new();
    let mut rest = parameters;
    while !matches!(rest.trim(), "" | ";") {
        let Some((name, after)) = next_parameter(rest.trim_start()) else { return false };
        if !names.insert(name.to_ascii_lowercase()) {
            return false;
        }
        rest = after;
    }
    true
}

/// The name of the first parameter, and what follows the parameter.
fn next_parameter(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.strip_prefix(';')?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim_start());
    let after = match value.strip_prefix('"') {
        Some(quoted) => &quoted[quoted_end(quoted)?..],
        None => {
            let end = value.find(|sign| !is_token(sign)).unwrap_or(value.len());
            if end == 0 {
                return None;
            }
            &value[end..]
        }
    };
    (!name.is_empty() && name.chars().all(is_token)).then_some((name, after))
}

/// Where the text behind a closing quote begins. A backslash quotes the sign behind it.
fn quoted_end(text: &str) -> Option<usize> {
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some(at + 1),
            '\\' => drop(signs.next()),
            _ => {}
        }
    }
    None
}

/// A sign of a name or a value without quotes (RFC 2045).
fn is_token(sign: char) -> bool {
    sign.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_names_and_values() {
        for (parameters, readable) in [
            ("", true),
            (";", true),
            ("; ", true),
            (";charset=utf-8", true),
            (" ; charset=utf-8;", true),
            ("; a=b; c=\"d e\\\"\"", true),
            (";;", false),
            (";x", false),
            ("; a=b; c", false),
            (";a=", false),
            (";=b", false),
            (";a=\"b", false),
            (";a=b c", false),
            (";a=b;A=c", false),
            (";a/b=c", false),
        ] {
            assert_eq!(are_readable(parameters), readable, "{parameters:?}");
        }
        assert_eq!(split("application/json ;a=b"), ("application/json", ";a=b"));
    }
}
