use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response};
use http_body_util::Full;
use k8s_openapi::api::authentication::v1::UserInfo;
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::decode;
use rekindle_audit::{AuditEvent, AuditLevel, AuditObjectReference, AuditStage, ManagedFieldsMode};
use rekindle_kinds::identity::{self, ClientIdentity};
use rekindle_types::Tick;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use super::queue::WriterOrder;
use super::queued_event::{QueuedEvent, RecordedAnswer, RequestBody};
use super::*;
use crate::body::FrontBody;
use crate::caller::ConnectedClient;
use crate::connections::{ConnectionLimits, ConnectionTable};
use crate::memory_front::front_in_memory;
use crate::{Front, SystemClock};

pub(super) fn event(
    level: AuditLevel,
    method: Method,
    content_type: &str,
    body: &[u8],
) -> QueuedEvent {
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

#[tokio::test]
async fn an_event_that_finds_no_writer_is_counted() {
    let event = || event(AuditLevel::Metadata, Method::POST, "", b"");
    for permission in [QueuePermission::MayWait, QueuePermission::MayNotWait] {
        let figures = Arc::new(AuditFigures::default());
        let (queue, taken) = AuditQueue::new(Arc::clone(&figures));
        drop(taken);
        match permission {
            QueuePermission::MayWait => queue.deliver(event()).await,
            QueuePermission::MayNotWait => queue.offer(event()),
        }
        assert!(lost(&figures), "{permission:?}");
    }
}

#[test]
fn answers_in_protobuf_are_recorded_like_those_in_json() {
    // a Status as Go writes it: reason NotFound, code 404
    let status =
        b"k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x18\n\x00\x12\x07Failure\"\x08NotFound0\x94\x03";
    let protobuf = b"application/vnd.kubernetes.protobuf";
    let read = RecordedAnswer::read(protobuf, &Bytes::from_static(status));
    let (body, said) = read.unwrap();
    let said = said.unwrap();
    assert_eq!((said.reason.as_str(), said.code), ("NotFound", 404));
    assert!(matches!(&body, RecordedAnswer::Json(_)), "it is read once: {body:?}");
    let recorded = body.into_json().unwrap();
    let json: Value = serde_json::from_slice(&recorded).unwrap();
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "reason": "NotFound", "code": 404,
    });
    assert_eq!(json, expected);
    let read = RecordedAnswer::read(b"application/json", &recorded);
    assert_eq!(read.unwrap().1.unwrap(), said, "it reads like one that was sent as JSON");

    let namespace = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x05\n\x03\n\x01a";
    let read = RecordedAnswer::read(protobuf, &Bytes::from_static(namespace));
    let (body, said) = read.unwrap();
    assert!(said.is_none());
    let json: Value = serde_json::from_slice(&body.into_json().unwrap()).unwrap();
    assert_eq!(json["metadata"]["name"], "a");
    assert!(RecordedAnswer::read(b"text/plain", &Bytes::new()).is_none());
}

#[test]
fn answers_in_yaml_are_recorded_like_those_in_json() {
    let read = |text| RecordedAnswer::read(b"application/yaml", &Bytes::from_static(text)).unwrap();
    let (body, said) = read(
        b"kind: Status\napiVersion: v1\nmetadata: {}\nstatus: Failure\nreason: NotFound\ncode: 404\n",
    );
    assert_eq!(said.map(|status| status.code), Some(404));
    assert!(matches!(&body, RecordedAnswer::Json(_)), "it is read once: {body:?}");

    let (body, said) = read(b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n");
    assert!(said.is_none());
    let json: Value = serde_json::from_slice(&body.into_json().unwrap()).unwrap();
    assert_eq!(json["metadata"]["name"], "a");
}

/// A front with a connected client, and the end of its audit log's queue.
struct AuditedClient {
    front: Front,
    caller: RequestSource,
    orders: Receiver<WriterOrder>,
}

impl AuditedClient {
    fn new(level: &str) -> Self {
        let clock = SystemClock::start();
        let policy = AuditPolicy::from_value(json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "rules": [{"level": level, "omitStages": ["RequestReceived"]}],
        }));
        let figures = Arc::new(AuditFigures::default());
        let (queue, orders) = AuditQueue::new(Arc::clone(&figures));
        let outlets =
            AuditOutlets { log: Some(queue), webhook: None, figures: Arc::clone(&figures) };
        let log = Arc::new(AuditLog {
            policy: policy.unwrap(),
            mode: AuditMode::Blocking,
            clock: clock.shared(),
            outlets,
            figures,
            entropy: Mutex::default(),
        });
        let front = front_in_memory(&clock, AuthorizationMode::AlwaysAllow);
        let table = ConnectionTable::new(ConnectionLimits::default());
        let client = ConnectedClient {
            identity: ClientIdentity::User(identity::UserInfo::new("ann", [])),
            seat: table.enter(IpAddr::from([10, 0, 0, 1])),
        };
        let caller = RequestSource::Connected(Arc::new(client));
        Self { front: front.with_audit_log(log), caller, orders }
    }

    /// Sends a body of this many bytes, of which the API makes nothing.
    fn send(&self, method: Method, bytes: usize) -> JoinHandle<Response<FrontBody>> {
        let (front, caller) = (self.front.clone(), self.caller.clone());
        let path = "/api/v1/namespaces/default/configmaps/a";
        let path = if method == Method::POST { path.trim_end_matches("/a") } else { path };
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Full::new(Bytes::from(vec![b'x'; bytes]))).unwrap();
        tokio::spawn(async move { front.serve(&caller, request).await })
    }

    /// The next order to the writer, which has not carried it out until it is dropped.
    async fn order(&mut self) -> WriterOrder {
        self.orders.recv().await.unwrap()
    }
}

#[tokio::test]
async fn a_body_counts_as_its_users_until_its_event_is_written() {
    let mut audited = AuditedClient::new("Request");
    let (mut waiting, mut unwritten) = (Vec::new(), Vec::new());
    // as many of the largest as one user may have under way
    for _ in 0..4 {
        waiting.push(audited.send(Method::POST, decode::BODY_BYTES_MAX));
        unwritten.push(audited.order().await);
    }
    let refused = audited.send(Method::POST, 1);
    drop(audited.order().await);
    assert_eq!(refused.await.unwrap().status(), 429);
    drop(unwritten);
    let answers = futures::future::join_all(waiting).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().status() == 400));
    let handled = audited.send(Method::POST, 1);
    drop(audited.order().await);
    assert_eq!(handled.await.unwrap().status(), 400, "the answers hold no body");
}

#[tokio::test]
async fn a_body_is_kept_where_its_event_needs_it() {
    for (level, method, is_kept) in [
        ("Metadata", Method::PATCH, false),
        ("Metadata", Method::PUT, true),
        ("Request", Method::PATCH, true),
        ("RequestResponse", Method::PATCH, true),
    ] {
        let mut audited = AuditedClient::new(level);
        let answer = audited.send(method.clone(), 1);
        let WriterOrder::Write { event, .. } = audited.order().await else { panic!("no event") };
        assert_eq!(event.request_body.is_some(), is_kept, "{method} at {level}");
        drop(event);
        answer.await.unwrap();
    }
}
