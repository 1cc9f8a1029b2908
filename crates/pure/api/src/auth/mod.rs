//! Who asks, and what they may do.

pub mod authorizer;
pub mod rbac;
pub mod service_account;
pub mod token;
pub mod user;

pub use authorizer::{AccessAttributes, AuthorizationMode};
pub use user::{ClientIdentity, NODES, UserInfo};
