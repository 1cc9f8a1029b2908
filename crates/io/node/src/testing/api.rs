//! A small Kubernetes API server: objects as JSON, lists, watches with history, merge patches,
//! graceful deletion of pods.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Machine;

/// How long a test waits for what must come (virtual or real time).
const PATIENCE: Duration = Duration::from_secs(7200);

type Key = (String, String, String);
type Frames = BoxStream<'static, Result<http_body::Frame<Bytes>, Infallible>>;

#[derive(Clone, Debug)]
struct Change {
    version: u64,
    kind: &'static str,
    key: Key,
    object: Value,
    before: Option<Value>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    objects: BTreeMap<Key, Value>,
    history: Vec<Change>,
    /// Requests as `PATCH pods/status default/web`.
    requests: Vec<String>,
    failures: BTreeMap<String, u32>,
    /// How many times agents have been killed: who asked before that is not there any more.
    kills: u32,
}

/// The server. Clones are one.
#[derive(Clone)]
pub(crate) struct FakeApi {
    machine: Machine,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

/// What a path names.
struct Target {
    resource: String,
    namespace: String,
    name: String,
    subresource: String,
}

impl FakeApi {
    /// A server without objects; an agent may die at each write to it, see [`Machine::crash_in`].
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, state: Arc::default(), changed: watch::Sender::new(0) }
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let born = self.state.lock().unwrap().kills;
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                if api.state.lock().unwrap().kills > born {
                    return std::future::pending().await;
                }
                Ok::<_, Infallible>(api.answer(request).await)
            }
        });
        Client::new(service, "default")
    }

    /// Whoever has a client is killed: what goes on of it asks for nothing any more.
    pub(crate) fn disconnect(&self) {
        self.state.lock().unwrap().kills += 1;
    }

    /// Stores an object as a user would create it.
    pub(crate) fn create<T: serde::Serialize>(&self, resource: &str, object: &T) -> Value {
        let mut object = serde_json::to_value(object).unwrap();
        let mut state = self.state.lock().unwrap();
        let created = state.insert(resource, &mut object);
        drop(state);
        self.notify();
        created.unwrap()
    }

    /// The object of that name in namespace `default`, or without namespace.
    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let state = self.state.lock().unwrap();
        let found = state.objects.iter().find(|((kind, _, n), _)| kind == resource && n == name);
        found.map(|(_, object)| object.clone())
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, resource: &str) -> Vec<Value> {
        let state = self.state.lock().unwrap();
        state
            .objects
            .iter()
            .filter(|((kind, _, _), _)| kind == resource)
            .map(|(_, o)| o.clone())
            .collect()
    }

    /// Changes an object as a user would.
    pub(crate) fn modify(&self, resource: &str, name: &str, patch: &Value) {
        let mut state = self.state.lock().unwrap();
        let key = state.key(resource, name);
        let mut object = state.objects[&key].clone();
        merge(&mut object, patch, Lists::Whole);
        state.store(key, object);
        drop(state);
        self.notify();
    }

    /// Deletes a pod as a user would.
    pub(crate) fn delete_pod(&self, name: &str, grace_seconds: i64) {
        let mut state = self.state.lock().unwrap();
        let key = state.key("pods", name);
        state.delete(&key, Some(grace_seconds));
        drop(state);
        self.notify();
    }

    /// Removes an object at once.
    pub(crate) fn remove(&self, resource: &str, name: &str) {
        let mut state = self.state.lock().unwrap();
        let key = state.key(resource, name);
        state.remove(&key);
        drop(state);
        self.notify();
    }

    /// The next `count` requests that begin with this text are answered with status 500.
    pub(crate) fn fail_next(&self, request: &str, count: u32) {
        self.state.lock().unwrap().failures.insert(request.to_owned(), count);
    }

    /// How many requests began with this text.
    pub(crate) fn requests(&self, begin: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|request| request.starts_with(begin)).count()
    }

    /// Every state that an object had, oldest first.
    pub(crate) fn history(&self, resource: &str, name: &str) -> Vec<Value> {
        let state = self.state.lock().unwrap();
        let of = |change: &&Change| change.key.0 == resource && change.key.2 == name;
        state.history.iter().filter(of).map(|change| change.object.clone()).collect()
    }

    /// Waits until the objects are so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&FakeApi) -> bool) {
        let mut changed = self.changed.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !is_so(self) {
                changed.changed().await.unwrap();
            }
        });
        if waited.await.is_err() {
            let state = self.state.lock().unwrap();
            panic!(
                "never came: {what}\n{:#?}\nrequests: {:#?}",
                state.objects,
                state.requests.last()
            );
        }
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    async fn answer(&self, request: Request<Body>) -> Response<StreamBody<Frames>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.replace("%3D", "=").replace("%2C", ",")))
            .collect();
        let target = target(parts.uri.path());
        let watching = query.get("watch").is_some_and(|watch| watch != "false");
        let verb = if watching { "WATCH" } else { parts.method.as_str() };
        let line = target.line(verb);
        // heartbeats go on for ever: an agent that only beats would never get past them
        let is_write = parts.method != Method::GET
            && !matches!(target.resource.as_str(), "nodes" | "leases" | "events");
        if is_write {
            self.machine.boundary().await;
        }
        if watching {
            let from = query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0);
            self.state.lock().unwrap().requests.push(line);
            return self.watch(target, query.get("fieldSelector").cloned(), from);
        }
        let lists = Lists::of_patch(&parts.headers);
        let answer =
            self.state.lock().unwrap().answer(&parts.method, &target, &query, body, line, lists);
        self.notify();
        if is_write {
            self.machine.boundary().await;
        }
        match answer {
            Ok(object) => json_response(StatusCode::OK, &object),
            Err(refusal) => refusal.response(),
        }
    }

    fn watch(
        &self,
        target: Target,
        fields: Option<String>,
        from: u64,
    ) -> Response<StreamBody<Frames>> {
        let (api, changed) = (self.clone(), self.changed.subscribe());
        let stream =
            futures::stream::unfold((api, changed, from), move |(api, mut changed, from)| {
                let (target, fields) = (target.resource.clone(), fields.clone());
                async move {
                    loop {
                        let (lines, newest) = api.changes(&target, fields.as_deref(), from);
                        if !lines.is_empty() {
                            return Some((
                                Ok(http_body::Frame::data(Bytes::from(lines))),
                                (api, changed, newest),
                            ));
                        }
                        changed.changed().await.ok()?;
                    }
                }
            });
        Response::builder()
            .header("content-type", "application/json")
            .body(StreamBody::new(stream.boxed()))
            .unwrap()
    }

    fn changes(&self, resource: &str, fields: Option<&str>, from: u64) -> (String, u64) {
        let state = self.state.lock().unwrap();
        let mut lines = String::new();
        for change in state.history.iter().filter(|c| c.version > from && c.key.0 == resource) {
            let now = change.kind != "DELETED" && selected(&change.object, fields);
            let before = change.before.as_ref().is_some_and(|before| selected(before, fields));
            let kind = match (before, now) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => continue,
            };
            // the type first, as each API server has it
            lines.push_str(&format!(r#"{{"type":"{kind}","object":{}}}"#, change.object));
            lines.push('\n');
        }
        (lines, state.version)
    }
}

