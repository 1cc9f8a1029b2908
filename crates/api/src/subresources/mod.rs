//! Subresources that are no part of their object: scale, binding, eviction, log, exec, attach, portforward.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod log;
pub(crate) mod scale;
pub(crate) mod streams;
