//! `rekindle down`: asks the engine of a data directory to end, and waits until it has. Where an engine was killed, ends what it left.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::args::Down;
use crate::client;
use crate::engine::data_dir::{self, DataDir};
use crate::engine::remains;
use crate::engine::settings::Settings;

/// Carries the command out. No engine is success, and said.
pub fn run(args: &Down) -> anyhow::Result<ExitCode> {
    let path = &args.data_dir.data_dir;
    let Some(pid) = data_dir::holder(path)? else {
        println!("no engine runs on {}", path.display());
        return if args.leave_pods { Ok(ExitCode::SUCCESS) } else { clean_up(path) };
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

/// Ends the pods that a killed engine left running, as that engine would have.
fn clean_up(path: &Path) -> anyhow::Result<ExitCode> {
    let Some(settings) = Settings::kept(path)? else {
        return Ok(ExitCode::SUCCESS); // the last one took everything away, or came not far enough to make anything
    };
    client::block_on(async {
        let ended = remains::end(DataDir::hold(path)?, &settings)
            .await
            .context("end what an engine that was killed left")?;
        for pod in &ended {
            println!("ended pod {pod}, which an engine that was killed had left");
        }
        Ok(ExitCode::SUCCESS)
    })
}