impl State {
    fn answer(
        &mut self,
        method: &Method,
        target: &Target,
        query: &BTreeMap<String, String>,
        mut body: Value,
        line: String,
        lists: Lists,
    ) -> Result<Value, Refusal> {
        let failure =
            self.failures.iter_mut().find(|(text, left)| line.starts_with(*text) && **left > 0);
        if let Some((_, left)) = failure {
            *left -= 1;
            self.requests.push(line);
            return Err(status(500, "InternalError", "told to fail"));
        }
        self.requests.push(line);
        match *method {
            Method::GET if target.name.is_empty() => self.list(target, query.get("fieldSelector")),
            Method::GET => self.get(target),
            Method::POST if target.subresource == "token" => {
                let number = self.requests.iter().filter(|line| line.contains("/token ")).count();
                body["status"] = json!({
                    "token": format!("token-{number}"), "expirationTimestamp": "2030-01-01T00:00:00Z",
                });
                Ok(body)
            }
            Method::POST => {
                if !target.namespace.is_empty() {
                    body["metadata"]["namespace"] = json!(target.namespace);
                }
                if query.contains_key("dryRun") {
                    return Ok(body);
                }
                self.insert(&target.resource, &mut body)
            }
            Method::PATCH => self.patch(target, &body, lists),
            Method::DELETE => {
                let object = self.get(target)?;
                let uid = &body["preconditions"]["uid"];
                if !uid.is_null() && object["metadata"]["uid"] != *uid {
                    return Err(status(409, "Conflict", "the UID in the precondition differs"));
                }
                self.delete(&target.key(), body["gracePeriodSeconds"].as_i64());
                Ok(object)
            }
            _ => Err(status(405, "MethodNotAllowed", "not in this server")),
        }
    }

