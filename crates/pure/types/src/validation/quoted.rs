//! Values in quotes, as the API server quotes them (Go's `%q`).

use std::fmt::Debug;

/// A value as errors show it: a text in quotes, with Go's escapes in place of Rust's.
pub fn quoted(value: impl Debug) -> String {
    let shown = format!("{value:?}");
    if !shown.contains("\\u{") && !shown.contains("\\0") {
        return shown;
    }
    let mut out = String::new();
    let mut rest = shown.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = if escape.starts_with("\\u{") {
            escape.find('}').map_or(escape.len(), |end| end + 1)
        } else {
            2
        };
        let (escape, after) = escape.split_at(length);
        out.push_str(&escape_of_go(escape));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn escape_of_go(escape: &str) -> String {
    let number = match escape {
        "\\0" => Some(0),
        _ => escape
            .strip_prefix("\\u{")
            .and_then(|hex| u32::from_str_radix(hex.trim_end_matches('}'), 16).ok()),
    };
    match number {
        None => escape.to_owned(),
        Some(0x07) => r"\a".to_owned(),
        Some(0x08) => r"\b".to_owned(),
        Some(0x0b) => r"\v".to_owned(),
        Some(0x0c) => r"\f".to_owned(),
        Some(number @ 0..=0x7f) => format!("\\x{number:02x}"),
        Some(number @ 0x80..=0xffff) => format!("\\u{number:04x}"),
        Some(number) => format!("\\U{number:08x}"),
    }
}

/// Whether a character is shown as it is, and not by an escape.
pub fn is_printable(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '\\') || letter.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_escapes_of_go() {
        for (text, expected) in [
            ("a\"\\'<\n\u{e9}", r#""a\"\\'<\n\u{e9}""#.replace("\\u{e9}", "\u{e9}")),
            ("\0\u{1}\u{7}\u{c}\u{7f}", r#""\x00\x01\a\f\x7f""#.to_owned()),
            ("\u{80}\u{200b}\\u{1}", r#""\u0080\u200b\\u{1}""#.to_owned()),
            ("\u{e0001}", r#""\U000e0001""#.to_owned()),
        ] {
            assert_eq!(quoted(text), expected);
        }
        assert_eq!(quoted(true), "true");
        assert!(is_printable('\u{e9}') && is_printable(' ') && is_printable('"'));
        assert!(!is_printable('\n') && !is_printable('\u{200b}'));
    }
}
