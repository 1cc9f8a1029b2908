//! What a request for a certificate says.

use der::Encode;
use proptest::prelude::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::*;

/// A request of this subject, PEM.
fn request(common_name: &str, organization: Option<&str>, names: &[SanType]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.subject_alt_names = names.to_vec();
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

#[test]
fn a_text_with_more_than_one_block_is_no_request() {
    let (shown, hidden) = (request("mallory", None, &[]), request("admin", None, &[]));
    assert!(CertificateRequest::parse(shown.as_bytes()).is_ok());
    let with_header = shown.replacen("-----\n", "-----\nA: b\n\n", 1);
    for text in [
        format!("x{hidden}\n{shown}"),
        format!("{shown}{hidden}"),
        format!("text\n{shown}"),
        format!("{shown}text"),
        with_header,
    ] {
        let refused = CertificateRequest::parse(text.as_bytes()).unwrap_err();
        assert_eq!(refused, CertificateRequestError::OtherBlock, "{text}");
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let good = request("ann", None, &[]);
    let error = |text: &str| CertificateRequest::parse(text.as_bytes()).map(drop).unwrap_err();
    assert_eq!(error(""), CertificateRequestError::OtherBlock);
    assert_eq!(error(&good.replace("REQUEST", "")), CertificateRequestError::OtherBlock);
    let mut der = pem::parse(&good).unwrap().into_contents();
    der.push(0);
    let longer = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
    assert!(matches!(error(&longer), CertificateRequestError::Malformed(_)));
}

struct Refuses;

impl SignatureVerifier for Refuses {
    fn is_signature(&self, scheme: SignatureScheme, _: &[u8], _: &[u8], _: &[u8]) -> bool {
        assert_eq!(scheme, SignatureScheme::P256Sha256);
        false
    }
}

#[test]
fn a_signature_of_another_key_is_refused() {
    let asked = CertificateRequest::parse(request("ann", None, &[]).as_bytes()).unwrap();
    let error = asked.check_signature(&Refuses).unwrap_err();
    assert_eq!(error, CertificateRequestError::BadSignature);
}

proptest! {
    #[test]
    fn no_bytes_panic(at in 0_usize..400, byte in any::<u8>(), end in 0_usize..400) {
        let good = request("system:node:a", Some("system:nodes"), &[SanType::DnsName("a".try_into().unwrap())]);
        let mut der = pem::parse(good).unwrap().into_contents();
        let at = at % der.len();
        der[at] = byte;
        if end < der.len() {
            der.truncate(end);
        }
        let text = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
        if let Ok(asked) = CertificateRequest::parse(text.as_bytes()) {
            let _ = asked.common_names();
            prop_assert!(asked.subject().to_der().is_ok());
        }
    }
}
