//! The certificate that a server or a client of ours shows: at each handshake the newest.

use std::sync::Arc;

use rekindle_types::Tick;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, crypto};

use crate::clock::Clock;
use crate::pki::{IssuedCertificate, PkiError, RenewedCertificate};

/// Issued, and renewed while it is in use.
#[derive(Debug)]
pub(crate) struct ShownCertificate(RenewedCertificate<CertifiedKey>);

impl ShownCertificate {
    /// Issues the first one.
    ///
    /// # Errors
    /// When that fails.
    pub(crate) fn new(
        clock: Clock,
        issue: impl Fn(Tick) -> Result<IssuedCertificate, PkiError> + Send + Sync + 'static,
    ) -> Result<Self, PkiError> {
        RenewedCertificate::new(clock, move |now| certified_key(&issue(now)?)).map(Self)
    }
}

impl ResolvesServerCert for ShownCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }
}

impl ResolvesClientCert for ShownCertificate {
    fn resolve(
        &self,
        _issuers: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn certified_key(issued: &IssuedCertificate) -> Result<CertifiedKey, PkiError> {
    let chain = CertificateDer::pem_slice_iter(issued.certificate_pem.as_bytes());
    let chain = chain.collect::<Result<_, _>>().map_err(PkiError::tls)?;
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).map_err(PkiError::tls)?;
    CertifiedKey::from_der(chain, key, &crypto::ring::default_provider()).map_err(PkiError::tls)
}
