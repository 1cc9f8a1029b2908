//! The line between the API server and a node agent in another process: a unix socket that only its
//! owner can open, and one connection for each question.
//!
//! ```text
//!  API server                                    node agent
//!  FarNode  -- connect --> Question (a frame) -> serve -- asks the node of its own process
//!           <------------- Head (a frame) ------
//!           <- Data, Data, ..., End or Failed --     a log; what a node tells
//!           <------- remotecommand (v5) ------->     a command's files, as kubectl and we speak
//!           <------- bytes as they are -------->     a connection to a pod's port
//! ```
//!
//! Both ends have the same face: [`NodeLogs`](super::NodeLogs), [`NodeStreams`](super::NodeStreams)
//! and [`NodeQueries`](super::NodeQueries), so that who asks does not know how far away a node is.
//! Closing the connection ends what was asked for: a command is killed, as with a node that is
//! near.

mod client;
mod frame;
mod question;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use client::FarNode;
pub use server::{NodeParts, serve};
