//! TLS without a look at the certificate: a probe asks whether somebody answers, not who, and a
//! pod's certificate is made out for names that clients use, not for the pod's address. The kubelet
//! does the same. Nothing secret is sent.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, InvalidMessage, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why there is no encrypted connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("set up TLS: {0}")]
    Config(#[from] rustls::Error),
    #[error("{host:?} is not a host name: {source}")]
    Name { host: String, source: InvalidDnsNameError },
    #[error("tls: {0}")]
    Handshake(#[from] std::io::Error),
}

impl TlsError {
    /// True when what came back is not TLS at all.
    pub(super) fn met_no_tls(&self) -> bool {
        match self {
            Self::Handshake(error) => {
                let error = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
                let no_record = InvalidMessage::InvalidContentType;
                error == Some(&rustls::Error::InvalidMessage(no_record))
            }
            Self::Config(_) | Self::Name { .. } => false,
        }
    }
}

/// What is spoken on an encrypted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsProtocol {
    Http1,
    Http2,
}

/// Puts TLS on a connection to a pod, whatever its certificate.
///
/// # Errors
/// When the pod does not speak TLS.
pub async fn connect_tls(host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    connect(host, stream, TlsProtocol::Http1).await.map_err(io::Error::other)
}

/// Puts TLS on a connection.
pub(super) async fn connect(
    host: &str,
    stream: TcpStream,
    speaks: TlsProtocol,
) -> Result<TlsStream<TcpStream>, TlsError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|source| TlsError::Name { host: host.to_owned(), source })?;
    let connector = TlsConnector::from(Arc::new(config(speaks)?));
    Ok(connector.connect(name, stream).await?)
}

fn config(speaks: TlsProtocol) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate { provider }))
        .with_no_client_auth();
    config.alpn_protocols = match speaks {
        TlsProtocol::Http1 => Vec::new(),
        TlsProtocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(config)
}

/// Takes every certificate.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
