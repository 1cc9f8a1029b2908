//! The network in real namespaces that the tests make. Needs root.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test: it starts processes and threads, which namespaces are made of, and may panic"
)]

mod forgery;
mod names;
mod namespaces;
mod policies;
mod policy_table;
mod second_addresses;
mod services;
mod support;
