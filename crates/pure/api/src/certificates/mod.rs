//! Certificates that are asked for with CertificateSigningRequests: what a request says, who signs
//! what, and the certificate itself. The server has the key of the CA and the algorithms of
//! signatures; both come in as arguments.
//!
//! ```text
//!  spec.request -> CertificateRequest -+-> SignatureVerifier      on create: is the key theirs?
//!                                      +-> BuiltInSigner -> CertificateOrder -> CertificateIssuer
//! ```

mod built_in_signer;
mod followed_requests;
mod issuer;
mod signing;
mod signing_agenda;
#[cfg(test)]
mod tests;

pub(crate) use built_in_signer::BuiltInSigner;
pub(crate) use followed_requests::signing_request;
pub use followed_requests::{FollowedRequest, FollowedRequests};
pub use issuer::{CertificateIssuer, CertificateIssuerError};
pub use signing::{CertificateOrder, SigningDecision, WrittenStatus, decide};
pub use signing_agenda::SigningAgenda;
