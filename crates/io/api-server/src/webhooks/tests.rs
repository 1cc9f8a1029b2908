//! Webhooks over real TLS on loopback: which certificates are trusted, and what becomes of servers
//! that are dead, slow or wrong.

use std::net::SocketAddr;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::pod_dialer::NoPods;
use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A certificate for `localhost` with its key, and the bundle that it is trusted by.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    bundle: String,
}

fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn signed_by_authority(name: &str) -> Identity {
    let mut authority = params(&[]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params(&[name]).signed_by(&key, &issuer).unwrap();
    Identity {
        certificate: certificate.der().clone(),
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        bundle: issuer.pem(),
    }
}

fn self_signed(name: &str) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = params(&[name]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    Identity {
        certificate: certificate.der().clone(),
        bundle: certificate.pem(),
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    }
}

/// A server that reads one request, and answers with this text. Gives what it has read.
async fn serve(
    identity: &Identity,
    answer: Option<&'static str>,
) -> (SocketAddr, tokio::task::JoinHandle<String>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(stream).await else { return String::new() };
        let mut read = vec![0; 4096];
        let mut bytes = 0;
        while !read[..bytes].ends_with(b"{}") {
            match stream.read(&mut read[bytes..]).await {
                Ok(0) | Err(_) => break,
                Ok(more) => bytes += more,
            }
        }
        if let Some(answer) = answer {
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        } else {
            // it keeps the connection until the client gives up
            while stream.read(&mut read).await.is_ok_and(|more| more > 0) {}
        }
        String::from_utf8_lossy(&read[..bytes]).into_owned()
    });
    (address, served)
}

fn question(address: SocketAddr, host: &str, bundle: &str) -> WebhookQuestion {
    WebhookQuestion {
        webhook: "a.example.org".to_owned(),
        target: WebhookTarget {
            url: format!("https://{host}:{}/x?timeout=10s", address.port()),
            endpoint: None,
        },
        ca_bundle: Bytes::copy_from_slice(bundle.as_bytes()),
        timeout_seconds: 30,
        body: Bytes::from_static(b"{}"),
        answer_bytes_max: 1 << 20,
    }
}

async fn ask_one(question: WebhookQuestion) -> Result<Bytes, String> {
    let dialer: Arc<dyn PodDialer> = Arc::new(NoPods);
    ask_all(&dialer, vec![question], Instant::now() + LONG).await.remove(0)
}

const YES: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes";

#[tokio::test]
async fn a_webhook_is_posted_to_at_its_host_and_path() {
    let identity = signed_by_authority("localhost");
    let (address, served) = serve(&identity, Some(YES)).await;
    let answer = ask_one(question(address, "localhost", &identity.bundle)).await;
    assert_eq!(answer.unwrap(), "yes");
    let request = served.await.unwrap();
    assert!(request.starts_with("POST /x?timeout=10s HTTP/1.1\r\n"), "{request}");
    let host = format!("host: localhost:{}\r\n", address.port());
    assert!(request.contains(&host) && request.ends_with("\r\n\r\n{}"), "{request}");
}

#[tokio::test]
async fn only_certificates_of_the_bundle_are_trusted() {
    for (identity, host, bundle, wanted) in [
        (self_signed("localhost"), "localhost", None, ""),
        (self_signed("other.example.org"), "localhost", None, "not valid for name"),
        (signed_by_authority("127.0.0.1"), "127.0.0.1", None, ""),
        (signed_by_authority("other.example.org"), "localhost", None, "not valid for name"),
        (
            signed_by_authority("localhost"),
            "localhost",
            Some(signed_by_authority("localhost").bundle),
            "invalid peer certificate",
        ),
        (signed_by_authority("localhost"), "localhost", Some(String::new()), ""),
        (signed_by_authority("localhost"), "localhost", Some("text".to_owned()), "caBundle"),
    ] {
        let machine_decides = bundle.as_ref().is_some_and(String::is_empty);
        let bundle = bundle.unwrap_or_else(|| identity.bundle.clone());
        let (address, served) = serve(&identity, Some(YES)).await;
        let answer = ask_one(question(address, host, &bundle)).await;
        served.abort();
        match answer {
            Ok(answer) => {
                assert!(wanted.is_empty() && !machine_decides, "{host}: trusted");
                assert_eq!(answer, "yes");
            }
            Err(why) => {
                assert!(!wanted.is_empty() || machine_decides, "{host}: {why}");
                assert!(why.contains(wanted), "{host}: {why}, not {wanted}");
            }
        }
    }
}

#[tokio::test]
async fn a_webhook_that_is_dead_or_wrong_is_named_with_the_reason() {
    let identity = signed_by_authority("localhost");
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let dead = ask_one(question(unused, "localhost", &identity.bundle)).await.unwrap_err();
    assert!(dead.contains("onnection refused"), "{dead}");
    for (answer, wanted) in [
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "answered 500"),
        ("HTTP/1.1 302 Found\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n", "answered 302"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nyes", ""),
        ("nonsense\r\n\r\n", ""),
        ("", ""),
    ] {
        let (address, _served) = serve(&identity, Some(answer)).await;
        let why = ask_one(question(address, "localhost", &identity.bundle)).await.unwrap_err();
        assert!(why.contains(wanted), "{answer:?}: {why}");
    }
}

#[tokio::test]
async fn a_slow_webhook_has_the_shorter_of_its_time_and_that_of_the_request() {
    let identity = signed_by_authority("localhost");
    let (address, _served) = serve(&identity, None).await;
    let dialer: Arc<dyn PodDialer> = Arc::new(NoPods);
    let deadline = Instant::now() + Duration::from_millis(50);
    let slow = question(address, "localhost", &identity.bundle);
    let answers = ask_all(&dialer, vec![slow], deadline).await;
    assert_eq!(answers, [Err("context deadline exceeded".to_owned())]);
}
