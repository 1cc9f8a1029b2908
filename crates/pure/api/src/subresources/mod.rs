//! Subresources that are no part of their object: scale, binding, eviction, log, exec, attach,
//! portforward, proxy, token.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod log;
pub(crate) mod node_proxy;
pub(crate) mod proxy;
pub(crate) mod scale;
pub(crate) mod streams;
pub(crate) mod token;
