//! Answers as HTTP: the status, the headers that every answer has, and warnings.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, WARNING};
use http::{Response, StatusCode};
use rekindle_api::outcome::{ApiAnswer, ListAnswer};

use super::body::FrontBody;

/// Bytes of all warnings of an answer. When they have more, each is cut, and those beyond are left
/// out, as upstream does.
const WARNINGS_BYTES_MAX: usize = 4096;
/// Characters of each warning when all together have too many bytes.
const CUT_WARNING_CHARS: usize = 256;

pub(super) fn respond(answer: ApiAnswer) -> Response<FrontBody> {
    let mut response = Response::new(FrontBody::full(answer.body));
    *response.status_mut() = answer.code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    for value in warning_headers(&answer.warnings) {
        headers.append(WARNING, value);
    }
    response
}

/// A list, of which each piece is made when the client has taken the one before.
pub(super) fn respond_with_list(list: ListAnswer) -> Response<FrontBody> {
    let (head, pieces) = list.into_parts();
    respond(head).map(|_| FrontBody::list(pieces))
}

/// The headers of these warnings, within [`WARNINGS_BYTES_MAX`].
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let headers: Vec<HeaderValue> = warnings.iter().map(|text| warning_header(text)).collect();
    if headers.iter().map(HeaderValue::len).sum::<usize>() <= WARNINGS_BYTES_MAX {
        return headers;
    }
    let mut room = WARNINGS_BYTES_MAX;
    let cut = warnings.iter().map(|text| {
        let cut: String = text.chars().take(CUT_WARNING_CHARS).collect();
        warning_header(&cut)
    });
    cut.take_while(|header| {
        let fits = header.len() <= room;
        room = room.saturating_sub(header.len());
        fits
    })
    .collect()
}

/// For a request whose body was not read to its end: the connection cannot go on.
pub(super) fn respond_and_close(answer: ApiAnswer) -> Response<FrontBody> {
    let mut response = respond(answer);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn stream(body: FrontBody, content_type: &'static str) -> Response<FrontBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(super) fn without_body(response: Response<FrontBody>) -> Response<FrontBody> {
    response.map(|_| FrontBody::full(Bytes::new()))
}

/// `299 - "text"`, as kubectl and client-go print it.
fn warning_header(text: &str) -> HeaderValue {
    let mut quoted = String::from("299 - \"");
    for char in text.chars() {
        match char {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(char);
            }
            control if control.is_control() => quoted.push(' '),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes())
        .unwrap_or_else(|_| HeaderValue::from_static("299 - \"the warning cannot be shown\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_warning_is_cut_and_not_left_out() {
        let short = "short".to_owned();
        let told = warning_headers(&[short.clone(), "x".repeat(2 * WARNINGS_BYTES_MAX)]);
        assert_eq!(told.len(), 2);
        assert_eq!(told[1].len(), "299 - \"\"".len() + CUT_WARNING_CHARS);
        let many = warning_headers(&vec!["y".repeat(300); 40]);
        assert!(many.iter().map(HeaderValue::len).sum::<usize>() <= WARNINGS_BYTES_MAX);
        assert_eq!(warning_headers(&[short]), ["299 - \"short\""]);
    }

    #[test]
    fn warnings_are_quoted_and_cannot_split_headers() {
        let value = warning_header("unknown field \"spec.a\"\r\nX: y\\");
        assert_eq!(value.to_str().unwrap(), r#"299 - "unknown field \"spec.a\"  X: y\\""#);
    }
}
