//! `rekindle down`: asks the engine of a data directory to end, and waits until it has.

use std::process::ExitCode;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::args::Down;
use crate::engine::data_dir;

/// Carries the command out. No engine is success, and said.
pub fn run(args: &Down) -> anyhow::Result<ExitCode> {
    let path = &args.data_dir.data_dir;
    let Some(pid) = data_dir::holder(path)? else {
        println!("no engine runs on {}", path.display());
        return Ok(ExitCode::SUCCESS);
    };
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("engine.lock holds no valid pid")?;
    let engine = pidfd_open(pid, PidfdFlags::empty())
        .with_context(|| format!("find engine process {pid}"))?;
    // SIGQUIT leaves the pods: see `engine::run`.
    let signal = if args.leave_pods { Signal::QUIT } else { Signal::TERM };
    pidfd_send_signal(&engine, signal).with_context(|| format!("signal engine process {pid}"))?;
    loop {
        match poll(&mut [PollFd::new(&engine, PollFlags::IN)], None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for the engine to end"),
        }
    }
    println!("engine {pid} ended");
    Ok(ExitCode::SUCCESS)
}
