//! Signatures of certificate requests that tests can make without a key.

use rekindle_kinds::certificate_signing_request::{SignatureScheme, SignatureVerifier};

/// Takes every signature that does not end with zeros. The server's tests verify real ones.
pub struct AnySignature;

impl SignatureVerifier for AnySignature {
    fn is_signature(
        &self,
        _scheme: SignatureScheme,
        _key: &[u8],
        _message: &[u8],
        signature: &[u8],
    ) -> bool {
        !signature.ends_with(&[0; 8])
    }
}
