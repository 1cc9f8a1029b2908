//! An error with its causes in one line, as logs, events and the command line show it.

use std::error::Error;

/// The texts of an error and of its causes, from the outside in. Some libraries (hyper, kube) let an error repeat its cause;
/// each is told once.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        add(&mut text, &cause.to_string());
        source = cause.source();
    }
    text
}

/// kube's errors repeat their cause twice: as it is, and behind it in brackets as a programmer would see it.
fn add(text: &mut String, cause: &str) {
    let repeated = format!(": {cause}");
    match text.find(&repeated).map(|start| start + repeated.len()) {
        Some(end) if text[end..].starts_with(" (") => text.truncate(end),
        Some(_) => {}
        None if text.as_str() == cause => {}
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
                "ApiError: gone: NotFound",
            ),
            (&["cannot read data", "a"], "cannot read data: a"),
        ] {
            assert_eq!(chain(texts), told);
        }
    }
}
