//! Which certificates of other servers (webhooks, aggregated API servers) are trusted: what a
//! `caBundle` has signed, and a certificate that stands in it itself, as Go's TLS trusts it.
//! Without a bundle it is what the machine trusts.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    WantsVerifier, client,
};
use rustls_native_certs::CertificateResult;

/// Waits for the certificate that the client itself shows.
pub(super) type TrustingConfig = ConfigBuilder<ClientConfig, client::WantsClientCert>;

/// TLS to a server that this `caBundle` (PEM) vouches for; empty is none.
pub(super) fn config_of_bundle(ca_bundle: &[u8]) -> io::Result<TrustingConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let listed = CertificateDer::pem_slice_iter(ca_bundle)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| io::Error::other(format!("read the caBundle: {error}")))?;
    let roots = if ca_bundle.is_empty() {
        machine_roots()?
    } else if listed.is_empty() {
        return Err(io::Error::other("the caBundle holds no certificate"));
    } else {
        Arc::new(parsable(listed.iter().cloned()))
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| io::Error::other(format!("use the caBundle: {error}")))?;
    Ok(builder(provider)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(BundleVerifier { listed, verifier })))
}

/// TLS to a server whatever certificate it shows: its owner has asked for that.
pub(super) fn config_of_anything() -> io::Result<TrustingConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    Ok(builder(provider)?.dangerous().with_custom_certificate_verifier(verifier))
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> io::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)
}

/// What the machine trusts, read until there is something.
fn machine_roots() -> io::Result<Arc<RootCertStore>> {
    static READ: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = READ.get() {
        return Ok(Arc::clone(roots));
    }
    let roots = roots_of_machine(rustls_native_certs::load_native_certs())?;
    Ok(Arc::clone(READ.get_or_init(|| Arc::new(roots))))
}

/// Trust in what the machine has. That may be nothing, as in a small image.
fn roots_of_machine(loaded: CertificateResult) -> io::Result<RootCertStore> {
    for error in &loaded.errors {
        tracing::warn!(%error, "failed to read certificates that this machine trusts");
    }
    let roots = parsable(loaded.certs);
    if roots.is_empty() {
        return Err(io::Error::other(
            "this machine trusts no certificate: install those of the public CAs \
             (package ca-certificates), or give a caBundle",
        ));
    }
    Ok(roots)
}

/// Trust in those of the certificates that can be read.
fn parsable(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    roots
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

/// Trusts every certificate, if its owner signs the handshake.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_trusts_no_certificate_is_an_error_that_says_what_to_do() {
        let none = roots_of_machine(CertificateResult::default());
        assert!(none.unwrap_err().to_string().contains("ca-certificates"));
        let root = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let mut loaded = CertificateResult::default();
        loaded.certs.push(root.cert.der().clone());
        assert_eq!(roots_of_machine(loaded).unwrap().len(), 1);
    }
}
