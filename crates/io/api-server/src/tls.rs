//! TLS: our own certificates, client certificates checked when a client shows one. And the
//! machine's randomness, which comes from the same library.

use std::net::IpAddr;
use std::sync::Arc;

use rekindle_api::entropy::Entropy;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::clock::Clock;
use crate::pki::{CertificateAuthority, PkiError};
use crate::shown_certificate::ShownCertificate;

/// What the server shows and demands.
#[derive(Clone)]
pub struct TlsListener {
    acceptor: TlsAcceptor,
}

impl TlsListener {
    /// TLS for a server that listens on these addresses: HTTP/2 and HTTP/1.1; clients may show
    /// certificates of the same CA. The server's own is renewed while it runs.
    ///
    /// # Errors
    /// When a certificate cannot be issued.
    pub fn new(
        pki: Arc<CertificateAuthority>,
        listen: &[IpAddr],
        clock: Clock,
    ) -> Result<Self, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pki.ca_pem().as_bytes()) {
            roots.add(certificate.map_err(PkiError::tls)?).map_err(PkiError::tls)?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(PkiError::tls)?;
        let listen = listen.to_owned();
        let own = ShownCertificate::new(clock, move |now| pki.server(&listen, now))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(PkiError::tls)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

/// The machine's randomness.
pub struct OsEntropy {
    provider: CryptoProvider,
}

impl Default for OsEntropy {
    fn default() -> Self {
        Self { provider: rustls::crypto::ring::default_provider() }
    }
}

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.provider
            .secure_random
            .fill(bytes)
            .expect("getrandom cannot fail on a Linux that has booted");
    }
}
