//! Which certificates of webhooks are trusted: what the `caBundle` of the configuration has signed,
//! and a certificate that stands in it itself, as Go's TLS trusts it. Without a bundle it is what
//! the machine trusts.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, client};

/// TLS to a webhook with this `caBundle` (PEM); empty is none.
pub(super) fn client_config(ca_bundle: &[u8]) -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let listed = CertificateDer::pem_slice_iter(ca_bundle)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| io::Error::other(format!("read the caBundle: {error}")))?;
    let mut roots = RootCertStore::empty();
    if ca_bundle.is_empty() {
        roots.clone_from(machine_roots());
    } else if listed.is_empty() {
        return Err(io::Error::other("the caBundle holds no certificate"));
    } else {
        roots.add_parsable_certificates(listed.iter().cloned());
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| io::Error::other(format!("use the caBundle: {error}")))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(BundleVerifier { listed, verifier }))
        .with_no_client_auth();
    Ok(config)
}

/// What the machine trusts, read once.
fn machine_roots() -> &'static RootCertStore {
    static READ: OnceLock<RootCertStore> = OnceLock::new();
    READ.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

/// Trusts what the verifier trusts, and a certificate that is listed.
#[derive(Debug)]
struct BundleVerifier {
    listed: Vec<CertificateDer<'static>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.listed.iter().any(|listed| listed == end_entity) {
            client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.verifier.verify_server_cert(end_entity, intermediates, name, stapled, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
