//! A registry made of a map, with faults on demand: what it answers, and how it breaks off.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With its query.
    pub target: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
    /// How many requests came with this method and target before.
    pub before: usize,
}

impl Asked {
    pub fn is(&self, method: &str, part: &str) -> bool {
        self.method == method && self.target.contains(part)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub end: End,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    /// The connection closes after so many bytes of the body.
    CutAfter(usize),
    /// Nothing comes after so many bytes of the body.
    HangAfter(usize),
    /// Not even a status comes.
    Silence,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), end: End::Whole }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// A connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

type Rule = dyn Fn(&Asked) -> Option<Reply> + Send + Sync;

#[derive(Default)]
struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By `repository/tag` or `repository/digest`.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    asked: Vec<Asked>,
}

/// A registry on loopback. It ends with the last of its clones and the tokio runtime.
#[derive(Clone)]
pub struct FakeRegistry {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    count: watch::Sender<usize>,
}

pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl FakeRegistry {
    /// Answers from its map.
    pub async fn start() -> Self {
        Self::with_rule(|_| None).await
    }

    /// Answers from its map over TLS, with a certificate for 127.0.0.1 that is answered, too.
    pub async fn with_tls() -> (Self, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let registry = Self { address, state: Arc::default(), count: watch::Sender::new(0) };
        let served = registry.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (served, acceptor) = (served.clone(), acceptor.clone());
                tokio::spawn(async move {
                    // a client that does not trust us says nothing more
                    if let Ok(stream) = acceptor.accept(stream).await {
                        served.serve(stream, Arc::new(|_: &Asked| None)).await;
                    }
                });
            }
        });
        (registry, certificate)
    }

    /// What `rule` answers goes before the map.
    pub async fn with_rule(rule: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let registry = Self { address, state: Arc::default(), count: watch::Sender::new(0) };
        let (served, rule): (_, Arc<Rule>) = (registry.clone(), Arc::new(rule));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(served.clone().serve(stream, rule.clone()));
            }
        });
        registry
    }

    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    pub fn add_blob(&self, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        self.state.lock().unwrap().blobs.insert(digest.clone(), bytes.to_vec());
        digest
    }

    /// Puts other bytes in the place of a blob.
    pub fn forge_blob(&self, digest: &str, bytes: &[u8]) {
        self.state.lock().unwrap().blobs.insert(digest.to_owned(), bytes.to_vec());
    }

    /// A manifest or index under its digest, and under a tag.
    pub fn add_manifest(
        &self,
        repository: &str,
        tag: &str,
        media_type: &str,
        text: &str,
    ) -> String {
        let digest = digest(text.as_bytes());
        let stored = (media_type.to_owned(), text.as_bytes().to_vec());
        let mut state = self.state.lock().unwrap();
        state.manifests.insert(format!("{repository}/{digest}"), stored.clone());
        state.manifests.insert(format!("{repository}/{tag}"), stored);
        digest
    }

    /// Puts other bytes in the place of a manifest.
    pub fn forge_manifest(&self, name: &str, media_type: &str, text: &str) {
        let stored = (media_type.to_owned(), text.as_bytes().to_vec());
        self.state.lock().unwrap().manifests.insert(name.to_owned(), stored);
    }

    /// The requests so far, as `GET /v2/…`.
    pub fn asked(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.asked.iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect()
    }

    pub fn requests(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    /// How many requests had this method and this part in their target.
    pub fn times(&self, method: &str, part: &str) -> usize {
        self.requests().iter().filter(|asked| asked.is(method, part)).count()
    }

    /// Waits until so many requests have come.
    pub async fn until_asked(&self, count: usize) {
        self.count.subscribe().wait_for(|now| *now >= count).await.unwrap();
    }

    async fn serve(self, mut stream: impl Stream, rule: Arc<Rule>) {
        let Some(asked) = self.read(&mut stream).await else { return };
        let reply = rule(&asked).unwrap_or_else(|| self.answer(&asked));
        if reply.end == End::Silence {
            return hang(stream).await;
        }
        let mut head = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", reply.status);
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", reply.body.len()));
        let body: &[u8] = if asked.method == "HEAD" { &[] } else { &reply.body };
        let part = match reply.end {
            End::Whole | End::Silence => body,
            End::CutAfter(count) | End::HangAfter(count) => &body[..count],
        };
        // the client may have gone away, which is its right
        let _gone = stream.write_all(&[head.as_bytes(), part].concat()).await;
        match reply.end {
            End::HangAfter(_) => hang(stream).await,
            End::Whole | End::CutAfter(_) | End::Silence => {
                let _gone = stream.shutdown().await;
            }
        }
    }

    async fn read(&self, stream: &mut impl Stream) -> Option<Asked> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = bytes[end + 4..].to_vec();
        while body.len() < length {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.ok()?;
            body.extend_from_slice(&buffer[..count]);
        }
        let body = String::from_utf8(body).unwrap();
        let mut state = self.state.lock().unwrap();
        let same = |known: &&Asked| known.method == method && known.target == target;
        let before = state.asked.iter().filter(same).count();
        let asked = Asked { method, target, headers, body, before };
        state.asked.push(asked.clone());
        drop(state);
        self.count.send_modify(|count| *count += 1);
        Some(asked)
    }

    fn answer(&self, asked: &Asked) -> Reply {
        let state = self.state.lock().unwrap();
        let path = asked.target.split('?').next().unwrap_or_default();
        let path = path.strip_prefix("/v2/").unwrap_or_default();
        if let Some((repository, name)) = path.split_once("/manifests/") {
            let found = state.manifests.get(&format!("{repository}/{name}"));
            return match found {
                Some((media_type, bytes)) => Reply::new(200, bytes.clone())
                    .with("content-type", media_type)
                    .with("docker-content-digest", digest(bytes)),
                None => Reply::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#),
            };
        }
        let blob = path.split_once("/blobs/").and_then(|(_, digest)| state.blobs.get(digest));
        let Some(blob) = blob else { return Reply::new(404, "") };
        let range = asked.header("range").strip_prefix("bytes=").and_then(|r| r.strip_suffix('-'));
        match range.map(|from| from.parse::<usize>().unwrap()) {
            None => Reply::new(200, blob.clone()),
            Some(from) => Reply::new(206, blob[from..].to_vec())
                .with("content-range", format!("bytes {from}-{}/{}", blob.len() - 1, blob.len())),
        }
    }
}

/// Until the client goes away.
async fn hang(mut stream: impl Stream) {
    let mut buffer = [0; 64];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
