//! TLS: our own certificates, client certificates checked when a client shows one. And the
//! machine's randomness, which comes from the same library.

use std::net::IpAddr;
use std::sync::Arc;

use rekindle_api::entropy::Entropy;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::pki::{CertificateAuthority, PkiError};

/// What the server shows and demands.
#[derive(Clone)]
pub struct TlsListener {
    acceptor: TlsAcceptor,
}

impl TlsListener {
    /// TLS for a server that listens on these addresses: HTTP/2 and HTTP/1.1; clients may show
    /// certificates of the same CA.
    ///
    /// # Errors
    /// When a certificate cannot be issued.
    pub fn new(pki: &CertificateAuthority, listen: &[IpAddr]) -> Result<Self, PkiError> {
        let issued = pki.server(listen)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| PkiError::Tls { source };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pki.ca_pem().as_bytes()) {
            let certificate = certificate.map_err(|error| failed(Box::new(error)))?;
            roots.add(certificate).map_err(|error| failed(Box::new(error)))?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| failed(Box::new(error)))?;
        let chain = CertificateDer::pem_slice_iter(issued.certificate_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failed(Box::new(error)))?;
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes())
            .map_err(|error| failed(Box::new(error)))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(Box::new(error)))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| failed(Box::new(error)))?;
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
