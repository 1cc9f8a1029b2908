//! `up -f`: reading manifests and applying them as `kubectl apply` does on the client's side.

mod apply;
mod read;
mod write;

pub use apply::apply_all;
pub use read::{read_all, read_document};
