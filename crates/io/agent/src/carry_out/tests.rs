use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;
use crate::cri::CriClient;
use crate::{NodeAccess, PodCalls, end_of};

const NODE: &str = "n1";

fn restart(version: &str, status: Value) -> Value {
    json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
        "metadata": {"name": "again", "namespace": "shop", "uid": "r1", "resourceVersion": version,
            "creationTimestamp": "2026-11-28T00:00:00Z"},
        "spec": {"podName": "web", "rung": "Pod", "emptyDirs": "Keep"},
        "status": status,
    })
}

fn begun() -> Value {
    json!({"phase": "Running", "nodeName": NODE, "podUID": "u1",
        "runtime": {"sandboxID": "s1", "containers": []}})
}

/// An API with one request. It refuses what was decided on another version, and shows that one.
#[derive(Clone)]
struct OneRestartApi {
    objects: SharedObjects,
    stored: Arc<Mutex<Value>>,
    /// The versions that writes named.
    asked: Arc<Mutex<Vec<String>>>,
    /// Codes of refusals, the last one first.
    refusals: Arc<Mutex<Vec<u16>>>,
}

impl OneRestartApi {
    /// It has `stored`, and the agent has seen `seen`.
    fn new(stored: Value, seen: Value) -> Self {
        let api = Self {
            objects: SharedObjects::default(),
            stored: Arc::new(Mutex::new(stored)),
            asked: Arc::default(),
            refusals: Arc::default(),
        };
        api.objects.see_restart(Event::Apply(serde_json::from_value(seen).unwrap()));
        api
    }

    fn answer(&self, patch: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let version = &patch["metadata"]["resourceVersion"];
        self.asked.lock().unwrap().push(version.as_str().unwrap_or("none").to_owned());
        let refuses = |code: u16| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "no", "reason": "Conflict", "code": code});
            (code, status)
        };
        if let Some(code) = self.refusals.lock().unwrap().pop() {
            return refuses(code);
        }
        if *version != Value::Null && *version != stored["metadata"]["resourceVersion"] {
            let newest = serde_json::from_value(stored.clone()).unwrap();
            self.objects.see_restart(Event::Apply(newest));
            return refuses(409);
        }
        for (field, value) in patch["status"].as_object().unwrap() {
            stored["status"][field] = value.clone();
        }
        stored["metadata"]["resourceVersion"] = "99".into();
        (200, stored.clone())
    }

    fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                if request.uri().path().ends_with("/events") {
                    // no event is waited for
                    let refused = Response::builder().status(403);
                    return Ok(refused.body(Body::empty()).unwrap());
                }
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let (code, answer) = api.answer(&serde_json::from_slice(&bytes).unwrap());
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    async fn run(&self) -> RestartEnd {
        let calls = PodCalls::new(CriClient::new("/nonexistent/cri.sock".into()));
        let agent = ClusterAgent {
            client: self.client(),
            node: NODE.to_owned(),
            own_namespace: None,
            calls,
            access: NodeAccess::default(),
            restarts_max: 1,
            figures: Arc::default(),
        };
        let (objects, clock) = (self.objects.clone(), Clock::system());
        RestartTask { agent, objects, clock, uid: "r1".to_owned() }.run().await
    }

    fn phase(&self) -> Value {
        self.stored.lock().unwrap()["status"]["phase"].clone()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A pod that every agent refuses to restart.
fn refused_pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"nodeName": NODE, "hostNetwork": true, "containers": [{"name": "app"}]},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_conflict_ends_no_restart_that_was_begun() {
    // its pod is gone: that is to be written, and somebody wrote an annotation meanwhile
    let api = OneRestartApi::new(restart("6", begun()), restart("5", begun()));
    assert_eq!(api.run().await, RestartEnd::Answered);
    assert_eq!(api.asked(), ["5", "6"]);
    assert_eq!(api.phase(), "Failed");
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_has_failed_stays_failed() {
    let mut failed = begun();
    failed["phase"] = "Failed".into();
    failed["message"] = "too late".into();
    let api = OneRestartApi::new(restart("6", failed), restart("5", begun()));
    assert_eq!(api.run().await, RestartEnd::Answered);
    assert_eq!(api.asked(), ["5"]);
    assert_eq!(api.stored.lock().unwrap()["status"]["message"], "too late");
}

#[tokio::test(start_paused = true)]
async fn a_denied_answer_is_given_later() {
    for code in [403, 422] {
        let api = OneRestartApi::new(restart("5", json!({})), restart("5", json!({})));
        api.objects.see_pod(Event::Apply(refused_pod()));
        api.refusals.lock().unwrap().push(code);
        assert_eq!(api.run().await, RestartEnd::Later, "{code}: its slot is for others");
        assert_eq!(api.run().await, RestartEnd::Answered);
        assert_eq!(api.phase(), "Refused");

        let api = OneRestartApi::new(restart("5", begun()), restart("5", begun()));
        api.refusals.lock().unwrap().push(code);
        assert_eq!(api.run().await, RestartEnd::Answered, "{code}: what was begun goes on");
        assert_eq!((api.phase(), api.asked().len()), ("Failed".into(), 2));
    }
}

#[test]
fn what_was_written_counts_until_the_watch_shows_it() {
    let of = |version: &str| serde_json::from_value::<PodRestart>(restart(version, json!({})));
    let version = |restart: &PodRestart| restart.metadata.resource_version.clone().unwrap();
    let mut newest = NewestRestart::default();
    let [first, second, third, other] = ["5", "6", "7", "8"].map(|version| of(version).unwrap());
    assert_eq!(version(newest.after(&first)), "5");
    newest.wrote(&first, second.clone());
    newest.wrote(&second, third.clone());
    let shown = [&first, &second, &third, &other].map(|seen| version(newest.after(seen)));
    assert_eq!(shown, ["7", "7", "7", "8"]);
}

#[tokio::test]
async fn a_task_that_panics_is_tried_again() {
    let panics = async { panic!("a fault of the agent") };
    assert_eq!(end_of(panics).await, RestartEnd::Later);
    assert_eq!(end_of(async { RestartEnd::Answered }).await, RestartEnd::Answered);
}
