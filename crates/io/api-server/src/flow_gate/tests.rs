//! The gate over objects in memory, and the front with it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use futures::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use rekindle_api::auth::AuthorizationMode;
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::SystemClock;
use crate::caller::{ConnectedClient, RequestSource};
use crate::connections::{ConnectionLimits, ConnectionTable};
use crate::front::Front;
use crate::memory_front::front_in_memory;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct GateWorld {
    front: Front,
    gate: FlowGate,
}

impl GateWorld {
    /// The requests of ann are of the level narrow.
    async fn new(narrow: Value) -> Self {
        let clock = SystemClock::start();
        let front = front_in_memory(&clock, AuthorizationMode::AlwaysAllow);
        let gate = FlowGate::with_seats(20, clock.shared());
        let world = Self { front, gate };
        let level = json!({"metadata": {"name": "narrow"}, "spec": narrow});
        world.send("POST", LEVELS, level).await;
        let rule = json!({
            "subjects": [{"kind": "User", "user": {"name": "ann"}}],
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
            }],
        });
        let schema = json!({"metadata": {"name": "of-ann"}, "spec": {
            "priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 50,
            "rules": [rule],
        }});
        world.send("POST", SCHEMAS, schema).await;
        world
    }

    /// As a part of the process.
    async fn send(&self, method: &str, target: &str, body: Value) -> Value {
        let service = self.front.in_process_service(UserInfo::internal("admin"));
        let kind =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("content-type", kind)
            .body(Full::new(bytes::Bytes::from(body.to_string())))
            .unwrap();
        let answer = service.oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{method} {target}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    fn class(&self, user: &str) -> Option<ClassifiedRequest> {
        let who = ClientIdentity::User(UserInfo::new(user, []));
        let line = RequestLine { method: &http::Method::GET, path: MAPS, query: "" };
        self.gate.classify(self.front.api(), &who, &line)
    }

    /// A seat that is there at once.
    fn sit(&self, user: &str) -> HeldSeat {
        let class = self.class(user);
        self.gate.admit(class.as_ref()).now_or_never().unwrap().unwrap().unwrap()
    }

    fn figures(&self) -> String {
        let mut text = Text::default();
        self.gate.write(&mut text);
        text.into_string()
    }

    fn figure(&self, name: &str) -> String {
        let all = self.figures();
        let line =
            all.lines().find(|line| line.starts_with(&format!("apiserver_flowcontrol_{name}")));
        line.unwrap_or("nothing").rsplit(' ').next().unwrap().to_owned()
    }

    /// As a client at the other end of a connection.
    async fn request(&self, user: &str) -> Response<FrontBody> {
        let seat = ConnectionTable::new(ConnectionLimits::default())
            .enter(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let identity = ClientIdentity::User(UserInfo::new(user, []));
        let caller = RequestSource::Connected(Arc::new(ConnectedClient { identity, seat }));
        let request = Request::get(MAPS).body(Full::new(bytes::Bytes::new())).unwrap();
        self.front.serve(&caller, request).await
    }
}

fn queueing(shares: u32) -> Value {
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 2});
    json!({"type": "Limited", "limited": {
        "nominalConcurrencyShares": shares, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }})
}

/// Catch-all has five shares: narrow has 15 of the 20 seats.
#[tokio::test]
async fn a_request_waits_for_a_seat_of_its_level_and_disturbs_no_other() {
    let world = GateWorld::new(queueing(15)).await;
    let mut seats: Vec<HeldSeat> = (0..15).map(|_| world.sit("ann")).collect();
    let class = world.class("ann");
    let mut first = Box::pin(world.gate.admit(class.as_ref()));
    let mut second = Box::pin(world.gate.admit(class.as_ref()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    let refused = world.gate.admit(class.as_ref()).now_or_never().unwrap().err().unwrap();
    assert_eq!(refused.code(), 429);
    assert!(refused.to_string().contains("queue-full"), "{refused}");
    let _bob = world.sit("bob");
    let of_class = "{priority_level=\"narrow\",flow_schema=\"of-ann\"";
    assert_eq!(world.figure(&format!("current_inqueue_requests{of_class}")), "2");
    assert_eq!(world.figure(&format!("current_executing_seats{of_class}")), "15");
    assert_eq!(world.figure("nominal_limit_seats{priority_level=\"narrow\""), "15");
    let reasons = format!("rejected_requests_total{of_class},reason=\"queue-full\"");
    assert_eq!(world.figure(&reasons), "1");

    seats.pop();
    let seat = first.await.unwrap();
    assert!((&mut second).now_or_never().is_none());
    drop(second);
    assert_eq!(world.figure(&format!("current_inqueue_requests{of_class}")), "0");
    let cancelled = format!("rejected_requests_total{of_class},reason=\"cancelled\"");
    assert_eq!(world.figure(&cancelled), "1");
    drop((seats, seat));
    assert_eq!(world.figure(&format!("current_executing_requests{of_class}")), "0");
    assert_eq!(world.figure(&format!("dispatched_requests_total{of_class}")), "16");
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_longer_than_fifteen_seconds() {
    let world = GateWorld::new(queueing(0)).await;
    let class = world.class("ann");
    let begun = tokio::time::Instant::now();
    let refused = world.gate.admit(class.as_ref()).await.err().unwrap();
    assert!(refused.to_string().contains("time-out"), "{refused}");
    assert_eq!(begun.elapsed().as_secs(), WAIT_MAX.as_secs());
}

#[tokio::test]
async fn a_change_acts_at_once_also_on_what_waits() {
    let world = GateWorld::new(queueing(0)).await;
    let class = world.class("ann");
    let mut waits = Box::pin(world.gate.admit(class.as_ref()));
    assert!((&mut waits).now_or_never().is_none());
    world.send("PATCH", &format!("{LEVELS}/narrow"), json!({"spec": queueing(15)})).await;
    world.gate.refresh(world.front.api());
    let seat = waits.await.unwrap();
    let _next = world.sit("ann");
    drop(seat);
}

#[tokio::test]
async fn a_client_hears_its_class_and_its_refusal_and_parts_of_the_process_neither() {
    let reject = json!({"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }});
    let world = GateWorld::new(reject).await;
    let schema = world.send("GET", &format!("{SCHEMAS}/of-ann"), json!({})).await;
    let refused = world.request("ann").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    let uid = schema["metadata"]["uid"].as_str().unwrap();
    assert_eq!(refused.headers()[SCHEMA_UID], uid);
    assert!(refused.headers().contains_key(LEVEL_UID));
    assert_eq!(world.request("bob").await.status(), StatusCode::OK);
    let service = world.front.in_process_service(UserInfo::new("ann", []));
    let request = Request::get(MAPS).body(Full::new(bytes::Bytes::new())).unwrap();
    let inside = service.oneshot(request).await.unwrap();
    assert_eq!(inside.status(), StatusCode::OK);
    assert!(!inside.headers().contains_key(SCHEMA_UID));
}
