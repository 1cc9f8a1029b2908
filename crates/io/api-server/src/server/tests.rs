//! What clients that do not say who they are can take of a server: over streams in memory, in
//! virtual time.

use std::net::IpAddr;

use rekindle_api::auth::AuthorizationMode;
use rekindle_kinds::identity::UserInfo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::client::TlsStream;

use super::*;
use crate::SystemClock;
use crate::memory_front::front_in_memory;
use crate::pki::{CERTIFICATE_LIFETIME, CertificateAuthority};

const PODS: &str = "/api/v1/namespaces/default/pods";

struct World {
    server: Arc<ApiServer>,
    table: ConnectionTable,
    graceful: GracefulShutdown,
    pki: Arc<CertificateAuthority>,
    clock: SystemClock,
}

/// A client's end, unencrypted still, and the task that serves the other end.
struct Dialled {
    stream: DuplexStream,
    serving: tokio::task::JoinHandle<()>,
}

impl World {
    fn new(connections: ConnectionLimits) -> Self {
        let clock = SystemClock::start();
        let pki = Arc::new(CertificateAuthority::ephemeral(clock.now()).unwrap());
        let tls = TlsListener::new(Arc::clone(&pki), &[], clock.shared()).unwrap();
        let front = front_in_memory(&clock, AuthorizationMode::Rbac);
        let limits = ServerLimits { connections, ..ServerLimits::default() };
        Self {
            server: Arc::new(ApiServer::new(front, tls, limits)),
            table: ConnectionTable::new(connections),
            graceful: GracefulShutdown::new(),
            pki,
            clock,
        }
    }

    fn dial(&self, source: [u8; 4]) -> Dialled {
        let (stream, theirs) = duplex(64 * 1024);
        let seat = self.table.enter(IpAddr::from(source));
        let (server, watcher) = (Arc::clone(&self.server), self.graceful.watcher());
        let serving = tokio::spawn(async move { server.connection(theirs, watcher, seat).await });
        Dialled { stream, serving }
    }

