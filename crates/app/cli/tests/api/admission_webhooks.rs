//! Admission webhooks with the real kubectl, and a real webhook server: one that changes objects
//! and refuses some, that does not answer, that lies, and that is gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rekindle_testkit::Engine;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// The name in the certificate: that of the Service.
const SERVICE: &str = "hook.default.svc";

/// A server for AdmissionReviews. What it does is said by the path that is asked.
struct WebhookServer {
    port: u16,
    /// The certificate of its CA, PEM in base64.
    ca_bundle: String,
}

impl WebhookServer {
    /// Listens at all addresses: a Service leads to one that pods reach, too.
    fn start() -> Self {
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
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, config) = (stream.unwrap(), Arc::clone(&config));
                // a client that does not like the certificate ends the connection
                std::thread::spawn(move || answer(stream, config).ok());
            }
        });
        Self { port, ca_bundle: STANDARD.encode(issuer.pem()) }
    }
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
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
        // it reads on, and never answers
        _ => return reader.read(&mut [0]).map(drop),
    };
    let answered = json!({
        "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response,
    })
    .to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answered.len());
    let stream = reader.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(answered.as_bytes())?;
    stream.flush()
}

/// A configuration with one webhook for new config maps of the namespace `default`.
fn configuration(kind: &str, name: &str, client: Value, more: Value) -> String {
    let mut webhook = json!({
        "name": format!("{name}.example.org"),
        "clientConfig": client,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"],
        }],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": [webhook],
    })
    .to_string()
}

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

const APPLY: [&str; 3] = ["apply", "-f", "-"];

#[test]
fn webhooks_change_and_refuse_what_users_write_also_after_a_kill() {
    let server = WebhookServer::start();
    let mut engine = Engine::start();
    // the Service leads to this machine, as pods see it
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
                    "ports": [{"port": server.port}],
                },
            ],
        })
        .to_string(),
    );
    let service = |path: &str| {
        json!({
            "service": {"namespace": "default", "name": "hook", "path": path},
            "caBundle": server.ca_bundle,
        })
    };
    let kind = "MutatingWebhookConfiguration";
    engine.apply(&configuration(kind, "label", service("/label"), json!({})));
    let kind = "ValidatingWebhookConfiguration";
    engine.apply(&configuration(kind, "check", service("/check"), json!({})));

    let made = engine.try_kubectl(&APPLY, &config_map("good"));
    let warning = String::from_utf8_lossy(&made.stderr);
    assert!(warning.contains("Warning: the hook has seen it"), "{warning}");
    assert_eq!(engine.get("configmap/good")["metadata"]["labels"]["seen-by"], "hook");
    let refused = engine.kubectl_fails(&APPLY, &config_map("bad"));
    let says = "admission webhook \"check.example.org\" denied the request: not this one";
    assert!(refused.contains(says), "{refused}");

    engine.kill();
    engine.launch(&[]);

    let refused = engine.kubectl_fails(&APPLY, &config_map("bad"));
    assert!(refused.contains(says), "{refused}");
}

#[test]
fn a_webhook_that_fails_refuses_or_is_passed_over_as_its_policy_says() {
    let server = WebhookServer::start();
    let engine = Engine::start();
    let kind = "ValidatingWebhookConfiguration";
    let at = |path: &str| {
        json!({
            "url": format!("https://localhost:{}{path}", server.port),
            "caBundle": server.ca_bundle,
        })
    };
    let gone = json!({"url": "https://127.0.0.1:1/x"});
    let untrusted = json!({"url": format!("https://localhost:{}/check", server.port)});
    for (name, client, says) in [
        ("slow", at("/slow"), "context deadline exceeded"),
        ("liar", at("/lie"), "expected response.uid="),
        ("gone", gone, "onnection refused"),
        ("untrusted", untrusted, "certificate"),
    ] {
        let fails = configuration(kind, name, client.clone(), json!({"timeoutSeconds": 1}));
        engine.apply(&fails);
        let refused = engine.kubectl_fails(&APPLY, &config_map(name));
        let prefix = format!("failed calling webhook \"{name}.example.org\"");
        assert!(refused.contains(&prefix) && refused.contains(says), "{refused}");
        let ignored = json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"});
        engine.apply(&configuration(kind, name, client, ignored));
        engine.apply(&config_map(name));
        engine.kubectl(&["delete", "validatingwebhookconfiguration", name]);
    }
}
