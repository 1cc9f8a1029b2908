//! Requests of the server's own parts to itself: on the way of all requests, with its checks,
//! quotas, webhooks and audit.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};

use super::caller::RequestSource;
use super::front::Front;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnRequestError {
    #[error("{method} {path}: {status}: {answer}")]
    Refused { method: Method, path: String, status: StatusCode, answer: String },
    #[error("write the request")]
    Request(#[from] http::Error),
}

/// Sends a request with a body of JSON, or a merge patch, as this user. That its object is gone is
/// no failure.
pub(crate) async fn send(
    front: &Front,
    user: &str,
    method: Method,
    path: String,
    body: Vec<u8>,
) -> Result<(), OwnRequestError> {
    let content = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method.clone())
        .uri(&path)
        .header(http::header::CONTENT_TYPE, content)
        .body(Full::new(Bytes::from(body)))?;
    let caller = RequestSource::InProcess(ClientIdentity::User(UserInfo::internal(user)));
    let response = front.serve(&caller, request).await;
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_FOUND {
        return Ok(());
    }
    let answer = response.into_body().collect().await.map(|body| body.to_bytes());
    let answer = answer.map(|body| String::from_utf8_lossy(&body).into_owned());
    let answer = answer.unwrap_or_else(|_| "the answer was cut off".to_owned());
    Err(OwnRequestError::Refused { method, path, status, answer })
}

/// The body of a deletion of an object as it was seen.
pub(crate) fn deletion_as_seen(uid: Option<&str>, revision: Option<&str>) -> Vec<u8> {
    let options = serde_json::json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid, "resourceVersion": revision},
    });
    options.to_string().into()
}
