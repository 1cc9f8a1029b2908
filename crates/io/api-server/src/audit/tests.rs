use std::collections::BTreeMap;

use bytes::Bytes;
use futures::FutureExt;
use http::Method;
use k8s_openapi::api::authentication::v1::UserInfo;
use rekindle_audit::{AuditEvent, AuditLevel, AuditObjectReference, AuditStage, ManagedFieldsMode};
use rekindle_types::Tick;
use serde_json::{Value, json};

use super::queue::WriterOrder;
use super::queued_event::{QueuedEvent, RecordedAnswer, RequestBody};
use super::*;

fn event(level: AuditLevel, method: Method, content_type: &str, body: &[u8]) -> QueuedEvent {
    QueuedEvent {
        event: AuditEvent {
            level,
            audit_id: "id".to_owned(),
            stage: AuditStage::ResponseComplete,
            request_uri: "/".to_owned(),
            verb: "create".to_owned(),
            user: UserInfo::default(),
            impersonated_user: None,
            source_ips: Vec::new(),
            user_agent: String::new(),
            object_ref: Some(AuditObjectReference::default()),
            response_status: None,
            request_object: None,
            response_object: None,
            received_at: Tick::ZERO,
            stage_at: Tick::ZERO,
            annotations: BTreeMap::new(),
        },
        request_body: Some(RequestBody {
            method,
            content_type: content_type.to_owned(),
            bytes: Bytes::copy_from_slice(body),
        }),
        response_body: None,
        managed_fields: ManagedFieldsMode::Omit,
    }
}

#[test]
fn bodies_are_recorded_as_json_whatever_they_were_sent_as() {
    let object = json!({"metadata": {"name": "a"}});
    for (method, content_type, body, object_shown, name) in [
        (
            "POST",
            "application/json",
            r#"{"metadata":{"name":"a","managedFields":[]}}"#,
            object.clone(),
            "a",
        ),
        ("PUT", "application/yaml", "metadata:\n  name: a\n", object.clone(), "a"),
        ("PATCH", "application/apply-patch+yaml", "metadata: {name: a}", object.clone(), ""),
        ("PATCH", "application/json-patch+json", r#"[{"op":"test"}]"#, json!([{"op": "test"}]), ""),
        ("POST", "application/json", "{", Value::Null, ""),
        ("POST", "text/plain", "{}", Value::Null, ""),
        ("DELETE", "", "", Value::Null, ""),
    ] {
        for level in [AuditLevel::Metadata, AuditLevel::Request] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let event = event(level, method.clone(), content_type, body.as_bytes());
            let line: Value = serde_json::from_slice(&event.into_line().unwrap()).unwrap();
            let shown = if level == AuditLevel::Request { &object_shown } else { &Value::Null };
            assert_eq!(&line["requestObject"], shown, "{method} {body}");
            let found = line["objectRef"]["name"].as_str().unwrap_or_default();
            assert_eq!(found, name, "{method} {body}");
        }
    }
}

fn lost(figures: &AuditFigures) -> bool {
    let mut text = Text::default();
    figures.write(&mut text);
    text.into_string().contains("apiserver_audit_error_total{plugin=\"buffered\"} 1\n")
}

#[tokio::test]
async fn a_full_queue_loses_what_may_not_wait_and_holds_what_may() {
    let small = || event(AuditLevel::Metadata, Method::POST, "", b"");
    let large = || event(AuditLevel::Metadata, Method::POST, "", &[0; 4096]);
    // by number, and by what the events hold
    for (events_max, kibibytes_max, first) in [(1, 64, small()), (8, 7, large())] {
        let figures = Arc::new(AuditFigures::default());
        let (queue, mut taken) =
            AuditQueue::with_limits(Arc::clone(&figures), events_max, kibibytes_max);
        queue.offer(first);
        assert!(!lost(&figures));
        queue.offer(small());
        assert!(lost(&figures), "it finds no room");
        let mut waiting = Box::pin(queue.deliver(small()));
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for room");
        drop(taken.recv().await.unwrap());
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits until it is written");
        let Some(WriterOrder::Write { waiter, .. }) = taken.recv().await else {
            panic!("no event")
        };
        drop(waiter);
        waiting.await;
    }
}

#[test]
fn answers_in_protobuf_are_recorded_like_those_in_json() {
    // a Status as Go writes it: reason NotFound, code 404
    let status =
        b"k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x18\n\x00\x12\x07Failure\"\x08NotFound0\x94\x03";
    let body =
        RecordedAnswer::new(b"application/vnd.kubernetes.protobuf", &Bytes::from_static(status));
    let body = body.unwrap();
    let said = body.status().unwrap();
    assert_eq!((said.reason.as_str(), said.code), ("NotFound", 404));
    let json: Value = serde_json::from_slice(&body.into_json().unwrap()).unwrap();
    assert_eq!(json["status"], "Failure");
    assert!(RecordedAnswer::new(b"text/plain", &Bytes::new()).is_none());
}
