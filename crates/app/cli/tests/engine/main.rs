//! The engine and its nodes: start, end, bad input, full disks, images, the simulator's command
//! line.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod auto_nodes;
mod backups;
mod bad_input;
mod closed_pipe;
mod down;
mod encryption;
mod far_nodes;
mod full_disk;
mod image_load;
mod images;
mod node_api;
mod nodes;
mod sim;
mod up;
