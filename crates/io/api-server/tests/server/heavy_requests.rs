//! Heavy requests of clients, and bodies that many send at once: nobody else waits for them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use rekindle_api::{Api, ApiParts, Entropy};
use rekindle_api_server::pki::{CERTIFICATE_LIFETIME, CertificateAuthority};
use rekindle_api_server::{ApiServer, Front, OsEntropy, ServerLimits, SystemClock, TlsListener};
use rekindle_kinds::identity::UserInfo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::memory_front;

type Piece = Result<Frame<Bytes>, std::io::Error>;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Randomness that does not come while somebody holds its gate: the handling of a creation stands
/// still there.
struct GatedEntropy {
    entropy: OsEntropy,
    gate: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
    reached: tokio::sync::mpsc::UnboundedSender<()>,
}

impl Entropy for GatedEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        if let Some(gate) = self.gate.lock().unwrap().take() {
            self.reached.send(()).unwrap();
            assert!(gate.recv().is_err(), "opened by dropping the other end");
        }
        self.entropy.fill(bytes);
    }
}

struct World {
    address: SocketAddr,
    front: Front,
    pki: Arc<CertificateAuthority>,
    gate: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
    reached: tokio::sync::mpsc::UnboundedReceiver<()>,
}

impl World {
    /// An API that is served on the test's own and only thread.
    async fn new() -> Self {
        let clock = SystemClock::start();
        let pki = Arc::new(CertificateAuthority::ephemeral(clock.now()).unwrap());
        let gate = Arc::new(Mutex::new(None));
        let (told, reached) = tokio::sync::mpsc::unbounded_channel();
        let entropy =
            GatedEntropy { entropy: OsEntropy::default(), gate: Arc::clone(&gate), reached: told };
        let parts = ApiParts { entropy: Box::new(entropy), ..memory_front::api_parts() };
        let front = memory_front::front(Api::new(parts), &clock);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = TlsListener::new(Arc::clone(&pki), &[address.ip()], clock.shared()).unwrap();
        let server = ApiServer::new(front.clone(), tls, ServerLimits::default());
        tokio::spawn(server.serve(listener, futures::future::pending()));
        Self { address, front, pki, gate, reached }
    }

    async fn connect(&self, name: &str) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.pki.ca_pem().as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let user = UserInfo::new(name, ["system:masters".to_owned()]);
        let issued = self.pki.client(&user, CERTIFICATE_LIFETIME, self.front.now()).unwrap();
        let pem = issued.certificate_pem.as_bytes();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pem).unwrap()],
                PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap(),
            )
            .unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

fn request(method: &str, path: &str, content_type: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/{content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn answer(mut stream: impl AsyncReadExt + Unpin) -> String {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// The server's only thread would stand still if it handled the large creation itself, and so would
/// this test.
#[tokio::test]
async fn a_heavy_request_holds_up_no_light_one_and_no_patch_of_somebody_else() {
    let mut world = World::new().await;
    let (open, gate) = mpsc::channel();
    *world.gate.lock().unwrap() = Some(gate);
    let large = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"},
        "data": {"a": "x".repeat(100_000)},
    });
    let mut ann = world.connect("ann").await;
    let large = request("POST", CONFIG_MAPS, "json", &large.to_string());
    ann.write_all(large.as_bytes()).await.unwrap();
    world.reached.recv().await.unwrap();

    let mut bob = world.connect("bob").await;
    bob.write_all(request("GET", CONFIG_MAPS, "json", "").as_bytes()).await.unwrap();
    let list = answer(bob).await;
    assert!(list.starts_with("HTTP/1.1 200") && !list.contains("\"large\""), "{list}");
    let mut bob = world.connect("bob").await;
    let path = "/api/v1/namespaces/default";
    let label = request("PATCH", path, "merge-patch+json", r#"{"metadata":{"labels":{"a":"b"}}}"#);
    bob.write_all(label.as_bytes()).await.unwrap();
    let patched = answer(bob).await;
    assert!(patched.starts_with("HTTP/1.1 200"), "{patched}");

    drop(open);
    let made = answer(ann).await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
}

#[tokio::test]
async fn bodies_of_one_user_that_do_not_end_take_only_that_users_share() {
    let world = World::new().await;
    let grant = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "everybody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}],
    });
    let send = |user: UserInfo, path: &str, pieces: BoxStream<'static, Piece>| {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(StreamBody::new(pieces))
            .unwrap();
        let service = world.front.in_process_service(user);
        async move { service.oneshot(request).await.unwrap().status() }
    };
    let whole = |bytes: Bytes| stream::iter([Piece::Ok(Frame::data(bytes))]).boxed();
    let endless = |bytes: Bytes| whole(bytes).chain(stream::pending()).boxed();
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let grant = whole(grant.to_string().into());
    let granted = send(UserInfo::internal("admin"), bindings, grant).await;
    assert_eq!(granted, StatusCode::CREATED);

    let ann = || UserInfo::new("ann", []);
    let half = Bytes::from(vec![b' '; 3 << 20]);
    let send_half = |_| Box::pin(send(ann(), CONFIG_MAPS, endless(half.clone())));
    let mut held: Vec<_> = (0..4).map(send_half).collect();
    for body in &mut held {
        assert!(futures::poll!(body).is_pending(), "it waits for the rest");
    }
    let brace = Bytes::from_static(b"{");
    let refused = send(ann(), CONFIG_MAPS, endless(brace.clone())).await;
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    let small = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
    });
    let small = whole(small.to_string().into());
    let made = send(UserInfo::new("bob", []), CONFIG_MAPS, small).await;
    assert_eq!(made, StatusCode::CREATED);
    held.pop();
    let refused = send(ann(), CONFIG_MAPS, whole(brace)).await;
    assert_eq!(refused, StatusCode::BAD_REQUEST, "there is room again for what makes no sense");
}
