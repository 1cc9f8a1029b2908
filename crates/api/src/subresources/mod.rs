//! Subresources that are no part of their object: scale, binding, log.

pub(crate) mod binding;
pub mod log;
pub(crate) mod scale;
