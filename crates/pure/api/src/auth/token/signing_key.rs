//! What the core asks of the key that signs tokens, and how tokens are made and checked with it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::{SignedClaims, TokenError, jws};

/// Bytes of each coordinate of a public key.
const COORDINATE_BYTES: usize = 32;

/// A key pair of ECDSA on P-256 with SHA-256. The server has it: it needs files and randomness.
pub trait SigningKey: Send + Sync {
    /// The name of the key, as headers of tokens have it.
    fn key_id(&self) -> &str;

    /// The signature of a message: r and s, 32 bytes each (RFC 7518, 3.4).
    ///
    /// # Errors
    /// When the machine has no randomness.
    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, SignatureFailure>;

    /// Whether this key made the signature of this message.
    fn is_signature(&self, message: &[u8], signature: &[u8]) -> bool;

    /// The public half as an uncompressed point: 4, x, y (SEC 1).
    fn public_point(&self) -> &[u8];
}

/// The key could not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token cannot be signed")]
pub struct SignatureFailure;

/// The public half of a key, as RFC 7517 writes it.
pub(crate) struct Jwk<'k> {
    pub(crate) key_id: &'k str,
    pub(crate) algorithm: &'static str,
    pub(crate) x: String,
    pub(crate) y: String,
}

/// A token with these claims.
///
/// # Errors
/// When the key cannot sign.
pub fn sign(key: &dyn SigningKey, claims: &impl Serialize) -> Result<String, SignatureFailure> {
    let json = serde_json::to_vec(claims).expect("claims have text keys only");
    let unsigned = jws::unsigned(key.key_id(), &json);
    let signature = key.signature(unsigned.as_bytes())?;
    Ok(jws::signed(unsigned, &signature))
}

/// The claims of a token that this key has signed. Nothing that they say is checked.
///
/// # Errors
/// When the token is not ours.
pub fn verify(key: &dyn SigningKey, token: &str) -> Result<SignedClaims, TokenError> {
    let parts = jws::parse(token, key.key_id())?;
    if !key.is_signature(parts.signed, &parts.signature) {
        return Err(TokenError::Signature);
    }
    SignedClaims::read(&parts.claims).map_err(|_| TokenError::Malformed)
}

/// The public half.
pub(crate) fn jwk(key: &dyn SigningKey) -> Jwk<'_> {
    let coordinate = |from: usize| {
        let point = key.public_point();
        URL_SAFE_NO_PAD.encode(point.get(from..from + COORDINATE_BYTES).unwrap_or_default())
    };
    Jwk {
        key_id: key.key_id(),
        algorithm: jws::ALGORITHM,
        x: coordinate(1),
        y: coordinate(1 + COORDINATE_BYTES),
    }
}
