//! Further commands in running containers.

/// Bytes of a command's output that [`Runtime::exec_sync`](crate::Runtime::exec_sync) keeps: as much as the kubelet looks at.
pub const EXEC_OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// How a command went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Its end.
    pub exit: ExecExit,
    /// The first [`EXEC_OUTPUT_BYTES_MAX`] of what it wrote to stdout and stderr, in that order of writing.
    pub output: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecExit {
    /// It called exit.
    Code(i32),
    /// A signal ended it, the container's end included.
    Signal(i32),
    /// Its time was over, and it was killed.
    TimedOut,
}
