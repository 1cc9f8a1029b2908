//! The container runtime: the CRI-shaped [`Runtime`] trait, and the embedded implementation that
//! puts a small shim process beside each pod.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a driver crate: files, processes and sockets are its subject"
)]
#![allow(
    clippy::result_large_err,
    reason = "an error names pod and container; the calls it comes from take milliseconds"
)]

mod blocking;
pub mod embedded;
pub mod error;
mod exec;
pub mod image;
pub mod runtime;
pub mod spec;
mod tree_usage;
mod usage;

pub use error::{ImageErrorKind, RuntimeError};
pub use exec::{
    EXEC_OUTPUT_BYTES_MAX, ExecExit, ExecOutcome, ExecStreams, ExecTerminal, RunningExec,
    StreamRequest,
};
pub use rekindle_shim::OutputStream;
pub use runtime::*;
pub use spec::*;
pub use tree_usage::{
    TREE_ENTRIES_LONG, TREE_ENTRIES_MAX, TreeUsage, WalkExtent, measure_tree, walk_tree,
};
pub use usage::*;
