//! The algorithms of signatures that a request may have, and what the core asks of the server,
//! which has them.

use der::asn1::ObjectIdentifier;
use x509_cert::spki::AlgorithmIdentifierOwned;

/// How a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureScheme {
    /// RSA, PKCS#1 v1.5, SHA-256.
    RsaSha256,
    /// RSA, PKCS#1 v1.5, SHA-384.
    RsaSha384,
    /// RSA, PKCS#1 v1.5, SHA-512.
    RsaSha512,
    /// ECDSA on P-256 with SHA-256.
    P256Sha256,
    /// ECDSA on P-256 with SHA-384.
    P256Sha384,
    /// ECDSA on P-384 with SHA-256.
    P384Sha256,
    /// ECDSA on P-384 with SHA-384.
    P384Sha384,
    /// Ed25519.
    Ed25519,
}

/// Verifies signatures. It needs no key of the server's.
pub trait SignatureVerifier: Send + Sync {
    /// Whether the private half of `key` made the signature of this message. The key is as in
    /// `subjectPublicKey` of RFC 5280, the signature as in RFC 2986.
    fn is_signature(
        &self,
        scheme: SignatureScheme,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> bool;
}

const RSA_SHA256: &str = "1.2.840.113549.1.1.11";
const RSA_SHA384: &str = "1.2.840.113549.1.1.12";
const RSA_SHA512: &str = "1.2.840.113549.1.1.13";
const RSA: &str = "1.2.840.113549.1.1.1";
const ECDSA_SHA256: &str = "1.2.840.10045.4.3.2";
const ECDSA_SHA384: &str = "1.2.840.10045.4.3.3";
const EC: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const ED25519: &str = "1.3.101.112";

impl SignatureScheme {
    /// The scheme of a signature by a key; none when the two do not fit or are unknown.
    pub(super) fn from_algorithms(
        signature: &AlgorithmIdentifierOwned,
        key: &AlgorithmIdentifierOwned,
    ) -> Option<Self> {
        let curve = key.parameters.as_ref();
        let curve = curve.and_then(|curve| curve.decode_as::<ObjectIdentifier>().ok());
        let curve = curve.map(|curve| curve.to_string());
        let (signature, key) = (signature.oid.to_string(), key.oid.to_string());
        Some(match (signature.as_str(), key.as_str(), curve.as_deref()) {
            (RSA_SHA256, RSA, _) => Self::RsaSha256,
            (RSA_SHA384, RSA, _) => Self::RsaSha384,
            (RSA_SHA512, RSA, _) => Self::RsaSha512,
            (ECDSA_SHA256, EC, Some(P256)) => Self::P256Sha256,
            (ECDSA_SHA384, EC, Some(P256)) => Self::P256Sha384,
            (ECDSA_SHA256, EC, Some(P384)) => Self::P384Sha256,
            (ECDSA_SHA384, EC, Some(P384)) => Self::P384Sha384,
            (ED25519, ED25519, _) => Self::Ed25519,
            (_, _, _) => return None,
        })
    }
}
