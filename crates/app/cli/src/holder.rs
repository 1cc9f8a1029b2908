//! The process that holds a data directory: an engine, or the agent of a further node.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::engine::lock;

/// A process that holds a data directory, by a handle that never means another process.
pub struct DataDirHolder {
    pid: Pid,
    process: OwnedFd,
}

impl DataDirHolder {
    /// The process that holds this folder now; `None` when there is none.
    pub fn find(path: &Path) -> anyhow::Result<Option<Self>> {
        let Some(pid) = lock::holder(path)? else { return Ok(None) };
        let pid = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .with_context(|| format!("the lock of {} holds no valid pid", path.display()))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Ok(Some(Self { pid, process })),
            Err(rustix::io::Errno::SRCH) => Ok(None), // ended just now
            Err(error) => Err(error).with_context(|| format!("find process {pid}")),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends it a signal; one that is over already has got all it will ever get.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match pidfd_send_signal(&self.process, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("signal process {}", self.pid())),
        }
    }

    /// Waits until it has ended.
    pub fn wait(&self) -> anyhow::Result<()> {
        self.poll(None)
    }

    /// The same, for so long only. A signal begins the time anew.
    pub fn wait_at_most(&self, limit: Duration) -> anyhow::Result<()> {
        let limit = Timespec::try_from(limit).context("a limit that is too long")?;
        self.poll(Some(&limit))
    }

    fn poll(&self, limit: Option<&Timespec>) -> anyhow::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], limit) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("wait for process {}", self.pid()));
                }
            }
        }
    }
}
