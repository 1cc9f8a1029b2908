//! Who asks, and what they may do.
#![allow(
    clippy::disallowed_methods,
    reason = "pki and kubeconfig read and write files: they are part of the driver"
)]

pub mod authorizer;
pub mod kubeconfig;
pub mod pki;
mod subject;
pub mod user;

pub use authorizer::{Attributes, Authorizer, Decision};
pub use kubeconfig::{Kubeconfig, write_private};
pub use pki::{Pki, PkiError};
pub use subject::user_of_certificate;
pub use user::{Identity, UserInfo};
