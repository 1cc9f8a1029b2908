//! Requests as text, so that people and fuzzers can write them.
//!
//! ```text
//! PATCH /api/v1/namespaces/default/configmaps/a?fieldManager=me
//! application/merge-patch+json
//! {"data":{"k":"v"}}
//! ---
//! GET …
//! ```

use bytes::Bytes;
use http::Method;
use rekindle_api::ApiRequest;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_types::Tick;

/// More show nothing new and take time.
const REQUESTS_MAX: usize = 8;
const SEPARATOR: &[u8] = b"\n---\n";
/// 2026-11-18T11:06:40Z.
pub(crate) const NOW: Tick = Tick::from_secs(1_795_000_000);

/// The requests of an input, in order.
pub(crate) struct RequestScript<'i> {
    rest: Option<&'i [u8]>,
    left: usize,
}

impl<'i> RequestScript<'i> {
    pub(crate) fn new(input: &'i [u8]) -> Self {
        Self { rest: Some(input), left: REQUESTS_MAX }
    }
}

impl Iterator for RequestScript<'_> {
    type Item = ApiRequest;

    fn next(&mut self) -> Option<ApiRequest> {
        self.left = self.left.checked_sub(1)?;
        let rest = self.rest.take()?;
        let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let text = match end {
            Some(end) => {
                self.rest = Some(&rest[end + SEPARATOR.len()..]);
                &rest[..end]
            }
            None => rest,
        };
        Some(read(text))
    }
}

/// What is not there is empty; a method that is none is GET.
fn read(text: &[u8]) -> ApiRequest {
    let mut lines = text.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (first, content_type, body) = (line(), line(), line());
    let first = String::from_utf8_lossy(first);
    let (method, target) = first.split_once(' ').unwrap_or(("GET", &first));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    request(
        method.parse().unwrap_or(Method::GET),
        (path, query),
        &String::from_utf8_lossy(content_type),
        Bytes::copy_from_slice(body),
    )
}

/// A request of a user who may do everything.
pub(crate) fn request(
    method: Method,
    (path, query): (&str, &str),
    content_type: &str,
    body: Bytes,
) -> ApiRequest {
    ApiRequest {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        accept: String::new(),
        content_type: content_type.to_owned(),
        user_agent: String::new(),
        body,
        identity: ClientIdentity::User(UserInfo::internal("fuzzer")),
        now: NOW,
        notes: None,
    }
}
