//! The first process of a PID namespace that the containers of a sandbox share.
//!
//! It reaps whom nobody else waits for, and the kernel ends everything in the namespace with it.
//! That is all: it is a fork of the shim that keeps no file, no capability and nothing to be
//! signalled with, so there is nothing in it to be had.

use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Signal, WaitId, WaitIdOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::birth::fork_first;
use crate::notes::note;
use crate::problem::{FailureContext, errno_text};
use crate::protocol::ShimFailure;
use crate::sys::{self, ForkSide, PidNamespace};
use crate::users::UserIdOwner;

/// Holds the namespace as long as the process lives.
#[derive(Debug)]
pub(crate) struct Init {
    /// Readable when it has ended, and with it all in its namespace.
    pub(crate) pidfd: OwnedFd,
}

/// Makes the namespace, as these users' own.
pub(crate) fn start(users: &UserIdOwner) -> Result<Init, ShimFailure> {
    let what = || "make the pod's PID namespace".to_owned();
    let forked = match users {
        UserIdOwner::Host => sys::fork_into(None, PidNamespace::New).setup(what)?,
        UserIdOwner::Own(own) => fork_first(own, None, || Ok(()))?,
    };
    match forked {
        ForkSide::Child => run(),
        ForkSide::Parent { pidfd, .. } => Ok(Init { pidfd }),
    }
}

/// Comes back never. What fails here leaves it with more than it needs, or ends it, which its shim
/// notices.
fn run() -> ! {
    let nothing = CapabilitySet::empty();
    let none = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
    let ready = rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .and_then(|()| sys::dup_to(rustix::stdio::stdin(), 2)) // the notes; 0 is the null device
        .and_then(|()| sys::close_all_but(&[]))
        .and_then(|()| rustix::process::setsid().map(drop))
        .and_then(|()| rustix::thread::set_name(c"pause"))
        .and_then(|()| rustix::thread::set_no_new_privs(true))
        .and_then(|()| rustix::thread::set_capabilities(None, none));
    if ready.is_err() {
        sys::exit_now(1);
    }
    sys::reset_signals();
    // Whose end nobody is told of is reaped by the kernel.
    sys::ignore_signals(&[libc::SIGCHLD]);
    loop {
        rustix::event::pause();
    }
}

impl Init {
    /// Ends it and all in its namespace. It is gone when its descriptor says so.
    pub(crate) fn end(&self) {
        match sys::pidfd_send_signal(self.pidfd.as_fd(), libc::SIGKILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => note(&format!("end the pod's first process: {}", errno_text(errno))),
        }
    }

    /// Reaps it; it has ended.
    pub(crate) fn reap(self) {
        let child = WaitId::PidFd(self.pidfd.as_fd());
        if let Err(errno) = rustix::process::waitid(child, WaitIdOptions::EXITED) {
            note(&format!("reap the pod's first process: {}", errno_text(errno)));
        }
    }
}
