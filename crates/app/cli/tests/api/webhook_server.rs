//! A real webhook server, over TLS: one that changes objects, refuses some, converts them, takes
//! events, does not answer, or lies.

use std::io::Read;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rekindle_testkit::Engine;
use serde_json::{Value, json};

use crate::tls_server::{ClientStream, TlsServer, read_request, write_answer};

/// The name in the certificate: that of the Service.
const SERVICE: &str = "hook.default.svc";

/// A server for AdmissionReviews and ConversionReviews. What it does is said by the path that is
/// asked.
pub struct WebhookServer {
    pub port: u16,
    /// The certificate of its CA, PEM in base64.
    pub ca_bundle: String,
    /// The lists of events that it has taken.
    pub events: EventLists,
    server: TlsServer,
}

/// Lists of events of the audit log.
pub type EventLists = Arc<Mutex<Vec<Value>>>;

impl WebhookServer {
    pub fn start() -> Self {
        let events = EventLists::default();
        let all = Arc::clone(&events);
        let serve = move |stream| answer(stream, &all);
        let server = TlsServer::start(&[SERVICE, "localhost"], None, serve);
        Self { port: server.port, ca_bundle: server.ca_bundle.clone(), events, server }
    }

    /// What leads a client to it by a URL.
    pub fn at(&self, path: &str) -> Value {
        json!({
            "url": format!("https://localhost:{}{path}", self.port),
            "caBundle": self.ca_bundle,
        })
    }

    /// What leads a client to it by a Service, which is made: as pods see this machine.
    pub fn behind_service(&self, engine: &Engine) -> impl Fn(&str) -> Value + use<> {
        self.server.behind_service(engine, "hook");
        let ca_bundle = self.ca_bundle.clone();
        move |path| {
            json!({
                "service": {"namespace": "default", "name": "hook", "path": path},
                "caBundle": ca_bundle,
            })
        }
    }
}

fn answer(mut stream: ClientStream, events: &EventLists) -> std::io::Result<()> {
    let request = read_request(&mut stream)?;
    let review: Value = serde_json::from_slice(&request.body)?;
    let path = request.target.split('?').next().unwrap_or_default();
    if path == "/audit" {
        events.lock().unwrap().push(review);
        return write_answer(&mut stream, 200, "{}");
    }
    let uid = review["request"]["uid"].clone();
    let name = review["request"]["object"]["metadata"]["name"].as_str().unwrap_or_default();
    let response = match path {
        "/label" => {
            let steps = json!([
                {"op": "add", "path": "/metadata/labels", "value": {"seen-by": "hook"}},
            ]);
            let patch = STANDARD.encode(steps.to_string());
            json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        "/check" => {
            let status = json!({"code": 403, "reason": "Forbidden", "message": "not this one"});
            json!({
                "uid": uid, "allowed": name != "bad", "status": status,
                "warnings": ["the hook has seen it"],
            })
        }
        "/lie" => json!({"uid": "another", "allowed": true}),
        "/convert" => converted(&review["request"]),
        "/convert-wrongly" => json!({
            "uid": uid, "result": {"status": "Success"},
            "convertedObjects": review["request"]["objects"],
        }),
        // it reads on, and never answers
        _ => return stream.read(&mut [0]).map(drop),
    };
    let answered = json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
    })
    .to_string();
    write_answer(&mut stream, 200, &answered)
}

/// Sails: `v1alpha1` has a size (`3x4`), `v1` a width and a height.
fn converted(request: &Value) -> Value {
    let desired = &request["desiredAPIVersion"];
    let convert = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = desired.clone();
        let spec = object["spec"].as_object_mut().unwrap();
        if let Some(size) = spec.remove("size") {
            let (width, height) = size.as_str().unwrap().split_once('x').unwrap();
            spec.insert("width".to_owned(), width.parse::<i64>().unwrap().into());
            spec.insert("height".to_owned(), height.parse::<i64>().unwrap().into());
        } else if let (Some(width), Some(height)) = (spec.remove("width"), spec.remove("height")) {
            spec.insert("size".to_owned(), format!("{width}x{height}").into());
        }
        object
    };
    let objects = request["objects"].as_array().unwrap().iter();
    json!({
        "uid": request["uid"], "result": {"status": "Success"},
        "convertedObjects": objects.map(convert).collect::<Vec<_>>(),
    })
}
