use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rekindle_types::Tick;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

#[test]
fn a_webhook_is_a_url_of_http_without_credentials() {
    for url in ["http://127.0.0.1:9/x", "https://hooks.example/T0/B1?team=shop"] {
        assert!(read(url).is_ok(), "{url}");
    }
    for (url, says) in [
        ("hooks.example/x", "no URL such as https://hooks.example/T1"),
        ("hooks.example", "must begin with http:// or https://"),
        ("ftp://hooks.example/x", "must begin with http:// or https://"),
        ("https://me:secret@hooks.example/x", "may hold no user and password"),
        ("https://hooks example/", "no URL such as"),
    ] {
        let error = read(url).expect_err(url).to_string();
        assert!(error.contains(says) && !error.contains("secret"), "{error}");
    }
    assert!(matches!(read(&format!("http://a/{}", "x".repeat(2048))), Err(WebhookError::TooLong)));
}

#[test]
fn a_redirect_is_told_as_one() {
    let told = |code| {
        let status = http::StatusCode::from_u16(code).expect("a code");
        DeliveryError::Answer(status).to_string()
    };
    assert_eq!(told(302), "it answered 302 Found: redirects are not followed");
    assert_eq!(told(500), "it answered 500 Internal Server Error");
}

/// An authority of the test's own.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A receiver on loopback that takes one connection, with a certificate of this authority for
/// 127.0.0.1. What it received comes back when TLS was agreed on.
async fn receiver(
    authority: &CertifiedIssuer<'static, KeyPair>,
) -> (SocketAddr, tokio::task::JoinHandle<std::io::Result<String>>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
        let mut received = Vec::new();
        while !received.ends_with(b"}") {
            if stream.read_buf(&mut received).await? == 0 {
                break;
            }
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        stream.shutdown().await?;
        Ok(String::from_utf8_lossy(&received).into_owned())
    });
    (address, served)
}

fn news() -> ExhaustionNotice {
    ExhaustionNotice::new(&RestartLedger::default(), Tick::from_secs(1))
}

#[tokio::test]
async fn a_receiver_with_a_certificate_of_the_given_authority_is_told() {
    let authority = authority();
    let (address, served) = receiver(&authority).await;
    let pem = authority.pem();
    let webhook = Webhook::new(&format!("https://{address}/T1"), Some(pem.as_bytes())).unwrap();
    webhook.post(&news()).await.unwrap();
    let received = served.await.unwrap().unwrap();
    assert!(received.starts_with("POST /T1 HTTP/1.1\r\n"), "{received}");
    assert!(received.contains("content-type: application/json"), "{received}");
    assert!(received.ends_with('}') && received.contains("LadderExhausted"), "{received}");
}

#[tokio::test]
async fn a_receiver_with_a_certificate_of_nobody_who_is_trusted_is_told_nothing() {
    let (theirs, other) = (authority(), authority());
    for authorities in [None, Some(other.pem())] {
        let (address, served) = receiver(&theirs).await;
        let pem = authorities.as_ref().map(String::as_bytes);
        let webhook = Webhook::new(&format!("https://{address}/secret"), pem).unwrap();
        let error = webhook.post(&news()).await.expect_err("it is not trusted").to_string();
        assert!(error.contains("certificate"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        assert!(served.await.unwrap().is_err(), "TLS was not agreed on");
    }
}

#[test]
fn authorities_that_are_none_are_refused() {
    for (url, pem, says) in [
        ("https://hooks.example/", "", "holds no certificates"),
        ("https://hooks.example/", "no certificate", "holds no certificates"),
        ("http://hooks.example/", "", "have no use there"),
    ] {
        let error = Webhook::new(url, Some(pem.as_bytes())).expect_err(url).to_string();
        assert!(error.contains(says), "{error}");
    }
}
