//! A small API server of a test's own, behind the API of the engine: sails of the group
//! boats.example, kept in memory. It knows who asks from the engine alone.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rekindle_testkit::Engine;
use serde_json::{Value, json};

use crate::tls_server::{ClientRequest, ClientStream, TlsServer, read_request, write_answer};

/// The name of its Service.
pub const SERVICE: &str = "boats";
/// The paths of its group version.
pub const BOATS: &str = "/apis/boats.example/v1";
/// Bytes of its largest answer.
pub const HUGE_BYTES: usize = 100 << 20;

pub struct AggregatedServer {
    pub tls: TlsServer,
    state: Arc<ServerState>,
}

#[derive(Default)]
struct ServerState {
    is_down: AtomicBool,
    sails: Mutex<BTreeMap<String, Value>>,
    /// The headers of the last request for sails.
    headers: Mutex<Vec<String>>,
}

impl AggregatedServer {
    /// Trusts the proxy of this engine, as its ConfigMap says, and is reached by a Service.
    pub fn start(engine: &Engine) -> Self {
        let what = ["get", "configmap", "extension-apiserver-authentication", "-n", "kube-system"];
        let map = engine.kubectl(&[&what[..], &["-o", "json"]].concat());
        let map: Value = serde_json::from_str(&map).unwrap();
        assert_eq!(map["data"]["requestheader-allowed-names"], "[\"front-proxy-client\"]");
        let client_ca = map["data"]["requestheader-client-ca-file"].as_str().unwrap();
        let state = Arc::new(ServerState::default());
        let own = Arc::clone(&state);
        let name = format!("{SERVICE}.default.svc");
        let tls = TlsServer::start(&[&name], Some(client_ca), move |stream| own.serve(stream));
        tls.behind_service(engine, SERVICE);
        Self { tls, state }
    }

    /// Its APIService.
    pub fn api_service(&self, version: &str) -> String {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.boats.example")},
            "spec": {
                "group": "boats.example", "version": version,
                "groupPriorityMinimum": 500, "versionPriority": 10,
                "caBundle": self.tls.ca_bundle,
                "service": {"namespace": "default", "name": SERVICE},
            },
        })
        .to_string()
    }

    /// From now on it ends each connection without an answer, or not any more.
    pub fn set_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
    }

    /// The headers of the last request for sails.
    pub fn last_headers(&self) -> Vec<String> {
        self.state.headers.lock().unwrap().clone()
    }
}

impl ServerState {
    fn serve(&self, mut stream: ClientStream) -> io::Result<()> {
        if self.is_down.load(Ordering::SeqCst) {
            return Ok(());
        }
        let request = read_request(&mut stream)?;
        let path = request.target.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            // the same for all versions: about all but one of them that is a lie
            ["apis", "boats.example", _] => write_answer(&mut stream, 200, &resources()),
            ["openapi", "v3"] => {
                let url = format!("/openapi/v3{BOATS}?hash=ABCD");
                let index = json!({"paths": {&BOATS[1..]: {"serverRelativeURL": url}}});
                write_answer(&mut stream, 200, &index.to_string())
            }
            ["openapi", "v3", ..] => write_answer(&mut stream, 200, &document()),
            ["apis", "boats.example", "v1", "namespaces", namespace, "sails", name @ ..] => {
                self.headers.lock().unwrap().clone_from(&request.headers);
                self.sails(&mut stream, &request, (namespace, name))
            }
            _ => write_answer(&mut stream, 404, &status(404, "NotFound")),
        }
    }

    fn sails(
        &self,
        stream: &mut ClientStream,
        request: &ClientRequest,
        (namespace, name): (&str, &[&str]),
    ) -> io::Result<()> {
        match (request.method.as_str(), name) {
            ("GET", []) if request.target.contains("watch=true") => self.watch(stream),
            ("GET", []) => {
                let sails = self.sails.lock().unwrap().values().cloned().collect::<Vec<_>>();
                let list = json!({
                    "apiVersion": "boats.example/v1", "kind": "SailList",
                    "metadata": {"resourceVersion": "1"}, "items": sails,
                });
                write_answer(stream, 200, &list.to_string())
            }
            ("GET", ["huge"]) => huge(stream),
            // it reads on, and never answers
            ("GET", ["slow"]) => stream.read(&mut [0]).map(drop),
            ("POST", []) => {
                let mut sail: Value = serde_json::from_slice(&request.body)?;
                sail["metadata"]["namespace"] = namespace.into();
                sail["metadata"]["resourceVersion"] = "1".into();
                let name = sail["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.sails.lock().unwrap().insert(name, sail.clone());
                write_answer(stream, 201, &sail.to_string())
            }
            ("GET", [name]) => {
                let found = self.sails.lock().unwrap().get(*name).cloned();
                self.answer(stream, found)
            }
            ("DELETE", [name]) => {
                let found = self.sails.lock().unwrap().remove(*name);
                self.answer(stream, found)
            }
            _ => write_answer(stream, 405, &status(405, "MethodNotAllowed")),
        }
    }

    fn answer(&self, stream: &mut ClientStream, sail: Option<Value>) -> io::Result<()> {
        match sail {
            Some(sail) => write_answer(stream, 200, &sail.to_string()),
            None => write_answer(stream, 404, &status(404, "NotFound")),
        }
    }

    /// Shows what is there, and stays open.
    fn watch(&self, stream: &mut ClientStream) -> io::Result<()> {
        let sails: Vec<Value> = self.sails.lock().unwrap().values().cloned().collect();
        let open = stream.get_mut();
        open.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")?;
        for sail in sails {
            let event = format!("{}\n", json!({"type": "ADDED", "object": sail}));
            open.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
        }
        open.flush()?;
        stream.read(&mut [0]).map(drop)
    }
}

fn huge(stream: &mut ClientStream) -> io::Result<()> {
    let open = stream.get_mut();
    let head =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {HUGE_BYTES}\r\n\r\n");
    open.write_all(head.as_bytes())?;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..HUGE_BYTES / piece.len() {
        open.write_all(&piece)?;
    }
    open.flush()
}

fn status(code: u16, reason: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": "from the boats",
    })
    .to_string()
}

fn resources() -> String {
    json!({
        "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "boats.example/v1",
        "resources": [{
            "name": "sails", "singularName": "sail", "namespaced": true, "kind": "Sail",
            "verbs": ["create", "delete", "get", "list", "watch"], "shortNames": ["sl"],
        }],
    })
    .to_string()
}

fn document() -> String {
    json!({
        "openapi": "3.0.0", "info": {"title": "boats", "version": "v1"},
        "paths": {}, "components": {"schemas": {
            "example.boats.v1.Sail": {
                "type": "object", "description": "A sail of a boat.",
                "x-kubernetes-group-version-kind": [
                    {"group": "boats.example", "version": "v1", "kind": "Sail"},
                ],
            },
        }},
    })
    .to_string()
}
