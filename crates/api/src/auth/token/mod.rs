//! Tokens of service accounts: JSON Web Tokens of one form, signed with one algorithm (ES256) and
//! one key. What is not exactly of that form is no token: the header is compared, never obeyed.

mod claims;
mod jws;
mod key;

pub use claims::{Bound, Claims, Private};
pub use key::TokenKey;

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
