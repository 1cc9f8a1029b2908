//! A server of a test's own, over TLS with a CA of its own, reached by a Service.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rekindle_testkit::Engine;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

/// A client's connection.
pub type ClientStream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// What a client asks.
pub struct ClientRequest {
    pub method: String,
    /// With the query.
    pub target: String,
    /// `name: value`, the names in small letters.
    pub headers: Vec<String>,
    pub body: Vec<u8>,
}

pub struct TlsServer {
    pub port: u16,
    /// The certificate of its CA, PEM in base64.
    pub ca_bundle: String,
}

impl TlsServer {
    /// Listens at all addresses: a Service leads to one that pods reach, too. Each connection has a
    /// thread. With a CA, clients must show a certificate of it.
    pub fn start(
        names: &[&str],
        client_ca: Option<&str>,
        serve: impl Fn(ClientStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let (config, ca_bundle) = server_config(names, client_ca);
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (serve, config) = (Arc::new(serve), Arc::new(config));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, config) = (stream.unwrap(), Arc::clone(&config));
                let serve = Arc::clone(&serve);
                // a client that does not like the certificate ends the connection
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    serve(BufReader::new(StreamOwned::new(connection, stream))).ok()
                });
            }
        });
        Self { port, ca_bundle }
    }

    /// Makes a Service in the namespace default that leads here, as pods see this machine.
    pub fn behind_service(&self, engine: &Engine, name: &str) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"port": 443}]},
        });
        engine.apply(&service.to_string());
        self.add_endpoint(engine, name);
    }

    /// Makes the endpoint of that Service.
    pub fn add_endpoint(&self, engine: &Engine, name: &str) {
        let node = engine.get("nodes")["items"][0]["status"]["addresses"][0]["address"].clone();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [node]}],
            "ports": [{"port": self.port}],
        });
        engine.apply(&slice.to_string());
    }
}

fn server_config(names: &[&str], client_ca: Option<&str>) -> (ServerConfig, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate.unwrap()).unwrap();
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    (config, STANDARD.encode(issuer.pem()))
}

/// Reads the next request.
pub fn read_request(stream: &mut ClientStream) -> io::Result<ClientRequest> {
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first)?;
    let mut headers = Vec::new();
    while stream.read_line(&mut line)? > 2 {
        let (name, value) = line.split_once(':').unwrap_or_default();
        let (name, value) = (name.to_lowercase(), value.trim());
        if name == "content-length" {
            length = value.parse().map_err(io::Error::other)?;
        }
        headers.push(format!("{name}: {value}"));
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    Ok(ClientRequest { method: word(), target: word(), headers, body })
}

/// Answers with JSON, and ends the connection.
pub fn write_answer(stream: &mut ClientStream, code: u16, answer: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let stream = stream.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(answer.as_bytes())?;
    stream.flush()
}
