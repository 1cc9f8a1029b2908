//! `rekindle agent` beside a kubelet: real containerd and runc through real CRI, our own API server
//! as the cluster's, and a kubelet double that does what a kubelet was measured to do.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod cluster_node;
mod cri_requests;
mod empty_dirs;
mod groups_in_place;
mod kubelet_double;
mod ladder_in_place;
mod restarts_in_place;
