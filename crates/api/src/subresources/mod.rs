//! Subresources that are no part of their object: scale, binding, log, exec, attach, portforward.

pub(crate) mod binding;
pub(crate) mod log;
pub(crate) mod node_proxy;
pub(crate) mod scale;
pub(crate) mod streams;
