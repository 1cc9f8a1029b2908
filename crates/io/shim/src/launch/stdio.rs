//! The three files of a container's first process: pipes to the shim, /dev/null, or a terminal of
//! the container's own.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};

use super::terminal;
use crate::pipes::{pipe, send_file, socket_pair};
use crate::problem::FailureContext;
use crate::protocol::{ShimFailure, StdinPlan, StdioPlan, TerminalPlan, TerminalSize};
use crate::report::ProcessIdentity;
use crate::sys;
use crate::users::UserNamespace;

/// The shim's ends.
#[derive(Default)]
pub(super) struct ShimStdio {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    /// Over which the other side of the terminal comes.
    pub(super) console: Option<OwnedFd>,
}

/// The container's.
pub(crate) enum StdioFiles {
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    Terminal { console: OwnedFd },
}

/// Makes them, before the fork.
pub(super) fn open(plan: StdioPlan) -> Result<(ShimStdio, StdioFiles), ShimFailure> {
    match plan.terminal {
        TerminalPlan::Own => {
            let (console, theirs) = socket_pair()?;
            let ours = ShimStdio { console: Some(console), ..ShimStdio::default() };
            Ok((ours, StdioFiles::Terminal { console: theirs }))
        }
        TerminalPlan::None => {
            let (stdin, their_stdin) = match plan.stdin {
                StdinPlan::Null => (None, None),
                StdinPlan::Open | StdinPlan::Once => {
                    let (read, write) = pipe()?;
                    (Some(write), Some(read))
                }
            };
            let (stdout, their_stdout) = pipe()?;
            let (stderr, their_stderr) = pipe()?;
            let ours =
                ShimStdio { stdin, stdout: Some(stdout), stderr: Some(stderr), console: None };
            let theirs = StdioFiles::Pipes {
                stdin: their_stdin,
                stdout: their_stdout,
                stderr: their_stderr,
            };
            Ok((ours, theirs))
        }
    }
}

impl StdioFiles {
    /// What the child must not close before it has connected them.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        match self {
            StdioFiles::Terminal { console } => vec![console.as_raw_fd()],
            StdioFiles::Pipes { stdin, stdout, stderr } => {
                let all = stdin.iter().chain([stdout, stderr]);
                all.map(AsRawFd::as_raw_fd).collect()
            }
        }
    }

    /// Gives them to root of a user namespace: it could not give on what belongs to somebody whom
    /// it does not know.
    pub(super) fn give(&self, own: &UserNamespace) -> Result<(), ShimFailure> {
        match self {
            StdioFiles::Terminal { console: _ } => Ok(()), // nobody opens it again
            StdioFiles::Pipes { stdin, stdout, stderr } => {
                stdin.iter().chain([stdout, stderr]).try_for_each(|pipe| own.give(pipe.as_fd()))
            }
        }
    }

    /// Puts them in their places. The user may open them again by /dev/stdout. Without input it is
    /// the container's own /dev/null that is read; a terminal becomes the session's own.
    pub(super) fn connect(&self, identity: &ProcessIdentity) -> Result<(), ShimFailure> {
        match self {
            StdioFiles::Pipes { stdin, stdout, stderr } => {
                let null;
                let stdin = match stdin {
                    Some(stdin) => {
                        give(stdin, identity)?;
                        stdin
                    }
                    None => {
                        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                        null = rustix::fs::open("/dev/null", flags, Mode::empty())
                            .setup(|| "open /dev/null".to_owned())?;
                        &null
                    }
                };
                give(stdout, identity)?;
                give(stderr, identity)?;
                place([stdin, stdout, stderr])
            }
            StdioFiles::Terminal { console } => {
                let terminal = terminal::open(identity, TerminalSize::default())?;
                send_file(console.as_fd(), terminal.master.as_fd())?;
                rustix::process::ioctl_tiocsctty(&terminal.slave)
                    .setup(|| "take the terminal".to_owned())?;
                place([&terminal.slave; 3])
            }
        }
    }
}

fn give(file: &OwnedFd, identity: &ProcessIdentity) -> Result<(), ShimFailure> {
    let owner = Some(rustix::fs::Uid::from_raw(identity.uid));
    rustix::fs::fchown(file, owner, None).setup(|| "give the output to the user".to_owned())
}

fn place(files: [&OwnedFd; 3]) -> Result<(), ShimFailure> {
    (0..).zip(files).try_for_each(|(number, file)| {
        sys::dup_to(file.as_fd(), number).setup(|| "connect the output".to_owned())
    })
}
