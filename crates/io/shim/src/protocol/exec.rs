//! A command in a container that runs, and joining its first process.

use serde::{Deserialize, Serialize};

/// One more command in a running container, as the user and with the rights of its first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecPlan {
    /// The caller's number for it, never used twice on one connection.
    pub id: u64,
    /// The container.
    pub slot: String,
    /// The command; never empty.
    pub argv: Vec<String>,
    /// What it reads and writes.
    pub files: ExecFiles,
}

/// Joining a container's first process. First a socket comes along, which closes when the container
/// ends; over it goes back, when it is asked for and the container has any, the writing end of its
/// input: of a terminal the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachPlan {
    /// The container.
    pub slot: String,
    /// Whether the input is handed over.
    pub stdin: FileSource,
    /// Whether a pipe for copies of the output comes along. What does not read them in time loses
    /// them.
    pub stdout: FileSource,
    /// The same for the error output.
    pub stderr: FileSource,
}

impl AttachPlan {
    /// Descriptors that come along.
    pub fn passed(&self) -> usize {
        let outputs = [self.stdout, self.stderr];
        1 + outputs.into_iter().filter(|source| *source == FileSource::Passed).count()
    }
}

/// What a command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecFiles {
    /// Each is a descriptor that comes along, in this order, or the container's /dev/null.
    Given {
        /// File 0.
        stdin: FileSource,
        /// File 1.
        stdout: FileSource,
        /// File 2.
        stderr: FileSource,
    },
    /// All three are a new terminal. One descriptor comes along: a socket, over which the
    /// terminal's other side goes back before the call is answered.
    Terminal(TerminalSize),
}

/// A terminal's size in characters; 0 when nobody has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// Where a file of a command comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileSource {
    /// The container's /dev/null.
    Null,
    /// A descriptor that comes with the call.
    Passed,
}

impl ExecFiles {
    /// Descriptors that come along.
    pub fn passed(&self) -> usize {
        match self {
            ExecFiles::Given { stdin, stdout, stderr } => [stdin, stdout, stderr]
                .into_iter()
                .filter(|source| **source == FileSource::Passed)
                .count(),
            ExecFiles::Terminal(_) => 1,
        }
    }
}
