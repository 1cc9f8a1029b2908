//! The shim: one small single-threaded process per pod sandbox.
//!
//! It holds the sandbox's namespaces, starts containers and reaps them, writes their logs, and
//! records each exit on disk before it tells the agent. It outlives the agent, which connects again
//! after a crash and finds everything as it was. It ends when it is told to; its containers end
//! with it.
//!
//! `protocol` is what the agent speaks with it. The rest is the process itself, which gets its
//! socket as file 0, the sandbox's folder as file 1 and a file for notes as file 2.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a driver: starting processes and reading clocks is what it is for"
)]

mod birth;
mod cgroup;
mod connection;
mod container;
pub mod frame;
pub mod heap;
mod init;
mod launch;
mod log_records;
mod logs;
mod notes;
mod oom;
pub mod own_code;
mod paths;
mod pipes;
mod problem;
pub mod protocol;
mod report;
mod sandbox;
mod server;
pub mod state_file;
mod sys;
pub mod timestamp;
mod users;

pub use log_records::OutputStream;

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;

use server::ShimServer;

/// Signals that come to a whole process group or session and are meant for the agent.
const NOT_FOR_US: [i32; 5] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE];

/// The program. Exits with 1, and a note, when it cannot do its work.
pub fn run() {
    let served = set_up().and_then(|mut server| server.run());
    if let Err(errno) = served {
        notes::note(&format!("shim: {}", problem::errno_text(errno)));
        sys::exit_now(1);
    }
}

/// What the kubelet gives a pod's sandbox: whoever ends the shim ends all that is in it. Containers
/// have scores of their own.
const OOM_SCORE_ADJ: &str = "-998";

fn set_up() -> Result<ShimServer, Errno> {
    // It takes CAP_SYS_RESOURCE; without, it has the agent's.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    // As an executable without a path it has the number of a file for a name. Without a better one
    // it works as well.
    let _ = rustix::thread::set_name(c"rekindle-shim");
    sys::ignore_signals(&NOT_FOR_US);
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::chdir("/")?;
    let listener = sys::inherited(0)?;
    let dir = sys::inherited(1)?;
    // Containers get their own; nothing else may ever land on these numbers.
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    sys::dup_to(null.as_fd(), 0)?;
    sys::dup_to(null.as_fd(), 1)?;
    ShimServer::new(listener, dir)
}