    fn key(&self, resource: &str, name: &str) -> Key {
        self.objects.keys().find(|(kind, _, n)| kind == resource && n == name).unwrap().clone()
    }

    fn list(&self, target: &Target, fields: Option<&String>) -> Result<Value, Refusal> {
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|((kind, namespace, _), _)| {
                *kind == target.resource
                    && (target.namespace.is_empty() || *namespace == target.namespace)
            })
            .map(|(_, object)| object)
            .filter(|object| selected(object, fields.map(String::as_str)))
            .collect();
        Ok(json!({
            "apiVersion": "v1", "kind": "List", "items": items,
            "metadata": { "resourceVersion": self.version.to_string() },
        }))
    }

    fn get(&self, target: &Target) -> Result<Value, Refusal> {
        let found = self.objects.get(&target.key());
        found
            .cloned()
            .ok_or_else(|| status(404, "NotFound", &format!("{} not found", target.line(""))))
    }

    fn insert(&mut self, resource: &str, object: &mut Value) -> Result<Value, Refusal> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &object["metadata"];
        let key = (resource.to_owned(), text(&meta["namespace"]), text(&meta["name"]));
        if self.objects.contains_key(&key) {
            return Err(status(409, "AlreadyExists", &format!("{} already exists", key.2)));
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}-{}", key.2, self.version));
        }
        object["metadata"]["generation"] = json!(1);
        Ok(self.store(key, object.clone()))
    }

    fn patch(&mut self, target: &Target, patch: &Value, lists: Lists) -> Result<Value, Refusal> {
        let mut object = self.get(target)?;
        let meta = &patch["metadata"];
        for field in ["uid", "resourceVersion"] {
            if !meta[field].is_null() && meta[field] != object["metadata"][field] {
                return Err(status(409, "Conflict", &format!("the object has another {field}")));
            }
        }
        merge(&mut object, patch, lists);
        Ok(self.store(target.key(), object))
    }

    fn store(&mut self, key: Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let before = self.objects.insert(key.clone(), object.clone());
        let (version, kind) = (self.version, if before.is_some() { "MODIFIED" } else { "ADDED" });
        self.history.push(Change { version, kind, key, object: object.clone(), before });
        object
    }

    fn delete(&mut self, key: &Key, grace_seconds: Option<i64>) {
        let mut object = self.objects[key].clone();
        let is_placed = key.0 == "pods" && !object["spec"]["nodeName"].is_null();
        let is_held =
            object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        if is_held || (is_placed && grace_seconds != Some(0)) {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["metadata"]["deletionGracePeriodSeconds"] = json!(grace_seconds.unwrap_or(30));
            self.store(key.clone(), object);
        } else {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(object) = self.objects.remove(key) {
            self.version += 1;
            let (version, before) = (self.version, Some(object.clone()));
            self.history.push(Change {
                version,
                kind: "DELETED",
                key: key.clone(),
                object,
                before,
            });
        }
    }
}

