//! The writes of `up -f`. As those of kubectl they have fields refused that the API does not know
//! (KEP-2885), and what the API warns of is shown.

use std::collections::BTreeSet;

use anyhow::Context;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::client::{Body, Client};
use kube::core::{Request, Status};
use serde_json::Value;

use crate::output;

/// Who is said to have written the fields.
const MANAGER: &str = "rekindle-up";

/// What was warned of already: kubectl says each thing once.
#[derive(Debug, Default)]
pub struct PrintedWarnings(BTreeSet<String>);

impl PrintedWarnings {
    /// Shows what is new of the warnings of an answer.
    fn show<'a>(&mut self, headers: impl Iterator<Item = &'a [u8]>) {
        for text in headers.filter_map(warning_text) {
            if self.0.insert(text.clone()) {
                output::note(format!("Warning: {text}"));
            }
        }
    }
}

/// Creates an object.
pub async fn create(
    api: &Api<DynamicObject>,
    object: &Value,
    warned: &mut PrintedWarnings,
) -> anyhow::Result<DynamicObject> {
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() };
    let body = serde_json::to_vec(object)?;
    let mut request = Request::new(api.resource_url()).create(&params, body)?;
    // these parameters know nothing of it
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri())
        .parse()
        .context("the path of a new object")?;
    send(api.clone().into_client(), request.map(Body::from), warned).await
}

/// Changes an object that is there.
pub async fn patch(
    api: &Api<DynamicObject>,
    name: &str,
    patch: &Patch<&Value>,
    warned: &mut PrintedWarnings,
) -> anyhow::Result<DynamicObject> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..Default::default()
    };
    let request = Request::new(api.resource_url()).patch(name, &params, patch)?;
    send(api.clone().into_client(), request.map(Body::from), warned).await
}

/// As the client sends it by itself, but that it does not hand out the headers of the answer.
async fn send(
    client: Client,
    request: http::Request<Body>,
    warned: &mut PrintedWarnings,
) -> anyhow::Result<DynamicObject> {
    let (head, body) = client.send(request).await?.into_parts();
    let headers = head.headers.get_all(http::header::WARNING).into_iter();
    warned.show(headers.map(http::HeaderValue::as_bytes));
    let body = body.collect_bytes().await?;
    if head.status.is_success() {
        return serde_json::from_slice(&body).context("the answer is no object");
    }
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), "the answer is no Status").with_code(head.status.as_u16())
    });
    Err(kube::Error::Api(status.boxed()).into())
}

/// The text of a Warning header, `299 - "text"` (RFC 9111, 5.5); none when it is none of these.
fn warning_text(header: &[u8]) -> Option<String> {
    let header = String::from_utf8_lossy(header);
    let quoted = header.strip_prefix("299 ")?.split_once(' ')?.1.strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_warning_is_read_with_what_is_escaped_in_it() {
        let cases = [
            (r#"299 - "unknown field \"spec.a\"""#, Some(r#"unknown field "spec.a""#)),
            (r#"299 agent "a \\ b" "a date""#, Some(r"a \ b")),
            (r#"199 - "miscellaneous""#, None),
            (r#"299 - "without an end"#, None),
            ("299", None),
        ];
        for (header, expected) in cases {
            assert_eq!(warning_text(header.as_bytes()).as_deref(), expected, "{header}");
        }
    }

    #[test]
    fn what_was_warned_of_is_shown_once() {
        let mut warned = PrintedWarnings::default();
        let header = br#"299 - "once""#.as_slice();
        warned.show([header, header].into_iter());
        warned.show([header].into_iter());
        assert_eq!(warned.0, BTreeSet::from(["once".to_owned()]));
    }
}
