//! Log lines that a person is to act on: each begins with what failed or what is done.

use super::sources::{Text, product_part};

/// The macros whose lines reach a person.
const MACROS: [&str; 2] = ["tracing::warn!(", "tracing::error!("];

/// What such a line may begin with. `failed to` is the rule; the others tell of what is done in
/// spite of a failure.
const BEGINS: [&str; 10] = [
    "failed to ",
    "refused ",
    "ignored ",
    "skipped ",
    "stopped ",
    "dropped ",
    "gave up ",
    "found ",
    "lost ",
    "restarted ",
];

/// `path:line: text` of each line that begins with no verb.
pub(super) fn not_plain(sources: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for Text { path, text } in sources.iter().filter(|source| source.is_of_product()) {
        let text = product_part(text);
        for name in MACROS {
            for (at, _) in text.match_indices(name) {
                let Some(message) = message(&text[at + name.len()..]) else { continue };
                if !BEGINS.iter().any(|begin| message.starts_with(begin)) {
                    let line = text[..at].lines().count();
                    found.push(format!("{path}:{}: {message}", line.max(1)));
                }
            }
        }
    }
    found.sort();
    found
}

/// The first text of the macro's arguments that is no field's value.
fn message(arguments: &str) -> Option<&str> {
    let mut rest = arguments;
    loop {
        let start = rest.find('"')?;
        let before = rest[..start].trim_end();
        let inside = &rest[start + 1..];
        let end = end_of_text(inside)?;
        let is_of_field = before.ends_with('=') || before.ends_with("format!(");
        if !is_of_field {
            return Some(&inside[..end]);
        }
        rest = &inside[end + 1..];
    }
}

/// Where a text ends: at the first quotation mark without a backslash before it.
fn end_of_text(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_begins_with_no_verb_is_found_behind_its_fields() {
        let text = "fn f() {\n    tracing::warn!(%error, kind = \"a\", pod = %format!(\"{a}\"), \"the node stays\");\n    \
                    tracing::error!(\"failed to write \\\"a\\\"\");\n}\n";
        let source = Text { path: "a.rs".to_owned(), text: text.to_owned() };
        assert_eq!(not_plain(&[source]), ["a.rs:2: the node stays"]);
    }
}
