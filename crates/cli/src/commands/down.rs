//! `rekindle down`: asks the engine of a data directory to end, and waits until it has. Where an engine was killed, ends what it left.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use rekindle_api::http::SystemClock;
use rekindle_runtime::Runtime;
use rekindle_runtime::image::registry::RegistrySettings;

use crate::args::Down;
use crate::client;
use crate::engine;
use crate::engine::data_dir::{self, DataDir};

/// Carries the command out. No engine is success, and said.
pub fn run(args: &Down) -> anyhow::Result<ExitCode> {
    let path = &args.data_dir.data_dir;
    let Some(pid) = data_dir::holder(path)? else {
        println!("no engine runs on {}", path.display());
        return clean_up(path);
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

/// Ends the sandboxes that a killed engine left running.
fn clean_up(path: &Path) -> anyhow::Result<ExitCode> {
    if !path.join("engine-id").exists() {
        return Ok(ExitCode::SUCCESS);
    }
    client::block_on(async {
        let data_dir = DataDir::hold(path)?;
        let clock = SystemClock::start().shared();
        let runtime = engine::open_runtime(&data_dir, clock, RegistrySettings::default()).await?;
        let left = runtime.snapshot().await.context("look for pods that were left running")?;
        for sandbox in &left {
            runtime.remove_sandbox(&sandbox.key).await.map_err(|error| {
                anyhow::anyhow!("end pod {}: {}", sandbox.key.pod, error.chain())
            })?;
            println!("ended pod {}, which an engine that was killed had left", sandbox.key.pod);
        }
        runtime.settled().await;
        Ok(ExitCode::SUCCESS)
    })
}