impl Target {
    fn key(&self) -> Key {
        (self.resource.clone(), self.namespace.clone(), self.name.clone())
    }

    fn line(&self, verb: &str) -> String {
        let sub = if self.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", self.subresource)
        };
        format!("{verb} {}{sub} {}/{}", self.resource, self.namespace, self.name)
    }
}

fn target(path: &str) -> Target {
    let mut parts = path.trim_matches('/').split('/').peekable();
    if parts.next() == Some("apis") {
        parts.next(); // the group
    }
    parts.next(); // the version
    let mut namespace = "";
    if parts.peek() == Some(&"namespaces") {
        parts.next();
        namespace = parts.next().unwrap_or_default();
    }
    let mut next = || parts.next().unwrap_or_default().to_owned();
    Target { namespace: namespace.to_owned(), resource: next(), name: next(), subresource: next() }
}

fn selected(object: &Value, fields: Option<&str>) -> bool {
    let Some(fields) = fields else { return true };
    fields.split(',').filter_map(|term| term.split_once('=')).all(|(path, wanted)| {
        let found = path.split('.').fold(object, |value, part| &value[part]);
        found.as_str().unwrap_or_default() == wanted
    })
}

/// What a patch does to lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// A merge patch replaces them.
    Whole,
    /// A strategic merge patch merges the entries that have a `type` by it: conditions and
    /// addresses.
    ByType,
}

impl Lists {
    fn of_patch(headers: &http::HeaderMap) -> Self {
        match headers.get("content-type").and_then(|kind| kind.to_str().ok()) {
            Some("application/strategic-merge-patch+json") => Self::ByType,
            Some(_) | None => Self::Whole,
        }
    }
}

fn merge_by_type(target: &Value, patch: &[Value]) -> Value {
    let replaces = patch.iter().any(|entry| entry["$patch"] == "replace");
    let named = |kind: &Value| patch.iter().any(|entry| entry["type"] == *kind);
    let kept =
        target.as_array().into_iter().flatten().filter(|old| !replaces && !named(&old["type"]));
    let new = patch.iter().filter(|entry| entry["$patch"].is_null());
    kept.chain(new).cloned().collect()
}

fn merge(target: &mut Value, patch: &Value, lists: Lists) {
    let Value::Object(patch) = patch else {
        let is_typed = |entry: &Value| !entry["type"].is_null() || !entry["$patch"].is_null();
        *target = match patch.as_array() {
            Some(entries) if lists == Lists::ByType && entries.iter().all(is_typed) => {
                merge_by_type(target, entries)
            }
            Some(_) | None => patch.clone(),
        };
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value, lists);
        }
    }
}

fn json_response(code: StatusCode, object: &Value) -> Response<StreamBody<Frames>> {
    let frame = Ok(http_body::Frame::data(Bytes::from(object.to_string())));
    let body = StreamBody::new(futures::stream::once(async move { frame }).boxed());
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

/// A refused request: code, reason, message.
#[derive(Debug)]
struct Refusal(u16, &'static str, String);

impl Refusal {
    fn response(&self) -> Response<StreamBody<Frames>> {
        let Self(code, reason, message) = self;
        let object = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {},
            "status": "Failure", "code": code, "reason": reason, "message": message,
        });
        json_response(StatusCode::from_u16(*code).unwrap(), &object)
    }
}

fn status(code: u16, reason: &'static str, message: &str) -> Refusal {
    Refusal(code, reason, message.to_owned())
}
