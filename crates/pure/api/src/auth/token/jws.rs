//! The compact form of RFC 7515: header, claims and signature in base64url, with dots between them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::TokenError;

/// A longer text is no token of ours.
const BYTES_MAX: usize = 16 * 1024;
/// The algorithm, as headers name it: ECDSA on P-256 with SHA-256.
pub(super) const ALGORITHM: &str = "ES256";

/// A token taken apart; nothing of it is verified.
#[derive(Debug)]
pub(super) struct TokenParts<'t> {
    /// What the signature is over.
    pub(super) signed: &'t [u8],
    /// The claims, JSON.
    pub(super) claims: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that a reader must understand: there are none that we do.
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

/// What is to be signed.
pub(super) fn unsigned(key_id: &str, claims: &[u8]) -> String {
    let header = format!(r#"{{"alg":"{ALGORITHM}","kid":"{key_id}"}}"#);
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

/// The whole token.
pub(super) fn signed(unsigned: String, signature: &[u8]) -> String {
    format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Takes a token apart, if it says that it is signed with this key in our way.
pub(super) fn parse<'t>(token: &'t str, key_id: &str) -> Result<TokenParts<'t>, TokenError> {
    if token.len() > BYTES_MAX {
        return Err(TokenError::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let header: TokenHeader =
        serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
    if header.alg != ALGORITHM || header.kid != key_id || header.crit.is_some() {
        return Err(TokenError::OtherKey);
    }
    let (claims, signature) = (decode(claims)?, decode(signature)?);
    Ok(TokenParts { signed: signed.as_bytes(), claims, signature })
}
