//! An event on its way to the writer, which decodes its bodies: requests do not wait for that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use http::Method;
use rekindle_api::decode;
use rekindle_api::outcome::{json_of_protobuf, json_of_yaml};
use rekindle_api::status::Status;
use rekindle_audit::{
    AuditEvent, AuditLevel, ManagedFieldsMode, RecordedMetadata, recorded_json, recorded_value,
};
use serde_json::Value;

/// What an event holds about, beside what clients make long.
const EVENT_BYTES: usize = 2048;

/// An event, and the bodies that are still to become part of it.
#[derive(Clone, Debug)]
pub(super) struct QueuedEvent {
    /// The event, without bodies.
    pub(super) event: AuditEvent,
    /// The body of the request, if it counts.
    pub(super) request_body: Option<RequestBody>,
    /// The body of the answer, if it is recorded.
    pub(super) response_body: Option<RecordedAnswer>,
    /// Whether bodies show their managed fields.
    pub(super) managed_fields: ManagedFieldsMode,
}

/// The body of a request, as it came.
#[derive(Clone, Debug)]
pub(super) struct RequestBody {
    pub(super) method: Method,
    pub(super) content_type: String,
    pub(super) bytes: Bytes,
}

/// Bytes of an answer in protobuf within which its kind stands.
const HEAD_BYTES: usize = 24;

/// The body of an answer.
#[derive(Clone, Debug)]
pub(super) enum RecordedAnswer {
    Json(Bytes),
    Protobuf(Bytes),
    Yaml(Bytes),
}

impl RecordedAnswer {
    /// An answer of this media type, and what it says of how the request ended if it is a Status;
    /// none when it is no object.
    pub(super) fn read(content_type: &[u8], bytes: &Bytes) -> Option<(Self, Option<Status>)> {
        if content_type.starts_with(b"application/json") {
            Some((Self::Json(bytes.clone()), Status::of_answer(bytes)))
        } else if content_type.starts_with(b"application/vnd.kubernetes.protobuf") {
            // its JSON saves the writer from reading it again
            let status = status_of_protobuf(bytes);
            let json = status.as_ref().map(|status| Self::Json(status.to_json().into()));
            Some((json.unwrap_or_else(|| Self::Protobuf(bytes.clone())), status))
        } else if content_type.starts_with(b"application/yaml") {
            let status = status_of_yaml(bytes);
            let json = status.as_ref().map(|status| Self::Json(status.to_json().into()));
            Some((json.unwrap_or_else(|| Self::Yaml(bytes.clone())), status))
        } else {
            None
        }
    }

    /// As JSON; none when it cannot be read.
    pub(super) fn into_json(self) -> Option<Bytes> {
        match self {
            Self::Json(json) => Some(json),
            Self::Protobuf(bytes) => {
                Some(serde_json::to_vec(&json_of_protobuf(&bytes)?).ok()?.into())
            }
            Self::Yaml(text) => Some(serde_json::to_vec(&json_of_yaml(&text)?).ok()?.into()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Json(bytes) | Self::Protobuf(bytes) | Self::Yaml(bytes) => bytes.len(),
        }
    }
}

/// The Status that an answer in protobuf is.
fn status_of_protobuf(bytes: &[u8]) -> Option<Status> {
    // the kind stands at the beginning: no other answer is read to its end for this
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let may_be_status = head.windows(6).any(|window| window == b"Status");
    let status = may_be_status.then(|| json_of_protobuf(bytes))??;
    serde_json::from_value(status).ok()
}

/// The Status that an answer in YAML is.
fn status_of_yaml(text: &[u8]) -> Option<Status> {
    // one of ours begins with its kind
    let status = text.starts_with(b"kind: Status\n").then(|| json_of_yaml(text))??;
    serde_json::from_value(status).ok()
}

impl QueuedEvent {
    /// What it keeps in memory, about.
    pub(super) fn held_bytes(&self) -> usize {
        let request = self.request_body.as_ref().map_or(0, |body| body.bytes.len());
        let response = self.response_body.as_ref().map_or(0, RecordedAnswer::len);
        let annotations = self.event.annotations.values().map(String::len).sum::<usize>();
        EVENT_BYTES + self.event.request_uri.len() + request + response + annotations
    }

    /// The line of the log. What one event does to the decoder must not end the log.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub(super) fn into_line_safely(self) -> serde_json::Result<Vec<u8>> {
        catch_unwind(AssertUnwindSafe(|| self.into_line())).unwrap_or_else(|_| {
            tracing::error!("failed to encode an audit event: the encoder panicked");
            Err(serde::ser::Error::custom("the encoder panicked"))
        })
    }

    /// The same, which may panic.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub(super) fn into_line(self) -> serde_json::Result<Vec<u8>> {
        let Self { mut event, request_body, response_body, managed_fields } = self;
        let is_patch = request_body.as_ref().is_some_and(|body| body.method == Method::PATCH);
        let is_shown = event.level >= AuditLevel::Request;
        if let Some(object) = request_body.and_then(|body| body.decode()) {
            // a patch does not say what it is for, as upstream sees it
            if !is_patch {
                event.name_object(RecordedMetadata::of_object(&object));
            }
            if is_shown {
                event.request_object = recorded_value(object, managed_fields);
            }
        }
        let response = response_body.and_then(RecordedAnswer::into_json);
        event.response_object = response.and_then(|json| recorded_json(&json, managed_fields));
        event.to_line()
    }
}

impl RequestBody {
    /// Its content; none if it has none that can be read, so that the request was refused.
    fn decode(&self) -> Option<Value> {
        if self.bytes.is_empty() {
            return None;
        }
        let is_apply = self.content_type.starts_with("application/apply-patch");
        let body = if self.method != Method::PATCH {
            let format = decode::body_format(&self.content_type).ok()?;
            decode::read(format, &self.bytes)
        } else if is_apply {
            decode::read_apply(&self.bytes)
        } else {
            decode::read_patch(&self.bytes)
        };
        Some(body.ok()?.value)
    }
}
