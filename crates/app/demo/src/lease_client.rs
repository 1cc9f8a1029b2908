//! Reads and writes a Lease from inside a pod, as any program there does: address of the API from
//! the variables, name of the namespace, CA and token from the files of the service account.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::candidate::ElectionRecord;

const IDENTITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Of an answer. A Lease has less than a kilobyte.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// Why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseClientError {
    /// It does not run in a pod, or the pod has no service links.
    #[error("find the API: variable {0} is not set")]
    Variable(&'static str),
    /// The pod has no service account token, or its files are not what they should be.
    #[error("read {path} of the service account")]
    Identity {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The API's certificate authority is none.
    #[error("trust the API: ca.crt has no certificate")]
    Authority,
    /// The API's address is none.
    #[error("connect to the API: {0:?} is no name of a server")]
    ServerName(String),
    /// The API could not be reached.
    #[error("connect to the API")]
    Connect(#[source] io::Error),
    /// The connection broke.
    #[error("ask the API")]
    Http(#[source] hyper::Error),
    /// The answer could not be read.
    #[error("read the answer of the API: {0}")]
    Answer(String),
    /// The API refused.
    #[error("{method} lease {lease}: {status}: {message}")]
    Refused {
        /// What was asked.
        method: Method,
        /// Of which Lease.
        lease: String,
        /// The answer's status.
        status: StatusCode,
        /// What the API says about it.
        message: String,
    },
}

/// A Lease as the API has it. What the election does not change stays as it was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredLease {
    metadata: Value,
    pub(crate) spec: ElectionRecord,
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum LeaseWrite {
    Written,
    /// Another candidate wrote first.
    Conflict,
}

/// A client for one Lease, in the namespace of the pod.
pub(crate) struct LeaseClient {
    host: String,
    port: u16,
    server_name: ServerName<'static>,
    namespace: String,
    lease: String,
    tls: TlsConnector,
}

impl LeaseClient {
    /// With the identity of the pod's service account.
    pub(crate) fn from_pod(lease: String) -> Result<Self, LeaseClientError> {
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?
            .parse()
            .map_err(|_| LeaseClientError::Variable("KUBERNETES_SERVICE_PORT"))?;
        let server_name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.clone())
                .map_err(|_| LeaseClientError::ServerName(host.clone()))?,
        };
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::pem_slice_iter(&identity_file("ca.crt")?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| LeaseClientError::Authority)?;
        if roots.add_parsable_certificates(authority).0 == 0 {
            return Err(LeaseClientError::Authority);
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self {
            host,
            port,
            server_name,
            namespace: identity_text("namespace")?,
            lease,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// The Lease; `None` when there is none.
    pub(crate) async fn get(&self) -> Result<Option<StoredLease>, LeaseClientError> {
        let (status, body) = self.ask(Method::GET, &self.path(true), None).await?;
        match status {
            StatusCode::OK => Ok(Some(parse(&body)?)),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(self.refused(Method::GET, other, &body)),
        }
    }

    /// Makes it.
    pub(crate) async fn create(
        &self,
        spec: ElectionRecord,
    ) -> Result<LeaseWrite, LeaseClientError> {
        let lease = StoredLease { metadata: json!({ "name": self.lease }), spec };
        self.write(Method::POST, &self.path(false), &lease).await
    }

    /// Writes it, unless another candidate wrote since it was read.
    pub(crate) async fn replace(
        &self,
        read: &StoredLease,
        spec: ElectionRecord,
    ) -> Result<LeaseWrite, LeaseClientError> {
        let lease = StoredLease { spec, ..read.clone() };
        self.write(Method::PUT, &self.path(true), &lease).await
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        lease: &StoredLease,
    ) -> Result<LeaseWrite, LeaseClientError> {
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": lease.metadata,
            "spec": lease.spec,
        });
        let (status, body) = self.ask(method.clone(), path, Some(body)).await?;
        match status {
            StatusCode::OK | StatusCode::CREATED => Ok(LeaseWrite::Written),
            StatusCode::CONFLICT => Ok(LeaseWrite::Conflict),
            other => Err(self.refused(method, other, &body)),
        }
    }

    fn path(&self, is_named: bool) -> String {
        let namespace = &self.namespace;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        if is_named { format!("{path}/{}", self.lease) } else { path }
    }

    fn refused(&self, method: Method, status: StatusCode, body: &Bytes) -> LeaseClientError {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = answer["message"].as_str().unwrap_or("no message").to_owned();
        let lease = format!("{}/{}", self.namespace, self.lease);
        LeaseClientError::Refused { method, lease, status, message }
    }

    /// One request on a connection of its own: one every few seconds pays for no pool. The token is
    /// read each time, because it is renewed while the pod runs.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Bytes), LeaseClientError> {
        let token = identity_text("token")?;
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(LeaseClientError::Connect)?;
        let stream = self
            .tls
            .connect(self.server_name.clone(), stream)
            .await
            .map_err(LeaseClientError::Connect)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(LeaseClientError::Http)?;
        let connection = tokio::spawn(connection);
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| LeaseClientError::Answer(error.to_string()))?;
        let answer = sender.send_request(request).await.map_err(LeaseClientError::Http)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX_BYTES);
        let body = body.collect().await;
        connection.abort();
        let body = body.map_err(|error| LeaseClientError::Answer(error.to_string()))?;
        Ok((status, body.to_bytes()))
    }
}

impl fmt::Display for LeaseClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.lease)
    }
}

fn parse(body: &Bytes) -> Result<StoredLease, LeaseClientError> {
    serde_json::from_slice(body).map_err(|error| LeaseClientError::Answer(error.to_string()))
}

fn variable(name: &'static str) -> Result<String, LeaseClientError> {
    std::env::var(name).map_err(|_| LeaseClientError::Variable(name))
}

fn identity_file(name: &str) -> Result<Vec<u8>, LeaseClientError> {
    let path = Path::new(IDENTITY).join(name);
    fs::read(&path)
        .map_err(|source| LeaseClientError::Identity { path: path.display().to_string(), source })
}

fn identity_text(name: &str) -> Result<String, LeaseClientError> {
    Ok(String::from_utf8_lossy(&identity_file(name)?).trim().to_owned())
}
