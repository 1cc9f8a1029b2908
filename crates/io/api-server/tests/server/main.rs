//! The front, in process and on real sockets.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of the front, which is a driver; they own sockets"
)]

mod audit;
mod bearer;
mod heavy_requests;
mod http;
mod kube_client;
mod memory_front;
mod objects;
mod streams;
