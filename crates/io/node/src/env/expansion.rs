//! `$(NAME)` in values, commands and arguments.
//!
//! Source: the API reference of `EnvVar.value` and `Container.command`: a reference to a name that
//! is not defined stays as it is, and `$$` is an escaped `$`, so that `$$(NAME)` gives the text
//! `$(NAME)`.

/// Replaces each `$(NAME)` by what `lookup` knows.
pub(crate) fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match after.as_bytes().first() {
            Some(b'$') => {
                out.push('$');
                &after[1..]
            }
            Some(b'(') => expand_reference(after, &lookup, &mut out),
            Some(_) | None => {
                out.push('$');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// `after` starts with `(`: writes the value, or the reference as it was, and answers what follows
/// it.
fn expand_reference<'t, 'a>(
    after: &'t str,
    lookup: &impl Fn(&str) -> Option<&'a str>,
    out: &mut String,
) -> &'t str {
    let Some(end) = after.find(')') else {
        out.push_str("$(");
        return &after[1..];
    };
    let name = &after[1..end];
    match lookup(name) {
        Some(value) => out.push_str(value),
        None => {
            out.push_str("$(");
            out.push_str(name);
            out.push(')');
        }
    }
    &after[end + 1..]
}

/// A command or its arguments with every reference to `env` replaced; of two entries of one name
/// the last counts.
pub(crate) fn expand_command(words: &[String], env: &[(String, String)]) -> Vec<String> {
    let lookup = |name: &str| {
        env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    words.iter().map(|word| expand(word, lookup)).collect()
}
