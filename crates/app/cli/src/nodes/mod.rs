//! Further nodes of an engine, on the same machine: each has an agent in a process of its own
//! (docs/adr/0020).
//!
//! ```text
//!   engine ── starts ──► agent of node-2 ── TLS, as system:node:node-2 ──► the engine's API
//!          ◄── logs, exec, figures over <run folder>/agent.sock (http::node_link)
//!
//!   launch ─► agent runs ─┬─ SIGTERM: ends its pods ─► gone          (`node stop`, `down`)
//!                         ├─ SIGQUIT: leaves them   ─► pods run on   (`down --leave-pods`, new settings)
//!                         └─ SIGKILL: a dead node   ─► pods run on   (`node kill`)
//!                                                        └── launch: the next agent takes them up
//! ```
//!
//! An agent does not need the engine to live on: when that is killed, agents and pods go on, and
//! the next engine finds them. It is nobody's to start an agent again that died, but its user's:
//! that is what a dead node is tried with. Under `--nodes auto` the engine adds and removes nodes
//! itself (`engine::auto_nodes`).

pub mod agent;
mod drain;
mod ending;
mod file;
mod folder;
mod launch;
mod readiness;
mod removal;

pub use drain::{CordonResult, UnmanagedPodPolicy, all_are_going, cordon, drain};
pub use ending::{end, end_all, end_left};
pub use file::CommonNodeSettings;
pub use folder::{FurtherNode, NodesFolder};
pub use launch::{begin, launch_all, launch_one_more, renew_all, take_back};
pub use readiness::wait_ready;
pub use removal::{forget, refuse_to_lose_volumes, take_folder_away};
