//! Who asks, and what they may do.

pub mod authorizer;
pub mod rbac;
pub mod token;

pub use authorizer::{AccessAttributes, AuthorizationMode};
