//! An event on its way to the writer, which decodes its bodies: requests do not wait for that.

use bytes::Bytes;
use http::Method;
use rekindle_api::decode;
use rekindle_audit::{
    AuditEvent, AuditLevel, ManagedFieldsMode, RecordedMetadata, recorded_json, recorded_value,
};
use serde_json::Value;

/// What an event holds about, beside what clients make long.
const EVENT_BYTES: usize = 2048;

/// An event, and the bodies that are still to become part of it.
#[derive(Debug)]
pub(super) struct QueuedEvent {
    /// The event, without bodies.
    pub(super) event: AuditEvent,
    /// The body of the request, if it counts.
    pub(super) request_body: Option<RequestBody>,
    /// The body of the answer, if it is recorded: JSON.
    pub(super) response_body: Option<Bytes>,
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

impl QueuedEvent {
    /// What it keeps in memory, about.
    pub(super) fn held_bytes(&self) -> usize {
        let request = self.request_body.as_ref().map_or(0, |body| body.bytes.len());
        let response = self.response_body.as_ref().map_or(0, Bytes::len);
        let annotations = self.event.annotations.values().map(String::len).sum::<usize>();
        EVENT_BYTES + self.event.request_uri.len() + request + response + annotations
    }

    /// The line of the log.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub(super) fn into_line(self) -> serde_json::Result<Vec<u8>> {
        let Self { mut event, request_body, response_body, managed_fields } = self;
        let is_patch = request_body.as_ref().is_some_and(|body| body.method == Method::PATCH);
        let is_shown = event.level >= AuditLevel::Request;
        // a patch does not say what it is for, as upstream sees it
        let is_read = is_shown || !is_patch;
        let object = request_body.filter(|_| is_read).and_then(|body| body.decode());
        if let Some(object) = object {
            if !is_patch {
                event.name_object(RecordedMetadata::of_object(&object));
            }
            if is_shown {
                event.request_object = recorded_value(object, managed_fields);
            }
        }
        event.response_object = response_body.and_then(|body| recorded_json(&body, managed_fields));
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