    async fn tls(&self, stream: DuplexStream, user: Option<&UserInfo>) -> TlsStream<DuplexStream> {
        let mut roots = rustls::RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.pki.ca_pem().as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match user {
            None => builder.with_no_client_auth(),
            Some(user) => {
                let issued = self.pki.client(user, CERTIFICATE_LIFETIME, self.clock.now()).unwrap();
                let pem = issued.certificate_pem.as_bytes();
                let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
                let chain = vec![CertificateDer::from_pem_slice(pem).unwrap()];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

fn admin() -> UserInfo {
    UserInfo::internal("admin")
}

/// Sends a request and reads the first line of the answer.
async fn ask(stream: &mut TlsStream<DuplexStream>, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_body_is_never_read_and_its_sender_is_answered_at_once() {
    let world = World::new(ConnectionLimits::default());
    for (method, path, token, code) in [
        ("POST", PODS, "", "401"),
        ("POST", PODS, "Authorization: Bearer none-of-ours\r\n", "401"),
        ("GET", "/readyz", "", "200"),
    ] {
        let began = tokio::time::Instant::now();
        let dialled = world.dial([10, 0, 0, 1]);
        let mut client = world.tls(dialled.stream, None).await;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\n{token}Content-Length: 3000000\r\n\r\nthe rest never comes"
        );
        assert_eq!(ask(&mut client, &request).await, format!("HTTP/1.1 {code}"), "{path}");
        let mut rest = Vec::new();
        // a close without a farewell is one, too
        let _ended = client.read_to_end(&mut rest).await;
        dialled.serving.await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "{path}: nobody waited for anything");
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_is_told_before_the_body_is_read() {
    let world = World::new(ConnectionLimits::default());
    let began = tokio::time::Instant::now();
    let dialled = world.dial([10, 0, 0, 1]);
    let mut bob = world.tls(dialled.stream, Some(&UserInfo::new("bob", []))).await;
    let request = format!("POST {PODS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(ask(&mut bob, &request).await, "HTTP/1.1 403");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_client_has_ten_seconds_to_say_who_it_is() {
    let world = World::new(ConnectionLimits::default());
    let known = world.dial([10, 0, 0, 1]);
    let mut admin = world.tls(known.stream, Some(&admin())).await;
    let began = tokio::time::Instant::now();
    let silent = world.dial([10, 0, 0, 2]);
    let unknown = world.dial([10, 0, 0, 3]);
    let mut health = world.tls(unknown.stream, None).await;
    assert_eq!(ask(&mut health, &get("/readyz")).await, "HTTP/1.1 200");
    silent.serving.await.unwrap();
    unknown.serving.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(ask(&mut admin, &get("/version")).await, "HTTP/1.1 200", "who is known may wait");
}

#[tokio::test(start_paused = true)]
async fn a_flood_from_one_address_ends_its_own_oldest_connections() {
    let limits = ConnectionLimits {
        unidentified_max: 4,
        unidentified_of_source_max: 2,
        ..ConnectionLimits::default()
    };
    let world = World::new(limits);
    let began = tokio::time::Instant::now();
    let other = world.dial([10, 0, 0, 2]);
    let mut flood: Vec<Dialled> = (0..50).map(|_| world.dial([10, 0, 0, 1])).collect();
    let newest = flood.split_off(48);
    for oldest in flood {
        oldest.serving.await.unwrap();
    }
    assert_eq!((world.table.len(), began.elapsed()), (3, Duration::ZERO));
    let mut other = world.tls(other.stream, Some(&admin())).await;
    assert_eq!(ask(&mut other, &get("/version")).await, "HTTP/1.1 200");
    assert!(newest.iter().all(|connection| !connection.serving.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn when_all_places_are_taken_the_oldest_unknown_goes_and_users_stay() {
    let limits = ConnectionLimits { unidentified_max: 2, ..ConnectionLimits::default() };
    let world = World::new(limits);
    let first = world.dial([10, 0, 0, 1]);
    let mut known = world.tls(first.stream, Some(&admin())).await;
    assert_eq!(ask(&mut known, &get("/version")).await, "HTTP/1.1 200");
    let unknown: Vec<Dialled> = (2..5).map(|host| world.dial([10, 0, 0, host])).collect();
    let mut unknown = unknown.into_iter();
    unknown.next().unwrap().serving.await.unwrap();
    assert!(unknown.all(|connection| !connection.serving.is_finished()));
    assert!(!first.serving.is_finished());
    assert_eq!(world.table.len(), 3);
}

/// What HTTP/2 lets a client send of bodies before anybody has read its requests: 64 KiB of a
/// connection without a certificate.
#[tokio::test(start_paused = true)]
async fn an_unknown_client_has_the_smallest_windows_of_http2() {
    const SETTINGS: u8 = 4;
    const WINDOW_UPDATE: u8 = 8;
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let world = World::new(ConnectionLimits::default());
    let dialled = world.dial([10, 0, 0, 1]);
    let mut client = world.tls(dialled.stream, None).await;
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut window = None;
    // the settings, and whatever comes before the acknowledgement of ours
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        client.read_exact(&mut payload).await.unwrap();
        assert_ne!(head[3], WINDOW_UPDATE, "the connection's window is not made larger");
        if head[3] == SETTINGS && head[4] == 1 {
            break;
        }
        for setting in payload.chunks_exact(6) {
            let (name, value) = setting.split_at(2);
            if u16::from_be_bytes(name.try_into().unwrap()) == INITIAL_WINDOW_SIZE {
                window = Some(u32::from_be_bytes(value.try_into().unwrap()));
            }
        }
    }
    assert_eq!(window.unwrap_or(65_535), 65_535);
}

/// Reads an answer whose length its head tells.
async fn whole_answer(stream: &mut TlsStream<DuplexStream>) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("its length").parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    (head, body)
}

/// More than one piece of it.
#[tokio::test]
async fn a_long_list_tells_its_length_and_comes_whole() {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let world = World::new(ConnectionLimits::default());
    let dialled = world.dial([10, 0, 0, 1]);
    let mut client = world.tls(dialled.stream, Some(&admin())).await;
    for number in 0..100 {
        let value = number.to_string().repeat(2000);
        let metadata = format!(r#"{{"name":"n-{number}","annotations":{{"a":"{value}"}}}}"#);
        let body = format!(r#"{{"metadata":{metadata}}}"#);
        let request = format!(
            "POST {NAMESPACES} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let (head, _) = whole_answer(&mut client).await;
        assert!(head.starts_with("http/1.1 201"), "{head}");
    }
    for form in ["", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n"] {
        let request = format!("GET {NAMESPACES} HTTP/1.1\r\nHost: x\r\n{form}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let (head, body) = whole_answer(&mut client).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let items = list["items"].as_array().or(list["rows"].as_array()).unwrap();
        assert_eq!(items.len(), 100);
    }
}
