//! Reading container logs, for `kubectl logs` and for termination messages.
//!
//! The container runtime's shim writes them in CRI format and rotates them: `<attempt>.log` is
//! written to, `<attempt>.log.1` is the one before, and so on. They are read as one text. What is
//! read may have been tampered with by a pod that got hold of the folder: no link is followed, and
//! only regular files that belong to the agent's user are read.

mod error;
mod files;
mod format;
mod lines;
mod reader;
mod run;
mod stream;
mod tail;
#[cfg(test)]
mod tests;

pub use error::LogError;
pub use files::prune;
pub use stream::{LogStream, Logs};
pub use tail::last_lines;
