//! An error with its causes in one line, as logs, events and the command line show it.

use std::error::Error;

/// What kube calls an answer of an API server.
const ANSWERED: &str = "ApiError: ";

/// The texts of an error and of its causes, from the outside in. Some libraries (hyper, kube) let
/// an error repeat its cause; each is told once. What an API server answered is told in its words
/// alone, as kubectl does.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let outer = error.to_string();
    let mut is_answer = outer.starts_with(ANSWERED);
    let mut text = without_type(&outer).to_owned();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        is_answer |= told.starts_with(ANSWERED);
        add(&mut text, without_type(&told));
        source = cause.source();
    }
    match is_answer {
        true => without_reason(&text).to_owned(),
        false => text,
    }
}

/// Without the name that kube's type for it has.
fn without_type(text: &str) -> &str {
    text.strip_prefix(ANSWERED).unwrap_or(text)
}

/// kube puts the answer's reason, which is for programs, behind its words.
fn without_reason(text: &str) -> &str {
    match text.rsplit_once(": ") {
        Some((words, reason))
            if !words.is_empty() && reason.chars().all(|c| c.is_ascii_alphabetic()) =>
        {
            words
        }
        _ => text,
    }
}

/// kube's errors repeat their cause twice: as it is, and behind it in brackets as a programmer
/// would see it.
fn add(text: &mut String, cause: &str) {
    let is_over = |rest: &str| rest.is_empty() || rest.starts_with(" (");
    let whole = text.strip_prefix(cause).is_some_and(is_over).then_some(cause.len());
    let repeated = format!(": {cause}");
    let behind = || text.find(&repeated).map(|start| start + repeated.len());
    match whole.or_else(behind) {
        Some(end) if is_over(&text[end..]) => text.truncate(end),
        Some(_) => {}
        None => text.push_str(&repeated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        source: Option<Box<Told>>,
    }

    fn chain(texts: &[&'static str]) -> String {
        let nested =
            texts.iter().rev().fold(None, |source, text| Some(Box::new(Told { text, source })));
        causes(&*nested.expect("there is a text"))
    }

    #[test]
    fn each_cause_is_told_once() {
        for (texts, told) in [
            (&["open the store"][..], "open the store"),
            (&["open the store", "read a", "no such file"], "open the store: read a: no such file"),
            (&["client error: refused", "refused"], "client error: refused"),
            (&["refused", "refused"], "refused"),
            (&["ApiError: gone: NotFound (Status { code: 404 })", "gone: NotFound"], "gone"),
            (
                &["read a", "ApiError: gone: NotFound (Status { code: 404 })", "gone: NotFound"],
                "read a: gone",
            ),
            (&["ApiError: : Forbidden (Status { code: 403 })", ": Forbidden"], ": Forbidden"),
            (&["ApiError: a: b c:  (Status { code: 500 })", "a: b c: "], "a: b c"),
            (&["read a: Conflict"], "read a: Conflict"),
            (&["cannot read data", "a"], "cannot read data: a"),
        ] {
            assert_eq!(chain(texts), told);
        }
    }
}
