//! Further commands in running containers.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::termios::Winsize;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::error::RuntimeError;

/// Bytes of a command's output that [`Runtime::exec_sync`](crate::Runtime::exec_sync) keeps: as
/// much as the kubelet looks at.
pub const EXEC_OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// How a command went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutcome {
    /// Its end.
    pub exit: ExecExit,
    /// The first [`EXEC_OUTPUT_BYTES_MAX`] of what it wrote to stdout and stderr, in that order of
    /// writing.
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

/// Which files of a command the caller wants to hold the other end of. The others are the
/// container's /dev/null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// Whether there is input.
    pub stdin: bool,
    /// Whether somebody reads the output.
    pub stdout: bool,
    /// Whether somebody reads the error output. On a terminal it is part of the output.
    pub stderr: bool,
    /// Whether the three are a terminal.
    pub terminal: bool,
}

/// A command that runs, with the caller's ends of its files. Dropping `running` before its end
/// kills it.
#[derive(Debug)]
pub struct ExecStreams {
    /// Where its input is written; dropping it ends the input.
    pub stdin: Option<Sender>,
    /// Its output; on a terminal an EIO is the end.
    pub stdout: Option<Receiver>,
    /// Its error output.
    pub stderr: Option<Receiver>,
    /// The terminal, when it is on one.
    pub terminal: Option<ExecTerminal>,
    /// The command itself.
    pub running: RunningExec,
}

/// Waits for the end of a command. Dropped before, it kills the command.
pub struct RunningExec(BoxFuture<Result<ExecExit, RuntimeError>>);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl RunningExec {
    /// What resolves with the end.
    pub fn new(end: impl Future<Output = Result<ExecExit, RuntimeError>> + Send + 'static) -> Self {
        Self(Box::pin(end))
    }
}

impl Future for RunningExec {
    type Output = Result<ExecExit, RuntimeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl std::fmt::Debug for RunningExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Running")
    }
}

/// A terminal that a command is on.
#[derive(Debug)]
pub struct ExecTerminal {
    master: OwnedFd,
}

impl ExecTerminal {
    /// The side that is not the command's.
    pub fn new(master: OwnedFd) -> Self {
        Self { master }
    }

    /// Tells it, and the programs on it, how large it is now.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(rustix::termios::tcsetwinsize(&self.master, size)?)
    }
}
