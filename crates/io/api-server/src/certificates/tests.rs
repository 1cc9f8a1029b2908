//! The signer beside a server in memory.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use rekindle_api::auth::AuthorizationMode;
use rekindle_kinds::identity::UserInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::*;
use crate::SystemClock;
use crate::memory_front::{call, front_in_memory};
use crate::pki::ClientCertificate;

/// A name may hold what a path cannot.
const NAME: &str = "Ann's request #1?";
const PATH: &str =
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/Ann's%20request%20%231%3F";

fn request() -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "ann");
    params.distinguished_name.push(DnType::OrganizationName, "dev");
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": NAME},
        "spec": {
            "request": STANDARD.encode(request.pem().unwrap()),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    })
}

#[tokio::test]
async fn a_request_that_was_approved_without_a_signer_is_signed_when_one_runs() {
    let clock = SystemClock::start();
    let front = front_in_memory(&clock, AuthorizationMode::Rbac);
    front.api().verify_signatures_with(RingSignatures);
    let authority = Arc::new(CertificateAuthority::ephemeral(clock.now()).unwrap());
    let mut made = call(&front, Method::POST, COLLECTION, &request()).await;
    made["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    call(&front, Method::PUT, &format!("{PATH}/approval"), &made).await;
    let approved = call(&front, Method::GET, PATH, &Value::Null).await;
    assert_eq!(approved["status"]["conditions"][0]["type"], "Approved");
    assert_eq!(approved["status"]["certificate"], Value::Null);

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let signing = tokio::spawn(sign_certificates(front.clone(), authority, stopped));
    let mut changes = front.api().follow_signing_requests().unwrap().unwrap();
    let certificate = loop {
        let Some(FollowedRequest::Changed(request)) = changes.next().await else { panic!() };
        assert_eq!(request.metadata.name.as_deref(), Some(NAME));
        if let Some(certificate) = request.status.as_ref().and_then(|it| it.certificate.clone()) {
            break certificate;
        }
    };
    drop(stop);
    signing.await.unwrap();
    let certificate = CertificateDer::from_pem_slice(&certificate.0).unwrap();
    let read = ClientCertificate::from_der(&certificate).unwrap();
    assert_eq!(read.user, UserInfo::new("ann", ["dev".to_owned()]));
}
