//! Names of fields as CEL can spell them (apiserver `cel/escaping.go`).

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name that a rule uses for a field. A field without one cannot be used in rules.
pub(crate) fn escape(name: &str) -> Option<String> {
    let first = name.bytes().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(sign) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match sign {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            sign if sign == '_' || sign.is_ascii_alphanumeric() => out.push(sign),
            _ => return None,
        }
        rest = &rest[sign.len_utf8()..];
    }
    Some(out)
}

/// Whether a text can be the name of a variable.
pub(super) fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|sign: char| sign == '_' || sign.is_ascii_alphabetic());
    let goes_on = name.chars().all(|sign| sign == '_' || sign.is_ascii_alphanumeric());
    begins && goes_on && !RESERVED.contains(&name)
}

/// The field that a name in a rule stands for.
pub(crate) fn unescape(name: &str) -> String {
    if !name.contains("__") {
        return name.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    'parts: while !rest.is_empty() {
        for (escaped, plain) in
            [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")]
        {
            if let Some(after) = rest.strip_prefix(escaped) {
                out.push_str(plain);
                rest = after;
                continue 'parts;
            }
        }
        let word = rest.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
        if let Some(word) = word.filter(|word| out.is_empty() && RESERVED.contains(word)) {
            return word.to_owned();
        }
        let sign = rest.chars().next().map_or(1, char::len_utf8);
        out.push_str(&rest[..sign]);
        rest = &rest[sign..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_found_again() {
        for (name, escaped) in [
            ("plain", Some("plain")),
            ("namespace", Some("__namespace__")),
            ("x-y", Some("x__dash__y")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("__u", Some("__underscores__u")),
            ("a_b", Some("a_b")),
            ("1a", None),
            ("ä", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped);
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped), name);
            }
        }
    }
}
