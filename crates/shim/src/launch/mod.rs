//! Starting a container: the parent's half. [`child`] is the other.

mod child;
mod confine;
mod exec;
mod mounts;
mod paths;
mod rootfs;
mod system_mounts;
mod user;
mod volumes;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

pub(crate) use paths::{Links, open};

use crate::notes::note;
use crate::problem::{Context, errno_text};
use crate::protocol::{ContainerPlan, Failure, FailureKind};
use crate::sandbox::Sandbox;
use crate::sys::{self, Forked};

/// Bytes of a problem that fit into one atomic write to a pipe.
const PROBLEM_BYTES_MAX: usize = 2048;

/// A forked container that prepares itself and then waits for a byte in `go`.
pub(crate) struct Launched {
    pub(crate) pid: u32,
    pub(crate) pidfd: OwnedFd,
    /// [`Report`]s, and the end of file when the exec succeeded (or the process died).
    pub(crate) status: OwnedFd,
    pub(crate) go: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Launched {
    /// Ends a child that nobody will watch over, and reaps it.
    pub(crate) fn abandon(self) {
        let ended = sys::pidfd_send_signal(self.pidfd.as_fd(), libc::SIGKILL).and_then(|()| {
            let child = rustix::process::WaitId::PidFd(self.pidfd.as_fd());
            rustix::process::waitid(child, rustix::process::WaitIdOptions::EXITED).map(drop)
        });
        if let Err(errno) = ended {
            note(&format!("end a child that cannot be watched: {}", errno_text(errno)));
        }
    }
}

/// What the child tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// It waits for the word.
    Ready,
    /// It gave up.
    Failed(Failure),
}

impl Report {
    fn encode(&self) -> Vec<u8> {
        match self {
            Report::Ready => vec![b'R'],
            Report::Failed(failure) => {
                let kind = match failure.kind {
                    FailureKind::Config => b'C',
                    FailureKind::Setup => b'S',
                    FailureKind::Start => b'X',
                    FailureKind::State => b'N',
                };
                let mut bytes = vec![kind];
                bytes.extend(failure.problem.bytes().take(PROBLEM_BYTES_MAX));
                bytes
            }
        }
    }

    /// Reads one write of the child; `None` at the end of the file.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, text) = bytes.split_first()?;
        let kind = match tag {
            b'R' => return Some(Report::Ready),
            b'C' => FailureKind::Config,
            b'X' => FailureKind::Start,
            b'N' => FailureKind::State,
            _ => FailureKind::Setup,
        };
        Some(Report::Failed(Failure::new(kind, String::from_utf8_lossy(text))))
    }
}

/// Forks the container. It comes back at once; how the preparation goes is read from `status`.
pub(crate) fn launch(plan: &ContainerPlan, sandbox: &Sandbox) -> Result<Launched, Failure> {
    let tasks = child::Tasks {
        first: open_tasks(&plan.cgroup.v1_tasks, sandbox)?,
        last: open_tasks(&plan.cgroup.v1_cpu_tasks, sandbox)?,
    };
    let unified = match &plan.cgroup.unified {
        Some(path) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let dir = open(sandbox.host_root.as_fd(), Path::new(path), flags, Links::InRoot)
                .setup(|| format!("open {path}"))?;
            Some(dir)
        }
        None => None,
    };
    let (status, child_status) = pipe()?;
    let (child_go, go) = pipe()?;
    let (stdout, child_stdout) = pipe()?;
    let (stderr, child_stderr) = pipe()?;
    let pipes = child::Pipes {
        status: child_status,
        go: child_go,
        stdout: child_stdout,
        stderr: child_stderr,
    };
    let forked = sys::fork_into(unified.as_ref().map(AsFd::as_fd));
    match forked.setup(|| "fork".to_owned())? {
        Forked::Child => child::run(plan, sandbox, &tasks, &pipes),
        Forked::Parent { pid, pidfd } => {
            for end in [&status, &stdout, &stderr] {
                set_nonblocking(end).setup(|| "set up the pipes".to_owned())?;
            }
            Ok(Launched { pid, pidfd, status, go, stdout, stderr })
        }
    }
}

fn open_tasks(paths: &[String], sandbox: &Sandbox) -> Result<Vec<OwnedFd>, Failure> {
    let open_one = |path: &String| {
        open(sandbox.host_root.as_fd(), Path::new(path), OFlags::WRONLY, Links::InRoot)
            .setup(|| format!("open {path}"))
    };
    paths.iter().map(open_one).collect()
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).setup(|| "make a pipe".to_owned())
}

/// Only the shim's end: the flag belongs to an end, and a container's own writes must block as usual.
fn set_nonblocking(fd: &OwnedFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_pipe() {
        for kind in [FailureKind::Config, FailureKind::Setup, FailureKind::Start] {
            let report = Report::Failed(Failure::new(kind, "mount /proc: no"));
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        assert_eq!(Report::decode(&Report::Ready.encode()), Some(Report::Ready));
        assert_eq!(Report::decode(b""), None);
    }
}
