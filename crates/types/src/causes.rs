//! An error with its causes in one line, as logs, events and the command line show it.

use std::error::Error;

/// The texts of an error and of its causes, from the outside in. Some libraries (hyper, kube) let an error repeat its cause;
/// each is told once.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = without_type(error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        add(&mut text, &without_type(cause.to_string()));
        source = cause.source();
    }
    text
}

/// What an API server answered, without the name that kube's type for it has.
fn without_type(text: String) -> String {
    match text.strip_prefix("ApiError: ") {
        Some(answer) => answer.to_owned(),
        None => text,
    }
}

/// kube's errors repeat their cause twice: as it is, and behind it in brackets as a programmer would see it.
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
            (
                &["ApiError: gone: NotFound (Status { code: 404 })", "gone: NotFound"],
                "gone: NotFound",
            ),
            (
                &["read a", "ApiError: gone: NotFound (Status { code: 404 })", "gone: NotFound"],
                "read a: gone: NotFound",
            ),
            (&["cannot read data", "a"], "cannot read data: a"),
        ] {
            assert_eq!(chain(texts), told);
        }
    }
}
