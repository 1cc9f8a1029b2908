//! Who asks, and what they may do.
#![allow(
    clippy::disallowed_methods,
    reason = "pki and kubeconfig read and write files: they are part of the driver"
)]

pub mod authorizer;
pub mod kubeconfig;
pub mod pki;
pub mod rbac;
pub mod service_account;
mod subject;
pub mod token;
pub mod user;

pub use authorizer::{Attributes, Authorizer};
pub use kubeconfig::{Kubeconfig, write_private};
pub use pki::{Pki, PkiError};
pub use subject::user_of_certificate;
pub use token::TokenKey;
pub use user::{Identity, NODES, UserInfo};
