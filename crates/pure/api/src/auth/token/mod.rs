//! Tokens of service accounts: JSON Web Tokens of one form, signed with one algorithm (ES256).
//! What is not exactly of that form is no token: the header is compared, never obeyed. One key
//! signs; during a rotation the one before is known as well.
//!
//! The core decides what is signed and what counts as signed. The server has the keys.

mod claims;
mod jws;
mod signing_key;
mod token_keys;

pub use claims::{BoundObject, KubernetesClaims, SecretTokenClaims, SignedClaims, TokenClaims};
pub(crate) use signing_key::jwk;
pub use signing_key::{SignatureFailure, SigningKey, sign, verify};
pub use token_keys::TokenKeys;

/// Why a text is no token of ours. Whoever shows it learns no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not of the form.
    #[error("the token is malformed")]
    Malformed,
    /// It names another algorithm or key.
    #[error("the token is not signed with a key of this cluster")]
    OtherKey,
    /// The signature is wrong.
    #[error("the token's signature is invalid")]
    Signature,
}
