//! What a pod asks for and gets: volumes, namespaces, users, streams, probes, resizes, ports.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod debug;
mod env_files;
mod host_namespaces;
mod host_ports;
mod hostile_volumes;
mod long_names;
mod own_users;
mod pod_names;
mod probes;
mod resize;
mod security_context;
mod static_pods;
mod streams;
mod trust_bundles;
mod volume_mounts;
