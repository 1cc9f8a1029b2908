//! A root made ahead of a container's start: by a process that ends when it stands, and leaves its
//! mount namespace to the shim.
//!
//! It is nobody's before a start takes it: no process is in it, none of the pod's content has been
//! in it, and no volume is.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::build;
use super::child::stand_alone;
use super::handover::{give_mounts, look_at_own_namespaces};
use crate::birth::{self, PidNamespaceOrigin};
use crate::pipes::{pipe, set_nonblocking, socket_pair};
use crate::problem::{FailureContext, KILLED_UNREADY};
use crate::protocol::{FailureKind, RootAhead, ShimFailure};
use crate::report::{LaunchReport, REPORT_BYTES_MAX};
use crate::sandbox::ShimSandbox;
use crate::sys::{self, ForkSide};

/// The process that makes one.
pub(crate) struct RootBuilder {
    pub(crate) pid: u32,
    /// Readable when it has ended.
    pub(crate) pidfd: OwnedFd,
    /// Why it gave up.
    status: OwnedFd,
    /// Where the mounts come.
    taker: OwnedFd,
}

/// Forks it. It comes back at once.
pub(crate) fn begin_root(
    plan: &RootAhead,
    sandbox: &ShimSandbox,
) -> Result<RootBuilder, ShimFailure> {
    let (giver, taker) = socket_pair()?;
    let (status, said) = pipe()?;
    set_nonblocking(&status).setup(|| "set up the pipes".to_owned())?;
    match birth::fork(None, PidNamespaceOrigin::Host, sandbox.host_processes.as_fd())? {
        ForkSide::Child => run(plan, sandbox, &giver, &said),
        ForkSide::Parent { pid, pidfd } => Ok(RootBuilder { pid, pidfd, status, taker }),
    }
}

impl RootBuilder {
    /// The mounts of one that has ended.
    pub(crate) fn mounts(&self) -> Result<OwnedFd, ShimFailure> {
        if let Ok(mounts) = sys::receive_file(&self.taker) {
            return Ok(mounts);
        }
        let mut buffer = [0u8; REPORT_BYTES_MAX];
        let count = rustix::io::read(&self.status, &mut buffer).unwrap_or_default();
        Err(match LaunchReport::decode(&buffer[..count]) {
            Some(LaunchReport::Failed(failure)) => failure,
            Some(LaunchReport::Ready(_)) | None => {
                ShimFailure::new(FailureKind::Setup, KILLED_UNREADY)
            }
        })
    }
}

/// Runs in the builder and never returns.
fn run(plan: &RootAhead, sandbox: &ShimSandbox, giver: &OwnedFd, said: &OwnedFd) -> ! {
    let made = stand_alone().and_then(|()| {
        let namespaces = look_at_own_namespaces(sandbox)?;
        let keep = [said.as_raw_fd(), giver.as_raw_fd(), namespaces.as_raw_fd()];
        build::build_ahead(plan, sandbox, &keep)?;
        give_mounts(&namespaces, giver)
    });
    match made {
        Ok(()) => sys::exit_now(0),
        Err(failure) => {
            // Nobody to tell means the shim is gone.
            let _ = rustix::io::write(said, &LaunchReport::Failed(failure).encode());
            sys::exit_now(128);
        }
    }
}
