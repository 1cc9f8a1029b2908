//! A real webhook server, over TLS: one that changes objects, refuses some, converts them, takes
//! events, does not answer, or lies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rekindle_testkit::Engine;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

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
}

/// Lists of events of the audit log.
pub type EventLists = Arc<Mutex<Vec<Value>>>;

impl WebhookServer {
    /// Listens at all addresses: a Service leads to one that pods reach, too.
    pub fn start() -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = [SERVICE.to_owned(), "localhost".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let events = EventLists::default();
        let all = Arc::clone(&events);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, config) = (stream.unwrap(), Arc::clone(&config));
                let events = Arc::clone(&all);
                // a client that does not like the certificate ends the connection
                std::thread::spawn(move || answer(stream, config, &events).ok());
            }
        });
        Self { port, ca_bundle: STANDARD.encode(issuer.pem()), events }
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
        let node = engine.get("nodes")["items"][0]["status"]["addresses"][0]["address"].clone();
        engine.apply(
            &json!({
                "apiVersion": "v1", "kind": "List", "items": [
                    {
                        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
                        "spec": {"ports": [{"port": 443}]},
                    },
                    {
                        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                        "metadata": {
                            "name": "hook", "labels": {"kubernetes.io/service-name": "hook"},
                        },
                        "addressType": "IPv4",
                        "endpoints": [{"addresses": [node]}],
                        "ports": [{"port": self.port}],
                    },
                ],
            })
            .to_string(),
        );
        let ca_bundle = self.ca_bundle.clone();
        move |path| {
            json!({
                "service": {"namespace": "default", "name": "hook", "path": path},
                "caBundle": ca_bundle,
            })
        }
    }
}

fn answer(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    events: &EventLists,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first)?;
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let review: Value = serde_json::from_slice(&body)?;
    let path = first.split(['?', ' ']).nth(1).unwrap_or_default();
    if path == "/audit" {
        events.lock().unwrap().push(review);
        return write_answer(reader.get_mut(), "{}");
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
        _ => return reader.read(&mut [0]).map(drop),
    };
    let answered = json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
    })
    .to_string();
    write_answer(reader.get_mut(), &answered)
}

fn write_answer(stream: &mut impl Write, answer: &str) -> std::io::Result<()> {
    let head =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(answer.as_bytes())?;
    stream.flush()
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
