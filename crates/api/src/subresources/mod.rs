//! Subresources that are no part of their object: scale, binding, log, exec, attach, portforward, token.

pub(crate) mod binding;
pub(crate) mod log;
pub(crate) mod scale;
pub(crate) mod streams;
pub(crate) mod token;
