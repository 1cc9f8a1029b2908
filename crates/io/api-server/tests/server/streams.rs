//! Requests for streams that must not reach a node: refused by who asks, by what is asked of, or by
//! how.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use rekindle_api::Api;
use rekindle_api::node_query::{AttachQuery, ExecQuery, PodOnNode};
use rekindle_api_server::{
    Front, NodeStreamError, NodeStreams, PortConnection, ProcessSession, SystemClock,
};
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::memory_front;

/// A node that must not be asked.
struct Untouchable;

impl NodeStreams for Untouchable {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        panic!("the node was asked: {query:?}")
    }

    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        panic!("the node was asked: {query:?}")
    }

    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        async move { panic!("the node was asked: {pod:?} {port}") }.boxed()
    }
}

fn front() -> Front {
    let front = memory_front::front(Api::new(memory_front::api_parts()), &SystemClock::start());
    front.with_streams(Arc::new(Untouchable))
}

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn ask(
    front: &Front,
    user: UserInfo,
    request: http::request::Builder,
    body: &Value,
) -> (StatusCode, Value) {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = request.header("content-type", "application/json").body(Full::new(body)).unwrap();
    let answer = front.in_process_service(user).oneshot(request).await.unwrap();
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn websocket(target: &str) -> http::request::Builder {
    unnamed(target).header("sec-websocket-protocol", "v5.channel.k8s.io")
}

/// A websocket of a client that names no protocol, such as websocket-client of Python.
fn unnamed(target: &str) -> http::request::Builder {
    Request::get(format!("{PODS}/{target}"))
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
}

async fn front_with_pods() -> Front {
    let front = front();
    let containers = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]);
    for (name, node) in [("web", Some("node-1")), ("waiting", None)] {
        let mut spec = json!({"containers": containers});
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        let (code, answer) =
            ask(&front, UserInfo::internal("admin"), Request::post(PODS), &pod).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    front
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_before_the_node_hears_of_it() {
    let front = front_with_pods().await;
    let upgrade = websocket;
    let plain = |target: &str| Request::post(format!("{PODS}/{target}"));
    for (request, code, problem) in [
        (upgrade("web/exec?command=true&stdout=1"), 400, "choose one of: [a b]"),
        (upgrade("web/exec?command=true&stdout=1&container=c"), 400, "container c is not valid"),
        (upgrade("web/exec?stdout=1&container=a"), 400, "at least one command"),
        (upgrade("web/exec?command=true&container=a"), 400, "at least 1 of stdin, stdout, stderr"),
        (upgrade("waiting/exec?command=true&stdout=1&container=a"), 400, "a host assigned"),
        (upgrade("absent/exec?command=true&stdout=1"), 404, "not found"),
        (upgrade("web/attach?stdout=1&container=c"), 400, "container c is not valid"),
        (upgrade("web/portforward?ports=80,x"), 400, "unable to parse \"x\" as a port"),
        (upgrade("web/portforward?ports=80"), 400, "unable to negotiate protocol"),
        // No protocol is the kubelet's oldest: all is well but the connection, which is none.
        (unnamed("web/portforward?ports=80"), 400, "cannot be upgraded"),
        (unnamed("web/exec?command=true&stdout=1&container=a"), 400, "cannot be upgraded"),
        (plain("web/exec?command=true&stdout=1&container=a"), 400, "Upgrade request required"),
        (unnamed("web/log?container=c"), 400, "container c is not valid"),
        // All is well but the connection, which is none.
        (upgrade("web/exec?command=true&stdout=1&container=a"), 400, "cannot be upgraded"),
    ] {
        let described = format!("{:?}", request.uri_ref());
        let (status, answer) =
            ask(&front, UserInfo::internal("admin"), request, &Value::Null).await;
        assert_eq!(status.as_u16(), code, "{described}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(problem), "{described}: {message}");
    }
}

#[tokio::test]
async fn nobody_without_the_right_gets_as_far_as_an_upgrade() {
    let front = front_with_pods().await;
    let user = UserInfo::new("bob", []);
    let request = websocket("web/exec?command=true&stdout=1&container=a");
    let (code, answer) = ask(&front, user, request, &Value::Null).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("pods/exec"), "{answer}");
}
